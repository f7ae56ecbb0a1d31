//! Messages of JSON-RPC 2.0, as far as they have to be known to be passed on.
//!
//! A message is passed on as the text that it came as. Only line ends between its parts become spaces: it has to be one
//! line.

use bytes::{Buf as _, Bytes};
use pilotlight_printable::bytes_without_mark;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Messages in one batch (MCP 2025-03-26).
pub(crate) const MAX_BATCH: usize = 256;

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    /// One line, without its end.
    pub(crate) text: Bytes,
    pub(crate) kind: Kind,
    /// Of the parameters, the result or the error.
    pub(crate) known: Known,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Request { id: Value, method: String },
    Notification { method: String },
    Response { id: Value },
}

impl Message {
    /// The id, if it is a request.
    pub(crate) fn request_id(&self) -> Option<&Value> {
        match &self.kind {
            Kind::Request { id, .. } => Some(id),
            Kind::Notification { .. } | Kind::Response { .. } => None,
        }
    }

    pub(crate) fn method(&self) -> Option<&str> {
        match &self.kind {
            Kind::Request { method, .. } | Kind::Notification { method } => Some(method),
            Kind::Response { .. } => None,
        }
    }

    /// The token by which reports of progress name this request, or this report names its request.
    pub(crate) fn progress_token(&self) -> Option<&Value> {
        match &self.kind {
            Kind::Request { .. } => self.known.meta.as_ref()?.progress_token.as_ref(),
            Kind::Notification { .. } => self.known.progress_token.as_ref(),
            Kind::Response { .. } => None,
        }
    }

    /// The revision of MCP that a request names in its body, as those since 2026-07-28 do.
    pub(crate) fn revision(&self) -> Option<&str> {
        self.known.meta.as_ref()?.revision.as_ref()?.as_str()
    }
}

/// Why a text is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("it is not JSON")]
    NotJson,
    #[error(
        "it is not a message of JSON-RPC 2.0: a request has `method` and `id`, a notification `method`, a response `id` and either `result` or `error`"
    )]
    NotRpc,
    #[error("a batch has 1 to {MAX_BATCH} messages")]
    Batch,
}

/// The message of a text, or the messages of a batch.
pub(crate) fn parse(mut text: Bytes) -> Result<Vec<Message>, Malformed> {
    // Programs of .NET and PowerShell write a byte order mark before their first line.
    text.advance(text.len() - bytes_without_mark(&text).len());
    match text.trim_ascii_start().first() {
        Some(b'{') => Ok(vec![one(text)?]),
        Some(b'[') => batch(&text),
        _ if serde_json::from_slice::<IgnoredAny>(&text).is_ok() => Err(Malformed::NotRpc),
        _ => Err(Malformed::NotJson),
    }
}

fn batch(text: &Bytes) -> Result<Vec<Message>, Malformed> {
    let values: Vec<&RawValue> = serde_json::from_slice(text).map_err(|_| Malformed::NotJson)?;
    if values.is_empty() || values.len() > MAX_BATCH {
        return Err(Malformed::Batch);
    }
    values.iter().map(|value| one(text.slice_ref(value.get().as_bytes()))).collect()
}

fn one(text: Bytes) -> Result<Message, Malformed> {
    let envelope = std::str::from_utf8(&text).map_err(|_| Malformed::NotJson)?;
    let envelope: Envelope<'_> =
        serde_json::from_str(envelope).map_err(|e| if e.is_data() { Malformed::NotRpc } else { Malformed::NotJson })?;
    let Envelope { jsonrpc, id, method, params, result, error } = envelope;
    if jsonrpc != "2.0" {
        return Err(Malformed::NotRpc);
    }
    // What has an id waits for an answer: with an id of another kind it is no notification, but nothing at all.
    let id = match id {
        None => None,
        Some(Scalar(Some(id))) => Some(id),
        Some(Scalar(None)) => return Err(Malformed::NotRpc),
    };
    let (kind, known) = match (method, id, result, error) {
        (Some(method), Some(id), None, None) => (Kind::Request { id, method: method.into_owned() }, params),
        (Some(method), None, None, None) => (Kind::Notification { method: method.into_owned() }, params),
        (None, Some(id), Some(result), None) => (Kind::Response { id }, Some(result)),
        (None, Some(id), None, Some(error)) => (Kind::Response { id }, Some(error)),
        _ => return Err(Malformed::NotRpc),
    };
    let known = known.unwrap_or_default();
    Ok(Message { kind, known, text: one_line(text) })
}

/// The id of any JSON object, whatever else it is.
pub(crate) fn id_of(text: &[u8]) -> Option<Value> {
    serde_json::from_slice::<Known>(text).ok()?.id
}

/// The text as one line, if it is one: JSON, or without a line end but at its own end.
pub(crate) fn as_line(text: &Bytes) -> Option<Bytes> {
    let text = text.slice(..text.trim_ascii_end().len());
    if text.is_empty() {
        return None;
    }
    let is_one = memchr::memchr2(b'\n', b'\r', &text).is_none();
    (is_one || serde_json::from_slice::<IgnoredAny>(&text).is_ok()).then(|| one_line(text))
}

/// Line ends between the parts of a JSON text become spaces; within strings there are none.
fn one_line(text: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &text).is_none() {
        return text;
    }
    let spaced = text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
    spaced.collect::<Vec<u8>>().into()
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Scalar>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    params: Option<Known>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Known>,
    error: Option<Known>,
}

