//! One line of the access log. What comes from a client is escaped: no value ends a line, a field or a string early,
//! and none drives a terminal.

use std::borrow::Cow;
use std::io::Write;

use http::header::{HOST, REFERER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use pilotlight_cache::Timestamp;
use pilotlight_logs::{Field, Names, Record, Severity, Shape, rfc3339};
use pilotlight_printable::{is_hidden, json_escape};
use pilotlight_traces::TraceId;
use smallvec::SmallVec;

use crate::metrics::{Series, Verdict};
use crate::options::{AccessField, AccessFormat};
use crate::peer_address::PeerAddress;
use crate::timing::{Layer, Timeline};

/// Bytes of one value that a client chose; the rest is cut off and marked.
const MAX_VALUE: usize = 2048;

/// Who says it, to the journal and to syslog.
const IDENTIFIER: &str = "pilotlight";

/// A request that is over, as far as it is logged.
pub(crate) struct Entry<'a> {
    pub(crate) at: Timestamp,
    pub(crate) peer: &'a PeerAddress,
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) method: &'a str,
    pub(crate) target: &'a [u8],
    pub(crate) protocol: &'static str,
    /// 0: the client went before there was a response.
    pub(crate) status: u16,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) took_ns: u64,
    pub(crate) verdict: Verdict,
    pub(crate) series: &'a Series,
    pub(crate) request_id: Option<&'a [u8]>,
    pub(crate) trace_id: Option<TraceId>,
    pub(crate) user_agent: Option<&'a [u8]>,
    pub(crate) referer: Option<&'a [u8]>,
    pub(crate) timeline: Option<&'a Timeline>,
}

/// A hit that was answered from its head alone, as far as it is logged.
pub(crate) struct Hit<'a> {
    pub(crate) at: Timestamp,
    pub(crate) took_ns: u64,
    pub(crate) peer: &'a PeerAddress,
    pub(crate) target: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) status: u16,
    pub(crate) sent_bytes: u64,
}

impl<'a> Entry<'a> {
    /// A hit that was answered from its head alone: a GET over HTTP/1.1, without an id.
    pub(crate) fn of_hit(verdict: Verdict, series: &'a Series, hit: &Hit<'a>) -> Self {
        let Hit { at, took_ns, peer, target, headers, status, sent_bytes } = *hit;
        let field = |name: HeaderName| headers.get(name).map(HeaderValue::as_bytes);
        Self {
            at,
            peer,
            host: field(HOST),
            method: "GET",
            target: target.as_bytes(),
            protocol: "HTTP/1.1",
            status,
            sent_bytes,
            received_bytes: 0,
            took_ns,
            verdict,
            series,
            request_id: None,
            trace_id: None,
            user_agent: field(USER_AGENT),
            referer: field(REFERER),
            timeline: None,
        }
    }
}

