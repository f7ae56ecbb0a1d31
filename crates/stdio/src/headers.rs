//! What the fields of a request have to be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, ORIGIN};
use serde_json::Value;

use crate::message::Message;

pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Whose requests they are, as the gateway says.
pub(crate) const CLIENT: HeaderName = HeaderName::from_static("x-forwarded-for");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The first revision of MCP without sessions.
pub(crate) const STATELESS: &str = "2026-07-28";
/// The first revision whose clients know events without a message.
pub(crate) const PRIMING: &str = "2025-11-25";
/// The revisions with sessions.
pub(crate) const WITH_SESSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The text of a field that is there once.
pub(crate) fn text<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = fields.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Whether a revision is one: a date.
pub(crate) fn is_revision(text: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(shape)
}

/// The origin of the page that a request comes from, if a browser says that there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From<'a> {
    NoPage,
    Allowed(&'a str),
    Refused,
}

/// Pages of this machine may, and those that the configuration names. That the page has the host of the request says
/// nothing: with DNS rebinding it has as well.
pub(crate) fn origin<'a>(fields: &'a HeaderMap, allowed: &[String]) -> From<'a> {
    if !fields.contains_key(ORIGIN) {
        return From::NoPage;
    }
    match text(fields, &ORIGIN) {
        Some(origin) if allowed.iter().any(|one| one == origin) || is_of_this_machine(origin) => From::Allowed(origin),
        _ => From::Refused,
    }
}

fn is_of_this_machine(origin: &str) -> bool {
    let Some(authority) = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) else {
        return false;
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (authority, "0"),
    };
    let is_local = host == "localhost" || host.ends_with(".localhost") || matches!(host, "127.0.0.1" | "[::1]");
    is_local && port.parse::<u16>().is_ok()
}

/// What a client takes as the answer to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) json: bool,
    /// It names event streams.
    pub(crate) events: bool,
    /// It takes anything, or does not say.
    pub(crate) any: bool,
}

