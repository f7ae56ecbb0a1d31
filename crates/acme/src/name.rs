//! Which hosts of routes are names that a certificate authority gives certificates for. Pure.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Most bytes of a DNS name as text (RFC 1035 §2.3.4, without the root's dot).
const MAX_NAME: usize = 253;
/// Most bytes of a label of it.
const MAX_LABEL: usize = 63;

/// Last labels that no public authority gives certificates for: special-use names (RFC 6761, RFC 6762, RFC 7686, RFC
/// 8375, ICANN's `.internal`) and `.lan`, which many home networks use.
const LOCAL: [&str; 9] = ["localhost", "test", "invalid", "example", "local", "internal", "home.arpa", "onion", "lan"];

/// A DNS name in lower case, without a wildcard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// The names that the authorities give certificates for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public authorities: names of the public DNS only.
    Public,
    /// A private directory, whose root the configuration names: it knows its own names.
    Private,
}

/// Why a host gets no certificate by ACME.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoName {
    /// `*.example.org`.
    #[error("a wildcard needs DNS-01, which is not offered")]
    Wildcard,
    /// `127.0.0.1` or `::1`.
    #[error("it is an address, not a name")]
    Address,
    /// `localhost`, `app.test`.
    #[error("no public authority gives certificates for it")]
    Local,
    /// It cannot be in the DNS.
    #[error("it is not a DNS name")]
    Malformed,
}

impl Name {
    /// The name of a route's host.
    ///
    /// # Errors
    /// No certificate can be had for it.
    pub fn of_host(host: &str, reach: Reach) -> Result<Self, NoName> {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if host.starts_with('*') {
            return Err(NoName::Wildcard);
        }
        if host.parse::<std::net::IpAddr>().is_ok() {
            return Err(NoName::Address);
        }
        if host.is_empty() || host.len() > MAX_NAME || !host.split('.').all(is_label) {
            return Err(NoName::Malformed);
        }
        let is_below = |last: &str| host == last || host.strip_suffix(last).is_some_and(|rest| rest.ends_with('.'));
        let is_local = !host.contains('.') || LOCAL.iter().any(|last| is_below(last));
        if is_below("localhost") || is_local && reach == Reach::Public {
            return Err(NoName::Local);
        }
        Ok(Self(host.into()))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The names among hosts, each once.
#[must_use]
pub fn names_of<'a>(hosts: impl IntoIterator<Item = &'a str>, reach: Reach) -> BTreeSet<Name> {
    hosts.into_iter().filter_map(|host| Name::of_host(host, reach).ok()).collect()
}

/// Letters, digits and hyphens inside (RFC 5890 §2.3.1).
fn is_label(label: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MAX_LABEL).contains(&label.len())
        && label.bytes().all(is_inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, public: Result<&str, NoName>, private: Result<&str, NoName>) {
        let of = |reach| Name::of_host(host, reach).map(|name| name.as_str().to_owned());
        assert_eq!(of(Reach::Public), public.map(str::to_owned), "{host} from a public authority");
        assert_eq!(of(Reach::Private), private.map(str::to_owned), "{host} from a private one");
    }

    #[test]
    fn hosts_with_and_without_certificates() {
        check("example.org", Ok("example.org"), Ok("example.org"));
        check("App.Example.ORG.", Ok("app.example.org"), Ok("app.example.org"));
        check("xn--bcher-kva.example.org", Ok("xn--bcher-kva.example.org"), Ok("xn--bcher-kva.example.org"));
        check("*.example.org", Err(NoName::Wildcard), Err(NoName::Wildcard));
        check("192.0.2.1", Err(NoName::Address), Err(NoName::Address));
        check("::1", Err(NoName::Address), Err(NoName::Address));
        check("app.internal", Err(NoName::Local), Ok("app.internal"));
        check("gateway", Err(NoName::Local), Ok("gateway"));
        check("notlocalhost.org", Ok("notlocalhost.org"), Ok("notlocalhost.org"));
        check("app.localhost", Err(NoName::Local), Err(NoName::Local));
        for malformed in ["", "-a.org", "a-.org", "a..org", "a_b.org", "a b.org", "ü.org", "a/../b"] {
            check(malformed, Err(NoName::Malformed), Err(NoName::Malformed));
        }
        let long = format!("{}.org", "a".repeat(64));
        check(&long, Err(NoName::Malformed), Err(NoName::Malformed));
    }
}
