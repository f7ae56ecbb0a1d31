//! What a subscriber is told.

use bytes::Bytes;

use crate::error::ServerError;
use crate::proto::subscriptions::GapReason;

/// What happens to a [`Subscription`](crate::Subscription).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A message.
    Message(Message),
    /// Messages may be missing here: the connection was lost, or the channel moved to another node. Everything lost is
    /// subscribed again by now, so what is read from the server after this event and what comes after it are the whole.
    ///
    /// It comes once for each incident, before the first message after it. A subscription to shard channels of several
    /// slots that come back one by one may get one for each, if messages come in between.
    Gap {
        /// Why.
        reason: GapReason,
    },
    /// So many messages were dropped here because the subscriber was slow: the oldest ones make room for new ones. See
    /// [`SubscriptionLimits`](crate::config::SubscriptionLimits).
    Dropped {
        /// How many.
        count: u64,
    },
    /// The server refuses to subscribe again to a channel that was lost. The client goes on trying.
    Refused {
        /// The channel or pattern.
        channel: Bytes,
        /// The server's answer.
        error: ServerError,
    },
}

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The channel that it was published to.
    pub channel: Bytes,
    /// The pattern that matched, of a subscription to patterns.
    pub pattern: Option<Bytes>,
    /// What was published: a slice of the connection's read buffer, which lives as long as it does.
    pub payload: Bytes,
}
