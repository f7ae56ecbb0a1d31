//! The trace that an invocation belongs to, as X-Ray writes it.

/// Longest value that is passed on.
const MAX_LENGTH: usize = 256;

/// The value of `Lambda-Runtime-Trace-Id`: what the client sent in `X-Amzn-Trace-Id` if that is one, else the trace of
/// its `traceparent`, else a new one. `ms` is the time since 1970, `id` at least 24 hexadecimal digits.
#[must_use]
pub fn trace_id(own: Option<&[u8]>, traceparent: Option<&[u8]>, ms: u64, id: &str) -> String {
    let own = own.and_then(|own| std::str::from_utf8(own).ok()).filter(|own| is_trace_id(own));
    let given = own.map(str::to_owned).or_else(|| of_traceparent(std::str::from_utf8(traceparent?).ok()?));
    given.unwrap_or_else(|| {
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(24).collect();
        format!("Root=1-{:08x}-{digits:0>24};Sampled=0", (ms / 1000) & 0xffff_ffff)
    })
}

fn is_trace_id(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=;-:_.".contains(&byte);
    text.len() <= MAX_LENGTH && text.contains("Root=1-") && text.bytes().all(is_plain)
}

/// W3C Trace Context, level 1: `00-TRACE-PARENT-FLAGS`.
fn of_traceparent(text: &str) -> Option<String> {
    let mut parts = text.split('-');
    let (_, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, length| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    if !is_hex(trace, 32) || !is_hex(parent, 16) || !is_hex(flags, 2) {
        return None;
    }
    let sampled = u8::from_str_radix(flags, 16).ok()? & 1;
    let (time, rest) = trace.split_at(8);
    Some(format!("Root=1-{time}-{rest};Parent={parent};Sampled={sampled}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_trace() {
        let parent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let own = b"Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        let check = |own: Option<&[u8]>, parent: Option<&[u8]>, expected: &str| {
            assert_eq!(trace_id(own, parent, 1_500_000_000_999, "0123456789abcdef0123456789abcdef"), expected);
        };
        check(Some(own), Some(parent), std::str::from_utf8(own).unwrap());
        check(None, Some(parent), "Root=1-4bf92f35-77b34da6a3ce929d0e0e4736;Parent=00f067aa0ba902b7;Sampled=1");
        let new = "Root=1-59682f00-0123456789abcdef01234567;Sampled=0";
        check(None, None, new);
        check(Some(b"Root=1-a\r\nx: y"), Some(b"00-xyz-1-01"), new);
    }
}
