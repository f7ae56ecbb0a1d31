//! The fields of a request as the cache looks at them, wherever they are: in a map, or still in the bytes that were
//! read.

use http::{HeaderMap, HeaderName};

/// Fields of a request.
pub trait RequestFields {
    /// The values of the lines with this name, in their order.
    fn lines<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> + 'a;

    /// Whether there is one with this name.
    fn has(&self, name: &HeaderName) -> bool {
        self.lines(name).next().is_some()
    }

    /// Whether there is one with one of these names.
    fn has_any(&self, names: &[HeaderName]) -> bool {
        names.iter().any(|name| self.has(name))
    }
}

impl RequestFields for HeaderMap {
    fn lines<'a>(&'a self, name: &'a HeaderName) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.get_all(name).iter().map(http::HeaderValue::as_bytes)
    }

    fn has(&self, name: &HeaderName) -> bool {
        self.contains_key(name)
    }

    // One look at each name costs less than several searches.
    fn has_any(&self, names: &[HeaderName]) -> bool {
        self.keys().any(|name| names.contains(name))
    }
}
