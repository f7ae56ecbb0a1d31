//! Who asks, and what is known of him by his request.

use std::net::IpAddr;

use http::HeaderName;

use crate::timing::Moment;

/// Who asks.
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

    /// Whether it is a CORS preflight (Fetch §4.8).
    fn is_preflight(&self) -> bool;
}

/// The value of a cookie (RFC 6265 §4.2.1), the first of its name.
pub(crate) fn cookie<'a>(cookies: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    cookies.split(|byte| *byte == b';').find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(name)?.strip_prefix(b"=")?;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies() {
        for (cookies, expected) in
            [("sid=1", Some("1")), ("a=b;  sid=x=y ; c=d", Some("x=y")), ("sid", None), ("xsid=1", None), ("", None)]
        {
            assert_eq!(cookie(cookies.as_bytes(), b"sid"), expected.map(str::as_bytes), "{cookies}");
        }
    }
}
