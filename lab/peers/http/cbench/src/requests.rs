//! What is asked for: one path, or several in turn.

const DIGITS: usize = 6;

pub struct Requests {
    bytes: Vec<u8>,
    /// Where the number of the path is, how many there are, and which one is next.
    numbered: Option<(usize, u32, u32)>,
}

impl Requests {
    pub fn new(path: &str, paths: Option<u32>) -> Self {
        let number = if paths.is_some() { "000000" } else { "" };
        let bytes = format!("GET {path}{number} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
        Self { bytes, numbered: paths.map(|count| ("GET ".len() + path.len(), count, 0)) }
    }

    pub fn next(&mut self) -> &[u8] {
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
