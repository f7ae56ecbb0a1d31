//! The targets that operators name: a URL, or a path alone.

use http::Uri;
use pilotlight_cache::Key;

use super::hidden::hide_credentials;
use super::shared::Shared;
use crate::cache_key::{self, CacheKey};
use crate::exchange::https;
use crate::forwarded::TrustForwarded;
use crate::options::{ListenAddr, RouteSpec};
use crate::routes::host_of;
use crate::target::{self, Origin, RequestUrl, Scheme};

/// What a URL names.
pub(super) struct Target {
    scheme: Scheme,
    /// Lower case, without the default port.
    pub(super) authority: String,
    pub(super) target: String,
}

impl Target {
    /// Reads a URL, or a path alone: then it is at the first address that is listened on.
    pub(super) fn parse(shared: &Shared, url: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "write it like http://example.org/path, or /path for the first address listened on";
        let shown = hide_credentials(url);
        let uri: Uri = url.parse().map_err(|e| format!("{shown:?} is not a URL: {e}; {EXAMPLE}"))?;
        let (scheme, authority) = match (uri.scheme_str(), uri.authority()) {
            (None, None) => first_address(shared),
            (Some("https"), Some(authority)) => (Scheme::Https, authority.to_string()),
            (Some("http"), Some(authority)) => (Scheme::Http, authority.to_string()),
            _ => return Err(format!("{shown:?} is not a URL of HTTP; {EXAMPLE}")),
        };
        if !target::is_authority(&authority) {
            return Err(format!("{shown:?} has no host that a request may name; {EXAMPLE}"));
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        if !target.starts_with('/') {
            return Err(format!("{target:?} does not begin with /; {EXAMPLE}"));
        }
        let authority = target::key_authority(Origin { scheme, authority: &authority }).into_owned();
        // Without TLS, and without trust in who says that it is in front, there is one scheme.
        let has_tls = shared.common.addresses.load().iter().any(|address| matches!(address, ListenAddr::Tls(_)));
        let is_told = has_tls || shared.common.table.load().settings().trust_forwarded != TrustForwarded::Nobody;
        Ok(Self { scheme: if is_told { scheme } else { Scheme::Http }, authority, target })
    }

    /// The key of the target by the rules of its route; of its request's fields nothing is in it.
    pub(super) fn with_key<T>(&self, shared: &Shared, then: impl FnOnce(&Key<'_>) -> T) -> T {
        let place = cache_key::place(&shared.common.table.load(), &self.authority, &self.target);
        then(&CacheKey::of_url(None, RequestUrl { target: &place.target, ..self.url() }).as_key())
    }

    /// The key of the target as it was written.
    pub(super) fn with_plain_key<T>(&self, then: impl FnOnce(&Key<'_>) -> T) -> T {
        then(&CacheKey::of_url(None, self.url()).as_key())
    }

    pub(super) fn text(&self) -> String {
        format!("{}://{}{}", self.scheme.as_str(), self.authority, self.target)
    }

    pub(super) fn url(&self) -> RequestUrl<'_> {
        let origin = Origin { scheme: self.scheme, authority: &self.authority };
        RequestUrl { origin, target: &self.target }
    }

    /// Whether it is asked for by TLS.
    pub(super) fn is_https(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Where a request for it is sent, if it comes by plain HTTP and is for TLS.
    pub(super) fn place_of_https(&self, shared: &Shared, route: &RouteSpec) -> Option<String> {
        let host = host_of(&self.authority);
        (self.scheme == Scheme::Http).then(|| https::place(&shared.common, route, host, &self.target)).flatten()
    }

    /// The port of the listener that it would come to: that of the URL, or of the first with its scheme.
    pub(super) fn listener_port(&self, shared: &Shared) -> Option<u16> {
        let addresses = shared.common.addresses.load();
        let ports = || addresses.iter().filter_map(ListenAddr::port);
        let named = self.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        let of_scheme = |address: &&ListenAddr| matches!(address, ListenAddr::Tls(_)) == self.is_https();
        named
            .filter(|named| ports().any(|port| port == *named))
            .or_else(|| addresses.iter().find(of_scheme).and_then(ListenAddr::port))
    }

    /// Without its question mark.
    pub(super) fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    pub(super) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// Where a path alone is looked for.
fn first_address(shared: &Shared) -> (Scheme, String) {
    let addresses = shared.common.addresses.load();
    let tcp = addresses.iter().find_map(|address| match address {
        ListenAddr::Tcp(address) => Some((Scheme::Http, address.to_string())),
        ListenAddr::Tls(address) => Some((Scheme::Https, address.to_string())),
        ListenAddr::Unix(_) => None,
    });
    tcp.unwrap_or_else(|| (Scheme::Http, "localhost".to_owned()))
}
