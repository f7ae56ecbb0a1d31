//! A request as an event.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use http::header::HeaderName;
use pilotlight_lambda::{Request, trace_id};

use crate::options::LambdaOptions;
use crate::outbound::Outbound;
use crate::traces::TRACEPARENT;

const TRACE_ID: HeaderName = HeaderName::from_static("x-amzn-trace-id");

/// The event, and the trace that it belongs to.
pub(super) fn event(options: &LambdaOptions, outbound: &Outbound, body: Option<&[u8]>) -> (Vec<u8>, String) {
    let target = outbound.target();
    let (path, query) = target.split_once('?').map_or((&*target, None), |(path, query)| (path, Some(query)));
    let (ms, trace) = (now_ms(), trace(outbound));
    let fields = fields(outbound, &trace);
    let host = without_port(outbound.host());
    let request = Request {
        function: &options.function,
        method: outbound.head.method.as_str(),
        path,
        query,
        fields: &fields,
        host,
        protocol: outbound.protocol(),
        source_ip: outbound.peer.ip(),
        id: outbound.id.as_str(),
        ms,
        body,
    };
    (options.events.event(&request), trace)
}

/// The trace of a request.
pub(super) fn trace(outbound: &Outbound) -> String {
    let parent = match &outbound.trace {
        Some(trace) => Some(&trace.traceparent[..]),
        None => outbound.head.field(&TRACEPARENT),
    };
    trace_id(outbound.head.field(&TRACE_ID), parent, now_ms(), outbound.id.as_str())
}

/// A trace that begins here.
pub(super) fn new_trace() -> String {
    trace_id(None, None, now_ms(), &super::new_id())
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What a function is told: the client's fields and the gateway's, and two that functions look for.
fn fields(outbound: &Outbound, trace: &str) -> Vec<(String, String)> {
    let mut fields = Vec::with_capacity(16);
    let mut push = |name: &[u8], value: &[&[u8]]| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields.push((text(name).to_ascii_lowercase(), text(&value.concat())));
    };
    if !outbound.host().is_empty() {
        push(b"host", &[outbound.host().as_bytes()]);
    }
    outbound.received_fields(&mut |name, value| {
        if name != TRACE_ID.as_str().as_bytes() {
            push(name, &[value]);
        }
    });
    outbound.own_fields(|name, value| {
        // A function cannot switch to another protocol.
        if !matches!(name, b"connection" | b"upgrade") {
            push(name, value);
        }
    });
    let origin = outbound.origin();
    let port = port(origin.authority).unwrap_or(&origin.scheme.default_port()[1..]);
    push(b"x-forwarded-port", &[port.as_bytes()]);
    push(b"x-amzn-trace-id", &[trace.as_bytes()]);
    fields
}

fn without_port(authority: &str) -> &str {
    match port(authority) {
        Some(port) => &authority[..authority.len() - port.len() - 1],
        None => authority,
    }
}

fn port(authority: &str) -> Option<&str> {
    let (host, port) = authority.rsplit_once(':')?;
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = !host.contains(':') || authority.parse::<SocketAddr>().is_ok();
    (is_port && is_host).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (authority, expected) in [
            ("a.example", ("a.example", None)),
            ("a.example:8080", ("a.example", Some("8080"))),
            ("[::1]:80", ("[::1]", Some("80"))),
            ("[::1]", ("[::1]", None)),
            ("", ("", None)),
        ] {
            assert_eq!((without_port(authority), port(authority)), expected, "{authority}");
        }
    }
}
