//! A client's request body on its way to a service: counted, timed, taken piece by piece.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use crate::client::{ClientBody, ReadError};
use crate::deadline::Deadline;
use crate::fields;
use crate::record::Received;

/// Bodies of a stated length up to here are read whole before the service is asked: they take no place of it meanwhile, go out in one
/// piece, and can be sent again.
pub(crate) const MAX_HELD: u64 = 32 * 1024;

/// What can go wrong with a client's body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the request body is larger than {setting} ({limit} bytes)")]
    TooLarge { limit: u64, setting: &'static str },
    #[error("no more of the request body came within limits.body_timeout ({} s)", .after.as_secs_f32())]
    Timeout { after: Duration },
    #[error("the request body of at most {MAX_HELD} bytes did not come whole within limits.body_timeout ({} s)", .after.as_secs_f32())]
    Dripping { after: Duration },
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
    incoming: ClientBody,
    received: u64,
    /// Told of what is received, for metrics.
    counted: Option<Rc<Received>>,
    limit: BodyLimit,
    timeout: Duration,
    deadline: Deadline,
    waiting: bool,
    touched: bool,
    /// The whole body, once [`RequestBody::hold`] has it.
    held: Option<Bytes>,
    held_sent: bool,
}

impl RequestBody {
    /// `None` when the request has no body.
    pub(crate) fn new(
        incoming: ClientBody,
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
            limit,
            timeout,
            deadline: deadline(),
            waiting: false,
            touched: false,
            held: None,
            held_sent: false,
        }))
    }

    /// Tells how much of it was received.
    pub(crate) fn counted(self, counted: Rc<Received>) -> Self {
        Self { counted: Some(counted), ..self }
    }

    /// Whether nothing of it has been taken, so that the request can still be sent elsewhere.
    pub(crate) fn is_whole(&self) -> bool {
        !self.touched || self.held.is_some()
    }

    /// Reads the whole body into memory if the client said that it is at most `max` bytes, so that it can be sent in one
    /// piece, and again. `None` if it is larger, or of unknown length. All of it has to come within `limits.body_timeout`, a byte more or less:
    /// one that drips is given up.
    ///
    /// # Cancel safety
    /// Not safe: what was read is lost with the future, and the body with it.
    pub(crate) async fn hold(&mut self, max: u64) -> Result<Option<Bytes>, BodyError> {
        if self.held.is_none() {
            if self.touched || self.length().is_none_or(|length| length > max) {
                return Ok(None);
            }
            let (mut whole, begun) = (BytesMut::new(), Instant::now());
            loop {
                if begun.elapsed() > self.timeout {
                    return Err(BodyError::Dripping { after: self.timeout });
                }
                match std::future::poll_fn(|cx| self.poll_piece(cx)).await? {
                    Piece::Data(data) if whole.is_empty() => whole = BytesMut::from(data),
                    Piece::Data(data) => whole.extend_from_slice(&data),
                    Piece::Trailers(_) => {} // a body of known length has none
                    Piece::End => break,
                }
            }
            self.held = Some(whole.freeze());
        }
        Ok(self.held.clone())
    }

    /// Begins anew with a held body.
    pub(crate) fn rewind(&mut self) {
        self.held_sent = false;
    }

    /// The length, if the client gave it.
    pub(crate) fn length(&self) -> Option<u64> {
        self.incoming.remaining()
    }

    /// The body itself, if nothing of it has been taken.
    pub(crate) fn into_untouched(self) -> Option<ClientBody> {
        (!self.touched).then_some(self.incoming)
    }

    fn note_end(&self) {
        if let Some(counted) = &self.counted {
            counted.is_whole.set(true);
        }
    }

    /// The next piece.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, BodyError>> {
        if let Some(held) = &self.held {
            let first = !std::mem::replace(&mut self.held_sent, true);
            return Poll::Ready(Ok(if first && !held.is_empty() { Piece::Data(held.clone()) } else { Piece::End }));
        }
        loop {
            match self.incoming.poll_frame(cx) {
                Poll::Pending => {
                    if !self.waiting {
                        self.waiting = true;
                        self.deadline.set(self.timeout);
                    }
                    return match self.deadline.poll(cx) {
                        Poll::Ready(()) => Poll::Ready(Err(BodyError::Timeout { after: self.timeout })),
                        Poll::Pending => Poll::Pending,
                    };
                }
                Poll::Ready(None) => {
                    self.note_end();
                    return Poll::Ready(Ok(Piece::End));
                }
                Poll::Ready(Some(Err(e))) => return Poll::Ready(Err(BodyError::Client(e))),
                Poll::Ready(Some(Ok(frame))) => {
                    self.waiting = false;
                    self.touched = true;
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
                        if trailers.is_empty() {
                            return Poll::Ready(Ok(Piece::End));
                        }
                        return Poll::Ready(Ok(Piece::Trailers(trailers)));
                    }
                }
            }
        }
    }
}
