//! A bound in bytes for replies that have come and were not passed on yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::reply::Value;

/// Smaller replies are not counted, in bytes: they are bounded by how many commands wait.
const MIN_COUNTED_BYTES: usize = 16 * 1024;

/// What the large replies of some [`RawClient`](crate::raw::RawClient)s may take together, from their last byte until
/// they are dropped. Replies of less than 16 KiB are not counted.
///
/// What would exceed it is dropped as soon as it is read, and its command gets an error instead, as if the server had
/// said it: the command was run.
///
/// ```no_run
/// use pilotlight_redis::raw::{RawClient, ReplyBudget};
/// use pilotlight_redis::{Config, Error};
///
/// # fn example(config: Config) -> Result<(), Error> {
/// let budget = ReplyBudget::new(64 << 20, "ERR the proxy has no memory left for large replies");
/// let client = RawClient::within(config, budget)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ReplyBudget {
    used: AtomicUsize,
    max_bytes: usize,
    refusal: Bytes,
}

/// A reply, and its share.
struct Held {
    frame: Bytes,
    budget: Arc<ReplyBudget>,
}

impl ReplyBudget {
    /// So many bytes; `refusal` is the text of the error, which begins with its code.
    #[must_use]
    pub fn new(max_bytes: usize, refusal: impl Into<Bytes>) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), max_bytes, refusal: refusal.into() })
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The same reply, counted until it is dropped; or the error instead of it.
    pub(crate) fn hold(self: &Arc<Self>, reply: Value) -> Value {
        match reply {
            Value::Bulk(frame) if frame.len() >= MIN_COUNTED_BYTES => {
                let bytes = frame.len();
                // Taken before it is dropped, so that the error tells the truth for those who come at the same time.
                let used = self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
                let held = Held { frame, budget: Arc::clone(self) };
                if used > self.max_bytes {
                    drop(held);
                    return Value::Error(self.refusal.clone());
                }
                Value::Bulk(Bytes::from_owner(held))
            }
            other => other,
        }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.frame.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(bytes: usize) -> Value {
        Value::Bulk(vec![b'x'; bytes].into())
    }

    #[test]
    fn what_exceeds_it_is_an_error_until_others_are_dropped() {
        let budget = ReplyBudget::new(100_000, "ERR too much");
        let first = budget.hold(reply(60_000));
        assert_eq!(first, reply(60_000));
        let part = match &first {
            Value::Bulk(frame) => frame.slice(10..20),
            other => panic!("{other:?}"),
        };
        assert_eq!(budget.hold(reply(40_001)), Value::Error("ERR too much".into()));
        assert_eq!(budget.used(), 60_000);
        let second = budget.hold(reply(40_000));
        assert_eq!((&second, budget.used()), (&reply(40_000), 100_000));
        drop(first);
        assert_eq!(budget.used(), 100_000, "a part of it is in use");
        drop(part);
        assert_eq!(budget.used(), 40_000);
    }

    #[test]
    fn small_replies_and_those_without_bytes_are_not_counted() {
        let budget = ReplyBudget::new(0, "ERR");
        assert_eq!(budget.hold(reply(MIN_COUNTED_BYTES - 1)), reply(MIN_COUNTED_BYTES - 1));
        assert_eq!(budget.hold(Value::Integer(1)), Value::Integer(1));
        assert_eq!(budget.used(), 0);
        assert!(matches!(budget.hold(reply(MIN_COUNTED_BYTES)), Value::Error(_)));
    }
}
