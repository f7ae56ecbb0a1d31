//! One stream from its request to its response, as a task of its own.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use http::Method;

use super::response::{self, Ended};
use super::stream::Stream;
use crate::client::outgoing::Outgoing;
use crate::exchange::PendingResponse;
use crate::peer_address::PeerAddress;
use crate::response::ResponseHead;

/// Waits for the response and sends it.
pub(super) async fn run(stream: Rc<Stream>, method: Method, later: PendingResponse) {
    if let Some(answer) = awaited(&stream, later).await {
        send(&stream, &method, answer).await;
    }
}

/// The response; `None` if the client has given the stream up before.
pub(super) async fn awaited(stream: &Stream, mut later: PendingResponse) -> Option<(ResponseHead, Outgoing)> {
    poll_fn(|cx| {
        if let Poll::Ready(answer) = Pin::new(&mut later).poll(cx) {
            return Poll::Ready(Some(answer));
        }
        stream.poll_gone(cx).map(|()| None)
    })
    .await
}

/// Sends a response to its end.
pub(super) async fn send(stream: &Rc<Stream>, method: &Method, answer: (ResponseHead, Outgoing)) {
    let sent = match response::send_head(stream, method, answer) {
        Ok(Some(sending)) => sending.run().await,
        Ok(None) => Ok(()),
        Err(e) => Err(e.into()),
    };
    note(&stream.session().peer, sent);
}

/// Says in the log what kept a response from its end.
pub(super) fn note(peer: &PeerAddress, result: Result<(), Ended>) {
    if let Err(e) = result {
        tracing::debug!(%peer, "a response was not sent to its end: {e}");
    }
}
