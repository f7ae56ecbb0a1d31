//! A client's request body on its way to a service: counted, timed, read ahead, taken piece by piece.
//!
//! ```text
//!                 end within MAX_HELD                                 pieces
//!   untouched ──────────────────────────▶ held whole ────────────────────────────────▶ given out; again after `rewind`
//!       │ │  MAX_HELD, or HOLD_CHUNKED                    pieces                more from the client
//!       │ └─────────────────────────────▶ begin held ─────────────▶ given out ──────────────────────▶ touched
//!       │  larger than MAX_HELD by its length                                                            ▲
//!       └────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName};
use http_body::Frame;
use pilotlight_http1::Malformed;

use crate::admission::forward::remove_alike;
use crate::deadline::Deadline;
use crate::fields;

/// Bodies up to here are read whole before the service is asked: they take no place of it meanwhile, go out in one
/// piece, and can be sent again.
const MAX_HELD: usize = 32 * 1024;
/// How long the end of a chunked body is awaited before the service is asked. Its client may be waiting for a response
/// to what it has sent so far.
const HOLD_CHUNKED: Duration = Duration::from_secs(1);

/// Why a body cannot be read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// Its framing is wrong.
    #[error("{0} ({section})", section = .0.refusal().section)]
    Malformed(Malformed),
    /// The connection is broken.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Where a request's body comes from.
pub(crate) trait BodySource {
    /// The next piece, or its trailers; `None` behind its end.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ReadError>>>;

    /// Whether nothing is left of it.
    fn is_ended(&self) -> bool;

    /// Bytes that are still to come, if that is known.
    fn remaining(&self) -> Option<u64>;
}

/// Whether a request may have content (RFC 9110 §6.4): its framing does not say that its body is empty.
pub(crate) fn has_content(body: Option<&dyn BodySource>) -> bool {
    body.is_some_and(|body| !body.is_ended() && body.remaining() != Some(0))
}

/// What has been read of a request's body.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) bytes: Cell<u64>,
    /// Its end as well.
    pub(crate) is_whole: Cell<bool>,
}

/// What can go wrong with a client's body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the request body is larger than {setting} ({limit} bytes)")]
    TooLarge { limit: u64, setting: &'static str },
    #[error("no more of the request body came within limits.body_timeout ({} s)", .after.as_secs_f32())]
    Timeout { after: Duration },
    #[error("the request body of at most {MAX_HELD} bytes did not come whole within limits.body_timeout ({} s)", .after.as_secs_f32())]
    Dripping { after: Duration },
    #[error("the request body did not come whole within {setting} ({} s)", .after.as_secs_f32())]
    Late { after: Duration, setting: &'static str },
    #[error("the request body could not be read: {0}")]
    Client(ReadError),
}

/// A limit with the name of its setting.
#[derive(Clone, Copy)]
pub(crate) struct BodyLimit {
    pub(crate) bytes: Option<u64>,
    pub(crate) setting: &'static str,
}

impl BodyLimit {
    pub(crate) fn check(&self, bytes: u64) -> Result<(), BodyError> {
        match self.bytes {
            Some(limit) if bytes > limit => Err(BodyError::TooLarge { limit, setting: self.setting }),
            _ => Ok(()),
        }
    }
}

/// One piece of a body.
pub(crate) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
}

/// The body with its limits.
pub(crate) struct RequestBody {
    incoming: Box<dyn BodySource>,
    received: u64,
    /// Told of what is received, for metrics.
    counted: Option<Rc<Received>>,
    /// Fields that no client may fill, neither in a head nor behind a body.
    claims: Option<Arc<[HeaderName]>>,
    limit: BodyLimit,
    timeout: Duration,
    deadline: Deadline,
    waiting: bool,
    /// It is not held before it is sent.
    is_talk: bool,
    /// Something has been given out that is not held.
    touched: bool,
    held: Held,
    /// So many parts of what is held have been given out.
    given: u8,
}

/// What has been read ahead.
enum Held {
    Nothing,
    Begin(Bytes),
    Whole(Bytes, Option<Box<HeaderMap>>),
}

