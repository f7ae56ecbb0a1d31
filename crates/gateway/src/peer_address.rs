//! The address of a client and what else is known of its connection, with the lines that tell it to services.

use std::cell::RefCell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::rc::Rc;

use bytes::BytesMut;

use crate::admission::pacer::PaidUntil;
use crate::target::Scheme;

/// `address:port` of a client, an address alone if a proxy has told of it, or empty on a Unix socket. One for each
/// connection.
///
/// Requests of one connection are mostly for one authority, and then the gateway's own lines (`Forwarded`, `Via` and
/// their like) are the same in all of them. So they are written once and kept.
pub(crate) struct PeerAddress {
    text: Box<str>,
    /// The listener that it came to.
    entrance: Entrance,
    /// What the client has shown of itself, verified: base64 of DER.
    certificate: Option<Box<str>>,
    /// IPv4 that came as IPv6 is IPv4. `None` on a Unix socket.
    address: Option<IpAddr>,
    lines: RefCell<Option<Lines>>,
    /// Of what routes with a `bandwidth` have sent to it.
    pub(crate) paid_until: PaidUntil,
}

/// What is known of the listener that a connection came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entrance {
    pub(crate) scheme: Scheme,
    /// None of a Unix socket.
    pub(crate) port: Option<u16>,
}

impl Entrance {
    /// None: what the gateway asks for by itself.
    pub(crate) const NONE: Self = Self { scheme: Scheme::Http, port: None };
}

struct Lines {
    authority: Box<str>,
    bytes: Box<[u8]>,
}

/// Lines that are longer are written anew for each request.
const MAX_KEPT: usize = 1024;

/// The address of `address:port`, or of an address alone. IPv4 that came as IPv6 is IPv4.
pub(crate) fn ip_of(text: &str) -> Option<IpAddr> {
    let address = text.parse().map(|address: SocketAddr| address.ip()).or_else(|_| text.parse()).ok()?;
    Some(address.to_canonical())
}

impl PeerAddress {
    /// Of a client without TLS.
    #[cfg(test)]
    pub(crate) fn new(text: &str) -> Rc<Self> {
        Self::of(text, Entrance::NONE, None)
    }

    pub(crate) fn of(text: &str, entrance: Entrance, certificate: Option<Box<str>>) -> Rc<Self> {
        let address = ip_of(text);
        let (lines, paid_until) = (RefCell::default(), PaidUntil::default());
        Rc::new(Self { text: text.into(), entrance, certificate, address, lines, paid_until })
    }

    /// Who asks by this connection, as the proxy says that has opened it.
    pub(crate) fn told(&self, address: IpAddr) -> Rc<Self> {
        Self::of(&address.to_string(), self.entrance, None)
    }

    /// The port of its connection; 0 if only its address is known.
    pub(crate) fn port(&self) -> u16 {
        self.text.parse().map_or(0, |address: SocketAddr| address.port())
    }

    /// The scheme of its connection.
    pub(crate) fn scheme(&self) -> Scheme {
        self.entrance.scheme
    }

    /// The port of the listener that it came to.
    pub(crate) fn listener_port(&self) -> Option<u16> {
        self.entrance.port
    }

    /// The certificate that it has shown, which was verified: base64 of DER.
    pub(crate) fn certificate(&self) -> Option<&str> {
        self.certificate.as_deref()
    }

    /// The address by which rules know the client; none on a Unix socket.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The address alone.
    pub(crate) fn ip(&self) -> &str {
        let text = &*self.text;
        match (text.strip_prefix('['), text.split_once(':')) {
            (Some(rest), _) => rest.split_once(']').map_or(rest, |(ip, _)| ip),
            (None, Some((ip, port))) if !port.contains(':') => ip,
            (None, _) => text, // without a port
        }
    }

    /// Appends the lines for an authority to `out`, which `write` writes if they are not known. They have to be the
    /// same for all requests of this client for that authority.
    pub(crate) fn put_lines(&self, authority: &str, out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
        let mut known = self.lines.borrow_mut();
        if let Some(lines) = known.as_ref().filter(|lines| *lines.authority == *authority) {
            out.extend_from_slice(&lines.bytes);
            return;
        }
        let begin = out.len();
        write(out);
        let bytes = &out[begin..];
        let fits = bytes.len() + authority.len() <= MAX_KEPT;
        *known = fits.then(|| Lines { authority: authority.into(), bytes: bytes.into() });
    }

    /// Gives up the lines, for as long as the client is quiet.
    pub(crate) fn forget_lines(&self) {
        *self.lines.borrow_mut() = None;
    }
}

impl Deref for PeerAddress {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_once_for_an_authority() {
        let peer = PeerAddress::new("10.1.2.3:5");
        let lines = |authority: &str, now: &str| {
            let mut out = BytesMut::from("x");
            peer.put_lines(authority, &mut out, |out| out.extend_from_slice(now.as_bytes()));
            String::from_utf8(out.to_vec()).unwrap()
        };
        assert_eq!(lines("a", "1"), "x1");
        assert_eq!(lines("a", "2"), "x1");
        assert_eq!(lines("b", "3"), "x3");
        assert_eq!(lines("a", "4"), "x4");
        peer.forget_lines();
        assert_eq!(lines("a", "5"), "x5");
        let long = "l".repeat(MAX_KEPT);
        assert_eq!(lines("b", &long).len(), long.len() + 1); // not kept
        assert_eq!(lines("b", "6"), "x6");
    }

    #[test]
    fn addresses() {
        for (text, ip) in [
            ("10.1.2.3:5", "10.1.2.3"),
            ("[::1]:5", "::1"),
            ("", ""),
            ("10.1.2.3", "10.1.2.3"),
            ("2001:db8::7", "2001:db8::7"),
        ] {
            let peer = PeerAddress::new(text);
            assert_eq!((peer.ip(), peer.address()), (ip, ip.parse().ok()));
        }
        let mapped = PeerAddress::new("[::ffff:10.1.2.3]:5");
        assert_eq!(mapped.address(), Some(IpAddr::from([10, 1, 2, 3])));
    }
}
