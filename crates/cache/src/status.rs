//! `Cache-Status` (RFC 9211): what the cache did with a request, told to whoever reads the response.

use std::cell::RefCell;
use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::policy::{Forward, Unstored};

pub(crate) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The name of this cache in `Cache-Status`.
const NAME: &str = "pilotlight";

/// One member of `Cache-Status`. A response from the store has its member already ([`crate::Stored::answer`]); every
/// other response gets one built here.
///
/// ```
/// use pilotlight_cache::{CacheStatus, Forward};
/// let status = CacheStatus::forwarded(Forward::UriMiss).answered(http::StatusCode::OK).stored();
/// assert_eq!(status.value(), "pilotlight; fwd=uri-miss; fwd-status=200; stored");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStatus {
    source: Source,
    status: Option<StatusCode>,
    ttl_s: Option<i64>,
    stored: bool,
    collapsed: bool,
    detail: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Hit,
    Forwarded(Forward),
    /// Made by the gateway itself.
    Neither,
}

impl CacheStatus {
    /// Answered from the store, with so many seconds of freshness left, negative when stale.
    pub fn hit(ttl_s: i64) -> Self {
        Self { ttl_s: Some(ttl_s), ..Self::new(Source::Hit) }
    }

    /// Answered from the store with a stale response, which is being revalidated (RFC 5861 §3).
    pub fn stale_while_revalidated(ttl_s: i64) -> Self {
        Self { detail: Some("stale-while-revalidate"), ..Self::hit(ttl_s) }
    }

    /// Answered from the store after all, as the service failed (RFC 5861 §4).
    pub fn stale_if_error(self, ttl_s: i64) -> Self {
        Self { ttl_s: Some(ttl_s), detail: Some("stale-if-error"), ..self }
    }

    /// Sent to the service for this reason.
    pub fn forwarded(why: Forward) -> Self {
        Self { detail: why.detail(), ..Self::new(Source::Forwarded(why)) }
    }

    /// Neither answered from the store nor sent on, as for `only-if-cached` (504). `detail` is a token.
    pub fn refused(detail: &'static str) -> Self {
        Self { detail: Some(detail), ..Self::new(Source::Neither) }
    }

    /// The status that the service answered (`fwd-status`).
    pub fn answered(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// The response is being stored.
    pub fn stored(self) -> Self {
        Self { stored: true, ..self }
    }

    /// The response is not stored, for this reason (`detail`).
    pub fn unstored(self, why: Unstored) -> Self {
        Self { detail: self.detail.or(Some(why.as_str())), ..self }
    }

    /// More about it (`detail`), a token.
    pub fn detailed(self, detail: &'static str) -> Self {
        Self { detail: Some(detail), ..self }
    }

    /// The request waited for another one and shares its response.
    pub fn collapsed(self) -> Self {
        Self { collapsed: true, ..self }
    }

    /// The remaining freshness lifetime in seconds.
    pub fn ttl(self, ttl_s: i64) -> Self {
        Self { ttl_s: Some(ttl_s), ..self }
    }

    /// Adds this member behind those of caches nearer to the service (RFC 9211 §2).
    pub fn append_to(&self, headers: &mut HeaderMap) {
        headers.append(CACHE_STATUS, self.value());
    }

    /// The member as a field value. Those of one route are mostly the same, so each thread keeps its last one that has
    /// no time in it.
    pub fn value(&self) -> HeaderValue {
        thread_local! {
            static LAST: RefCell<Option<(CacheStatus, HeaderValue)>> = const { RefCell::new(None) };
        }
        if self.ttl_s.is_some() {
            return self.made();
        }
        LAST.with_borrow_mut(|last| match last {
            Some((status, value)) if status == self => value.clone(),
            last => last.insert((*self, self.made())).1.clone(),
        })
    }

    fn made(&self) -> HeaderValue {
        // Everything written is ASCII from this file, so the fallback is never taken.
        HeaderValue::from_str(&self.text()).unwrap_or(HeaderValue::from_static(NAME))
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(64);
        text.push_str(NAME);
        match self.source {
            Source::Hit => text.push_str("; hit"),
            Source::Forwarded(why) => parameter(&mut text, "fwd", why.as_str()),
            Source::Neither => {}
        }
        if let Some(status) = self.status {
            parameter(&mut text, "fwd-status", status.as_str());
        }
        if let Some(ttl) = self.ttl_s {
            // Writing to a String cannot fail.
            let _ = write!(text, "; ttl={ttl}");
        }
        if self.stored {
            text.push_str("; stored");
        }
        if self.collapsed {
            text.push_str("; collapsed");
        }
        if let Some(detail) = self.detail {
            parameter(&mut text, "detail", detail);
        }
        text
    }

    fn new(source: Source) -> Self {
        Self { source, status: None, ttl_s: None, stored: false, collapsed: false, detail: None }
    }
}

fn parameter(text: &mut String, name: &str, value: &str) {
    text.extend(["; ", name, "=", value]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: CacheStatus, expected: &str) {
        assert_eq!(status.value(), expected);
    }

    #[test]
    fn spellings() {
        check(CacheStatus::hit(30), "pilotlight; hit; ttl=30");
        check(CacheStatus::hit(30).detailed("redis"), "pilotlight; hit; ttl=30; detail=redis");
        check(CacheStatus::hit(-4), "pilotlight; hit; ttl=-4");
        check(CacheStatus::forwarded(Forward::UriMiss).collapsed(), "pilotlight; fwd=uri-miss; collapsed");
        check(CacheStatus::forwarded(Forward::VaryMiss), "pilotlight; fwd=vary-miss");
        check(CacheStatus::stale_while_revalidated(-2), "pilotlight; hit; ttl=-2; detail=stale-while-revalidate");
        let failed = CacheStatus::forwarded(Forward::Stale).answered(StatusCode::SERVICE_UNAVAILABLE);
        check(failed.stale_if_error(-9), "pilotlight; fwd=stale; fwd-status=503; ttl=-9; detail=stale-if-error");
        check(CacheStatus::forwarded(Forward::Request), "pilotlight; fwd=request");
        check(
            CacheStatus::forwarded(Forward::Stale).answered(StatusCode::NOT_MODIFIED).ttl(60).stored(),
            "pilotlight; fwd=stale; fwd-status=304; ttl=60; stored",
        );
        check(
            CacheStatus::forwarded(Forward::UriMiss).answered(StatusCode::OK).unstored(Unstored::SetCookie),
            "pilotlight; fwd=uri-miss; fwd-status=200; detail=set-cookie",
        );
        check(
            CacheStatus::forwarded(Forward::RequestBody).unstored(Unstored::Method),
            "pilotlight; fwd=bypass; detail=request-body",
        );
        check(CacheStatus::refused("only-if-cached"), "pilotlight; detail=only-if-cached");
    }

    #[test]
    fn follows_members_of_caches_nearer_to_the_service() {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_STATUS, HeaderValue::from_static("inner; hit"));
        CacheStatus::hit(1).append_to(&mut headers);
        let all: Vec<_> = headers.get_all(CACHE_STATUS).iter().collect();
        assert_eq!(all, ["inner; hit", "pilotlight; hit; ttl=1"]);
    }
}