impl RequestBody {
    /// `None` when the request has no body.
    pub(crate) fn new(
        incoming: Box<dyn BodySource>,
        limit: BodyLimit,
        timeout: Duration,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<Option<Self>, BodyError> {
        if incoming.is_ended() {
            return Ok(None);
        }
        limit.check(incoming.remaining().unwrap_or(0))?;
        Ok(Some(Self {
            incoming,
            received: 0,
            counted: None,
            claims: None,
            limit,
            timeout,
            deadline: deadline(),
            waiting: false,
            is_talk: false,
            touched: false,
            held: Held::Nothing,
            given: 0,
        }))
    }

    /// The same for a client and a service that talk for as long as they like: nothing of it is held before the service
    /// is asked, and no more of it need come within any time.
    pub(crate) fn talking(self) -> Self {
        Self { timeout: Duration::MAX, is_talk: true, ..self }
    }

    /// Leaves these out of its trailers, which a service may merge into the fields of the request (RFC 9110 §6.5.1).
    pub(crate) fn without(self, claims: &Arc<[HeaderName]>) -> Self {
        Self { claims: Some(Arc::clone(claims)), ..self }
    }

    /// Tells how much of it was received.
    pub(crate) fn counted(self, counted: Rc<Received>) -> Self {
        Self { counted: Some(counted), ..self }
    }

    /// Whether all that has been given out is held, so that the request can still be sent elsewhere.
    pub(crate) fn is_whole(&self) -> bool {
        !self.touched
    }

    /// Reads a small body into memory, so that it takes no place of the service meanwhile, and can be sent in one piece
    /// and again. One of stated length has to come whole within `limits.body_timeout`: one that drips is given up. A
    /// chunked one goes on with what has come when it turns out not to be small, or not to come soon.
    ///
    /// # Cancel safety
    /// Not safe: what was read is lost with the future.
    pub(crate) async fn hold(&mut self) -> Result<(), BodyError> {
        let length = self.length();
        let is_large = length.is_some_and(|length| length > MAX_HELD as u64);
        if is_large || self.is_talk || self.touched || !matches!(self.held, Held::Nothing) {
            return Ok(());
        }
        self.touched = true; // until it has gone well
        self.deadline.set(length.map_or(HOLD_CHUNKED, |_| self.timeout));
        let mut begin = BytesMut::new();
        self.held = loop {
            let piece = std::future::poll_fn(|cx| {
                // First, because a client that always sends more would never let the deadline be seen.
                match self.deadline.poll(cx) {
                    Poll::Ready(()) => Poll::Ready(None),
                    Poll::Pending => self.poll_incoming(cx).map(Some),
                }
            });
            match piece.await.transpose()? {
                None if length.is_some() => return Err(BodyError::Dripping { after: self.timeout }),
                None => break Held::Begin(begin.freeze()),
                Some(Piece::Data(data)) if begin.is_empty() => begin = BytesMut::from(data),
                Some(Piece::Data(data)) => begin.extend_from_slice(&data),
                Some(Piece::Trailers(trailers)) => break Held::Whole(begin.freeze(), Some(Box::new(trailers))),
                Some(Piece::End) => break Held::Whole(begin.freeze(), None),
            }
            if begin.len() > MAX_HELD {
                break Held::Begin(begin.freeze());
            }
        };
        self.touched = false;
        Ok(())
    }

    /// Reads a body of at most `most` bytes into memory; `None`: it has more. It is held from then on.
    ///
    /// # Cancel safety
    /// Not safe: what was read is lost with the future.
    pub(crate) async fn gather(&mut self, most: usize) -> Result<Option<Bytes>, BodyError> {
        if let Some(held) = self.held() {
            return Ok(Some(held.clone()));
        }
        if self.length().is_some_and(|length| length > most as u64) || self.touched {
            return Ok(None);
        }
        let mut whole = BytesMut::new();
        loop {
            match std::future::poll_fn(|cx| self.poll_piece(cx)).await? {
                Piece::Data(data) if whole.len() + data.len() > most => return Ok(None),
                Piece::Data(data) if whole.is_empty() => whole = BytesMut::from(data),
                Piece::Data(data) => whole.extend_from_slice(&data),
                Piece::Trailers(_) | Piece::End => break,
            }
        }
        let whole = whole.freeze();
        self.held = Held::Whole(whole.clone(), None);
        (self.touched, self.given) = (false, 0);
        Ok(Some(whole))
    }

    /// The body without trailers, if it is held whole.
    pub(crate) fn held(&self) -> Option<&Bytes> {
        match &self.held {
            Held::Whole(data, None) => Some(data),
            Held::Whole(_, Some(_)) | Held::Begin(_) | Held::Nothing => None,
        }
    }

    /// Its length, if it is held whole.
    pub(crate) fn held_length(&self) -> Option<u64> {
        match &self.held {
            Held::Whole(data, _) => Some(data.len() as u64),
            Held::Begin(_) | Held::Nothing => None,
        }
    }

    /// Begins anew with what is held.
    pub(crate) fn rewind(&mut self) {
        self.given = 0;
    }

    /// The length, if the client gave it.
    pub(crate) fn length(&self) -> Option<u64> {
        self.incoming.remaining()
    }

    /// The rest of it, if there is any, and nothing has been given out that is not held.
    pub(crate) fn into_untouched(self) -> Option<Box<dyn BodySource>> {
        (!self.touched && !matches!(self.held, Held::Whole(..))).then_some(self.incoming)
    }

    fn note_end(&self) {
        if let Some(counted) = &self.counted {
            counted.is_whole.set(true);
        }
    }

    /// The next piece.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, BodyError>> {
        if let Some(piece) = self.next_held() {
            return Poll::Ready(Ok(piece));
        }
        match self.poll_incoming(cx) {
            Poll::Pending => {
                if !self.waiting {
                    self.waiting = true;
                    self.deadline.set(self.timeout);
                }
                self.deadline.poll(cx).map(|()| Err(BodyError::Timeout { after: self.timeout }))
            }
            ready => {
                self.waiting = false;
                self.touched = true;
                self.held = Held::Nothing;
                ready
            }
        }
    }

