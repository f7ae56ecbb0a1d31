//! A request as the connection gives it out.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_cache::Lookup;

use crate::admission::Checked;
use crate::head::Head;
use crate::lookup::RedisLookup;
use crate::request_body::BodySource;
use crate::routes::Route;
use crate::timing::Moment;

/// A request as it was received, which memory does not answer.
pub(crate) struct ReceivedRequest {
    pub(crate) head: Head,
    /// `None` if it has none, as most.
    pub(crate) body: Option<Box<dyn BodySource>>,
    /// When its first byte was there.
    pub(crate) begun: Moment,
    /// When the last byte of its head was there.
    pub(crate) read: Moment,
    /// Whether it is let in, as far as that was looked at; where something is known of it, it is.
    pub(crate) checked: Checked,
    /// What was found out about it.
    pub(crate) known: Option<Known>,
    /// What Redis had for it.
    pub(crate) redis: Option<RedisMiss>,
}

/// What was found out about a request before it was one.
pub(crate) struct Known {
    pub(crate) route: Arc<Route>,
    /// `None` where the route does not use the cache.
    pub(crate) lookup: Option<Lookup>,
}

/// What Redis had for a request that it does not answer.
pub(crate) struct RedisMiss {
    pub(crate) redis: Box<RedisLookup>,
    pub(super) asked: Moment,
    pub(super) answered: Moment,
}

impl RedisMiss {
    /// From when to when it was asked.
    pub(crate) fn between(&self) -> (Moment, Moment) {
        (self.asked, self.answered)
    }

    /// How long that took.
    pub(crate) fn took(&self) -> Duration {
        Duration::from_nanos(self.answered.since(self.asked))
    }
}
