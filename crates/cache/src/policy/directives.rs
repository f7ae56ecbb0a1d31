//! `Cache-Control` of requests and responses (RFC 9111 §5.2) and `Pragma` (§5.4).
//!
//! Parsing is one pass over the bytes, allocates nothing, accepts anything, and errs on the strict side: a directive
//! that restricts counts by its name alone, one that permits must be well-formed.

use std::fmt;

use http::header::{CACHE_CONTROL, PRAGMA};
use http::{HeaderMap, HeaderValue};

/// RFC 9111 §1.2.2: a larger number of seconds is read as 2^31.
pub(super) const MAX_DELTA_SECONDS: u64 = 1 << 31;

/// A directive whose argument is a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seconds {
    /// The directive is not there.
    #[default]
    Absent,
    /// One value, or the same value several times.
    Valid(u64),
    /// Not a number, or several that differ.
    Invalid,
}

impl Seconds {
    fn add(&mut self, value: Option<&[u8]>) {
        // RFC 9111 §4.2.1: of several values the first one is used, or the response is considered stale; invalid
        // freshness information makes it stale. Values that differ are therefore invalid.
        *self = match (*self, value.and_then(delta_seconds)) {
            (Self::Absent, Some(seconds)) => Self::Valid(seconds),
            (Self::Valid(first), Some(seconds)) if first == seconds => Self::Valid(first),
            _ => Self::Invalid,
        };
    }

    /// The number, if there is a valid one.
    pub(crate) fn valid(self) -> Option<u64> {
        match self {
            Self::Valid(seconds) => Some(seconds),
            Self::Absent | Self::Invalid => None,
        }
    }

    fn write(self, name: &str, out: &mut Vec<String>) {
        match self {
            Self::Absent => {}
            Self::Valid(seconds) => out.push(format!("{name}={seconds}")),
            Self::Invalid => out.push(format!("{name}=?")),
        }
    }
}

/// The directives of a response that a shared cache obeys. `immutable` and unknown ones are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResponseDirectives {
    /// §5.2.2.5
    pub no_store: bool,
    /// §5.2.2.7; with a list of fields it counts for the whole response (stricter than the RFC asks).
    pub private: bool,
    /// §5.2.2.4; with a list of fields it counts for the whole response (stricter than the RFC asks).
    pub no_cache: bool,
    /// §5.2.2.2
    pub must_revalidate: bool,
    /// §5.2.2.8
    pub proxy_revalidate: bool,
    /// §5.2.2.9
    pub public: bool,
    /// §5.2.2.3
    pub must_understand: bool,
    /// §5.2.2.1
    pub max_age: Seconds,
    /// §5.2.2.10
    pub s_maxage: Seconds,
    /// RFC 5861 §3
    pub stale_while_revalidate: Seconds,
    /// RFC 5861 §4
    pub stale_if_error: Seconds,
    /// Some member could not be parsed, so a restriction may have been missed.
    pub malformed: bool,
}

impl ResponseDirectives {
    /// Reads every `Cache-Control` line of a response.
    pub fn parse(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        for line in headers.get_all(CACHE_CONTROL) {
            let mut members = Members::new(line);
            for member in &mut members {
                found.add(&member);
            }
            found.malformed |= members.malformed;
        }
        found
    }

    fn add(&mut self, member: &Member<'_>) {
        let bare = member.value.is_none();
        match known(member.name) {
            Name::NoStore => self.no_store = true,
            Name::Private => self.private = true,
            Name::NoCache => self.no_cache = true,
            Name::MustRevalidate => self.must_revalidate = true,
            Name::ProxyRevalidate => self.proxy_revalidate = true,
            Name::Public => self.public |= bare,
            Name::MustUnderstand => self.must_understand |= bare,
            Name::MaxAge => self.max_age.add(member.value),
            Name::SMaxage => self.s_maxage.add(member.value),
            Name::StaleWhileRevalidate => self.stale_while_revalidate.add(member.value),
            Name::StaleIfError => self.stale_if_error.add(member.value),
            Name::OnlyIfCached | Name::MinFresh | Name::MaxStale | Name::Unknown => {}
        }
    }
}

