//! Somebody else decides whether a request is let in: what he is asked, and what of his answer is remembered.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, FORWARDED, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE, RANGE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use pilotlight_http_client::{Bounds, HttpClient, Roots};

use super::remembered::Remembered;

/// The auth server, and what of its answers is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardSpec {
    /// Where he listens.
    pub at: ForwardAddr,
    /// `Host` of what he is asked; `None`: the request's.
    pub authority: Option<String>,
    /// Path and query of what he is asked.
    pub target: String,
    /// Fields of his answer that the service gets, and that no client can send.
    pub fields: Vec<HeaderName>,
    /// How long an answer that lets in counts for the same request; `None`: he is asked each time.
    pub cache: Option<Duration>,
    /// How long he may take.
    pub timeout: Duration,
}

/// Where the auth server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardAddr {
    /// A host and a port.
    Tcp(String, u16),
    /// A Unix stream socket.
    Unix(PathBuf),
    /// A service of the configuration, by its name, which is started when it is asked.
    Service(String),
    /// A server that is asked over TLS.
    Https {
        /// Host, and port if it is not 443.
        authority: String,
        /// The authorities by which its certificate is checked, as a PEM file; `None`: the system's.
        ca: Option<PathBuf>,
    },
}

impl ForwardAddr {
    /// For people.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Tcp(host, port) => format!("{host}:{port}"),
            Self::Unix(path) => format!("unix:{}", path.display()),
            Self::Service(name) => format!("the service {name} at "),
            Self::Https { authority, .. } => format!("https://{authority}"),
        }
    }
}

impl ForwardSpec {
    /// `timeout` by default.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
    /// Values of `timeout`.
    pub const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);
    /// Values of `cache`.
    pub const CACHE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);
    /// Most names in `fields`.
    pub const MAX_FIELDS: usize = 32;
    /// Most bytes of an answer that comes over TLS; it is read as a whole.
    pub const MAX_ANSWER_BYTES: usize = 1 << 20;
}

pub(crate) const X_FORWARDED_METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
pub(crate) const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What the question says of the request.
pub(crate) struct AskedFor<'a> {
    pub(crate) method: &'a str,
    pub(crate) scheme: &'a str,
    pub(crate) authority: &'a str,
    pub(crate) target: &'a str,
    /// What proxies before this one said of the client; `None`: they are not believed.
    pub(crate) is_trusted: bool,
}

/// Requests that were let in, with the fields that the service gets for them.
pub(crate) struct Forward {
    pub(crate) spec: ForwardSpec,
    pub(crate) remembered: Remembered<Vec<(HeaderName, HeaderValue)>>,
    /// Asks him, if that is over TLS; or why it cannot.
    pub(crate) https: Option<Result<HttpClient, String>>,
}

impl Forward {
    pub(crate) fn new(spec: &ForwardSpec) -> Self {
        let https = match &spec.at {
            ForwardAddr::Https { ca, .. } => Some(client(spec, ca.as_deref())),
            ForwardAddr::Tcp(..) | ForwardAddr::Unix(_) | ForwardAddr::Service(_) => None,
        };
        Self { spec: spec.clone(), remembered: Remembered::new(), https }
    }

    /// The fields of an answer that the service gets.
    pub(crate) fn passed(&self, answer: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
        let joined = |name: &HeaderName| {
            let values: Vec<&[u8]> = answer.get_all(name).iter().map(HeaderValue::as_bytes).collect();
            let value = HeaderValue::from_bytes(&values.join(&b", "[..])).ok()?;
            (!values.is_empty()).then(|| (name.clone(), value))
        };
        self.spec.fields.iter().filter_map(joined).collect()
    }
}

fn client(spec: &ForwardSpec, ca: Option<&Path>) -> Result<HttpClient, String> {
    let bounds = Bounds { time: spec.timeout, max_answer_bytes: ForwardSpec::MAX_ANSWER_BYTES };
    let client = HttpClient::new(ca.map_or(Roots::System, Roots::File), bounds);
    client.map_err(|e| format!("the authorities to check {} by: {e}", spec.at.text()))
}

