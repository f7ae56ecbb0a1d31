//! The keys that tokens are verified by, as the operator sees them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::shared::Shared;

/// `null` while no route takes tokens.
pub(super) fn status(shared: &Shared) -> Value {
    let sources: Vec<Value> = shared
        .common
        .keys
        .status()
        .iter()
        .map(|keys| {
            json!({
                "source": keys.source,
                "keys": keys.keys,
                "reads": keys.fetches.read,
                "failed_reads": keys.fetches.failed,
                "last_success": keys.last_success.map(httpdate::fmt_http_date),
                "error": keys.last_error,
            })
        })
        .collect();
    if sources.is_empty() { Value::Null } else { sources.into() }
}

/// Seconds since 1970; 0 for never.
pub(super) fn unix_seconds(time: Option<SystemTime>) -> u64 {
    time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |time| time.as_secs())
}