/// The canonical spelling; parsing it gives the same directives again unless `malformed`.
impl fmt::Display for ResponseDirectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            (self.no_store, "no-store"),
            (self.private, "private"),
            (self.no_cache, "no-cache"),
            (self.must_revalidate, "must-revalidate"),
            (self.proxy_revalidate, "proxy-revalidate"),
            (self.public, "public"),
            (self.must_understand, "must-understand"),
        ];
        let mut members: Vec<String> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| (*name).into()).collect();
        self.max_age.write("max-age", &mut members);
        self.s_maxage.write("s-maxage", &mut members);
        self.stale_while_revalidate.write("stale-while-revalidate", &mut members);
        self.stale_if_error.write("stale-if-error", &mut members);
        f.write_str(&members.join(", "))
    }
}

/// How stale a response a request accepts (§5.2.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxStale {
    /// `max-stale` without a value.
    Any,
    /// At most so many seconds beyond its freshness lifetime.
    Seconds(u64),
}

/// The directives of a request that a cache obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestDirectives {
    /// §5.2.1.5
    pub no_store: bool,
    /// §5.2.1.4, or `Pragma: no-cache` without any `Cache-Control` (§5.4).
    pub no_cache: bool,
    /// §5.2.1.7
    pub only_if_cached: bool,
    /// §5.2.1.1; an invalid value reads as 0.
    pub max_age: Option<u64>,
    /// §5.2.1.3; an invalid value reads as the largest.
    pub min_fresh: Option<u64>,
    /// §5.2.1.2; an invalid value reads as absent.
    pub max_stale: Option<MaxStale>,
    /// RFC 5861 §4; an invalid value reads as absent.
    pub stale_if_error: Option<u64>,
}

impl RequestDirectives {
    /// Reads every `Cache-Control` line of a request, or `Pragma` if there is none.
    pub fn parse(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        let mut lines = headers.get_all(CACHE_CONTROL).iter().peekable();
        if lines.peek().is_none() {
            // RFC 9111 §5.4: in the absence of Cache-Control, "Pragma: no-cache" is "Cache-Control: no-cache".
            found.no_cache = headers.get_all(PRAGMA).iter().any(|line| {
                Members::new(line).any(|member| known(member.name) == Name::NoCache && member.value.is_none())
            });
            return found;
        }
        for line in lines {
            let mut members = Members::new(line);
            for member in &mut members {
                found.add(&member);
            }
            // What cannot be read may have been a wish for a fresh answer.
            found.no_cache |= members.malformed;
        }
        found
    }

    /// The request insists on a response that is made or validated for it.
    pub(crate) fn wants_validation(&self) -> bool {
        self.no_cache || self.max_age == Some(0)
    }

    fn add(&mut self, member: &Member<'_>) {
        let seconds = member.value.and_then(delta_seconds);
        // The strictest of several values: the smallest age, the longest remaining freshness, the least staleness.
        match known(member.name) {
            Name::NoStore => self.no_store = true,
            Name::NoCache => self.no_cache = true,
            Name::OnlyIfCached => self.only_if_cached = true,
            Name::MaxAge => {
                let seconds = seconds.unwrap_or(0);
                self.max_age = Some(self.max_age.map_or(seconds, |before| before.min(seconds)));
            }
            Name::MinFresh => self.min_fresh = self.min_fresh.max(seconds.or(Some(MAX_DELTA_SECONDS))),
            Name::MaxStale => self.max_stale = stricter(self.max_stale, member.value.is_none(), seconds),
            Name::StaleIfError => {
                self.stale_if_error = match (self.stale_if_error, seconds) {
                    (Some(before), Some(seconds)) => Some(before.min(seconds)),
                    (before, seconds) => before.or(seconds),
                };
            }
            Name::Private
            | Name::MustRevalidate
            | Name::ProxyRevalidate
            | Name::Public
            | Name::MustUnderstand
            | Name::SMaxage
            | Name::StaleWhileRevalidate
            | Name::Unknown => {}
        }
    }
}

