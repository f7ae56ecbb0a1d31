//! The sender of a request, and what the request says of it.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use http::HeaderName;
use http::header::COOKIE;

use crate::timing::Moment;

/// The sender of a request.
pub(crate) struct Asker<'a, F> {
    /// None on a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) fields: &'a F,
    pub(crate) now: Moment,
}

/// The fields of a request, wherever they are.
pub(crate) trait AskerFields {
    /// The first value of a field.
    fn first(&self, name: &HeaderName) -> Option<&[u8]>;

    /// How often there is a field. One that is there twice may be one thing here and another for a service.
    fn count(&self, name: &HeaderName) -> usize;

    /// The value of a field that is there once.
    fn only(&self, name: &HeaderName) -> Option<&[u8]> {
        if self.count(name) == 1 { self.first(name) } else { None }
    }

    /// Whether it is a CORS preflight (Fetch §4.8).
    fn is_preflight(&self) -> bool;
}

/// What requests have in common that are counted together, or go to one server.
#[derive(Clone, Copy, Hash)]
pub(crate) enum Key<'a> {
    All,
    V4(u32),
    /// The network of one subscriber.
    V6(u64),
    /// Clients that connect by a Unix socket.
    Local,
    Value(&'a [u8]),
}

/// By what they are told apart.
#[derive(Clone, Copy)]
pub(crate) enum KeyBy<'a> {
    Client,
    /// The value of a field that is there once; else the client.
    Header(&'a HeaderName),
    /// The value of a cookie, likewise.
    Cookie(&'a str),
}

impl<'a> Key<'a> {
    pub(crate) fn new(by: KeyBy<'_>, fields: &'a impl AskerFields, client: impl FnOnce() -> Option<IpAddr>) -> Self {
        let value = match by {
            KeyBy::Client => None,
            KeyBy::Header(name) => fields.only(name),
            KeyBy::Cookie(name) => sole_cookie(fields, name),
        };
        value.map_or_else(|| Self::of(client()), Self::Value)
    }

    pub(crate) fn of(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            None => Self::Local,
            Some(IpAddr::V4(address)) => Self::V4(address.to_bits()),
            Some(IpAddr::V6(address)) => Self::V6(prefix64(address)),
        }
    }

    /// The same for other gateways: what it is, and which.
    pub(crate) fn parts(&self) -> (&'static [u8], Cow<'_, [u8]>) {
        match self {
            Self::All => (b"all", Cow::Borrowed(b"")),
            Self::V4(address) => (b"v4", Cow::Owned(address.to_be_bytes().into())),
            Self::V6(network) => (b"v6", Cow::Owned(network.to_be_bytes().into())),
            Self::Local => (b"local", Cow::Borrowed(b"")),
            Self::Value(value) => (b"value", Cow::Borrowed(value)),
        }
    }
}

fn prefix64(address: Ipv6Addr) -> u64 {
    (address.to_bits() >> 64) as u64
}

/// The value of a cookie that is there once, of fields of which `Cookie` is.
pub(crate) fn sole_cookie<'a>(fields: &'a impl AskerFields, name: &str) -> Option<&'a [u8]> {
    fields.only(&COOKIE).and_then(|cookies| cookie(cookies, name.as_bytes()))
}

/// The value of a cookie (RFC 6265 §4.2.1) that is there once. Of two, services take the one or the other (§5.4 says
/// that they should not rely on their order).
pub(crate) fn cookie<'a>(cookies: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = |pair: &'a [u8]| pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"=");
    let mut values = cookies.split(|byte| *byte == b';').filter_map(value);
    values.next().filter(|_| values.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies() {
        for (cookies, expected) in [
            ("sid=1", Some("1")),
            ("a=b;  sid=x=y ; c=d", Some("x=y")),
            ("sid", None),
            ("xsid=1", None),
            ("", None),
            ("sid=1; sid=2", None),
            ("sid=1;sid=1", None),
            ("sid=1; sid", Some("1")),
            ("SID=2; sid=1", Some("1")),
        ] {
            assert_eq!(cookie(cookies.as_bytes(), b"sid"), expected.map(str::as_bytes), "{cookies}");
        }
    }
}
