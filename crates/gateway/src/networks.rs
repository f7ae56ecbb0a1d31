//! Networks of IP addresses: an address and how many of its bits count (RFC 4632 §3.1, RFC 4291 §2.3).
//!
//! An IPv4 address that came as IPv6 (`::ffff:192.0.2.1`, RFC 4291 §2.5.5.2) is the IPv4 address, here and wherever a
//! client is known by its address. So no network of IPv6 has it, `::/0` included.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// One network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// Its first address.
    first: IpAddr,
    /// Bits that count: at most 32 of IPv4, 128 of IPv6.
    bits: u8,
}

/// Why a text is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotANetwork {
    /// Not an IP address, alone or in front of a slash.
    #[error("this is no IP address and no network")]
    Address,
    /// What follows the slash is no number of bits.
    #[error("behind the slash is the number of bits that count, at most {max}")]
    Bits {
        /// Bits of such an address.
        max: u8,
    },
    /// Bits are set that do not count.
    #[error("bits are set that do not count in it")]
    HostBits {
        /// The network that has the address.
        meant: Network,
    },
}

impl Network {
    /// The network of `bits` bits that has this address.
    fn around(address: IpAddr, bits: u8) -> Self {
        let first = match address {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & mask4(bits)).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & mask6(bits)).into(),
        };
        Self { first, bits }
    }

    /// The last address of it.
    fn last(self) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() | !mask4(self.bits)).into(),
            IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | !mask6(self.bits)).into(),
        }
    }
}

fn mask4(bits: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0)
}

fn mask6(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0)
}

impl From<IpAddr> for Network {
    /// The network of this address alone.
    fn from(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self { first, bits: if first.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    /// `10.0.0.0/8`, `2001:db8::/32`, or an address alone.
    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let Some((address, bits)) = text.split_once('/') else {
            return text.parse::<IpAddr>().map(Self::from).map_err(|_| NotANetwork::Address);
        };
        let written: IpAddr = address.parse().map_err(|_| NotANetwork::Address)?;
        let max = if written.is_ipv4() { 32 } else { 128 };
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.parse().ok().filter(|bits| is_number && *bits <= max).ok_or(NotANetwork::Bits { max })?;
        let (address, bits) = match (written.to_canonical(), bits) {
            (IpAddr::V4(address), 96..) if written.is_ipv6() => (IpAddr::V4(address), bits - 96),
            _ => (written, bits),
        };
        let network = Self::around(address, bits);
        match network.first == address {
            true => Ok(network),
            false => Err(NotANetwork::HostBits { meant: network }),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

/// Some networks, to be asked whether one of them has an address. Cheap for few and for thousands: what overlaps or
/// touches is one range, and ranges are in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks {
    listed: Box<[Network]>,
    v4: Box<[Range<u32>]>,
    v6: Box<[Range<u128>]>,
}

/// From its first address to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range<T> {
    first: T,
    last: T,
}

impl Networks {
    /// Most networks in a list of the configuration.
    pub const MAX: usize = 4096;

    /// Whether one of them has the address.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => has(&self.v4, address.to_bits()),
            IpAddr::V6(address) => has(&self.v6, address.to_bits()),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// All of them, as they were given.
    #[must_use]
    pub fn listed(&self) -> &[Network] {
        &self.listed
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let listed: Box<[Network]> = networks.into_iter().collect();
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in &listed {
            match (network.first, network.last()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    v4.push(Range { first: first.to_bits(), last: last.to_bits() });
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    v6.push(Range { first: first.to_bits(), last: last.to_bits() });
                }
                _ => {} // the last address is of the first one's family
            }
        }
        Self { listed, v4: merged(v4), v6: merged(v6) }
    }
}

/// In order, without overlaps.
fn merged<T: Copy + Ord>(mut ranges: Vec<Range<T>>) -> Box<[Range<T>]> {
    ranges.sort_by_key(|range| range.first);
    let mut all: Vec<Range<T>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(before) if range.first <= before.last => before.last = before.last.max(range.last),
            _ => all.push(range),
        }
    }
    all.into()
}

