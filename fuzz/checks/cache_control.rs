//! Header fields of a request, its answer and a later request, as lines `name: value` with an empty line between the
//! three: whatever they say, nothing panics and nothing that must stay private is given to somebody else.

use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use http::{Method, StatusCode};
use pilotlight_cache::{
    Cache, CacheOptions, Decision, Key, Lookup, RequestDirectives, ResponseDirectives, RouteRules, Timestamp, Timing,
    Turn,
};

const KEY: Key<'_> = Key { scheme: "http", authority: "fuzz.test", target: "/", extra: "" };
const NOW: Timestamp = Timestamp(1_700_000_000_000);
const BODY: &[u8] = b"the answer";

pub(crate) fn check(data: &[u8]) {
    let mut blocks = blocks(data).into_iter();
    let (first, answer, second) =
        (blocks.next().unwrap_or_default(), blocks.next().unwrap_or_default(), blocks.next().unwrap_or_default());
    directives(&answer);
    let _ = RequestDirectives::parse(&first);
    let Ok(cache) = Cache::new(CacheOptions::default()) else {
        return;
    };
    let stored = store(&cache, &first, &answer);
    if stored {
        assert!(!answer.contains_key(SET_COOKIE), "an answer with Set-Cookie was stored");
        let read = ResponseDirectives::parse(&answer);
        // RFC 9111 §5.2.2.3: `must-understand` makes a cache that understands the status ignore `no-store`.
        assert!(!read.private && (!read.no_store || read.must_understand), "stored against {read}");
        let no_store = says(&answer, "no-store") && !says(&answer, "must-understand");
        assert!(!no_store && !says(&answer, "private"), "stored against {:?}", answer.get(CACHE_CONTROL));
    }
    if let Lookup::Hit(hit) = cache.lookup(&KEY, &Method::GET, &second, NOW) {
        assert!(stored, "a hit for what was not stored");
        assert!(shareable(&first, &answer, &second), "one user's answer was given to another");
        let response = hit.response(&Method::GET, &second, NOW);
        assert!(matches!(response.status(), StatusCode::OK | StatusCode::NOT_MODIFIED));
        assert!(response.headers().contains_key("cache-status"), "an answer without Cache-Status");
    }
}

/// Bare directives that are written and read again are the same.
fn directives(answer: &HeaderMap) {
    let read = ResponseDirectives::parse(answer);
    if read.malformed {
        return;
    }
    if let Ok(value) = HeaderValue::try_from(read.to_string()) {
        let again = ResponseDirectives::parse(&HeaderMap::from_iter([(CACHE_CONTROL, value)]));
        assert_eq!(again, read, "`{read}` reads as something else");
    }
}

fn store(cache: &Cache, request: &HeaderMap, answer: &HeaderMap) -> bool {
    let Turn::Leader(fill) = cache.begin(&KEY, &Method::GET, request, NOW) else {
        return false;
    };
    let timing = Timing { sent: NOW, received: NOW };
    match fill.response(request, StatusCode::OK, answer, timing, RouteRules::default()) {
        Decision::Store(mut recorder) => recorder.push(BODY).is_ok() && recorder.finish(NOW).is_ok(),
        Decision::Pass(_) => false,
    }
}

/// RFC 9111 §3.5, read naively: what was answered to somebody may be shared only when the service says so.
fn shareable(first: &HeaderMap, answer: &HeaderMap, second: &HeaderMap) -> bool {
    let personal = |name| first.contains_key(&name) && first.get(&name) != second.get(&name);
    let said = ["public", "s-maxage", "must-revalidate"].iter().any(|word| says(answer, word));
    let explicit = said || says(answer, "max-age") || answer.contains_key("expires");
    (!personal(AUTHORIZATION) || said) && (!personal(COOKIE) || explicit)
}

/// Whether some member of Cache-Control begins with the word. Members in quoted strings do not count.
fn says(answer: &HeaderMap, word: &str) -> bool {
    answer.get_all(CACHE_CONTROL).iter().any(|line| {
        let text = String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase();
        let outside = text.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
        outside.split(',').any(|member| member.split('=').next().is_some_and(|name| name.trim() == word))
    })
}

fn blocks(data: &[u8]) -> Vec<HeaderMap> {
    let mut blocks = vec![HeaderMap::new()];
    for line in data.split(|&byte| byte == b'\n') {
        if line.is_empty() {
            blocks.push(HeaderMap::new());
            continue;
        }
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(line[colon + 1..].trim_ascii()))
        else {
            continue;
        };
        if let Some(block) = blocks.last_mut().filter(|block| block.len() < 64) {
            block.append(name, value);
        }
    }
    blocks
}
