//! A header, as a proxy sends it ahead of everything else on a connection.

use std::net::{IpAddr, SocketAddr};

use crate::v2::SIGNATURE;

/// Which of the two forms is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A line of text (§2.1).
    V1,
    /// Binary (§2.2).
    V2,
}

/// The header of a connection for a client who is connected to `destination`. `None`: it is the proxy's own.
///
/// Addresses of two families are both written as IPv6 (RFC 4291 §2.5.5.2).
#[must_use]
pub fn write(version: Version, client: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let client =
        client.map(|(source, destination)| match (source.ip().to_canonical(), destination.ip().to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => (from.octets().to_vec(), to.octets().to_vec(), source, destination),
            (from, to) => (v6(from).to_vec(), v6(to).to_vec(), source, destination),
        });
    match (version, client) {
        (Version::V1, None) => b"PROXY UNKNOWN\r\n".to_vec(),
        // LOCAL, of no family, without addresses.
        (Version::V2, None) => [SIGNATURE, &[0x20, 0x00, 0, 0]].concat(),
        (Version::V1, Some((from, to, source, destination))) => {
            let family = if from.len() == 4 { "TCP4" } else { "TCP6" };
            let (from, to) = (text(&from), text(&to));
            format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port()).into_bytes()
        }
        (Version::V2, Some((from, to, source, destination))) => {
            let family = if from.len() == 4 { 0x11 } else { 0x21 };
            let length = (2 * from.len() + 4) as u8;
            let ports = [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat();
            [SIGNATURE, &[0x21, family, 0, length], &from, &to, &ports].concat()
        }
    }
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn text(octets: &[u8]) -> String {
    if let Ok(octets) = <[u8; 4]>::try_from(octets) {
        return IpAddr::from(octets).to_string();
    }
    <[u8; 16]>::try_from(octets).map_or_else(|_| String::new(), |octets| IpAddr::from(octets).to_string())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::{Announced, MAX_V1, Progress, parse};

    fn check(version: Version, client: &str, destination: &str) -> Vec<u8> {
        write(version, Some((client.parse().unwrap(), destination.parse().unwrap())))
    }

    #[test]
    fn lines() {
        assert_eq!(
            check(Version::V1, "192.0.2.1:56324", "198.51.100.1:443"),
            b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n"
        );
        assert_eq!(check(Version::V1, "[2001:db8::1]:1", "[::1]:80"), b"PROXY TCP6 2001:db8::1 ::1 1 80\r\n");
        assert_eq!(
            check(Version::V1, "192.0.2.1:5", "[2001:db8::1]:80"),
            b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 5 80\r\n"
        );
        assert_eq!(write(Version::V1, None), b"PROXY UNKNOWN\r\n");
    }

    #[test]
    fn nobody_is_told_of_as_nobody() {
        for version in [Version::V1, Version::V2] {
            assert_eq!(parse(&write(version, None)), Ok(Progress::Done(Announced::Nobody)));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            from in any::<IpAddr>(), to in any::<IpAddr>(), ports in any::<(u16, u16)>(), is_binary in any::<bool>()
        ) {
            let version = if is_binary { Version::V2 } else { Version::V1 };
            let client = SocketAddr::new(from, ports.0);
            let header = write(version, Some((client, SocketAddr::new(to, ports.1))));
            prop_assert!(is_binary || header.len() <= MAX_V1);
            let Ok(Progress::Done(Announced::Client(read))) = parse(&header) else {
                return Err(TestCaseError::fail(format!("{header:?}")));
            };
            prop_assert_eq!(read.ip().to_canonical(), from.to_canonical());
            prop_assert_eq!(read.port(), ports.0);
        }
    }
}