#[inline]
fn has<T: Copy + Ord>(ranges: &[Range<T>], address: T) -> bool {
    let behind = ranges.partition_point(|range| range.first <= address);
    ranges[..behind].last().is_some_and(|range| address <= range.last)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, NotANetwork>) {
        let read: Result<Network, _> = text.parse();
        assert_eq!(read.map(|network| network.to_string()), expected.map(str::to_owned), "{text:?}");
    }

    #[test]
    fn texts() {
        for right in ["10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32", "2001:db8::/32", "::/0", "::1/128"] {
            check(right, Ok(right));
        }
        check("192.0.2.1", Ok("192.0.2.1/32"));
        check("2001:DB8::1", Ok("2001:db8::1/128"));
        check("::ffff:10.0.0.0/104", Ok("10.0.0.0/8"));
        check("::ffff:10.0.0.1", Ok("10.0.0.1/32"));
        for wrong in ["", "/8", "10.0.0/8", "localhost", "10.0.0.0/8/8", "fe80::1%eth0", "10.0.0.0 /8", "*"] {
            let expected = if wrong == "10.0.0.0/8/8" { NotANetwork::Bits { max: 32 } } else { NotANetwork::Address };
            check(wrong, Err(expected));
        }
        for (wrong, max) in [("10.0.0.0/33", 32), ("10.0.0.0/", 32), ("10.0.0.0/+8", 32), ("::/129", 128)] {
            check(wrong, Err(NotANetwork::Bits { max }));
        }
        check("10.0.0.0/255.0.0.0", Err(NotANetwork::Bits { max: 32 }));
        for (wrong, meant) in
            [("10.1.2.3/8", "10.0.0.0/8"), ("2001:db8::1/64", "2001:db8::/64"), ("1.2.3.4/0", "0.0.0.0/0")]
        {
            check(wrong, Err(NotANetwork::HostBits { meant: meant.parse().unwrap() }));
        }
    }

    #[track_caller]
    fn check_contain(networks: &[&str], address: &str, expected: bool) {
        let all: Networks = networks.iter().map(|text| text.parse::<Network>().unwrap()).collect();
        assert_eq!(all.contain(address.parse().unwrap()), expected, "{networks:?} {address}");
    }

    #[test]
    fn addresses() {
        check_contain(&["10.0.0.0/8"], "10.255.255.255", true);
        check_contain(&["10.0.0.0/8"], "11.0.0.0", false);
        check_contain(&["10.0.0.0/8"], "9.255.255.255", false);
        check_contain(&["10.0.0.0/8"], "::ffff:10.1.2.3", true);
        check_contain(&["10.0.0.0/8"], "::10.1.2.3", false);
        check_contain(&["::/0"], "10.1.2.3", false);
        check_contain(&["::/0"], "::ffff:10.1.2.3", false);
        check_contain(&["::/0"], "2001:db8::1", true);
        check_contain(&["0.0.0.0/0"], "255.255.255.255", true);
        check_contain(&["0.0.0.0/0"], "::1", false);
        check_contain(&["10.0.0.0/8", "10.1.0.0/16", "192.168.0.0/16"], "10.2.0.0", true);
        check_contain(&[], "10.2.0.0", false);
    }

    fn networks() -> impl Strategy<Value = Vec<Network>> {
        let v4 = (any::<[u8; 4]>(), 0..=32_u8).prop_map(|(address, bits)| Network::around(address.into(), bits));
        let v6 = (any::<[u8; 16]>(), 0..=128_u8).prop_map(|(address, bits)| Network::around(address.into(), bits));
        prop::collection::vec(prop_oneof![v4, v6], 0..20)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(networks in networks()) {
            for network in networks {
                let canonical = network.first.to_canonical() == network.first;
                prop_assert!(!canonical || network.to_string().parse() == Ok(network), "{}", network);
            }
        }

        #[test]
        fn many_are_as_each_alone(networks in networks(), v4: [u8; 4], v6: [u8; 16]) {
            let all: Networks = networks.iter().copied().collect();
            let edges = networks.iter().flat_map(|network| [network.first, network.last()]);
            for address in edges.chain([v4.into(), v6.into()]).map(|address| address.to_canonical()) {
                let one = |network: &Network| {
                    network.first.is_ipv4() == address.is_ipv4() && Network::around(address, network.bits) == *network
                };
                prop_assert_eq!(all.contain(address), networks.iter().any(one), "{}", address);
            }
        }
    }
}
