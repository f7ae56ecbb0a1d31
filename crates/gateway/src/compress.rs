//! Answers of services, brought into a content coding (RFC 9110 §8.4) on routes that say so.
//!
//! ```text
//! request:   Accept-Encoding ──▶ the one coding that is chosen, or `identity` ──▶ memory, Redis, service
//! response:  service ──▶ encoded, `Vary: Accept-Encoding` ──▶ stored, as it is sent
//! ```
//!
//! `Accept-Encoding` is replaced before anything is looked up, so there is one variant of a stored response for each
//! coding, however clients word their field, and a hit costs no compression (docs/adr/0033). It is also what the
//! service sees: one that encodes by itself still may.
//!
//! RFC 9110 §8.8.1: what was encoded is not byte for byte what a strong validator stands for, so it becomes weak. A
//! service compares it weakly with its own when a client, or the cache, asks by it (§13.1.2), and needs to know
//! nothing of the coding.

use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, RANGE, VARY,
};
use http::{HeaderMap, Method, StatusCode};
use pilotlight_cache::RequestFields;
use pilotlight_content_coding::{Accepted, Coding, CompressOptions, Encoder};

use crate::body::ResponseBody;
use crate::head::Head;
use crate::options::RouteSpec;
use crate::response::ResponseFields;
use crate::upstream::ServiceResponse;

mod encoded;
mod permit;

use encoded::Encoded;
pub(crate) use permit::Encoding;
use permit::Permit;

/// What the chosen field says when nothing is to be encoded.
const IDENTITY: &str = "identity";
/// Fields about the bytes of a body (RFC 9530, and its predecessors): it stays as it is.
const DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// What `Accept-Encoding` becomes on a route: the name of a coding, or `identity`.
pub(crate) fn chosen(options: &CompressOptions, fields: &impl RequestFields) -> &'static str {
    // A part of what was encoded would be of no use beside parts of what was not. RFC 9111 §5.2.1.6: no-transform.
    if fields.has(&RANGE) || fields.lines(&CACHE_CONTROL).any(says_no_transform) {
        return IDENTITY;
    }
    let mut accepted = Accepted::default();
    fields.lines(&ACCEPT_ENCODING).for_each(|value| accepted.add(value));
    let codings = options.algorithms.iter().map(|coding| (*coding, ()));
    accepted.choose(codings).map_or(IDENTITY, |(coding, ())| coding.name())
}

/// Replaces `Accept-Encoding` by what is chosen.
pub(crate) fn normalise(route: &RouteSpec, headers: &mut HeaderMap) {
    if let Some(options) = &route.compress {
        let chosen = HeaderValue::from_static(chosen(options, headers));
        headers.insert(ACCEPT_ENCODING, chosen);
    }
}

/// The same in a head.
pub(crate) fn normalise_head(route: &RouteSpec, head: &mut Head) {
    if let Some(options) = &route.compress {
        let chosen = HeaderValue::from_static(chosen(options, head.headers()));
        head.set(ACCEPT_ENCODING, chosen);
    }
}

/// What a service has answered, in the coding that was chosen, if it gains.
pub(crate) fn apply(
    encoding: &Encoding,
    options: &CompressOptions,
    head: &Head,
    answer: ServiceResponse,
) -> ServiceResponse {
    let ServiceResponse { status, mut fields, body, upgraded } = answer;
    let coding = head.field(&ACCEPT_ENCODING).and_then(Coding::of_name);
    let is_head = head.method == Method::HEAD;
    let mut encoded = None;
    if status == StatusCode::NOT_MODIFIED {
        // What the whole response would say (RFC 9110 §15.4.5): it is about what was stored encoded.
        vary(&mut fields);
        if coding.is_some() {
            weaken(&mut fields);
        }
    } else if upgraded.is_none() && has_whole_content(status) && gains(options, &fields, &body, is_head) {
        vary(&mut fields);
        encoded = coding.and_then(|coding| encode(encoding, coding, &fields, &body, is_head));
    }
    let body = match encoded {
        None => body,
        Some(form) => {
            describe(&mut fields, &form);
            form.body(body)
        }
    };
    ServiceResponse { status, fields, body, upgraded }
}

