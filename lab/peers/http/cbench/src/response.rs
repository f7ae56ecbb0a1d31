//! Finds the end of each answer in a byte stream, as cheaply as can be: a head as long as the one before is recognised
//! by its last four bytes and not read again.
use memchr::memmem;

const HEAD_END: &[u8] = b"\r\n\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
const STATUS_AT: usize = "HTTP/1.1 ".len();

#[derive(Default)]
pub struct Responses {
    head_length: usize,
    body_length: usize,
    /// Answers with a status other than 2xx.
    pub bad_status: u64,
}

impl Responses {
    /// The length of the answer that `bytes` begins with, once all of it is there.
    pub fn next_length(&mut self, bytes: &[u8]) -> Option<usize> {
        let (head, body) = (self.head_length, self.body_length);
        if head > 0 && bytes.len() >= head + body && &bytes[head - 4..head] == HEAD_END && bytes[STATUS_AT] == b'2' {
            return Some(head + body);
        }
        self.read_head(bytes)
    }

    fn read_head(&mut self, bytes: &[u8]) -> Option<usize> {
        let head = memmem::find(bytes, HEAD_END)? + HEAD_END.len();
        let length = match content_length(&bytes[..head]) {
            Some(body) => {
                (self.head_length, self.body_length) = (head, body);
                head + body
            }
            None => {
                self.head_length = 0;
                head + memmem::find(&bytes[head..], LAST_CHUNK)? + LAST_CHUNK.len()
            }
        };
        if bytes.len() < length {
            return None;
        }
        if bytes[STATUS_AT] != b'2' {
            self.bad_status += 1;
        }
        Some(length)
    }
}

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    head.split(|byte| *byte == b'\n')
        .find(|line| line.len() > NAME.len() && line[..NAME.len()].eq_ignore_ascii_case(NAME))
        .and_then(|line| std::str::from_utf8(&line[NAME.len()..]).ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";

    #[track_caller]
    fn check(stream: &str, lengths: &[usize], bad_status: u64) {
        let mut responses = Responses::default();
        let mut rest = stream.as_bytes();
        let mut found = Vec::new();
        while let Some(length) = responses.next_length(rest) {
            found.push(length);
            rest = &rest[length..];
        }
        assert_eq!((found.as_slice(), responses.bad_status), (lengths, bad_status));
    }

    #[test]
    fn ends_of_answers() {
        check(FIRST, &[41], 0);
        check(&FIRST[..40], &[], 0);
        check(&FIRST.repeat(3), &[41, 41, 41], 0);
        check("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", &[58], 0);
    }

    #[test]
    fn a_head_of_another_length_is_read_anew() {
        check(&format!("{FIRST}HTTP/1.1 200 OK\r\ncontent-length: 1\r\nage: 10\r\n\r\nz"), &[41, 48], 0);
    }

    #[test]
    fn an_error_counts_once_even_if_it_comes_in_parts() {
        let mut responses = Responses::default();
        let answer = FIRST.replace("200 OK", "502 No");
        assert_eq!(responses.next_length(&answer.as_bytes()[..39]), None);
        assert_eq!(responses.next_length(answer.as_bytes()), Some(41));
        assert_eq!(responses.bad_status, 1);
    }
}
