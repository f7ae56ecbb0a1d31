//! What the decisions of `pilotlight_exchange` hold and pass on.

use std::sync::Arc;

use pilotlight_cache::{Fill, Forward, Live, Recorder, Stored, Timing, Unstored, Wait};
use pilotlight_cache_redis::Asked;
use pilotlight_exchange::{Handles, Stale};

use crate::problem::Failure;
use crate::request_body::RequestBody;
use crate::upstream::ServiceResponse;

/// Our types.
pub(super) struct Ours;

impl Handles for Ours {
    type Stored = Arc<Stored>;
    type Fill = Box<Fill>;
    type Wait = Box<Wait>;
    type Live = Box<Live>;
    type Redis = Box<Asked>;
    type Body = Box<RequestBody>;
    type Fetched = Box<Fetched>;
    type Recorder = Box<Recorder>;
    type Unstored = Unstored;
    type Failure = Box<Failure>;
    type Why = Forward;
}

/// What a service has answered, and when.
pub(super) struct Fetched {
    pub(super) answer: ServiceResponse,
    pub(super) timing: Timing,
}

/// A stored response that needs validation.
pub(super) fn stale(stored: Arc<Stored>) -> Stale<Ours> {
    Stale { has_validator: stored.has_validator(), received_ms: stored.freshness_parts().received.0, stored }
}