/// A member may be `null`, and is there then all the same.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Members of an object that are looked at; everything else is skipped, and so is whatever is no object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Known {
    pub(crate) meta: Option<Box<Known>>,
    pub(crate) progress_token: Option<Value>,
    /// Of `notifications/cancelled`.
    pub(crate) request_id: Option<Value>,
    /// `protocolVersion`, or in `_meta` the name that MCP has for it there.
    pub(crate) revision: Option<Value>,
    pub(crate) name: Option<Value>,
    pub(crate) uri: Option<Value>,
    /// Of an error.
    pub(crate) code: Option<Value>,
    id: Option<Value>,
}

struct KnownVisitor;

impl<'de> Deserialize<'de> for Known {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KnownVisitor)
    }
}

/// What is not looked into.
macro_rules! skip {
    ($none:expr) => {
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($none)
        }
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($none)
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($none)
        }
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("anything")
        }
    };
}

impl<'de> Visitor<'de> for KnownVisitor {
    type Value = Known;

    skip!(Known::default());

    fn visit_str<E>(self, _: &str) -> Result<Known, E> {
        Ok(Known::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Known, E> {
        Ok(Known::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Known, E> {
        Ok(Known::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Known, E> {
        Ok(Known::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Known, A::Error> {
        let mut known = Known::default();
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            let place = match &*name {
                "_meta" => {
                    known.meta = Some(map.next_value()?);
                    continue;
                }
                "progressToken" => &mut known.progress_token,
                "requestId" => &mut known.request_id,
                "protocolVersion" | "io.modelcontextprotocol/protocolVersion" => &mut known.revision,
                "name" => &mut known.name,
                "uri" => &mut known.uri,
                "code" => &mut known.code,
                "id" => &mut known.id,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *place = map.next_value::<Scalar>()?.0;
        }
        Ok(known)
    }
}

/// A string or a number; nothing of anything else.
struct Scalar(Option<Value>);

struct ScalarVisitor;

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    skip!(Scalar(None));

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar(Some(text.into())))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar(Some(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar(Some(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar(Some(number.into())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[track_caller]
    fn check(text: &str, expected: impl Into<Result<Kind, Malformed>>) {
        let found = parse(Bytes::copy_from_slice(text.as_bytes())).map(|mut all| all.remove(0).kind);
        assert_eq!(found, expected.into(), "{text}");
    }

    #[test]
    fn kinds() {
        let request = |id: Value| Ok(Kind::Request { id, method: "a/b".to_owned() });
        check(r#"{"jsonrpc":"2.0","id":1,"method":"a/b"}"#, request(json!(1)));
        check(r#"{"method":"a/b","params":[1],"id":"x","jsonrpc":"2.0"}"#, request(json!("x")));
        check(r#"{"jsonrpc":"2.0","method":"n"}"#, Ok(Kind::Notification { method: "n".to_owned() }));
        check("\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"n\"}", Ok(Kind::Notification { method: "n".to_owned() }));
        check(r#"{"jsonrpc":"2.0","id":2,"result":null}"#, Ok(Kind::Response { id: json!(2) }));
        check(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":""}}"#, Ok(Kind::Response { id: json!(2) }));
        for text in [
            r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
            r#"{"id":1,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":[1],"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":true,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
            "17",
            "[1]",
        ] {
            check(text, Err(Malformed::NotRpc));
        }
        for text in ["", "hello", "{", r#"{"jsonrpc":"2.0""#] {
            check(text, Err(Malformed::NotJson));
        }
        check("[]", Err(Malformed::Batch));
    }

    #[test]
    fn what_is_known_of_it() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"name":1},
            "_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let message = parse(Bytes::from_static(text.as_bytes())).unwrap().remove(0);
        assert_eq!(message.progress_token(), Some(&json!("t")));
        assert_eq!(message.revision(), Some("2026-07-28"));
        assert_eq!(message.known.name, Some(json!("add")));
        assert!(!message.text.contains(&b'\n'));
    }

    #[test]
    fn a_batch_is_its_messages() {
        let text = r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"}]"#;
        let all = parse(Bytes::from_static(text.as_bytes())).unwrap();
        assert_eq!(all.iter().map(|one| one.method().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
        // As they came: numbers of any length, members in their order.
        let one = r#"{"z":1e400,"jsonrpc":"2.0","params":{"b":123456789012345678901234567890,"a":1.10},"method":"b"}"#;
        let all = parse(format!("[ {one} ,\n{one}]").into()).unwrap();
        assert_eq!(all.iter().map(|one| &one.text[..]).collect::<Vec<_>>(), [one.as_bytes(); 2]);
    }

    #[test]
    fn lines() {
        let check = |text: &'static str, line: Option<&str>| {
            assert_eq!(as_line(&Bytes::from_static(text.as_bytes())).as_deref(), line.map(str::as_bytes), "{text}");
        };
        check("add 1 2\n", Some("add 1 2"));
        check("{\"a\":\n1}\r\n", Some("{\"a\": 1}"));
        check("a\nb", None);
        check(" \n", None);
        assert_eq!(id_of(br#"{"id":"x","result":{"id":1}}"#), Some(json!("x")));
        assert_eq!((id_of(b"[1]"), id_of(b"x"), id_of(b"{}")), (None, None, None));
    }

    proptest! {
        #[test]
        fn nothing_panics(text: Vec<u8>) {
            let _ = parse(text.into());
        }

        /// A message that is laid out over several lines means the same on one.
        #[test]
        fn one_line_means_the_same(name in "\\PC*", number: i64) {
            let value = json!({ "jsonrpc": "2.0", "id": number, "method": name, "params": { "text": name } });
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let message = parse(pretty.into()).unwrap().remove(0);
            prop_assert!(!message.text.contains(&b'\n'));
            prop_assert_eq!(serde_json::from_slice::<Value>(&message.text).unwrap(), value);
        }
    }
}
