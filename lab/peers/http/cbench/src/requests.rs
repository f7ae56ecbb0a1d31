//! What is asked for: one path, several in turn over all connections, or two by turns on each.

const DIGITS: usize = 6;
/// Stands between two paths that are asked for by turns.
const BY_TURNS: char = '|';

pub struct Requests {
    bytes: Vec<u8>,
    /// What every second request of a connection is.
    second: Option<Vec<u8>>,
    /// Where the number of the path is, how many there are, and which one is next.
    numbered: Option<(usize, u32, u32)>,
}

impl Requests {
    pub fn new(path: &str, paths: Option<u32>) -> Self {
        let (path, second) = path.split_once(BY_TURNS).map_or((path, None), |(first, second)| (first, Some(second)));
        let number = if paths.is_some() { "000000" } else { "" };
        let numbered = paths.map(|count| ("GET ".len() + path.len(), count, 0));
        Self { bytes: get(path, number), second: second.map(|path| get(path, "")), numbered }
    }

    /// The next request of a connection that has sent so many.
    pub fn next(&mut self, sent: u64) -> &[u8] {
        if let Some(second) = self.second.as_ref().filter(|_| sent % 2 == 1) {
            return second;
        }
        if let Some((at, count, next)) = &mut self.numbered {
            let mut rest = *next;
            for digit in self.bytes[*at..*at + DIGITS].iter_mut().rev() {
                *digit = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
            *next = (*next + 1) % *count;
        }
        &self.bytes
    }
}

fn get(path: &str, number: &str) -> Vec<u8> {
    format!("GET {path}{number} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, paths: Option<u32>, wanted: &[&str]) {
        let mut requests = Requests::new(path, paths);
        let first_lines: Vec<String> = (0..wanted.len() as u64)
            .map(|sent| String::from_utf8_lossy(requests.next(sent)).split(' ').nth(1).unwrap_or_default().to_owned())
            .collect();
        assert_eq!(first_lines, wanted);
    }

    #[test]
    fn paths() {
        check("/a", None, &["/a", "/a"]);
        check("/a/", Some(2), &["/a/000000", "/a/000001", "/a/000000"]);
        check("/a|/b", None, &["/a", "/b", "/a"]);
    }
}
