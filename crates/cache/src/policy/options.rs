//! What an operator adds to the rules, for all routes.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderName;

/// `CDN-Cache-Control`, the field that RFC 9213 §3.1 defines.
pub const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// What the RFCs leave to whoever runs a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOptions {
    /// The fields in which services tell this cache more than `Cache-Control` says to all, the most specific first
    /// (RFC 9213 §2.2, the target list); `CDN-Cache-Control` by default.
    pub targets: Vec<HeaderName>,
    /// The longest lifetime that is inferred from `Last-Modified` where a response gives none (RFC 9111 §4.2.2); none
    /// is inferred by default.
    pub max_heuristic: Option<Duration>,
    /// How long after its lifetime a response that does not say so itself is used when the service fails (RFC 9111
    /// §4.2.4, RFC 5861 §4); not at all by default.
    pub stale_if_error: Option<Duration>,
    /// Whether a response that varies on languages was made for their order.
    pub language_order: LanguageOrder,
}

impl PolicyOptions {
    /// Most fields in `targets`.
    pub const MAX_TARGETS: usize = 8;
    /// Values of `max_heuristic`.
    pub const MAX_HEURISTIC: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(365 * 24 * 3600);
    /// Values of `stale_if_error`.
    pub const STALE_IF_ERROR: RangeInclusive<Duration> = Self::MAX_HEURISTIC;
}

impl Default for PolicyOptions {
    fn default() -> Self {
        Self {
            targets: vec![CDN_CACHE_CONTROL],
            max_heuristic: None,
            stale_if_error: None,
            language_order: LanguageOrder::Counts,
        }
    }
}

/// What the order of `Accept-Language` means to services.
///
/// RFC 9110 §12.5.4 has preferences in weights, and says that some recipients take the order of equal weights for one
/// too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LanguageOrder {
    /// `en, de` and `de, en` may be answered differently.
    #[default]
    Counts,
    /// They are answered alike: services look at weights only.
    Ignored,
}
