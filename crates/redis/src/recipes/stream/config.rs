//! What a consumer is told.

use std::time::Duration;

use bytes::Bytes;

use crate::error::Error;

/// What a [`Consumer`](super::Consumer) reads, and how.
///
/// ```
/// use std::time::Duration;
///
/// use pilotlight_redis::recipes::stream::{ConsumerConfig, DeadLetters, Trim};
///
/// let config = ConsumerConfig {
///     claim_after: Duration::from_secs(60),
///     dead_letters: Some(DeadLetters::after(5, "orders:dead")),
///     ..ConsumerConfig::new("orders", "billing")
/// };
/// assert_eq!(config.trim, Trim::Never);
/// ```
#[derive(Debug, Clone)]
pub struct ConsumerConfig {
    /// The stream's key.
    pub stream: Bytes,
    /// The group's name. It is made, and with it the stream, if it does not exist.
    pub group: Bytes,
    /// This consumer's name in its group, which no other that runs may have. Default: a new one each time.
    pub consumer: Option<Bytes>,
    /// Where a group begins that does not exist yet. Default: [`Start::Beginning`].
    pub start: Start,
    /// Entries that this consumer has at most, from their delivery until they are acknowledged or dropped, from 1 to
    /// 1,048,576. Default: 64.
    pub max_prefetched: usize,
    /// An entry that no consumer has kept for so long belongs to whoever claims it: the time after which a consumer
    /// that has died is replaced, at least 100 ms. A consumer keeps what it holds every third of it. Default: 30 s.
    pub claim_after: Duration,
    /// How long one read waits in the server, at least 1 ms. Nothing depends on it but how often the server is asked.
    /// Default: 5 s.
    pub block: Duration,
    /// Where entries go that were delivered too often. Default: none, they are delivered for ever.
    pub dead_letters: Option<DeadLetters>,
    /// What of the stream is deleted. Default: [`Trim::Never`].
    pub trim: Trim,
    /// Consumers of the group that have nothing pending and were not heard of for so long are deleted. Default: 1 h.
    pub forget_after: Duration,
}

/// Where entries go that were delivered too often.
///
/// ```
/// use pilotlight_redis::recipes::stream::DeadLetters;
///
/// let letters = DeadLetters { max_length: Some(10_000), ..DeadLetters::after(5, "orders:dead") };
/// assert_eq!(letters.max_deliveries, 5);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetters {
    /// A stream, in a cluster in the slot of the other one. Entries have their fields, and then `dead-letter:stream`,
    /// `dead-letter:group`, `dead-letter:id` and `dead-letter:deliveries`. They are put there and acknowledged in one
    /// step.
    pub stream: Bytes,
    /// Deliveries that an entry gets, at least 1. As the server counts: also those that reached nobody.
    pub max_deliveries: u64,
    /// Entries that the stream keeps, about. Default: all.
    pub max_length: Option<u64>,
}

/// Where a new group begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// With the first entry of the stream.
    #[default]
    Beginning,
    /// With what is added from now on.
    End,
}

/// What of the stream is deleted: only what every group has acknowledged, a node of the stream (100 entries) at a time.
/// Groups that do not exist yet do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trim {
    /// Nothing.
    #[default]
    Never,
    /// All of that.
    Acknowledged,
    /// Of that, all but so many of the newest entries of the stream.
    KeepNewest(u64),
}

/// Why a consumer ends, or does not begin.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The group has gone, or the stream, and with them the knowledge of what was delivered: `open` makes them anew.
    #[error("the group is gone: {0}")]
    Gone(#[source] Error),
    /// It cannot work like this (no permission, another type of key, a client that was closed).
    #[error(transparent)]
    Redis(#[from] Error),
}

impl ConsumerConfig {
    /// A consumer of `group` of `stream`, with defaults.
    #[must_use]
    pub fn new(stream: impl Into<Bytes>, group: impl Into<Bytes>) -> Self {
        Self {
            stream: stream.into(),
            group: group.into(),
            consumer: None,
            start: Start::default(),
            max_prefetched: 64,
            claim_after: Duration::from_secs(30),
            block: Duration::from_secs(5),
            dead_letters: None,
            trim: Trim::default(),
            forget_after: Duration::from_secs(3600),
        }
    }
}

impl DeadLetters {
    /// Entries that were delivered `max_deliveries` times in vain go to `stream`.
    #[must_use]
    pub fn after(max_deliveries: u64, stream: impl Into<Bytes>) -> Self {
        Self { stream: stream.into(), max_deliveries, max_length: None }
    }
}
