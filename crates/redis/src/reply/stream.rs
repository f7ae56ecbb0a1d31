//! Replies of stream commands.

use bytes::Bytes;

use super::collections::elements;
use super::read::{FromReply, wrong_length};
use crate::error::ReplyError;
use pilotlight_resp::Value;

/// Entries that were read, and the key of their stream.
pub type StreamEntries = (Bytes, Vec<StreamEntry>);

/// An entry of a stream.
///
/// ```no_run
/// use pilotlight_redis::{Client, Commands, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// for entry in client.xrange("orders", "-", "+").await? {
///     println!("{:?}: {:?}", entry.id, entry.get("order"));
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEntry {
    /// `milliseconds-sequence`.
    pub id: Bytes,
    /// Fields and values in order. Empty if the entry was deleted while a consumer still had it pending.
    pub fields: Vec<(Bytes, Bytes)>,
}

impl StreamEntry {
    /// The value of the first field of this name.
    #[must_use]
    pub fn get(&self, field: impl AsRef<[u8]>) -> Option<&Bytes> {
        self.fields.iter().find(|(name, _)| name == field.as_ref()).map(|(_, value)| value)
    }
}

impl FromReply for StreamEntry {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let (id, fields): (Bytes, Option<Vec<(Bytes, Bytes)>>) = FromReply::from_reply(value)?;
        Ok(Self { id, fields: fields.unwrap_or_default() })
    }

    // Before 7.0, XCLAIM and XAUTOCLAIM answer null for an entry that was deleted.
    fn from_elements(elements: Vec<Value>) -> Result<Vec<Self>, ReplyError> {
        elements.into_iter().filter(|element| *element != Value::Null).map(Self::from_reply).collect()
    }
}

/// The reply of `XAUTOCLAIM`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoClaimed<T> {
    /// Where to go on; `0-0`: all pending entries were looked at.
    pub cursor: Bytes,
    /// What was claimed: entries, or their ids.
    pub entries: Vec<T>,
    /// Ids that were pending but no longer exist; always empty before 7.0.
    pub deleted: Vec<Bytes>,
}

impl<T: FromReply> FromReply for AutoClaimed<T> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        const EXPECTED: &str = "an array of 2 or 3";
        let mut parts = elements(value, EXPECTED)?.into_iter();
        let (Some(cursor), Some(entries)) = (parts.next(), parts.next()) else { return Err(wrong_length(EXPECTED)) };
        let deleted = parts.next().map(Vec::from_reply).transpose()?.unwrap_or_default();
        Ok(Self { cursor: Bytes::from_reply(cursor)?, entries: Vec::from_reply(entries)?, deleted })
    }
}

/// The reply of `XPENDING` without a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingSummary {
    /// Entries delivered and not acknowledged.
    pub count: u64,
    /// The lowest of their ids, if there are any.
    pub lowest: Option<Bytes>,
    /// The highest of their ids.
    pub highest: Option<Bytes>,
    /// How many of them each consumer has.
    pub consumers: Vec<(Bytes, u64)>,
}

impl FromReply for PendingSummary {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let (count, lowest, highest, consumers): (_, _, _, Option<_>) = FromReply::from_reply(value)?;
        Ok(Self { count, lowest, highest, consumers: consumers.unwrap_or_default() })
    }
}

/// One entry of the reply of `XPENDING` with a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEntry {
    /// Its id.
    pub id: Bytes,
    /// Whom it was delivered to last.
    pub consumer: Bytes,
    /// Time since then.
    pub idle_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

impl FromReply for PendingEntry {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let (id, consumer, idle_ms, deliveries) = FromReply::from_reply(value)?;
        Ok(Self { id, consumer, idle_ms, deliveries })
    }
}
