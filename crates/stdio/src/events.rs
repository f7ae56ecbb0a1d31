//! The body of an event stream (HTML, "Server-sent events").

use crate::streams::EventId;
use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep};

/// A stream without a message for so long gets a comment, so that nobody between takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Where the messages of a stream come from. Dropping it says that the client has gone.
pub(crate) trait Source: Unpin {
    /// The next message, and what a client is to name to go on behind it; none: there is no more.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Option<EventId>, Bytes)>>;
}

/// A stream of messages.
pub(crate) struct EventBody<S> {
    /// What is sent before anything else.
    first: Option<(Option<EventId>, Bytes)>,
    source: S,
    quiet: Pin<Box<Sleep>>,
}

impl<S: Source> EventBody<S> {
    pub(crate) fn new(source: S) -> Self {
        Self { first: None, source, quiet: Box::pin(sleep(KEEP_ALIVE)) }
    }

    /// With an event without a message before all others: the client learns where it is, so that it can come back.
    pub(crate) fn primed(self, place: EventId) -> Self {
        Self { first: Some((Some(place), Bytes::new())), ..self }
    }

    /// With this message before all others.
    pub(crate) fn behind(self, text: Bytes) -> Self {
        Self { first: Some((None, text)), ..self }
    }
}

impl<S: Source> Body for EventBody<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.source.poll_next(cx),
        };
        let next = match next {
            Poll::Pending => {
                ready!(self.quiet.as_mut().poll(cx));
                Some(Bytes::from_static(b":\n\n"))
            }
            Poll::Ready(next) => next.map(|(id, text)| event(id, &text)),
        };
        self.quiet.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// One event: a text without a line end.
fn event(id: Option<EventId>, text: &[u8]) -> Bytes {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    let mut bytes = BytesMut::with_capacity(id.len() + text.len() + 8);
    bytes.put_slice(id.as_bytes());
    bytes.put_slice(b"data: ");
    bytes.put_slice(text);
    bytes.put_slice(b"\n\n");
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    #[test]
    fn events() {
        assert_eq!(event(Some(EventId { stream: 1, number: 2 }), b"{}"), "id: 1-2\ndata: {}\n\n");
        assert_eq!(event(None, b""), "data: \n\n");
    }

    impl Source for mpsc::Receiver<Bytes> {
        fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Option<EventId>, Bytes)>> {
            self.poll_recv(cx).map(|next| next.map(|text| (None, text)))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_is_kept_alive() {
        let (sender, source) = mpsc::channel::<Bytes>(1);
        let mut body = EventBody::new(source).behind("one".into());
        let mut next = async || {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await?;
            Some(frame.unwrap_or_else(|never| match never {}).into_data().unwrap())
        };
        assert_eq!(next().await.unwrap(), "data: one\n\n");
        assert_eq!(next().await.unwrap(), ":\n\n");
        sender.send("two".into()).await.unwrap();
        drop(sender);
        assert_eq!(next().await.unwrap(), "data: two\n\n");
        assert_eq!(next().await, None);
    }
}
