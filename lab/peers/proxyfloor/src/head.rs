//! Messages: one at the front of what was read, and how it is passed on.

use std::io::{self, ErrorKind};

const MAX_FIELDS: usize = 64;
const END: usize = "\r\n".len();

/// Passes the first request on; how long it was, or `None` while it is not whole. Requests have no bodies.
pub fn pass_request(input: &[u8], out: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let Some(head) = complete(request.parse(input))? else { return Ok(None) };
    if !request.headers.iter().any(|field| field.name.eq_ignore_ascii_case("host")) {
        return Err(ErrorKind::InvalidData.into());
    }
    out.extend_from_slice(&input[..head - END]);
    out.extend_from_slice(b"x-forwarded-for: 127.0.0.1\r\n\r\n");
    Ok(Some(head))
}

/// Passes the first response on; how long it was, or `None` while it is not whole.
pub fn pass_response(input: &[u8], out: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let Some(head) = complete(response.parse(input))? else { return Ok(None) };
    let length = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|field| std::str::from_utf8(field.value).ok()?.parse::<usize>().ok());
    let whole = head + length.ok_or(ErrorKind::InvalidData)?;
    if input.len() < whole {
        return Ok(None);
    }
    out.extend_from_slice(&input[..head - END]);
    out.extend_from_slice(b"via: 1.1 floor\r\n\r\n");
    out.extend_from_slice(&input[head..whole]);
    Ok(Some(whole))
}

fn complete(parsed: httparse::Result<usize>) -> io::Result<Option<usize>> {
    match parsed.map_err(|_| ErrorKind::InvalidData)? {
        httparse::Status::Complete(length) => Ok(Some(length)),
        httparse::Status::Partial => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pass: fn(&[u8], &mut Vec<u8>) -> io::Result<Option<usize>>, message: &str, wanted: &str) {
        let (mut out, input) = (Vec::new(), format!("{message}next"));
        for length in 0..message.len() {
            assert_eq!(pass(&input.as_bytes()[..length], &mut out).expect("a part"), None, "{length}");
        }
        assert_eq!(pass(input.as_bytes(), &mut out).expect("whole"), Some(message.len()));
        assert_eq!(String::from_utf8(out).expect("text"), wanted);
    }

    #[test]
    fn each_message_gets_a_field_and_nothing_else() {
        let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        check(pass_request, request, "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 127.0.0.1\r\n\r\n");
        let response = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        check(pass_response, response, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nvia: 1.1 floor\r\n\r\nabc");
    }
}
