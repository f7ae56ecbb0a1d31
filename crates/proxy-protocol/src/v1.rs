//! Version 1: one line of text (§2.1).

use crate::found::{Announced, MAX_V1, NotAHeader, Progress};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

pub(crate) const SIGNATURE: &[u8] = b"PROXY ";

const END: &[u8] = b"\r\n";

pub(crate) fn parse(bytes: &[u8]) -> Result<Progress, NotAHeader> {
    let window = &bytes[..bytes.len().min(MAX_V1)];
    match window.windows(END.len()).position(|two| two == END) {
        // Read as it was asked for, nothing is behind the line.
        Some(end) if end + END.len() == bytes.len() => line(&bytes[..end]).map(Progress::Done),
        Some(_) => Err(NotAHeader::Line),
        None if bytes.len() >= MAX_V1 => Err(NotAHeader::LongLine),
        None => Ok(Progress::Wants(1)),
    }
}

fn line(line: &[u8]) -> Result<Announced, NotAHeader> {
    let text = line.get(SIGNATURE.len()..).and_then(|rest| str::from_utf8(rest).ok()).ok_or(NotAHeader::Line)?;
    let mut words = text.split(' ');
    let client = match words.next() {
        // "the receiver must ignore anything presented before the CRLF"
        Some("UNKNOWN") => return Ok(Announced::Nobody),
        Some("TCP4") => pair::<Ipv4Addr>(&mut words),
        Some("TCP6") => pair::<Ipv6Addr>(&mut words),
        _ => None,
    };
    client.filter(|_| words.next().is_none()).map(Announced::Client).ok_or(NotAHeader::Line)
}

/// Both addresses and both ports; of the client are the first ones.
fn pair<'t, A: FromStr + Into<IpAddr>>(words: &mut impl Iterator<Item = &'t str>) -> Option<SocketAddr> {
    let client = address::<A>(words.next()?)?;
    address::<A>(words.next()?)?;
    let at = port(words.next()?)?;
    port(words.next()?)?;
    Some(SocketAddr::new(client.into(), at))
}

fn address<A: FromStr>(text: &str) -> Option<A> {
    text.parse().ok()
}

/// In decimal, without zeros in front.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[track_caller]
    fn check(text: &str, expected: Result<Announced, NotAHeader>) {
        assert_eq!(parse(text.as_bytes()), expected.map(Progress::Done), "{text:?}");
    }

    #[test]
    fn lines() {
        let client = |text: &str| Ok(Announced::Client(text.parse().unwrap()));
        check("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", client("192.0.2.1:56324"));
        check("PROXY TCP6 2001:db8::1 ::1 56324 443\r\n", client("[2001:db8::1]:56324"));
        check("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", client("255.255.255.255:65535"));
        check("PROXY UNKNOWN\r\n", Ok(Announced::Nobody));
        let longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        check(&format!("PROXY UNKNOWN {longest} {longest} 65535 65535\r\n"), Ok(Announced::Nobody));
        assert_eq!(format!("PROXY UNKNOWN {longest} {longest} 65535 65535\r\n").len(), MAX_V1);
    }

    #[test]
    fn malformed_lines() {
        for text in [
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 1\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443 \r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.1 56324 443\r\n",
            "PROXY TCP4 2001:db8::1 ::1 56324 443\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.1 56324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 056324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 +5632 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 65536 443\r\n",
            "PROXY TCP4 192.0.2.01 198.51.100.1 1 443\r\n",
            "PROXY tcp4 192.0.2.1 198.51.100.1 1 443\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.1 1 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.\u{fc} 1 443\r\n",
            "PROXY           \r\n",
        ] {
            check(text, Err(NotAHeader::Line));
        }
        check(&format!("PROXY UNKNOWN {}", "x".repeat(93)), Err(NotAHeader::LongLine));
        for text in ["GET / HTTP/1.1\r\n", "PROXX", "proxy ", "\x16\x03\x01"] {
            check(text, Err(NotAHeader::Missing));
        }
        assert_eq!(parse(b""), Ok(Progress::Wants(15)));
        assert_eq!(parse(b"PROXY TCP4 192."), Ok(Progress::Wants(1)));
        assert_eq!(parse(b"PROXY UNKNOWN\r"), Ok(Progress::Wants(1)));
    }
}
