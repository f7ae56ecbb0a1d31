//! Replies of `SCAN`, `HSCAN`, `SSCAN`, `ZSCAN`.

use super::read::FromReply;
use crate::error::ReplyError;
use pilotlight_resp::Value;

/// One step of a scan.
///
/// ```no_run
/// use pilotlight_redis::{Client, Commands, Error};
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let mut cursor = 0;
/// loop {
///     let step = client.sscan("tags", cursor).await?;
///     println!("{} members", step.items.len());
///     if step.is_complete() {
///         break;
///     }
///     cursor = step.cursor;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanReply<T> {
    /// Where to go on; 0: the scan is complete.
    pub cursor: u64,
    /// What was found in this step: possibly nothing, possibly what an earlier step found already.
    pub items: Vec<T>,
}

impl<T> ScanReply<T> {
    /// Whether this was the last step.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.cursor == 0
    }
}

impl<T: FromReply> FromReply for ScanReply<T> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        let (cursor, items) = FromReply::from_reply(value)?;
        Ok(Self { cursor, items })
    }
}
