//! A stored response taken apart, for tiers outside of this process, and put together again.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};

use crate::body::StoredBody;
use crate::cache::Cache;
use crate::key::Key;
use crate::policy::freshness;
pub use crate::policy::freshness::Source as LifetimeSource;
use crate::policy::storing::has_body;
use crate::policy::vary::Vary;
use crate::policy::{LanguageOrder, RequestDirectives, Timestamp};
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
    /// Where the lifetime comes from.
    pub source: LifetimeSource,
    /// It must not be used stale (§5.2.2.2).
    pub must_revalidate: bool,
    /// It must not be used without validation (§5.2.2.4).
    pub no_cache: bool,
    /// How long after its lifetime it may be used while it is being revalidated (RFC 5861 §3).
    pub while_revalidate_ms: u64,
    /// How long after its lifetime it may be used in place of an error (RFC 5861 §4).
    pub if_error_ms: u64,
}

impl Freshness {
    /// How long after its lifetime it is of use without being validated first.
    pub fn stale_use_ms(&self) -> u64 {
        if self.must_revalidate || self.no_cache { 0 } else { self.while_revalidate_ms.max(self.if_error_ms) }
    }
}

/// Selecting fields (RFC 9111 §4.1) and their normalised values, sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    vary: Vary,
}

impl Selection {
    /// What a request has for these fields.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a HeaderName>, request: &HeaderMap, order: LanguageOrder) -> Self {
        Self { vary: Vary::select(names, request, order) }
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
    /// Puts a response together that was taken apart. `position` is that of [`Cache::purges`] from before it was asked
    /// for: what was purged since then counts for it. `record_name` is the key's, as the cache's
    /// [`RecordName`](crate::RecordName) has it.
    pub fn restored(&self, key: &Key<'_>, record_name: u64, parts: Parts, position: Position) -> Arc<Stored> {
        let Parts { status, headers, body, selection, freshness } = parts;
        let freshness = freshness::Freshness::from_parts(freshness);
        let mark = self.purges().mark_record(record_name, key, &headers, position);
        let vary = selection.vary.ordered_by(self.language_order());
        Arc::new(Stored::assemble(status, headers, StoredBody::of(body), freshness, vary, mark))
    }

    /// What the order of `Accept-Language` means to services, for whoever selects by it in another tier.
    pub fn language_order(&self) -> LanguageOrder {
        self.policy().language_order
    }

    /// Whether a response, stored in memory or not, may answer a request without validation.
    pub fn serves(&self, key: &Key<'_>, stored: &Stored, request: &HeaderMap, now: Timestamp) -> bool {
        // As in a lookup: a body is in no key.
        if has_body(request) {
            return false;
        }
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