    /// The next part of what is held; `None` when the client has to be asked.
    fn next_held(&mut self) -> Option<Piece> {
        let data = match &self.held {
            Held::Nothing => return None,
            Held::Begin(data) | Held::Whole(data, _) => data,
        };
        if self.given == 0 {
            self.given = 1;
            if !data.is_empty() {
                return Some(Piece::Data(data.clone()));
            }
        }
        match &self.held {
            Held::Whole(_, Some(trailers)) if self.given == 1 => {
                self.given = 2;
                Some(Piece::Trailers(HeaderMap::clone(trailers)))
            }
            Held::Whole(..) => Some(Piece::End),
            Held::Begin(_) | Held::Nothing => None,
        }
    }

    /// The next piece from the client, counted, and refused beyond the limit.
    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, BodyError>> {
        loop {
            let Some(frame) = ready!(self.incoming.poll_frame(cx)) else {
                self.note_end();
                return Poll::Ready(Ok(Piece::End));
            };
            let frame = frame.map_err(BodyError::Client)?;
            if frame.is_trailers() || self.incoming.is_ended() {
                self.note_end();
            }
            let frame = match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => {
                    self.received += data.len() as u64;
                    if let Some(counted) = &self.counted {
                        counted.bytes.set(self.received);
                    }
                    self.limit.check(self.received)?;
                    return Poll::Ready(Ok(Piece::Data(data)));
                }
                Err(frame) => frame,
            };
            if let Ok(mut trailers) = frame.into_trailers() {
                fields::keep_trailers(&mut trailers);
                if let Some(claims) = &self.claims {
                    remove_alike(&mut trailers, claims);
                }
                return Poll::Ready(Ok(if trailers.is_empty() { Piece::End } else { Piece::Trailers(trailers) }));
            }
        }
    }
}
