//! Requests of HTTP/1.1 without bodies, of which only the ends are looked for.

use std::io::{self, ErrorKind};

use memchr::memmem;

/// The longest request.
const LONGEST: usize = 16 * 1024;
const END: &[u8] = b"\r\n\r\n";

/// What has been read of a connection's requests.
#[derive(Default)]
pub(super) struct Requests {
    /// The beginning of a request that is not whole yet.
    begun: Vec<u8>,
}

impl Requests {
    /// How many end in what was read.
    ///
    /// # Errors
    /// One is too long.
    pub(super) fn count(&mut self, read: &[u8]) -> io::Result<usize> {
        if self.begun.is_empty() && read.ends_with(END) {
            return Ok(memmem::find_iter(read, END).count());
        }
        self.begun.extend_from_slice(read);
        let last = memmem::rfind(&self.begun, END).map_or(0, |at| at + END.len());
        let requests = memmem::find_iter(&self.begun[..last], END).count();
        self.begun.drain(..last);
        if self.begun.len() > LONGEST { Err(ErrorKind::InvalidData.into()) } else { Ok(requests) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_wherever_they_are_cut() {
        let two = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n";
        for cut in 1..two.len() {
            let mut requests = Requests::default();
            let counted = [&two[..cut], &two[cut..]].map(|part| requests.count(part).expect("short ones"));
            assert_eq!(counted.iter().sum::<usize>(), 2, "cut at {cut}");
        }
    }

    #[test]
    fn one_without_an_end_is_refused() {
        let mut requests = Requests::default();
        assert_eq!(requests.count(&[b'x'; LONGEST]).expect("as long as one may be"), 0);
        assert!(requests.count(b"x").is_err());
    }
}