/// A value of a line.
enum Value<'a> {
    /// What a client chose.
    Foreign(&'a [u8]),
    /// Configured names and words of ours: nothing to escape but in JSON.
    Own(&'a str),
    Number(u64),
    Milliseconds(u64),
    Time(Timestamp),
    Layers(&'a Timeline),
    Trace(TraceId),
    Nothing,
}

/// A message with the line as its text, and its values as fields.
pub(super) fn write_message(
    out: &mut Vec<u8>,
    shape: &Shape,
    format: AccessFormat,
    fields: &[AccessField],
    entry: &Entry<'_>,
) {
    let mut text = Vec::with_capacity(512);
    write(&mut text, format, fields, entry);
    text.pop(); // the end of the line
    let fields: SmallVec<[Field<'_>; 16]> = fields
        .iter()
        .filter_map(|field| plain(&value(*field, entry)).map(|value| Field { name: field.name(), value }))
        .collect();
    let record = Record {
        at_ms: entry.at.0,
        severity: Severity::Info,
        identifier: IDENTIFIER,
        process: u64::from(std::process::id()),
        message: &text,
        fields: &fields,
        names: Names::Http,
    };
    shape.encode(out, &record);
}

/// A value as it is, cut if it is long.
fn plain<'a>(value: &Value<'a>) -> Option<Cow<'a, [u8]>> {
    match value {
        Value::Nothing => None,
        Value::Foreign(bytes) => Some(Cow::Borrowed(shortened(bytes).0)),
        Value::Own(text) => Some(Cow::Borrowed(text.as_bytes())),
        value => {
            let mut out = Vec::new();
            write_text(&mut out, value);
            Some(Cow::Owned(out))
        }
    }
}

pub(super) fn write(out: &mut Vec<u8>, format: AccessFormat, fields: &[AccessField], entry: &Entry<'_>) {
    let json = format == AccessFormat::Json;
    out.extend_from_slice(if json { b"{" } else { b"" });
    for (index, field) in fields.iter().enumerate() {
        let value = value(*field, entry);
        if json {
            out.extend_from_slice(if index > 0 { b",\"" } else { b"\"" });
            out.extend_from_slice(field.name().as_bytes());
            out.extend_from_slice(b"\":");
            write_json(out, &value);
        } else {
            out.extend_from_slice(if index > 0 { b" " } else { b"" });
            write_text(out, &value);
        }
    }
    out.extend_from_slice(if json { b"}\n" } else { b"\n" });
}

fn value<'a>(field: AccessField, entry: &Entry<'a>) -> Value<'a> {
    let foreign = |bytes: Option<&'a [u8]>| bytes.map_or(Value::Nothing, Value::Foreign);
    match field {
        AccessField::Time => Value::Time(entry.at),
        AccessField::Client if entry.peer.is_empty() => Value::Nothing,
        AccessField::Client => Value::Own(entry.peer),
        AccessField::Scheme => Value::Own(entry.peer.scheme().as_str()),
        AccessField::Host => foreign(entry.host),
        AccessField::Method => Value::Foreign(entry.method.as_bytes()),
        AccessField::Target => Value::Foreign(entry.target),
        AccessField::Path => Value::Foreign(entry.target.split(|byte| *byte == b'?').next().unwrap_or_default()),
        AccessField::Protocol => Value::Own(entry.protocol),
        AccessField::Status => Value::Number(u64::from(entry.status)),
        AccessField::BytesSent => Value::Number(entry.sent_bytes),
        AccessField::BytesReceived => Value::Number(entry.received_bytes),
        AccessField::DurationMs => Value::Milliseconds(entry.took_ns),
        AccessField::Cache => Value::Own(entry.verdict.name()),
        AccessField::Route => Value::Own(&entry.series.route),
        AccessField::Service => Value::Own(&entry.series.service),
        AccessField::RequestId => foreign(entry.request_id),
        AccessField::UserAgent => foreign(entry.user_agent),
        AccessField::Referer => foreign(entry.referer),
        AccessField::Timing => entry.timeline.map_or(Value::Nothing, Value::Layers),
        AccessField::TraceId => entry.trace_id.map_or(Value::Nothing, Value::Trace),
    }
}

fn write_json(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Nothing => out.extend_from_slice(b"null"),
        Value::Number(number) => number_to(out, *number),
        Value::Milliseconds(ns) => milliseconds_to(out, *ns),
        Value::Time(at) => {
            out.push(b'"');
            rfc3339(out, at.0);
            out.push(b'"');
        }
        Value::Own(text) => json_string(out, text.as_bytes()),
        Value::Foreign(bytes) => json_string(out, bytes),
        Value::Trace(id) => json_string(out, &id.to_hex()),
        Value::Layers(timeline) => {
            out.push(b'{');
            for (index, (name, ns)) in spent(timeline).enumerate() {
                out.extend_from_slice(if index > 0 { b",\"" } else { b"\"" });
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                milliseconds_to(out, ns);
            }
            out.push(b'}');
        }
    }
}

fn write_text(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Nothing => out.push(b'-'),
        Value::Number(number) => number_to(out, *number),
        Value::Milliseconds(ns) => milliseconds_to(out, *ns),
        Value::Time(at) => rfc3339(out, at.0),
        Value::Own(text) => out.extend_from_slice(text.as_bytes()),
        Value::Foreign(bytes) => text_string(out, bytes),
        Value::Trace(id) => out.extend_from_slice(&id.to_hex()),
        Value::Layers(timeline) => {
            for (index, (name, ns)) in spent(timeline).enumerate() {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                out.extend_from_slice(name.as_bytes());
                out.push(b'=');
                milliseconds_to(out, ns);
            }
        }
    }
}

fn spent(timeline: &Timeline) -> impl Iterator<Item = (&'static str, u64)> {
    Layer::ALL.into_iter().map(|layer| (layer.name(), timeline.spent_ns(layer))).filter(|(_, ns)| *ns > 0)
}

/// RFC 8259 §7. What is not UTF-8 is replaced; hidden characters are escaped.
fn json_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let (bytes, cut) = shortened(bytes);
    out.push(b'"');
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        out.extend_from_slice(bytes);
    } else {
        let mut text = String::with_capacity(bytes.len() + 16);
        for character in String::from_utf8_lossy(bytes).chars() {
            match character {
                '"' | '\\' => text.extend(['\\', character]),
                c if is_hidden(c) => json_escape(&mut text, c),
                c => text.push(c),
            }
        }
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(if cut { "…\"".as_bytes() } else { b"\"" });
}

/// In quotes; quotes, backslashes and all but visible ASCII and spaces as `\xHH`.
fn text_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let (bytes, cut) = shortened(bytes);
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => write_infallibly(out, format_args!("\\x{byte:02x}")),
            b' '..=b'~' => out.push(*byte),
            _ => write_infallibly(out, format_args!("\\x{byte:02x}")),
        }
    }
    out.extend_from_slice(if cut { b"...\"" } else { b"\"" });
}

