//! What is left of a request's body when its response does not need it.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::request_body::BodySource;

/// Reads the rest of a body and forgets it. Returns whether that was all of it.
///
/// # Cancel safety
/// Not safe: the body is lost with the future.
pub(super) async fn drain(mut rest: Box<dyn BodySource>, max_bytes: u64, within: Duration, deadline: Deadline) -> bool {
    deadline.set(within);
    let mut drained = 0;
    poll_fn(|cx| {
        loop {
            match rest.poll_frame(cx) {
                Poll::Ready(None) => return Poll::Ready(true),
                Poll::Ready(Some(Err(_))) => return Poll::Ready(false),
                Poll::Ready(Some(Ok(frame))) => {
                    drained += frame.data_ref().map_or(0, |data| data.len() as u64);
                    if drained > max_bytes {
                        return Poll::Ready(false);
                    }
                }
                Poll::Pending => return deadline.poll(cx).map(|()| false),
            }
        }
    })
    .await
}