/// How a body is sent.
enum Form {
    /// It is not: the response is to HEAD.
    Head(Coding),
    Whole(Coding, bytes::Bytes),
    Stream(Coding, Box<Encoder>, Permit),
}

impl Form {
    fn coding(&self) -> Coding {
        match self {
            Self::Head(coding) | Self::Whole(coding, _) | Self::Stream(coding, ..) => *coding,
        }
    }

    fn body(self, source: ResponseBody) -> ResponseBody {
        match self {
            Self::Head(_) => source,
            Self::Whole(_, bytes) => ResponseBody::full(bytes),
            Self::Stream(_, encoder, permit) => ResponseBody::Streamed(Box::new(Encoded::new(source, encoder, permit))),
        }
    }
}

/// `None`: it goes out as it is.
fn encode(
    encoding: &Encoding,
    coding: Coding,
    fields: &ResponseFields,
    body: &ResponseBody,
    is_head: bool,
) -> Option<Form> {
    if is_head {
        return Some(Form::Head(coding));
    }
    let permit = encoding.permit()?;
    match body {
        ResponseBody::Empty => None,
        ResponseBody::Full(data) => {
            let bytes = Encoder::whole(coding, data).ok().filter(|bytes| bytes.len() < data.len())?;
            Some(Form::Whole(coding, bytes))
        }
        ResponseBody::Stored(_) | ResponseBody::Live(_) | ResponseBody::Files(_) | ResponseBody::Streamed(_) => {
            let length = fields.content_length().or_else(|| body.length());
            Some(Form::Stream(coding, Box::new(Encoder::new(coding, length).ok()?), permit))
        }
    }
}

fn describe(fields: &mut ResponseFields, form: &Form) {
    weaken(fields);
    let map = fields.map();
    map.remove(CONTENT_LENGTH);
    // Ranges would be of other bytes than the service means.
    map.remove(ACCEPT_RANGES);
    map.insert(CONTENT_ENCODING, HeaderValue::from_static(form.coding().name()));
}

/// RFC 9110 §15.3.7: a part stays a part of what it is a part of.
fn has_whole_content(status: StatusCode) -> bool {
    let without = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::PARTIAL_CONTENT];
    !status.is_informational() && !without.contains(&status)
}

fn gains(options: &CompressOptions, fields: &ResponseFields, body: &ResponseBody, is_head: bool) -> bool {
    let length = fields.content_length().or_else(|| body.length().filter(|_| !is_head));
    let mut is_untouched = fields.get(&CONTENT_ENCODING).is_none();
    fields.all(&CACHE_CONTROL, |value| is_untouched &= !says_no_transform(value));
    is_untouched
        && length.is_none_or(|length| length >= options.min_size)
        && fields.get(&CONTENT_TYPE).is_some_and(|value| options.takes(value))
        && !DIGESTS.iter().any(|name| fields.get(name).is_some())
}

