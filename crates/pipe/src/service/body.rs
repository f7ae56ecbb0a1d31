//! Bodies: what a handler receives ([`Incoming`]) and what it answers with ([`Body`]).

use super::upgrade::{OnUpgrade, Upgraded};
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Why a body did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The other side went away before the end.
    #[error("the body was cut before its end")]
    Cut,
    /// [`Incoming::bytes`] met more than its limit. Returned from a handler it becomes 413 for the client.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
}

/// The body of a request, as it comes. Dropping it before its end tells the gateway to send no more (P-21).
///
/// ```
/// # mod gateway { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/gateway.rs")); }
/// use http::{Request, Response};
/// use pilotlight_pipe::{BodyError, Incoming};
///
/// async fn length(request: Request<Incoming>) -> Result<Response<String>, BodyError> {
///     let mut body = request.into_body();
///     let mut length = 0;
///     while let Some(chunk) = body.chunk().await {
///         length += chunk?.len();
///     }
///     Ok(Response::new(format!("{length} bytes\n")))
/// }
/// # let gateway = gateway::Gateway::start(length);
/// # let mut shared = gateway.shared();
/// # shared.send(|out| gateway::request(out, 1, pilotlight_pipe::frame::flags::END, "/", b"four"));
/// # assert_eq!(&shared.answer(1).2[..], b"4 bytes\n");
/// ```
#[derive(Debug)]
pub struct Incoming(IncomingKind);

#[derive(Debug)]
enum IncomingKind {
    Full(Bytes),
    Channel(Channel),
}

impl Incoming {
    pub(super) fn full(bytes: Bytes) -> Self {
        Self(IncomingKind::Full(bytes))
    }

    pub(super) fn channel(first: Bytes) -> (mpsc::Sender<Message>, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, Self(IncomingKind::Channel(Channel { first, receiver, ended: false })))
    }

    /// The next bytes, `None` at the end. Trailers are skipped; [`http_body::Body`] shows them.
    ///
    /// # Errors
    /// [`BodyError::Cut`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            match std::future::poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await? {
                Err(error) => return Some(Err(error)),
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
            }
        }
    }

    /// The whole body, of at most `limit` bytes.
    ///
    /// # Errors
    /// [`BodyError`].
    ///
    /// # Cancel safety
    /// What was read is lost.
    pub async fn bytes(mut self, limit: usize) -> Result<Bytes, BodyError> {
        let too_large = BodyError::TooLarge { limit };
        let Some(first) = self.chunk().await.transpose()? else {
            return Ok(Bytes::new());
        };
        if first.len() > limit {
            return Err(too_large);
        }
        let Some(mut next) = self.chunk().await.transpose()? else {
            return Ok(first);
        };
        let mut all = BytesMut::from(&first[..]);
        loop {
            if next.len() > limit - all.len() {
                return Err(too_large);
            }
            all.extend_from_slice(&next);
            match self.chunk().await.transpose()? {
                Some(chunk) => next = chunk,
                None => return Ok(all.freeze()),
            }
        }
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            IncomingKind::Full(bytes) => Poll::Ready(full_frame(bytes)),
            IncomingKind::Channel(channel) => channel.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            IncomingKind::Full(bytes) => bytes.is_empty(),
            IncomingKind::Channel(channel) => channel.ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            IncomingKind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            IncomingKind::Channel(_) => SizeHint::default(),
        }
    }
}

/// The body of an answer.
///
/// ```
/// use http::Response;
/// use http_body::Body as _;
/// use pilotlight_pipe::Body;
///
/// let answer: Response<Body> = Response::new("hello\n".into());
/// assert_eq!(answer.body().size_hint().exact(), Some(6));
/// assert!(Body::empty().is_end_stream());
/// ```
pub struct Body(BodyKind);

enum BodyKind {
    Full(Bytes),
    Incoming(Incoming),
    Upgrade(OnUpgrade),
    Boxed(Pin<Box<dyn HttpBody<Data = Bytes, Error = BoxError>>>),
}

