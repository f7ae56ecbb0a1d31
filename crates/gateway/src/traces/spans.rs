//! The spans of a request that is over: one for itself, one for each phase, one for each try at its service.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pilotlight_traces::{Attribute, IdSource, ParentOrigin, Span, SpanId, SpanKind, SpanStatus, TraceContext, Value};

use super::export::Encoded;
use super::{RecordedQuery, Try, TryOutcome};
use crate::metrics::{Series, Verdict};
use crate::target::Scheme;
use crate::timing::{Mark, Moment, nanos};

/// The error of a request, or a try, whose client went before there was a response.
const CLIENT_GONE: &str = "client_gone";
/// Most attributes of a span.
const MAX_ATTRIBUTES: usize = 17;

/// A request that is over, as its own span tells of it.
pub(crate) struct Served<'a> {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<SpanId>,
    pub(crate) state: &'a str,
    pub(crate) method: &'a str,
    pub(crate) scheme: Scheme,
    pub(crate) authority: &'a str,
    pub(crate) target: &'a str,
    /// Whether its query is told.
    pub(crate) query: RecordedQuery,
    pub(crate) version: &'static str,
    pub(crate) client: &'a str,
    pub(crate) user_agent: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) verdict: Verdict,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) series: &'a Series,
    pub(crate) begun: Moment,
    pub(crate) ended: Moment,
}

impl Served<'_> {
    /// Writes its span, those of its phases and those of its tries, as OTLP has them.
    pub(crate) fn encode(&self, phases: &[Mark], tries: &[Try], ids: &IdSource, encoded: &mut Encoded) {
        let writer = Writer { context: self.context, state: self.state, clock: WallClock::now() };
        self.server(&writer, encoded);
        for phase in phases {
            let one = One {
                span_id: ids.span_id(),
                parent: Some(self.context.span_id),
                name: phase.name,
                kind: SpanKind::Internal,
                from: phase.from,
                to: phase.to,
                error: None,
            };
            writer.write(encoded, &one, Vec::new());
        }
        tries.iter().enumerate().for_each(|(at, one)| self.client(&writer, encoded, at, one));
    }

    /// Semantic conventions for HTTP, server spans (stable).
    fn server(&self, writer: &Writer<'_>, encoded: &mut Encoded) {
        let (path, query) = self.path_and_query();
        let (host, port) = host_and_port(self.authority);
        let (method, original) = known_method(self.method);
        let status = (self.status >= 500).then(|| self.status.to_string());
        let error = if self.status == 0 { Some(CLIENT_GONE) } else { status.as_deref() };
        let text = |value: &'static str| move |text| (value, Value::Text(text));
        let mut attributes: Vec<Attribute<'_>> = Vec::with_capacity(MAX_ATTRIBUTES);
        attributes.extend([
            ("http.request.method", Value::Text(method)),
            ("url.path", Value::Text(path)),
            ("url.scheme", Value::Text(self.scheme.as_str())),
            ("http.route", Value::Text(&self.series.route)),
            ("network.protocol.version", Value::Text(version(self.version))),
            ("http.request.body.size", number(self.received_bytes)),
            ("http.response.body.size", number(self.sent_bytes)),
            ("pilotlight.cache", Value::Text(self.verdict.name())),
            ("pilotlight.service", Value::Text(&self.series.service)),
        ]);
        attributes.extend(original.map(text("http.request.method_original")));
        let query = Some(query).filter(|query| !query.is_empty() && self.query == RecordedQuery::Yes);
        attributes.extend(query.map(text("url.query")));
        attributes.extend(host.map(text("server.address")));
        attributes.extend(port.map(|port| ("server.port", Value::Number(port.into()))));
        attributes.extend(Some(self.client).filter(|client| !client.is_empty()).map(text("client.address")));
        attributes.extend(self.user_agent.map(text("user_agent.original")));
        if self.status != 0 {
            attributes.push(("http.response.status_code", Value::Number(self.status.into())));
        }
        let method = if original.is_some() { "HTTP" } else { method };
        let one = One {
            span_id: self.context.span_id,
            parent: self.parent,
            name: &[method, " ", &self.series.route].concat(),
            kind: SpanKind::Server,
            from: self.begun,
            to: self.ended,
            error,
        };
        writer.write(encoded, &one, attributes);
    }

    fn path_and_query(&self) -> (&str, &str) {
        match memchr::memchr(b'?', self.target.as_bytes()) {
            Some(at) => (&self.target[..at], &self.target[at + 1..]),
            None => (self.target, ""),
        }
    }

    /// The same, client spans.
    fn client(&self, writer: &Writer<'_>, encoded: &mut Encoded, at: usize, one: &Try) {
        let (method, original) = known_method(self.method);
        let (to, outcome) = one.ended.unwrap_or((self.ended, TryOutcome::Failed(CLIENT_GONE)));
        let status = match outcome {
            TryOutcome::Answered(status) => Some(status),
            TryOutcome::Failed(_) => None,
        };
        let status_text = status.map(|status| status.to_string());
        let error = match outcome {
            // A client span is an error from 400 on.
            TryOutcome::Answered(400..) => status_text.as_deref(),
            TryOutcome::Answered(_) => None,
            TryOutcome::Failed(why) => Some(why),
        };
        let (path, _) = self.path_and_query();
        let mut attributes: Vec<Attribute<'_>> = vec![
            ("http.request.method", Value::Text(method)),
            ("url.path", Value::Text(path)),
            ("server.address", Value::Text(&self.series.service)),
            ("pilotlight.service", Value::Text(&self.series.service)),
        ];
        attributes.extend(status.map(|status| ("http.response.status_code", Value::Number(status.into()))));
        if at > 0 {
            attributes.push(("http.request.resend_count", number(at as u64)));
        }
        let one = One {
            span_id: one.span_id,
            parent: Some(self.context.span_id),
            name: if original.is_some() { "HTTP" } else { method },
            kind: SpanKind::Client,
            from: one.begun,
            to,
            error,
        };
        writer.write(encoded, &one, attributes);
    }
}

