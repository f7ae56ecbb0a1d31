//! Who gave an answer, and with that what the addresses in it mean.

use crate::config::{AddressMap, NodeAddress};

/// Whether connections are encrypted: some replies name a port for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Security {
    /// Plain TCP.
    Plain,
    /// TLS.
    Tls,
}

/// Who gave an answer, and how the addresses in it are to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The address that was dialled. It stands in for a host that the answer leaves out.
    pub address: &'a NodeAddress,
    /// How the connection is secured.
    pub security: Security,
    /// Applied to every address of an answer, be it a topology or a redirect.
    pub map: &'a AddressMap,
}

static IDENTITY: AddressMap = AddressMap::Identity;

impl<'a> Asked<'a> {
    /// Asked at `address` over plain TCP; announced addresses are dialled as they are.
    #[must_use]
    pub(crate) fn plain(address: &'a NodeAddress) -> Self {
        Self { address, security: Security::Plain, map: &IDENTITY }
    }

    /// What an answer means by `host` and `port`: no host is the host that was asked (`localhost` behind a Unix
    /// socket).
    #[must_use]
    pub(crate) fn announced(&self, host: Option<&str>, port: u16) -> NodeAddress {
        match host {
            None | Some("") => NodeAddress::tcp(self.address.host().unwrap_or("localhost"), port),
            Some(host) => {
                let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                NodeAddress::tcp(bare.unwrap_or(host), port)
            }
        }
    }

    /// The address to dial for an announced one.
    #[must_use]
    pub(crate) fn dialled(&self, announced: &NodeAddress) -> NodeAddress {
        self.map.apply(announced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(asked: &NodeAddress, host: Option<&str>, expected: &str) {
        assert_eq!(Asked::plain(asked).announced(host, 7001).to_string(), expected);
    }

    #[test]
    fn a_missing_host_is_the_one_that_was_asked() {
        let seed = NodeAddress::tcp("lb.example.com", 7000);
        check(&seed, None, "lb.example.com:7001");
        check(&seed, Some(""), "lb.example.com:7001");
        check(&seed, Some("10.0.0.1"), "10.0.0.1:7001");
        check(&NodeAddress::unix("/run/redis.sock"), None, "localhost:7001");
    }

    #[test]
    fn ipv6_is_kept_without_brackets() {
        let seed = NodeAddress::tcp("::1", 7000);
        check(&seed, None, "[::1]:7001");
        check(&seed, Some("[fd00::1]"), "[fd00::1]:7001");
        check(&seed, Some("fd00::1"), "[fd00::1]:7001");
    }
}