pub(crate) fn accepted(fields: &HeaderMap) -> Accepted {
    let mut accepted = Accepted { any: !fields.contains_key(ACCEPT), ..<_>::default() };
    for value in fields.get_all(ACCEPT) {
        for range in value.as_bytes().split(|byte| *byte == b',') {
            let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let is_refused = parts.any(|part| matches!(part, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"));
            match &*kind {
                _ if is_refused => {}
                b"application/json" | b"application/*" => accepted.json = true,
                b"text/event-stream" | b"text/*" => accepted.events = true,
                b"*/*" => accepted.any = true,
                _ => {}
            }
        }
    }
    accepted
}

/// A page of another origin cannot send this type without asking first.
pub(crate) fn is_json(fields: &HeaderMap) -> bool {
    let kind = fields.get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Whether a request belongs to no session (MCP since 2026-07-28).
pub(crate) fn is_stateless(fields: &HeaderMap, message: &Message) -> bool {
    let named = text(fields, &REVISION).filter(|revision| is_revision(revision));
    message.revision().is_some() || named.is_some_and(|revision| revision >= STATELESS)
}

/// Which field does not say what the body says (MCP 2026-07-28, "Server Validation").
pub(crate) fn mismatch(fields: &HeaderMap, message: &Message) -> Option<String> {
    let body_name = match message.method() {
        Some("tools/call" | "prompts/get") => Some(message.known.name.as_ref()),
        Some("resources/read") => Some(message.known.uri.as_ref()),
        _ => None,
    };
    let body_name = body_name.map(|name| name.and_then(Value::as_str));
    let checks = [(&REVISION, Some(message.revision())), (&METHOD, Some(message.method())), (&NAME, body_name)];
    checks.into_iter().find_map(|(field, body)| {
        let body = body?;
        let sent = text(fields, field).map(|sent| if *field == NAME { decoded(sent) } else { Some(sent.to_owned()) });
        let sent = sent.flatten();
        (sent.is_none() || sent.as_deref() != body)
            .then(|| format!("the field {field} is missing or does not say what the body says"))
    })
}

/// A name that no field can hold is written `=?base64?…?=`.
fn decoded(sent: &str) -> Option<String> {
    let Some(coded) = sent.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Some(sent.to_owned());
    };
    STANDARD.decode(coded).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::parse;
    use proptest::prelude::*;
    use serde_json::json;

    fn fields(all: &[(&str, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn origins() {
        let allowed = ["https://app.example".to_owned()];
        let check = |value: &str, is_allowed: bool| {
            let fields = fields(&[("origin", value)]);
            let expected = if is_allowed { From::Allowed(value) } else { From::Refused };
            assert_eq!(origin(&fields, &allowed), expected, "{value}");
        };
        for value in [
            "https://app.example",
            "http://localhost",
            "http://localhost:6274",
            "https://files.localhost:8443",
            "http://127.0.0.1:80",
            "http://[::1]:80",
            "http://[::1]",
        ] {
            check(value, true);
        }
        for value in [
            "null",
            "",
            "https://app.example:444",
            "https://app.example.evil",
            "http://localhost.evil",
            "http://evil#localhost",
            "http://127.0.0.1.evil",
            "http://localhost:1@evil",
            "http://evil:localhost",
            "file://localhost",
        ] {
            check(value, false);
        }
        assert_eq!(origin(&HeaderMap::new(), &allowed), From::NoPage);
        let mut twice = fields(&[("origin", "http://localhost")]);
        twice.append(ORIGIN, "http://localhost".parse().unwrap());
        assert_eq!(origin(&twice, &allowed), From::Refused);
    }

    #[test]
    fn accept() {
        let check = |value: &str, json: bool, events: bool, any: bool| {
            assert_eq!(accepted(&fields(&[("accept", value)])), Accepted { json, events, any }, "{value}");
        };
        check("application/json, text/event-stream", true, true, false);
        check("text/event-stream;q=0.5,application/json", true, true, false);
        check("*/*", false, false, true);
        check("application/json", true, false, false);
        check("TEXT/event-stream", false, true, false);
        check("application/json, text/event-stream;q=0", true, false, false);
        check("text/html", false, false, false);
        assert!(accepted(&HeaderMap::new()).any);
    }

    #[test]
    fn fields_that_repeat_the_body() {
        let request = |params: Value| {
            let value = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            parse(value.to_string().into()).unwrap().remove(0)
        };
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": STATELESS });
        let called = request(json!({ "name": "größer", "_meta": meta }));
        let name = format!("=?base64?{}?=", STANDARD.encode("größer"));
        let good = [("mcp-protocol-version", STATELESS), ("mcp-method", "tools/call"), ("mcp-name", name.as_str())];
        assert_eq!(mismatch(&fields(&good), &called), None);
        assert!(is_stateless(&fields(&good), &called));
        for (left_out, (field, _)) in good.iter().enumerate() {
            let rest: Vec<_> = good.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, one)| *one).collect();
            assert!(mismatch(&fields(&rest), &called).unwrap().contains(field));
            let wrong: Vec<_> = rest.into_iter().chain([(*field, "x")]).collect();
            assert!(mismatch(&fields(&wrong), &called).unwrap().contains(field));
        }
        let without = request(json!({ "name": "a" }));
        assert!(!is_stateless(&fields(&[("mcp-protocol-version", "2025-11-25")]), &without));
        assert!(is_stateless(&fields(&[("mcp-protocol-version", "2027-01-01")]), &without));
    }

    proptest! {
        /// What is allowed is a scheme, a name of this machine and a port; nothing else fits in.
        #[test]
        fn only_this_machine(origin in "https?://[a-z0-9.:@#/\\[\\]-]{0,24}") {
            if is_of_this_machine(&origin) {
                let host = origin.split("://").nth(1).unwrap();
                let pattern = ["localhost", "127.0.0.1", "[::1]"];
                let bare = host.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(':');
                prop_assert!(pattern.contains(&host) || pattern.contains(&bare) || bare.ends_with(".localhost"));
            }
        }
    }
}
