//! The body of an event stream (HTML, "Server-sent events").

use crate::session::Heard;
use crate::streams::EventId;
use crate::turn::Out;
use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

/// A stream without a message for so long gets a comment, so that nobody between takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A stream of messages. Dropping it tells the source that the client has gone.
pub(crate) struct EventBody {
    /// What is sent before anything else.
    first: Option<Bytes>,
    source: Source,
    quiet: Pin<Box<Sleep>>,
}

enum Source {
    Session(Heard),
    Turn(mpsc::Receiver<Out>),
    Nothing,
}

impl EventBody {
    /// A stream of a session; `primed`: the client is told where it begins, so that it can come back.
    pub(crate) fn of_session(heard: Heard, primed: Option<EventId>) -> Self {
        Self::new(primed.map(|id| event(Some(id), b"")), Source::Session(heard))
    }

    /// What comes of one request, of which this came already.
    pub(crate) fn of_turn(out: mpsc::Receiver<Out>, first: Option<Bytes>) -> Self {
        Self::new(first.map(|text| event(None, &text)), Source::Turn(out))
    }

    fn new(first: Option<Bytes>, source: Source) -> Self {
        Self { first, source, quiet: Box::pin(sleep(KEEP_ALIVE)) }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let (text, is_last) = match &mut self.source {
            Source::Session(heard) => {
                return heard.poll_next(cx).map(|next| next.map(|(id, text)| event(Some(id), &text)));
            }
            Source::Turn(out) => match ready!(out.poll_recv(cx)) {
                Some(Out::Before(text)) => (text, false),
                Some(Out::Answer { text, .. } | Out::Failed(text)) => (text, true),
                None => return Poll::Ready(None),
            },
            Source::Nothing => return Poll::Ready(None),
        };
        if is_last {
            self.source = Source::Nothing;
        }
        Poll::Ready(Some(event(None, &text)))
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.poll_event(cx) {
            Poll::Pending => {
                ready!(self.quiet.as_mut().poll(cx));
                Some(Bytes::from_static(b":\n\n"))
            }
            Poll::Ready(next) => next,
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

    #[test]
    fn events() {
        assert_eq!(event(Some(EventId { stream: 1, number: 2 }), b"{}"), "id: 1-2\ndata: {}\n\n");
        assert_eq!(event(None, b""), "data: \n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_is_kept_alive() {
        let (sender, out) = mpsc::channel(1);
        let mut body = EventBody::of_turn(out, Some("one".into()));
        let mut next = async || {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await?;
            Some(frame.unwrap_or_else(|never| match never {}).into_data().unwrap())
        };
        assert_eq!(next().await.unwrap(), "data: one\n\n");
        assert_eq!(next().await.unwrap(), ":\n\n");
        sender.send(Out::Answer { text: "two".into(), code: None }).await.unwrap();
        assert_eq!(next().await.unwrap(), "data: two\n\n");
        assert_eq!(next().await, None);
    }
}
