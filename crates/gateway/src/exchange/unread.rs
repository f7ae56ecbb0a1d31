//! What is left of a request's body when its answer does not need it.
//!
//! Closing the connection without a word would meet the client's next request; so either a small rest is read and
//! forgotten, or the answer says `Connection: close`.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::client::ClientBody;
use crate::deadline::Deadline;

/// Bytes of a body that are read and forgotten, so that the connection can be used again.
const MAX_DRAINED: u64 = 64 * 1024;
/// How long they are waited for.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// The rest of a request's body.
pub(super) enum Rest {
    /// It has been read, or there is none.
    Read,
    Unread(ClientBody),
    /// Part of it has gone to a service, and the rest cannot be had any more.
    Lost,
}

impl Rest {
    /// Reads a small rest. Returns whether the connection can take a further request. A client that waits for 100
    /// (`Expect`) sends nothing, and is not asked to.
    ///
    /// # Cancel safety
    /// Not safe: the body is lost with the future.
    pub(super) async fn drain(self, is_expected: bool, deadline: impl FnOnce() -> Deadline) -> bool {
        let mut incoming = match self {
            Self::Read => return true,
            Self::Lost => return false,
            Self::Unread(incoming) => incoming,
        };
        if incoming.is_ended() {
            return true;
        }
        if is_expected || incoming.remaining().unwrap_or(0) > MAX_DRAINED {
            return false;
        }
        let deadline = deadline();
        deadline.set(DRAIN_TIME);
        let mut drained = 0;
        poll_fn(|cx| {
            loop {
                match incoming.poll_frame(cx) {
                    Poll::Ready(None) => return Poll::Ready(true),
                    Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                    Poll::Ready(Some(Ok(frame))) => {
                        drained += frame.data_ref().map_or(0, |data| data.len() as u64);
                        if drained > MAX_DRAINED {
                            return Poll::Ready(false);
                        }
                    }
                    Poll::Pending => return deadline.poll(cx).map(|()| false),
                }
            }
        })
        .await
    }
}
