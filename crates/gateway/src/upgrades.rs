//! Which protocols a connection may switch to (RFC 9110 §7.8), of those that a client offers.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// The protocols that a client and a service may switch to, in lower case; `websocket` unless something else is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgrades(Vec<String>);

/// Why a connection cannot be upgraded to something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAProtocol {
    /// It is not a name with an optional version.
    Name,
    /// Behind it are HTTP requests that the gateway would not see.
    Http,
}

impl Default for Upgrades {
    fn default() -> Self {
        Self(vec!["websocket".to_owned()])
    }
}

impl Upgrades {
    /// These, as [`Upgrades::name`] gives them.
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// A protocol as it is compared: `name` or `name/version`, in lower case.
    ///
    /// # Errors
    /// It is no protocol, or one that never passes: `h2c`, `HTTP/…`, `TLS/…`.
    pub fn name(text: &str) -> Result<String, NotAProtocol> {
        let name = text.to_ascii_lowercase();
        let parts: Vec<&str> = name.split('/').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_token(part)) {
            return Err(NotAProtocol::Name);
        }
        if matches!(parts[0], "h2c" | "http" | "tls") { Err(NotAProtocol::Http) } else { Ok(name) }
    }

    /// What of the client's offer may be passed on, as one value; `None` if nothing may, or nothing is offered.
    pub(crate) fn offered(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        // Almost every request ends here.
        headers.get(UPGRADE)?;
        let is_option =
            members(headers.get_all(CONNECTION).iter()).any(|option| option.eq_ignore_ascii_case("upgrade"));
        let allowed = |protocol: &&str| self.0.iter().any(|name| name.eq_ignore_ascii_case(protocol));
        let offered: Vec<&str> = members(headers.get_all(UPGRADE).iter()).filter(allowed).collect();
        if !is_option || offered.is_empty() {
            return None;
        }
        HeaderValue::from_str(&offered.join(", ")).ok()
    }
}

/// Whether a service has chosen what was offered.
pub(crate) fn is_among(chosen: &[u8], offered: &HeaderValue) -> bool {
    let Ok(chosen) = HeaderValue::from_bytes(chosen) else { return false };
    let mut chosen = members([&chosen]).peekable();
    let is_offered = |protocol: &str| members([offered]).any(|one| one.eq_ignore_ascii_case(protocol));
    chosen.peek().is_some() && chosen.all(is_offered)
}

fn members<'a>(values: impl IntoIterator<Item = &'a HeaderValue>) -> impl Iterator<Item = &'a str> {
    let texts = values.into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim).filter(|member| !member.is_empty())
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(allowed: &[&str], lines: &[&'static str], wanted: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.extend(lines.iter().map(|line| (UPGRADE, HeaderValue::from_static(line))));
        let upgrades = Upgrades::of(allowed.iter().map(|name| (*name).to_owned()));
        let offered = upgrades.offered(&headers);
        assert_eq!(offered.as_ref().map(|value| value.to_str().unwrap()), wanted, "{lines:?}");
        headers.remove(CONNECTION);
        assert_eq!(upgrades.offered(&headers), None, "Connection does not name it");
    }

    #[test]
    fn what_is_listed_passes() {
        check(&["websocket"], &["websocket"], Some("websocket"));
        check(&["websocket"], &["WebSocket"], Some("WebSocket"));
        check(&["websocket"], &["h2c, websocket"], Some("websocket"));
        check(&["websocket", "chat/2"], &["foo", "chat/2 , websocket"], Some("chat/2, websocket"));
        check(&["websocket"], &["foo/2"], None);
        check(&["websocket"], &["h2c"], None);
        check(&["websocket"], &["websocket/13"], None);
        check(&["websocket"], &[], None);
        check(&[], &["websocket"], None);
    }

    #[test]
    fn what_never_passes_is_no_setting() {
        assert_eq!(Upgrades::name("Chat/2"), Ok("chat/2".to_owned()));
        for text in ["h2c", "H2C", "HTTP/2.0", "TLS/1.0", "tls"] {
            assert_eq!(Upgrades::name(text), Err(NotAProtocol::Http), "{text}");
        }
        for text in ["", "a b", "a/b/c", "/", "a,b"] {
            assert_eq!(Upgrades::name(text), Err(NotAProtocol::Name), "{text}");
        }
    }

    #[test]
    fn a_service_chooses_from_the_offer() {
        let value = |text| HeaderValue::from_str(text).unwrap();
        assert!(is_among(b"WebSocket", &value("chat/2, websocket")));
        assert!(!is_among(b"h2c", &value("websocket")));
        assert!(!is_among(b"websocket, h2c", &value("websocket")));
        assert!(!is_among(b"", &value("websocket")));
    }
}
