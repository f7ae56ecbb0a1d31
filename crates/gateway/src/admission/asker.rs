//! The sender of a request, and what the request says of it.

use std::net::IpAddr;

use http::HeaderName;

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