fn stricter(before: Option<MaxStale>, bare: bool, seconds: Option<u64>) -> Option<MaxStale> {
    let this = match (bare, seconds) {
        (true, _) => MaxStale::Any,
        (false, Some(seconds)) => MaxStale::Seconds(seconds),
        (false, None) => MaxStale::Seconds(0),
    };
    match (before, this) {
        (Some(MaxStale::Seconds(a)), MaxStale::Seconds(b)) => Some(MaxStale::Seconds(a.min(b))),
        (Some(before @ MaxStale::Seconds(_)), MaxStale::Any) => Some(before),
        (Some(MaxStale::Any) | None, this) => Some(this),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    NoStore,
    Private,
    NoCache,
    MustRevalidate,
    ProxyRevalidate,
    Public,
    MustUnderstand,
    MaxAge,
    SMaxage,
    OnlyIfCached,
    MinFresh,
    MaxStale,
    StaleWhileRevalidate,
    StaleIfError,
    Unknown,
}

/// RFC 9111 §5.2: directives are identified by a token, case-insensitively.
pub(super) fn known(name: &[u8]) -> Name {
    const NAMES: [(&[u8], Name); 14] = [
        (b"max-age", Name::MaxAge),
        (b"no-cache", Name::NoCache),
        (b"no-store", Name::NoStore),
        (b"public", Name::Public),
        (b"private", Name::Private),
        (b"s-maxage", Name::SMaxage),
        (b"must-revalidate", Name::MustRevalidate),
        (b"proxy-revalidate", Name::ProxyRevalidate),
        (b"must-understand", Name::MustUnderstand),
        (b"only-if-cached", Name::OnlyIfCached),
        (b"min-fresh", Name::MinFresh),
        (b"max-stale", Name::MaxStale),
        (b"stale-while-revalidate", Name::StaleWhileRevalidate),
        (b"stale-if-error", Name::StaleIfError),
    ];
    NAMES.iter().find(|(text, _)| text.eq_ignore_ascii_case(name)).map_or(Name::Unknown, |(_, name)| *name)
}

/// RFC 9111 §1.2.2: `delta-seconds = 1*DIGIT`.
fn delta_seconds(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |sum, byte| {
        byte.is_ascii_digit().then(|| (sum * 10 + u64::from(byte - b'0')).min(MAX_DELTA_SECONDS))
    })
}

/// One `name` or `name=value`; the value of a quoted string comes without its quotes and with its escapes.
struct Member<'a> {
    name: &'a [u8],
    value: Option<&'a [u8]>,
}

/// The members of one line: `#( token [ "=" ( token / quoted-string ) ] )`.
struct Members<'a> {
    rest: &'a [u8],
    malformed: bool,
}

impl<'a> Members<'a> {
    fn new(line: &'a HeaderValue) -> Self {
        Self { rest: line.as_bytes(), malformed: false }
    }

    /// Reads what follows `=`, up to the comma or the end.
    fn value(&mut self) -> &'a [u8] {
        let Some(quoted) = self.rest.strip_prefix(b"\"") else {
            let value = self.take_until(|byte| byte == b',');
            // A quote inside a token may hide a comma: no telling where the member ends.
            self.malformed |= value.contains(&b'"');
            // A space before the value belongs to it, which makes a number invalid (§5.2 has no space around "=").
            return value.trim_ascii_end();
        };
        let Some(end) = quote_end(quoted) else {
            self.malformed = true;
            self.rest = &[];
            return quoted;
        };
        self.rest = quoted.get(end + 1..).unwrap_or_default();
        let garbage = self.take_until(|byte| byte == b',');
        self.malformed |= !garbage.trim_ascii().is_empty();
        quoted.get(..end).unwrap_or_default()
    }

    fn take_until(&mut self, stop: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| stop(*byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        // RFC 9110 §5.6.1.2: empty list elements are ignored.
        self.take_until(|byte| !matches!(byte, b' ' | b'\t' | b','));
        if self.rest.is_empty() {
            return None;
        }
        let raw = self.take_until(|byte| matches!(byte, b',' | b'='));
        let name = raw.trim_ascii_end();
        self.malformed |= name.is_empty() || name.contains(&b'"');
        let value = match self.rest.strip_prefix(b"=") {
            None => None,
            Some(after) => {
                self.rest = after;
                let value = self.value();
                // "max-age =60" is not "max-age=60": the name counts, its number does not.
                Some(if raw.len() == name.len() { value } else { b"?" })
            }
        };
        Some(Member { name, value })
    }
}

/// Where the quoted string ends, escapes skipped.
fn quote_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        match bytes.get(at) {
            Some(b'"') => return Some(at),
            _ => at += 2,
        }
    }
}

#[cfg(test)]
mod tests;