/// The fields of the question: the request's, but for those of its body, its connection and its conditions; and what
/// was asked for.
pub(crate) fn question(headers: &HeaderMap, asked: &AskedFor<'_>) -> HeaderMap {
    let mut headers = headers.clone();
    for name in [
        CONTENT_LENGTH,
        TRANSFER_ENCODING,
        TRAILER,
        TE,
        EXPECT,
        CONNECTION,
        UPGRADE,
        RANGE,
        IF_RANGE,
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
    ] {
        headers.remove(name);
    }
    if !asked.is_trusted {
        remove_alike(&mut headers, &[X_FORWARDED_FOR, FORWARDED]);
    }
    remove_alike(&mut headers, &[X_FORWARDED_METHOD, X_FORWARDED_URI, X_FORWARDED_PROTO, X_FORWARDED_HOST]);
    let said = [
        (X_FORWARDED_METHOD, asked.method),
        (X_FORWARDED_URI, asked.target),
        (X_FORWARDED_PROTO, asked.scheme),
        (X_FORWARDED_HOST, asked.authority),
    ];
    for (name, value) in said {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Removes fields by these names, `_` being as good as `-`: programs that get fields as variables cannot tell `X_User`
/// from `X-User`.
pub(crate) fn remove_alike(headers: &mut HeaderMap, names: &[HeaderName]) {
    let same = |one: u8, other: u8| one == other || (one == b'_' && other == b'-') || (one == b'-' && other == b'_');
    let alike = |one: &HeaderName, other: &HeaderName| {
        let (one, other) = (one.as_str().as_bytes(), other.as_str().as_bytes());
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(*one, *other))
    };
    let gone: Vec<HeaderName> =
        headers.keys().filter(|name| names.iter().any(|other| alike(name, other))).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    fn texts(headers: &HeaderMap) -> Vec<String> {
        let mut all: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        all.sort();
        all
    }

    #[test]
    fn questions() {
        let headers = map(&[
            ("cookie", "sid=1"),
            ("content-length", "7"),
            ("if-none-match", "*"),
            ("x-forwarded-for", "6.6.6.6"),
            ("x_forwarded_uri", "/forged"),
            ("x-forwarded-method", "TRACE"),
        ]);
        let asked = AskedFor { method: "PUT", scheme: "https", authority: "a:1", target: "/x?y", is_trusted: false };
        let expected = [
            "cookie: sid=1",
            "x-forwarded-host: a:1",
            "x-forwarded-method: PUT",
            "x-forwarded-proto: https",
            "x-forwarded-uri: /x?y",
        ];
        assert_eq!(texts(&question(&headers, &asked)), expected);
        let trusted = question(&headers, &AskedFor { is_trusted: true, ..asked });
        assert_eq!(trusted.get("x-forwarded-for").map(HeaderValue::as_bytes), Some(&b"6.6.6.6"[..]));
    }

    #[test]
    fn fields_of_the_auth_server() {
        let spec = ForwardSpec {
            at: ForwardAddr::Tcp("a".to_owned(), 80),
            authority: Some("a".to_owned()),
            target: "/".to_owned(),
            fields: vec![HeaderName::from_static("x-user"), HeaderName::from_static("x-groups")],
            cache: None,
            timeout: ForwardSpec::DEFAULT_TIMEOUT,
        };
        let forward = Forward::new(&spec);
        let mut claimed = map(&[("x-user", "root"), ("x_user", "root"), ("x-users", "kept"), ("accept", "*/*")]);
        remove_alike(&mut claimed, &forward.spec.fields);
        assert_eq!(texts(&claimed), ["accept: */*", "x-users: kept"]);
        let answer = map(&[("x-groups", "a"), ("x-groups", "b"), ("set-cookie", "a=b")]);
        let passed = forward.passed(&answer);
        assert_eq!(passed, [(HeaderName::from_static("x-groups"), HeaderValue::from_static("a, b"))]);
    }
}
