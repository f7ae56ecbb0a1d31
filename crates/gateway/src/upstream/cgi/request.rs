//! A request as variables (RFC 3875 §4.1), and what programs have come to expect beside those.

use bytes::BytesMut;
use http::header::CONTENT_LENGTH;
use percent_encoding::percent_decode_str;
use pilotlight_cgi::{Fields, KeepConnection, Protocol, Variables, stdin};
use pilotlight_files::Script;

use super::To;
use crate::outbound::Outbound;
use crate::request_body::RequestBody;
use crate::target::Scheme;
use crate::upstream::UpstreamError;

/// What the gateway calls itself, without its version: no page is to show that.
const SOFTWARE: &[u8] = b"pilotlight";

/// Writes a request up to its body.
pub(super) fn encode(
    to: To<'_>,
    outbound: &Outbound,
    body: Option<&RequestBody>,
    keep: usize,
) -> Result<BytesMut, UpstreamError> {
    let service = || to.pool.service.clone();
    let Ok(length) = length(outbound, body) else {
        return Err(UpstreamError::LengthRequired { service: service(), protocol: to.protocol.name() });
    };
    let mut variables = Variables::new(to.protocol, length);
    let own = to.options.map_or(&[][..], |options| &options.params);
    let mut put = |name: &str, value: &[&[u8]]| {
        if !own.iter().any(|(set, _)| set == name) {
            variables.put(name.as_bytes(), value);
        }
    };
    of_request(outbound, &mut put);
    match outbound.script.as_deref() {
        Some(script) => of_script(script, prefix(outbound), &mut put),
        None => of_program(outbound, &mut put),
    }
    for (name, value) in own {
        variables.put(name.as_bytes(), &[value.as_bytes()]);
    }
    fields(outbound).put(&mut variables);
    let mut out = BytesMut::with_capacity(4096);
    let keep = if keep > 0 { KeepConnection::Yes } else { KeepConnection::No };
    variables.finish(&mut out, keep).map_err(|e| UpstreamError::Refused { service: service(), text: e.to_string() })?;
    if to.protocol == Protocol::FastCgi && body.is_none() {
        stdin(&mut out, b"");
    }
    Ok(out)
}

/// How long the body is. `Err`: nobody knows.
fn length(outbound: &Outbound, body: Option<&RequestBody>) -> Result<Option<u64>, ()> {
    let Some(body) = body else { return Ok(None) };
    let said = outbound.head.field(&CONTENT_LENGTH).and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
    said.or_else(|| body.held_length()).map(Some).ok_or(())
}

fn of_request(outbound: &Outbound, put: &mut impl FnMut(&str, &[&[u8]])) {
    let target = outbound.target();
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let scheme = outbound.origin().scheme;
    put("GATEWAY_INTERFACE", &[b"CGI/1.1"]);
    put("SERVER_SOFTWARE", &[SOFTWARE]);
    put("SERVER_PROTOCOL", &[outbound.protocol().as_bytes()]);
    put("REQUEST_METHOD", &[outbound.head.method.as_str().as_bytes()]);
    // What the client has asked for (Apache, nginx): a program makes URLs of it.
    let asked = if outbound.stripped.is_some() { outbound.head.target() } else { &*target };
    put("REQUEST_URI", &[asked.as_bytes()]);
    put("QUERY_STRING", &[query.as_bytes()]);
    put("REQUEST_SCHEME", &[scheme.as_str().as_bytes()]);
    if scheme == Scheme::Https {
        put("HTTPS", &[b"on"]);
    }
    let (name, port) = host_and_port(outbound.host());
    put("SERVER_NAME", &[if name.is_empty() { b"localhost" } else { name.as_bytes() }]);
    put("SERVER_PORT", &[port.unwrap_or(&scheme.default_port()[1..]).as_bytes()]);
    let (_, peer_port) = host_and_port(&outbound.peer);
    put("REMOTE_ADDR", &[outbound.peer.ip().as_bytes()]);
    if let Some(port) = peer_port {
        put("REMOTE_PORT", &[port.as_bytes()]);
    }
    // php-cgi runs nothing without it (`cgi.force_redirect`).
    put("REDIRECT_STATUS", &[b"200"]);
}

/// What was cut off the path that the client has asked for.
fn prefix(outbound: &Outbound) -> &[u8] {
    outbound.stripped.as_deref().unwrap_or("").as_bytes()
}

/// A script of a folder. Without path info there is no PATH_INFO: an empty one is what CVE-2019-11043 began with.
fn of_script(script: &Script, prefix: &[u8], put: &mut impl FnMut(&str, &[&[u8]])) {
    let (root, names, info) = (script.root.as_os_str().as_encoded_bytes(), script.names.as_bytes(), &script.path_info);
    put("DOCUMENT_ROOT", &[root]);
    put("SCRIPT_FILENAME", &[root, b"/", names]);
    put("SCRIPT_NAME", &[prefix, b"/", names]);
    put("DOCUMENT_URI", &[prefix, b"/", names, info.as_bytes()]);
    if !info.is_empty() {
        put("PATH_INFO", &[info.as_bytes()]);
    }
}

/// The program is the script: what is before its path was cut off by the route.
fn of_program(outbound: &Outbound, put: &mut impl FnMut(&str, &[&[u8]])) {
    let target = outbound.target();
    let path = target.split_once('?').map_or(&*target, |(path, _)| path);
    let path: Vec<u8> = percent_decode_str(path).collect();
    put("SCRIPT_NAME", &[prefix(outbound)]);
    put("PATH_INFO", &[&path]);
}

fn fields(outbound: &Outbound) -> Fields {
    let mut fields = Fields::new();
    if !outbound.host().is_empty() {
        fields.add(b"host", &[outbound.host().as_bytes()]);
    }
    outbound.received_fields(&mut |name, value| fields.add(name, &[value]));
    outbound.own_fields(|name, value| {
        // A program cannot switch to another protocol.
        if !matches!(name, b"connection" | b"upgrade") {
            fields.add(name, value);
        }
    });
    fields
}

/// `host:port`, `[v6]:port`, or either alone.
fn host_and_port(text: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (&text[..host.len() + 2], rest.strip_prefix(':'));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        for (text, expected) in [
            ("a.example", ("a.example", None)),
            ("a.example:8080", ("a.example", Some("8080"))),
            ("[::1]", ("[::1]", None)),
            ("[::1]:80", ("[::1]", Some("80"))),
            ("::1", ("::1", None)),
            ("", ("", None)),
        ] {
            assert_eq!(host_and_port(text), expected, "{text}");
        }
    }
}
