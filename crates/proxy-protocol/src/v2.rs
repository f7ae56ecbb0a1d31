//! Version 2: binary (§2.2).

use crate::found::{Announced, MAX_V2, NotAHeader, Progress};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

pub(crate) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Before the addresses.
const FIXED: usize = 16;

pub(crate) fn parse(bytes: &[u8]) -> Result<Progress, NotAHeader> {
    let Some(fixed) = bytes.first_chunk::<FIXED>() else { return Ok(Progress::Wants(FIXED - bytes.len())) };
    let [.., version_and_command, family, a, b] = *fixed;
    let (version, command) = (version_and_command >> 4, version_and_command & 0x0f);
    if version != 2 {
        return Err(NotAHeader::Version(version));
    }
    if command > 1 {
        return Err(NotAHeader::Command(command));
    }
    let whole = FIXED + usize::from(u16::from_be_bytes([a, b]));
    if whole > MAX_V2 {
        return Err(NotAHeader::Long(whole));
    }
    match bytes.get(FIXED..whole) {
        None => Ok(Progress::Wants(whole - bytes.len())),
        // LOCAL: "the receiver must accept this connection as valid and must use the real connection endpoints"
        Some(_) if command == 0 => Ok(Progress::Done(Announced::Nobody)),
        Some(addresses) => announced(family, addresses).map(Progress::Done),
    }
}

/// What follows the addresses are TLVs, of which nothing is used here.
fn announced(family: u8, addresses: &[u8]) -> Result<Announced, NotAHeader> {
    match family {
        0x11 | 0x12 => {
            let [client, _, port] = parts::<4>(addresses)?;
            Ok(Announced::Client(SocketAddr::from((Ipv4Addr::from(array::<4>(client)?), number(port)?))))
        }
        0x21 | 0x22 => {
            let [client, _, port] = parts::<16>(addresses)?;
            Ok(Announced::Client(SocketAddr::from((Ipv6Addr::from(array::<16>(client)?), number(port)?))))
        }
        // UNSPEC, and paths of Unix sockets, which no rule knows.
        0x00 | 0x31 | 0x32 => Ok(Announced::Nobody),
        family => Err(NotAHeader::Family(family)),
    }
}

/// Source, destination, and the source's port.
fn parts<const N: usize>(addresses: &[u8]) -> Result<[&[u8]; 3], NotAHeader> {
    if addresses.len() < 2 * N + 4 {
        return Err(NotAHeader::Short);
    }
    let (source, rest) = addresses.split_at(N);
    let (destination, ports) = rest.split_at(N);
    Ok([source, destination, &ports[..2]])
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], NotAHeader> {
    bytes.try_into().map_err(|_| NotAHeader::Short)
}

fn number(bytes: &[u8]) -> Result<u16, NotAHeader> {
    array(bytes).map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn header(version_and_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[version_and_command, family], &length, rest].concat()
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<Announced, NotAHeader>) {
        assert_eq!(parse(bytes), expected.map(Progress::Done), "{bytes:?}");
    }

    #[test]
    fn headers() {
        let client = |text: &str| Ok(Announced::Client(text.parse().unwrap()));
        let v4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 1, 187];
        check(&header(0x21, 0x11, &v4), client("192.0.2.1:56324"));
        check(&header(0x21, 0x12, &v4), client("192.0.2.1:56324"));
        check(&header(0x21, 0x11, &[&v4[..], &[4, 0, 1, 0]].concat()), client("192.0.2.1:56324")); // a TLV
        let v6 = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 16], &[0, 80, 1, 187]].concat();
        check(&header(0x21, 0x21, &v6), client("[::1]:80"));
        check(&header(0x20, 0x00, &[]), Ok(Announced::Nobody));
        check(&header(0x20, 0x11, &v4), Ok(Announced::Nobody));
        check(&header(0x21, 0x00, &[1, 2, 3]), Ok(Announced::Nobody));
        check(&header(0x21, 0x31, &[0; 216]), Ok(Announced::Nobody));
        check(&header(0x21, 0x11, &[&v4[..], &[0; 508]].concat()), client("192.0.2.1:56324"));
    }

    #[test]
    fn malformed_headers() {
        check(&header(0x11, 0x11, &[0; 12]), Err(NotAHeader::Version(1)));
        check(&header(0x22, 0x11, &[0; 12]), Err(NotAHeader::Command(2)));
        check(&header(0x21, 0x13, &[0; 12]), Err(NotAHeader::Family(0x13)));
        check(&header(0x21, 0x41, &[0; 12]), Err(NotAHeader::Family(0x41)));
        check(&header(0x21, 0x11, &[0; 11]), Err(NotAHeader::Short));
        check(&header(0x21, 0x21, &[0; 35]), Err(NotAHeader::Short));
        check(&header(0x21, 0x11, &[0; 521]), Err(NotAHeader::Long(537)));
        assert_eq!(parse(&header(0x21, 0x11, &[0; 12])[..15]), Ok(Progress::Wants(1)));
        assert_eq!(parse(&header(0x21, 0x11, &[0; 12])[..16]), Ok(Progress::Wants(12)));
    }
}
