//! A stored response taken apart, for tiers outside of this process, and put together again.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};

use crate::body::StoredBody;
use crate::cache::Cache;
use crate::key::Key;
use crate::policy::freshness;
use crate::policy::vary::Vary;
use crate::policy::{RequestDirectives, Timestamp};
use crate::purge::Position;
use crate::stored::Stored;

/// All that a stored response consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The status.
    pub status: StatusCode,
    /// As they are stored: without `Age`, with `Date`.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// What the response varies on, and what that was in the request it was made for.
    pub selection: Selection,
    /// How old it is and how long it may be used.
    pub freshness: Freshness,
}

/// Age and freshness lifetime (RFC 9111 §4.2) as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// When it was received, by the clock of whoever received it.
    pub received: Timestamp,
    /// `corrected_initial_age` (§4.2.3).
    pub initial_age_ms: u64,
    /// The freshness lifetime (§4.2.1).
    pub lifetime_ms: u64,
    /// The lifetime is the route's default: the service gave none.
    pub is_by_route: bool,
    /// It must not be used stale (§5.2.2.2).
    pub must_revalidate: bool,
    /// It must not be used without validation (§5.2.2.4).
    pub no_cache: bool,
}

/// Selecting fields (RFC 9111 §4.1) and their normalised values, sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    vary: Vary,
}

impl Selection {
    /// What a request has for these fields.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a HeaderName>, request: &HeaderMap) -> Self {
        Self { vary: Vary::select(names, request) }
    }

    /// Fields with values that are normalised already; `None`: the request had no such field.
    pub fn from_fields(fields: impl IntoIterator<Item = (HeaderName, Option<Box<[u8]>>)>) -> Self {
        Self { vary: Vary::from_fields(fields) }
    }

    /// The fields in their order, with their values.
    pub fn fields(&self) -> impl ExactSizeIterator<Item = (&HeaderName, Option<&[u8]>)> {
        self.vary.fields()
    }

    /// The fields of both; for those that both have, the values of `self`.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { vary: self.vary.and(&other.vary) }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.vary.is_empty()
    }
}

impl Cache {
    /// Puts a response together that was taken apart. `position` is that of [`Cache::purges`] from before it was asked for: what was purged since
    /// then counts for it.
    pub fn restored(&self, key: &Key<'_>, parts: Parts, position: Position) -> Arc<Stored> {
        let Parts { status, headers, body, selection, freshness } = parts;
        let freshness = freshness::Freshness::from_parts(freshness);
        let mark = self.purges().mark(key, &headers, position);
        Arc::new(Stored::assemble(status, headers, StoredBody::of(body), freshness, selection.vary, mark))
    }

    /// Whether a response, stored in memory or not, may answer a request without validation.
    pub fn serves(&self, key: &Key<'_>, stored: &Stored, request: &HeaderMap, now: Timestamp) -> bool {
        let standing = self.purges().standing(key, stored.mark());
        stored.refusal(request, &RequestDirectives::parse(request), now, standing).is_none()
    }
}

impl Stored {
    /// Takes it apart. Values are shared, not copied; so is a body that is in one piece.
    pub fn to_parts(&self) -> Parts {
        Parts {
            status: self.status(),
            headers: self.headers().clone(),
            body: self.body().to_bytes(),
            selection: Selection { vary: self.vary().clone() },
            freshness: self.freshness().to_parts(),
        }
    }

    /// How old it is and how long it may be used.
    pub fn freshness_parts(&self) -> Freshness {
        self.freshness().to_parts()
    }

    /// Whether a request selects this response among those of its target (RFC 9111 §4.1).
    pub fn is_selected_by(&self, request: &HeaderMap) -> bool {
        self.vary().matches(request)
    }

    /// Whether it can be validated.
    pub fn has_validator(&self) -> bool {
        !self.validators().is_empty()
    }
}
