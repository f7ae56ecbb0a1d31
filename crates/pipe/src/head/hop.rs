//! P-9: the fields that belong to one hop and never cross the pipe.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Whether a field may cross the pipe, as far as its name alone tells (P-9). `host` crosses as the authority only.
///
/// ```
/// use http::header::{ACCEPT, CONNECTION, HOST};
/// use pilotlight_pipe::head::crosses;
///
/// assert!(crosses(&ACCEPT));
/// assert!(!crosses(&CONNECTION) && !crosses(&HOST));
/// ```
#[inline]
#[must_use]
pub fn crosses(name: &HeaderName) -> bool {
    !matches!(
        name.as_str(),
        "connection" | "keep-alive" | "proxy-connection" | "te" | "transfer-encoding" | "upgrade" | "expect" | "host"
    )
}

/// Which fields of a head cross the pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crossing {
    /// Those of P-9.
    Ordinary,
    /// And `upgrade`, with what is offered or chosen (P-38, P-40).
    Upgrade,
}

impl Crossing {
    #[inline]
    pub(super) fn lets(self, name: &HeaderName) -> bool {
        crosses(name) || self == Self::Upgrade && name == UPGRADE
    }
}

/// Whether one of `headers`' `connection` fields names the field. RFC 9110 §7.6.1.
pub(super) fn named_by_connection(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| names(value, name))
}

/// Takes out the fields that `connection` names, but `upgrade` where that crosses. The map is built anew because
/// removing changes the order of the rest.
pub(super) fn without_named(headers: HeaderMap, connection: &[HeaderValue], crossing: Crossing) -> HeaderMap {
    let kept = |name: &HeaderName| crossing == Crossing::Upgrade && name == UPGRADE;
    let named = |name: &HeaderName| !kept(name) && connection.iter().any(|value| names(value, name));
    if connection.is_empty() || !headers.keys().any(named) {
        return headers;
    }
    let kept = headers.iter().filter(|(name, _)| !named(name));
    let mut rest = HeaderMap::new();
    for (name, value) in kept {
        rest.append(name.clone(), value.clone());
    }
    rest
}

fn names(connection: &HeaderValue, name: &HeaderName) -> bool {
    let tokens = connection.as_bytes().split(|&byte| byte == b',');
    tokens.into_iter().any(|token| token.trim_ascii().eq_ignore_ascii_case(name.as_str().as_bytes()))
}