impl Body {
    /// No bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self(BodyKind::Full(Bytes::new()))
    }

    /// No body: the connection leaves HTTP behind the head, and is `handler`'s from then on (RFC 9110 §7.8).
    ///
    /// The response has to be a 101 with an `upgrade` field that names one of those in the request's `upgrade` field.
    /// A request that has none cannot be answered like this: its client gets 502.
    ///
    /// ```
    /// use http::{Request, Response, StatusCode, header::UPGRADE};
    /// use pilotlight_pipe::{Body, Incoming};
    ///
    /// async fn echo(request: Request<Incoming>) -> Result<Response<Body>, http::Error> {
    ///     if request.headers().get(UPGRADE).is_none_or(|protocol| protocol != "echo") {
    ///         return Response::builder().status(StatusCode::UPGRADE_REQUIRED).body(Body::empty());
    ///     }
    ///     let body = Body::upgrade(|connection| async move {
    ///         let (mut reader, mut writer) = tokio::io::split(connection);
    ///         let _copied = tokio::io::copy(&mut reader, &mut writer).await.is_ok();
    ///     });
    ///     Response::builder().status(StatusCode::SWITCHING_PROTOCOLS).header(UPGRADE, "echo").body(body)
    /// }
    /// ```
    pub fn upgrade<H, F>(handler: H) -> Self
    where
        H: FnOnce(Upgraded) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        Self(BodyKind::Upgrade(OnUpgrade::new(handler)))
    }

    pub(super) fn is_upgrade(&self) -> bool {
        matches!(self.0, BodyKind::Upgrade(_))
    }

    pub(super) fn into_upgrade(self) -> Option<OnUpgrade> {
        match self.0 {
            BodyKind::Upgrade(handler) => Some(handler),
            BodyKind::Full(_) | BodyKind::Incoming(_) | BodyKind::Boxed(_) => None,
        }
    }

    /// Any [`http_body::Body`] of bytes.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        Self(BodyKind::Boxed(Box::pin(Boxed { body: Box::pin(body) })))
    }

    /// The items of a stream. An error cuts the answer so that the client can see it.
    pub fn stream<S, T, E>(stream: S) -> Self
    where
        S: Stream<Item = Result<T, E>> + 'static,
        T: Into<Bytes>,
        E: Into<BoxError>,
    {
        Self(BodyKind::Boxed(Box::pin(Streamed { stream: Box::pin(stream) })))
    }

    /// A body that is written through a [`BodySender`], which waits while the client takes no more (P-22).
    #[must_use]
    pub fn channel() -> (BodySender, Self) {
        let (sender, body) = Incoming::channel(Bytes::new());
        (BodySender { sender }, Self(BodyKind::Incoming(body)))
    }

    /// The whole body if it is at hand without any waiting.
    pub(super) fn into_full(self) -> Result<Bytes, Self> {
        match self.0 {
            BodyKind::Full(bytes) | BodyKind::Incoming(Incoming(IncomingKind::Full(bytes))) => Ok(bytes),
            other => Err(Self(other)),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            BodyKind::Upgrade(_) => f.write_str("Body(upgrade)"),
            BodyKind::Full(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            _ => f.write_str("Body(stream)"),
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            BodyKind::Full(bytes) => Poll::Ready(full_frame(bytes)),
            BodyKind::Incoming(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            BodyKind::Upgrade(_) => Poll::Ready(None),
            BodyKind::Boxed(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyKind::Full(bytes) => bytes.is_empty(),
            BodyKind::Incoming(body) => body.is_end_stream(),
            BodyKind::Upgrade(_) => true,
            BodyKind::Boxed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyKind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Incoming(body) => body.size_hint(),
            BodyKind::Upgrade(_) => SizeHint::with_exact(0),
            BodyKind::Boxed(body) => body.size_hint(),
        }
    }
}

macro_rules! full_from {
    ($($from:ty),*) => {$(
        impl From<$from> for Body {
            fn from(body: $from) -> Self {
                Self(BodyKind::Full(body.into()))
            }
        }
    )*};
}

full_from!(Bytes, String, Vec<u8>, &'static str, &'static [u8]);

impl From<()> for Body {
    fn from((): ()) -> Self {
        Self::empty()
    }
}

impl From<Incoming> for Body {
    fn from(body: Incoming) -> Self {
        Self(BodyKind::Incoming(body))
    }
}

/// Writes a [`Body::channel`]. Dropped without [`finish`](Self::finish) or [`trailers`](Self::trailers) it cuts the
/// answer.
///
/// ```
/// # mod gateway { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/gateway.rs")); }
/// use http::{Request, Response};
/// use pilotlight_pipe::{Body, Incoming};
///
/// async fn count(_request: Request<Incoming>) -> Response<Body> {
///     let (sender, body) = Body::channel();
///     tokio::spawn(async move {
///         for number in 0..3 {
///             sender.send(format!("{number}\n")).await?;
///         }
///         sender.finish().await // without it the answer would be cut
///     });
///     Response::new(body)
/// }
/// # let gateway = gateway::Gateway::start(count);
/// # let mut shared = gateway.shared();
/// # let mut own = gateway.own(&mut shared);
/// # own.get(1, "/");
/// # own.expect(pilotlight_pipe::frame::FrameType::RESPONSE, 0, 1);
/// # assert_eq!(own.rest(1), b"0\n1\n2\n");
/// ```
#[derive(Clone, Debug)]
pub struct BodySender {
    sender: mpsc::Sender<Message>,
}

impl BodySender {
    /// Sends bytes, when there is room for them.
    ///
    /// # Errors
    /// Nobody wants the answer any more.
    ///
    /// # Cancel safety
    /// The bytes are sent or not, as a whole.
    pub async fn send(&self, bytes: impl Into<Bytes>) -> Result<(), BodyClosed> {
        self.put(Message::Data(bytes.into())).await
    }

    /// The body is complete.
    ///
    /// # Errors
    /// Nobody wants the answer any more.
    ///
    /// # Cancel safety
    /// When cancelled the answer is cut.
    pub async fn finish(self) -> Result<(), BodyClosed> {
        self.put(Message::Last(Bytes::new())).await
    }

    /// The body is complete, and these fields follow it.
    ///
    /// # Errors
    /// Nobody wants the answer any more.
    ///
    /// # Cancel safety
    /// When cancelled the answer is cut.
    pub async fn trailers(self, fields: HeaderMap) -> Result<(), BodyClosed> {
        self.put(Message::Trailers(fields)).await
    }

    /// Waits until nobody wants the answer any more.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn closed(&self) {
        self.sender.closed().await;
    }

    async fn put(&self, message: Message) -> Result<(), BodyClosed> {
        self.sender.send(message).await.map_err(|_| BodyClosed)
    }
}

/// Nobody wants the answer any more: the client has gone or the service is ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody wants the answer any more")]
pub struct BodyClosed;

#[derive(Debug)]
pub(super) enum Message {
    Data(Bytes),
    Last(Bytes),
    Trailers(HeaderMap),
}

#[derive(Debug)]
struct Channel {
    first: Bytes,
    receiver: mpsc::Receiver<Message>,
    ended: bool,
}

impl Channel {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if !self.first.is_empty() {
            return Poll::Ready(full_frame(&mut self.first));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let message = ready!(self.receiver.poll_recv(cx));
        self.ended = !matches!(message, Some(Message::Data(_)));
        Poll::Ready(match message {
            Some(Message::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Message::Last(bytes)) if bytes.is_empty() => None,
            Some(Message::Last(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Message::Trailers(fields)) => Some(Ok(Frame::trailers(fields))),
            None => Some(Err(BodyError::Cut)),
        })
    }
}

fn full_frame<E>(bytes: &mut Bytes) -> Option<Result<Frame<Bytes>, E>> {
    (!bytes.is_empty()).then(|| Ok(Frame::data(std::mem::take(bytes))))
}

/// A body whose error is boxed. The inner box makes it `Unpin`.
struct Boxed<B> {
    body: Pin<Box<B>>,
}

impl<B> HttpBody for Boxed<B>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.body.as_mut().poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct Streamed<S> {
    stream: Pin<Box<S>>,
}

impl<S, T, E> HttpBody for Streamed<S>
where
    S: Stream<Item = Result<T, E>>,
    T: Into<Bytes>,
    E: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let item = ready!(self.stream.as_mut().poll_next(cx));
        Poll::Ready(item.map(|item| item.map(|data| Frame::data(data.into())).map_err(Into::into)))
    }
}
