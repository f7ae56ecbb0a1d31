//! What is kept of a request while Redis is asked for its response.

use std::pin::Pin;
use std::sync::Arc;

use http::HeaderMap;
use pilotlight_cache::Stored;

use crate::lookup::RedisLookup;
use crate::routes::Route;
use crate::timing::Moment;

/// A request for which Redis is being asked: what it had, and the request.
pub(super) type PendingLookup = Pin<Box<dyn Future<Output = (RedisLookup, LookupRequest)>>>;

pub(super) struct LookupRequest {
    pub(super) headers: HeaderMap,
    /// When its first byte came.
    pub(super) begun: Moment,
    /// When Redis was asked.
    pub(super) asked: Moment,
    pub(super) route: Arc<Route>,
    /// What memory had.
    pub(super) stale: Option<Arc<Stored>>,
    pub(super) target: Box<str>,
    pub(super) authority: Box<str>,
}