/// One span, as far as the spans of a request differ.
struct One<'a> {
    span_id: SpanId,
    parent: Option<SpanId>,
    name: &'a str,
    kind: SpanKind,
    from: Moment,
    to: Moment,
    error: Option<&'a str>,
}

/// What they have in common.
struct Writer<'a> {
    context: TraceContext,
    state: &'a str,
    clock: WallClock,
}

impl Writer<'_> {
    fn write<'b>(&self, encoded: &mut Encoded, one: &One<'b>, mut attributes: Vec<Attribute<'b>>) {
        attributes.extend(one.error.map(|error| ("error.type", Value::Text(error))));
        let is_remote = one.kind == SpanKind::Server && one.parent.is_some();
        let span = Span {
            trace_id: self.context.trace_id,
            span_id: one.span_id,
            parent: one.parent,
            parent_origin: if is_remote { ParentOrigin::Remote } else { ParentOrigin::Local },
            flags: self.context.flags,
            trace_state: self.state,
            name: one.name,
            kind: one.kind,
            start_ns: self.clock.unix_ns(one.from),
            end_ns: self.clock.unix_ns(one.to),
            attributes: &attributes,
            status: if one.error.is_some() { SpanStatus::Error } else { SpanStatus::Unset },
        };
        span.append_to(&mut encoded.bytes);
        encoded.spans += 1;
    }
}

/// The time of day of moments.
struct WallClock {
    now: Moment,
    unix_ns: u64,
}

impl WallClock {
    fn now() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { now: Moment::now(), unix_ns: nanos(unix) }
    }

    fn unix_ns(&self, at: Moment) -> u64 {
        self.unix_ns.saturating_sub(self.now.since(at))
    }
}

fn number(value: u64) -> Value<'static> {
    Value::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

/// `HTTP/1.1` as `1.1`, `HTTP/2.0` as `2`.
fn version(protocol: &'static str) -> &'static str {
    match protocol.trim_start_matches("HTTP/") {
        "2.0" => "2",
        other => other,
    }
}

/// A method that the conventions know, or `_OTHER` and what it was.
fn known_method(method: &str) -> (&str, Option<&str>) {
    match method {
        "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH" | "QUERY" => {
            (method, None)
        }
        other => ("_OTHER", Some(other)),
    }
}

/// `host:port`, `[v6]:port` or a host alone.
fn host_and_port(authority: &str) -> (Option<&str>, Option<u16>) {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (authority, None),
        },
        _ => (authority, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (Some(host).filter(|host| !host.is_empty()), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_have_a_host_and_perhaps_a_port() {
        for (authority, expected) in [
            ("a", (Some("a"), None)),
            ("a:80", (Some("a"), Some(80))),
            ("[::1]:8080", (Some("::1"), Some(8080))),
            ("[::1]", (Some("::1"), None)),
            ("", (None, None)),
        ] {
            assert_eq!(host_and_port(authority), expected, "{authority}");
        }
    }

    #[test]
    fn strange_methods_make_no_new_names() {
        assert_eq!(known_method("GET"), ("GET", None));
        assert_eq!(known_method("BREW"), ("_OTHER", Some("BREW")));
    }
}
