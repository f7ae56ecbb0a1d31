//! A stored response taken apart, for tiers outside of this process, and put together again.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use crate::body::StoredBody;
use crate::cache::Cache;
use crate::key::Key;
use crate::policy::storing::has_body;
use crate::policy::{Freshness, LanguageOrder, RequestDirectives, Selection, Timestamp};
use crate::purge::Position;
use crate::stored::{Head, Stored};

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

impl Cache {
    /// Puts a response together that was taken apart. `position` is that of [`Cache::purges`] from before it was asked
    /// for: what was purged since then counts for it. `record_name` is the key's, as the cache's
    /// [`RecordName`](crate::RecordName) has it.
    pub fn restored(&self, key: &Key<'_>, record_name: u64, parts: Parts, position: Position) -> Arc<Stored> {
        let Parts { status, headers, body, selection, freshness } = parts;
        let mark = self.purges().mark_record(record_name, key, &headers, position);
        let vary = selection.ordered_by(self.language_order());
        Arc::new(Stored::assemble(Head { status, headers, freshness, vary }, StoredBody::of(body), mark))
    }

    /// What the order of `Accept-Language` means to services, for whoever selects by it in another tier.
    pub fn language_order(&self) -> LanguageOrder {
        self.state().policy().language_order
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
            selection: self.vary().clone(),
            freshness: *self.freshness(),
        }
    }

    /// How old it is and how long it may be used.
    pub fn freshness_parts(&self) -> Freshness {
        *self.freshness()
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
