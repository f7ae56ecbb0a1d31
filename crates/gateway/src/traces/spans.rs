//! The spans of a request that is over: one for itself, one for each phase, one for each try at its service.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pilotlight_traces::{Attribute, IdSource, ParentOrigin, Span, SpanId, SpanKind, SpanStatus, TraceContext, Value};

use super::export::Encoded;
use super::{RecordedQuery, SampledRequest, Try, TryOutcome};
use crate::metrics::{FinishedRequest, Series};
use crate::timing::{Moment, nanos};

/// The error of a request, or a try, whose client went before there was a response.
const CLIENT_GONE: &str = "client_gone";

/// A request that is over.
pub(crate) struct Traced<'a> {
    pub(crate) context: &'a TraceContext,
    pub(crate) request: &'a SampledRequest,
    pub(crate) outcome: &'a FinishedRequest<'a>,
    pub(crate) series: &'a Series,
}

impl Traced<'_> {
    /// As OTLP has them.
    pub(crate) fn encode(&self, ids: &IdSource) -> Encoded {
        let writer = Writer { context: self.context, state: &self.request.state, clock: WallClock::now() };
        let mut encoded = Encoded { bytes: Vec::with_capacity(2048), spans: 0 };
        self.server(&writer, &mut encoded);
        for mark in self.outcome.timeline.marks() {
            let one = One {
                span_id: ids.span_id(),
                parent: Some(self.context.span_id),
                name: mark.name,
                kind: SpanKind::Internal,
                from: mark.from,
                to: mark.to,
                error: None,
            };
            writer.write(&mut encoded, &one, &[]);
        }
        for (at, one) in self.request.tries.borrow().iter().enumerate() {
            self.client(&writer, &mut encoded, at, one);
        }
        encoded
    }

    /// Semantic conventions for HTTP, server spans (stable).
    fn server(&self, writer: &Writer<'_>, encoded: &mut Encoded) {
        let (request, outcome) = (self.request, self.outcome);
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let (host, port) = host_and_port(&request.authority);
        let (method, original) = known_method(request.method.as_str());
        let status = outcome.status.to_string();
        let error = match outcome.status {
            0 => Some(CLIENT_GONE),
            500.. => Some(status.as_str()),
            _ => None,
        };
        let text = |value: &'static str| move |text| (value, Value::Text(text));
        let mut attributes: Vec<Attribute<'_>> = vec![
            ("http.request.method", Value::Text(method)),
            ("url.path", Value::Text(path)),
            ("url.scheme", Value::Text(request.scheme.as_str())),
            ("http.route", Value::Text(&self.series.route)),
            ("network.protocol.version", Value::Text(version(request.version))),
            ("http.request.body.size", number(outcome.received_bytes)),
            ("http.response.body.size", number(outcome.sent_bytes)),
            ("pilotlight.cache", Value::Text(outcome.verdict.name())),
            ("pilotlight.service", Value::Text(&self.series.service)),
        ];
        attributes.extend(original.map(text("http.request.method_original")));
        let query = Some(query).filter(|query| !query.is_empty() && request.options.query == RecordedQuery::Yes);
        attributes.extend(query.map(text("url.query")));
        attributes.extend(host.map(text("server.address")));
        attributes.extend(port.map(|port| ("server.port", Value::Number(port.into()))));
        attributes.extend(Some(&*request.client).filter(|client| !client.is_empty()).map(text("client.address")));
        attributes.extend(request.user_agent.as_deref().map(text("user_agent.original")));
        if outcome.status != 0 {
            attributes.push(("http.response.status_code", Value::Number(outcome.status.into())));
        }
        let method = if original.is_some() { "HTTP" } else { method };
        let one = One {
            span_id: self.context.span_id,
            parent: request.parent,
            name: &format!("{method} {}", self.series.route),
            kind: SpanKind::Server,
            from: outcome.timeline.begun(),
            to: outcome.timeline.last(),
            error,
        };
        writer.write(encoded, &one, &attributes);
    }

    /// The same, client spans.
    fn client(&self, writer: &Writer<'_>, encoded: &mut Encoded, at: usize, one: &Try) {
        let (method, original) = known_method(self.request.method.as_str());
        let (to, outcome) = one.ended.unwrap_or((self.outcome.timeline.last(), TryOutcome::Failed(CLIENT_GONE)));
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
        let path = self.request.target.split('?').next().unwrap_or_default();
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
        writer.write(encoded, &one, &attributes);
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
    context: &'a TraceContext,
    state: &'a str,
    clock: WallClock,
}

impl Writer<'_> {
    fn write(&self, encoded: &mut Encoded, one: &One<'_>, attributes: &[Attribute<'_>]) {
        let mut attributes = attributes.to_vec();
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
