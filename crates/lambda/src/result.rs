//! The result of a function as a response.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::event::EventFormat;

/// Fields of a connection, or about the framing of a body, which are not the function's to set.
const NOT_ITS: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// From 200 to 599.
    pub status: u16,
    /// Its fields, with names in small letters. They are the function's words: whether they are fields is not checked.
    pub fields: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

/// Why a result is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResultError {
    /// No JSON.
    #[error("it is not JSON")]
    NotJson,
    /// No object, where a response has to be one.
    #[error("it is not an object, as responses to {0} events are")]
    NotAnObject(&'static str),
    /// No status.
    #[error("it has no `statusCode`")]
    NoStatus,
    /// A status that is none.
    #[error("its `statusCode` is not a number from 200 to 599")]
    Status,
    /// Fields that are none.
    #[error("its `{0}` is not a table of fields")]
    Fields(&'static str),
    /// A body that is none.
    #[error("its `body` is not a string")]
    Body,
    /// A body that is not what it says.
    #[error("its `body` is not base64, as its `isBase64Encoded` says")]
    Base64,
}

/// Reads a result.
///
/// # Errors
/// What is wrong with it; the function wrote it.
pub fn answer(format: EventFormat, result: &[u8]) -> Result<Answer, ResultError> {
    let value: Value = serde_json::from_slice(result).map_err(|_| ResultError::NotJson)?;
    match value {
        Value::Object(map) if map.contains_key("statusCode") => of_object(format, map),
        // API Gateway's format 2.0: a result without a status is the body.
        _ if format == EventFormat::V2 => Ok(Answer {
            status: 200,
            fields: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: result.to_vec(),
        }),
        Value::Object(_) => Err(ResultError::NoStatus),
        _ => Err(ResultError::NotAnObject(format.name())),
    }
}

fn of_object(format: EventFormat, mut map: Map<String, Value>) -> Result<Answer, ResultError> {
    let (status, mut fields) = head(format, &map)?;
    let is_base64 = map.get("isBase64Encoded").and_then(Value::as_bool).unwrap_or_default();
    let body = match map.remove("body") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) if is_base64 => STANDARD.decode(text.trim_end()).map_err(|_| ResultError::Base64)?,
        Some(Value::String(text)) => text.into_bytes(),
        Some(_) => return Err(ResultError::Body),
    };
    let is_apis = matches!(format, EventFormat::V1 | EventFormat::V2);
    if is_apis && !body.is_empty() && !fields.iter().any(|(name, _)| name == "content-type") {
        fields.push(("content-type".to_owned(), "application/json".to_owned()));
    }
    Ok(Answer { status, fields, body })
}

/// Status and fields of a result, or of what comes before a stream.
///
/// A load balancer reads one of the two tables, the one that it was set up for; the APIs read both. Where that one is
/// missing, the other one is what the function has to say.
pub(crate) fn head(format: EventFormat, map: &Map<String, Value>) -> Result<(u16, Vec<(String, String)>), ResultError> {
    let status = match map.get("statusCode") {
        None | Some(Value::Null) => return Err(ResultError::NoStatus),
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_u64().or_else(|| whole(value.as_f64()?)),
    };
    let status = status.and_then(|status| u16::try_from(status).ok()).filter(|status| (200..600).contains(status));
    let status = status.ok_or(ResultError::Status)?;
    let mut fields = Vec::new();
    let (one, several) = match (format, table(map, "headers")?, table(map, "multiValueHeaders")?) {
        (EventFormat::Alb, Some(one), _) => (Some(one), None),
        (EventFormat::AlbMulti, _, Some(several)) => (None, Some(several)),
        (_, one, several) => (one, several),
    };
    for (name, value) in one.into_iter().flatten() {
        let name = name.to_ascii_lowercase();
        // What is in both has the values of the one that can have several.
        if !several.is_some_and(|several| several.keys().any(|other| other.eq_ignore_ascii_case(&name))) {
            push(&mut fields, name, value, "headers")?;
        }
    }
    for (name, values) in several.into_iter().flatten() {
        for value in values.as_array().ok_or(ResultError::Fields("multiValueHeaders"))? {
            push(&mut fields, name.to_ascii_lowercase(), value, "multiValueHeaders")?;
        }
    }
    match map.get("cookies") {
        None | Some(Value::Null) => {}
        Some(Value::Array(cookies)) => {
            for cookie in cookies {
                push(&mut fields, "set-cookie".to_owned(), cookie, "cookies")?;
            }
        }
        Some(_) => return Err(ResultError::Fields("cookies")),
    }
    Ok((status, fields))
}

/// JavaScript has no whole numbers: `200.0` is one.
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..1000.0).contains(&number)).then_some(number as u64)
}

fn table<'a>(map: &'a Map<String, Value>, name: &'static str) -> Result<Option<&'a Map<String, Value>>, ResultError> {
    match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(table)) => Ok(Some(table)),
        Some(_) => Err(ResultError::Fields(name)),
    }
}