fn shortened(bytes: &[u8]) -> (&[u8], bool) {
    (&bytes[..bytes.len().min(MAX_VALUE)], bytes.len() > MAX_VALUE)
}

fn number_to(out: &mut Vec<u8>, number: u64) {
    write_infallibly(out, format_args!("{number}"));
}

/// To the microsecond.
fn milliseconds_to(out: &mut Vec<u8>, ns: u64) {
    let us = ns.saturating_add(500) / 1000;
    write_infallibly(out, format_args!("{}.{:03}", us / 1000, us % 1000));
}

fn write_infallibly(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text); // a Vec takes everything
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pilotlight_traces::IdSource;
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::Registry;
    use crate::timing::Moment;

    fn line(format: AccessFormat, fields: &[AccessField], host: &[u8], target: &[u8]) -> String {
        let registry = Registry::new(1);
        let series = registry.series("/a", "users");
        let begun = Moment::now();
        let timeline = Timeline::new(begun);
        timeline.end_phase(Layer::Cache, begun + Duration::from_micros(10));
        timeline.end_phase(Layer::Service, begun + Duration::from_micros(1_510));
        let peer = PeerAddress::new("127.0.0.1:9");
        let entry = Entry {
            at: Timestamp(951_782_400_007), // 29 February 2000
            peer: &peer,
            host: Some(host),
            method: "GET",
            target,
            protocol: "HTTP/1.1",
            status: 200,
            sent_bytes: 5,
            received_bytes: 0,
            took_ns: timeline.total_ns(),
            verdict: Verdict::Miss,
            series: &series,
            request_id: Some(b"id"),
            trace_id: Some(IdSource::new(0).trace_id()),
            user_agent: None,
            referer: None,
            timeline: Some(&timeline),
        };
        let mut out = Vec::new();
        write(&mut out, format, fields, &entry);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whole_lines() {
        assert_eq!(
            line(AccessFormat::Text, &AccessField::DEFAULT, b"h", b"/a?b"),
            "2000-02-29T00:00:00.007Z 127.0.0.1:9 \"GET\" \"h\" \"/a?b\" 200 5 1.510 miss users \"id\"\n"
        );
        let json = line(AccessFormat::Json, &AccessField::ALL, b"h", b"/a?b");
        let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(parsed.as_object().unwrap().len(), AccessField::ALL.len());
        assert_eq!(parsed["path"], "/a");
        assert_eq!(parsed["trace_id"], IdSource::new(0).trace_id().to_string());
        assert_eq!(parsed["timing"]["service"], 1.5);
        assert_eq!(parsed["user_agent"], serde_json::Value::Null);
    }

    #[test]
    fn hostile_values_stay_where_they_are() {
        let fields = [AccessField::Host, AccessField::Status];
        let bad = b"a\"\\\r\n\x1b[2J\xff{\"status\":500}";
        assert_eq!(
            line(AccessFormat::Text, &fields, bad, b"/"),
            "\"a\\x22\\x5c\\x0d\\x0a\\x1b[2J\\xff{\\x22status\\x22:500}\" 200\n"
        );
        let parsed: serde_json::Value = serde_json::from_str(&line(AccessFormat::Json, &fields, bad, b"/")).unwrap();
        assert_eq!(parsed["host"], "a\"\\\r\n\u{1b}[2J\u{fffd}{\"status\":500}");
        assert_eq!(parsed["status"], 200);
        let long = line(AccessFormat::Text, &[AccessField::Target], b"", &[b'x'; 9000]);
        assert!(long.len() < MAX_VALUE + 10 && long.ends_with("...\"\n"));
    }

    #[test]
    fn hidden_characters_are_escapes_in_json() {
        let host = "a\u{202e}b\u{200b}\u{7f}\u{e0041}ü";
        let text = line(AccessFormat::Json, &[AccessField::Host], host.as_bytes(), b"/");
        assert_eq!(text, "{\"host\":\"a\\u202eb\\u200b\\u007f\\udb40\\udc41ü\"}\n");
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed["host"], host);
    }

    proptest! {
        #[test]
        fn every_value_is_one_line_and_comes_back(host in prop::collection::vec(any::<u8>(), 0..100)) {
            let text = line(AccessFormat::Text, &[AccessField::Host], &host, b"/");
            prop_assert!(text.trim_end_matches('\n').bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            let json = line(AccessFormat::Json, &[AccessField::Host], &host, b"/");
            prop_assert_eq!(json.lines().count(), 1);
            prop_assert!(!json.trim_end_matches('\n').contains(is_hidden));
            let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(parsed["host"].as_str().unwrap(), &*String::from_utf8_lossy(&host));
        }
    }
}