fn vary(fields: &mut ResponseFields) {
    let mut varies = false;
    fields.all(&VARY, |value| {
        varies |= members(value).any(|member| member == b"*" || member.eq_ignore_ascii_case(b"accept-encoding"));
    });
    if !varies {
        fields.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

fn weaken(fields: &mut ResponseFields) {
    let weak = fields.get(&ETAG).filter(|tag| tag.starts_with(b"\"")).map(|tag| [b"W/", tag].concat());
    if let Some(weak) = weak {
        fields.set(ETAG, &weak);
    }
}

/// RFC 9110 §7.7.
fn says_no_transform(value: &[u8]) -> bool {
    members(value).any(|member| member.eq_ignore_ascii_case(b"no-transform"))
}

fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn one_coding_or_none() {
        let options = CompressOptions::default();
        let check = |pairs: &[(&'static str, &'static str)], expected: &str| {
            assert_eq!(chosen(&options, &fields(pairs)), expected, "{pairs:?}");
        };
        check(&[], "identity");
        check(&[("accept-encoding", "gzip, deflate, br, zstd")], "zstd");
        check(&[("accept-encoding", "gzip"), ("range", "bytes=0-1")], "identity");
        check(&[("accept-encoding", "gzip"), ("cache-control", "max-age=0, no-transform")], "identity");
        check(&[("accept-encoding", "deflate")], "identity");
        for name in ["zstd", "br", "gzip", "identity"] {
            check(&[("accept-encoding", name)], name); // twice is as once
        }
    }

    fn answered(head: &Head, status: u16, pairs: &[(&'static str, &'static str)], text: &str) -> ServiceResponse {
        let options = CompressOptions { min_size: 10, ..CompressOptions::default() };
        let status = StatusCode::from_u16(status).unwrap();
        let body = ResponseBody::full(bytes::Bytes::copy_from_slice(text.as_bytes()));
        let answer = ServiceResponse { status, fields: fields(pairs).into(), body, upgraded: None };
        apply(&Encoding::default(), &options, head, answer)
    }

    #[track_caller]
    fn check(pairs: &[(&'static str, &'static str)], status: u16, length: usize, coding: Option<&str>, varies: bool) {
        let head = Head::get("/".into(), "a".into(), fields(&[("accept-encoding", "br")]));
        let mut answer = answered(&head, status, pairs, &"a".repeat(length));
        let map = answer.fields.map();
        assert_eq!(map.get(CONTENT_ENCODING).map(HeaderValue::as_bytes), coding.map(str::as_bytes), "{pairs:?}");
        assert_eq!(map.get_all(VARY).iter().any(|value| value == "accept-encoding"), varies, "{pairs:?}");
        assert_eq!(answer.body.length().unwrap() < length as u64, coding.is_some(), "{pairs:?}");
    }

    #[test]
    fn what_is_encoded() {
        check(&[("content-type", "text/plain")], 200, 100, Some("br"), true);
        check(&[("content-type", "text/plain")], 404, 100, Some("br"), true);
        check(&[("content-type", "text/plain")], 200, 9, None, false);
        check(&[("content-type", "image/png")], 200, 100, None, false);
        check(&[], 200, 100, None, false);
        check(&[("content-type", "text/plain"), ("cache-control", "public, No-Transform")], 200, 100, None, false);
        check(&[("content-type", "text/plain"), ("repr-digest", "x")], 200, 100, None, false);
        check(&[("content-type", "text/plain")], 206, 100, None, false);
    }

    #[test]
    fn the_least_size_is_encoded() {
        let options = CompressOptions { min_size: 10, ..CompressOptions::default() };
        let text = || ResponseFields::from(fields(&[("content-type", "text/plain")]));
        let gains = |length: usize| gains(&options, &text(), &ResponseBody::full(vec![0; length].into()), false);
        assert_eq!([9, 10, 11].map(gains), [false, true, true]);
    }

    #[test]
    fn what_is_encoded_already_stays_so() {
        let head = Head::get("/".into(), "a".into(), fields(&[("accept-encoding", "br")]));
        let told = [("content-type", "text/plain"), ("content-encoding", "x")];
        let mut answer = answered(&head, 200, &told, &"a".repeat(100));
        assert_eq!(answer.fields.map()[CONTENT_ENCODING], "x");
        assert_eq!(answer.body.length(), Some(100));
    }

    #[test]
    fn what_it_says_then() {
        let head = Head::get("/".into(), "a".into(), fields(&[("accept-encoding", "gzip")]));
        let told =
            [("content-type", "text/plain"), ("etag", "\"a\""), ("content-length", "100"), ("accept-ranges", "bytes")];
        let mut answer = answered(&head, 200, &told, &"a".repeat(100));
        let map = answer.fields.map();
        assert_eq!(map[ETAG], "W/\"a\"");
        assert!(!map.contains_key(CONTENT_LENGTH) && !map.contains_key(ACCEPT_RANGES));
        let mut not_modified = answered(&head, 304, &[("etag", "\"a\"")], "");
        assert_eq!(not_modified.fields.map()[ETAG], "W/\"a\"");
        assert_eq!(not_modified.fields.map()[VARY], "accept-encoding");
        let plain = Head::get("/".into(), "a".into(), fields(&[("accept-encoding", "identity")]));
        let mut answer = answered(&plain, 200, &told, &"a".repeat(100));
        let map = answer.fields.map();
        assert_eq!(map[ETAG], told[1].1);
        assert_eq!(map[VARY], "accept-encoding");
    }
}
