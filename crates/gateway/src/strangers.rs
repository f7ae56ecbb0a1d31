//! Clients that speak another protocol than HTTP to a port that takes nothing else: named in the log, once for each
//! peer and minute, so that a wrong `https://` is found at once and a scanner fills no log.

use std::borrow::Cow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pilotlight_proxy_protocol::{NotAHeader, is_header};

/// How long a peer is not named again.
const QUIET_TIME: Duration = Duration::from_secs(60);
/// Peers that are remembered; while there are more, none is named.
const MAX_PEERS: usize = 256;

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stranger {
    /// A TLS record with a handshake (RFC 8446 §5.1).
    Tls,
    /// A header of the PROXY protocol, where none is expected.
    ProxyHeader,
    /// None, or no good one, where it is.
    NoProxyHeader(NotAHeader),
    /// None in time.
    LateProxyHeader(Duration),
}

impl Stranger {
    /// By the first bytes; a request does not begin with a control byte.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x16, ..] => Some(Self::Tls),
            bytes if is_header(bytes) => Some(Self::ProxyHeader),
            _ => None,
        }
    }

    fn text(self) -> Cow<'static, str> {
        match self {
            Self::Tls => {
                "a client speaks TLS to a port that takes plain HTTP: have it use http://, or write https:// in front of the address in `listen`"
                    .into()
            }
            Self::ProxyHeader => {
                "a client sends a header of the PROXY protocol, and is not believed: if it is your load balancer, name its \
                 network in `proxy_protocol`"
                    .into()
            }
            Self::NoProxyHeader(why) => format!(
                "a connection from a network in `proxy_protocol` was closed: {why}; have the load balancer send the PROXY \
                 protocol, or take the network off the list"
            )
            .into(),
            Self::LateProxyHeader(after) => format!(
                "a connection from a network in `proxy_protocol` was closed: its header did not come within \
                 limits.header_timeout ({} s)",
                after.as_secs_f32()
            )
            .into(),
        }
    }
}

/// Which peers were named lately.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<Vec<(String, Instant)>>);

impl Strangers {
    /// Names a peer (`address:port`) in the log, if it was not named within [`QUIET_TIME`].
    pub(crate) fn name(&self, peer: &str, stranger: Stranger) {
        let address = peer.rsplit_once(':').map_or(peer, |(address, _)| address);
        if self.is_news(address, Instant::now()) {
            tracing::warn!(peer = address, "{}", stranger.text());
        }
    }

    fn is_news(&self, address: &str, now: Instant) -> bool {
        let Ok(mut named) = self.0.lock() else { return false };
        named.retain(|(_, at)| now.duration_since(*at) < QUIET_TIME);
        if named.len() >= MAX_PEERS || named.iter().any(|(known, _)| known == address) {
            return false;
        }
        named.push((address.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes() {
        assert_eq!(Stranger::of(b"\x16\x03\x01"), Some(Stranger::Tls));
        for header in [&b"PROXY TCP4 192.0.2.1"[..], b"\r\n\r\n\0\r\nQUIT\n\x21"] {
            assert_eq!(Stranger::of(header), Some(Stranger::ProxyHeader));
        }
        for other in [&b""[..], b"GET / HTTP/1.1", b"PRI * HTTP/2.0\r\n", b"\x15"] {
            assert_eq!(Stranger::of(other), None);
        }
    }

    #[test]
    fn once_for_each_peer_and_minute_and_not_for_too_many() {
        let (strangers, now) = (Strangers::default(), Instant::now());
        assert!(strangers.is_news("a", now) && !strangers.is_news("a", now) && strangers.is_news("b", now));
        assert!(strangers.is_news("a", now + QUIET_TIME) && !strangers.is_news("a", now + QUIET_TIME));
        for number in 0..2 * MAX_PEERS {
            strangers.is_news(&number.to_string(), now + QUIET_TIME);
        }
        assert_eq!(strangers.0.lock().unwrap().len(), MAX_PEERS);
    }
}