fn push(fields: &mut Vec<(String, String)>, name: String, value: &Value, of: &'static str) -> Result<(), ResultError> {
    let text = match value {
        Value::Null => return Ok(()),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => return Err(ResultError::Fields(of)),
    };
    if !NOT_ITS.contains(&&*name) {
        fields.push((name, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Status, fields and body.
    type Expected<'a> = Result<(u16, &'a [(&'a str, &'a str)], &'a [u8]), ResultError>;

    fn check(format: EventFormat, result: &Value, expected: Expected<'_>) {
        let got = answer(format, result.to_string().as_bytes());
        let expected = expected.map(|(status, fields, body)| Answer {
            status,
            fields: fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            body: body.to_vec(),
        });
        assert_eq!(got, expected, "{result}");
    }

    const JSON: (&str, &str) = ("content-type", "application/json");

    #[test]
    fn a_load_balancer_reads_one_table() {
        let result = json!({ "statusCode": 200, "headers": { "X-Multi": "1", "X-One": "a" },
            "multiValueHeaders": { "x-multi": ["1", "2"] } });
        check(EventFormat::Alb, &result, Ok((200, &[("x-multi", "1"), ("x-one", "a")], b"")));
        check(EventFormat::AlbMulti, &result, Ok((200, &[("x-multi", "1"), ("x-multi", "2")], b"")));
        let expected: [(&str, &str); 3] = [("x-one", "a"), ("x-multi", "1"), ("x-multi", "2")];
        check(EventFormat::V1, &result, Ok((200, &expected, b"")));
        let one = json!({ "statusCode": 200, "headers": { "X-One": "a" } });
        check(EventFormat::AlbMulti, &one, Ok((200, &[("x-one", "a")], b"")));
    }

    #[test]
    fn results_of_version_2() {
        let v2 = |result: Value, expected: Expected<'_>| {
            check(EventFormat::V2, &result, expected);
        };
        v2(json!({ "statusCode": 201, "body": "a" }), Ok((201, &[JSON], b"a")));
        v2(json!({ "statusCode": "204" }), Ok((204, &[], b"")));
        v2(json!({ "statusCode": 200.0, "body": null, "headers": null }), Ok((200, &[], b"")));
        v2(json!({ "statusCode": 200, "body": "aGk=", "isBase64Encoded": true }), Ok((200, &[JSON], b"hi")));
        v2(
            json!({ "statusCode": 200, "headers": { "Content-Type": "text/plain", "X-A": 1, "X-B": true, "X-C": null },
                "cookies": ["a=1", "b=2"], "body": "a" }),
            Ok((
                200,
                &[
                    ("content-type", "text/plain"),
                    ("x-a", "1"),
                    ("x-b", "true"),
                    ("set-cookie", "a=1"),
                    ("set-cookie", "b=2"),
                ],
                b"a",
            )),
        );
        v2(
            json!({ "statusCode": 200, "headers": { "Content-Length": "9", "Connection": "x", "Transfer-Encoding": "chunked" } }),
            Ok((200, &[], b"")),
        );
        v2(json!({ "a": 1 }), Ok((200, &[JSON], br#"{"a":1}"#)));
        v2(json!("hi"), Ok((200, &[JSON], b"\"hi\"")));
        v2(json!(null), Ok((200, &[JSON], b"null")));
        v2(json!({ "statusCode": 101 }), Err(ResultError::Status));
        v2(json!({ "statusCode": 70000 }), Err(ResultError::Status));
        v2(json!({ "statusCode": [] }), Err(ResultError::Status));
        v2(json!({ "statusCode": 200, "body": {} }), Err(ResultError::Body));
        v2(json!({ "statusCode": 200, "body": "?", "isBase64Encoded": true }), Err(ResultError::Base64));
        v2(json!({ "statusCode": 200, "headers": [] }), Err(ResultError::Fields("headers")));
        v2(json!({ "statusCode": 200, "headers": { "a": [] } }), Err(ResultError::Fields("headers")));
        v2(json!({ "statusCode": 200, "cookies": "a" }), Err(ResultError::Fields("cookies")));
        assert_eq!(answer(EventFormat::V2, b"hi"), Err(ResultError::NotJson));
    }

    #[test]
    fn results_of_others() {
        let result = json!({ "statusCode": 200, "statusDescription": "200 OK", "headers": { "X-A": "0", "x-b": "0" },
            "multiValueHeaders": { "x-a": ["1", "2"] }, "body": "a" });
        let fields: &[(&str, &str)] = &[("x-b", "0"), ("x-a", "1"), ("x-a", "2")];
        check(EventFormat::Alb, &result, Ok((200, &[("x-a", "0"), ("x-b", "0")], b"a")));
        check(EventFormat::V1, &result, Ok((200, &[fields, &[JSON]].concat(), b"a")));
        check(EventFormat::V1, &json!({ "a": 1 }), Err(ResultError::NoStatus));
        check(EventFormat::Alb, &json!("hi"), Err(ResultError::NotAnObject("alb")));
        let result = json!({ "statusCode": 200, "multiValueHeaders": { "a": "b" } });
        check(EventFormat::V1, &result, Err(ResultError::Fields("multiValueHeaders")));
    }
}
