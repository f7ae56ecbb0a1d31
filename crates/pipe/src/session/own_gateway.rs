//! The gateway's side of an own connection: one exchange at a time, both directions (P-19 … P-23).

use super::phase::Phase;
use super::{AnswerPart, Common, Part, Violation, common, violation};
use crate::frame::{FrameHeader, FrameType};

/// What a frame on an own connection means to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnEvent {
    /// A part of the answer.
    Part(AnswerPart),
    /// A part of the answer to a cancelled exchange: throw it away (P-26).
    Thrown(AnswerPart),
    /// The service wants no more of the body: end the request direction (P-21).
    Stop,
    /// RESET for an exchange that has ended, or STOP when the request had ended already.
    Ignored,
    /// RESET on exchange 0: the service reports a protocol error and closes.
    ConnectionReset,
    /// Answer with PONG before anything else (P-35).
    Ping,
    /// The answer to a PING.
    Pong,
    /// The service wants no new exchanges (P-32).
    Drain,
    /// A log line.
    Log,
    /// An unknown type that may be skipped (P-7).
    Skipped,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    exchange: u16,
    request: Part,
    response: Phase,
    cancelled: bool,
    stopped: bool,
    received: bool,
    /// A switch is offered, and not answered yet: nothing may be sent (P-39).
    offering: bool,
}

/// One own connection.
///
/// ```
/// use pilotlight_pipe::frame::{FrameHeader, FrameType, flags};
/// use pilotlight_pipe::session::{AnswerPart, OwnEvent, OwnGateway, Part};
///
/// let mut connection = OwnGateway::default();
/// assert!(connection.begin(7, Part::More)); // REQUEST is sent, more of its body follows
/// assert!(connection.is_sending());
/// connection.request_ended(); // DATA with END is sent
/// let answer = FrameHeader { length: 0, kind: FrameType::RESPONSE, flags: flags::END, exchange: 7 };
/// assert_eq!(connection.receive(&answer)?, OwnEvent::Part(AnswerPart::Response(Part::Last)));
/// assert!(connection.is_idle());
/// # Ok::<(), pilotlight_pipe::session::Violation>(())
/// ```
#[derive(Debug, Default)]
pub struct OwnGateway {
    current: Option<Current>,
}

impl OwnGateway {
    /// Whether a REQUEST may be sent: both directions of the exchange before have ended (P-19).
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// The exchange in progress.
    #[must_use]
    pub fn exchange(&self) -> Option<u16> {
        self.current.map(|current| current.exchange)
    }

    /// Whether any frame of the answer has come; if none has when the connection ends, P-23 and P-29 say what may be
    /// done.
    #[must_use]
    pub fn has_received(&self) -> bool {
        self.current.is_some_and(|current| current.received)
    }

    /// REQUEST is sent. `false`, and nothing changes, if the connection is not idle (P-19).
    #[must_use]
    pub fn begin(&mut self, exchange: u16, part: Part) -> bool {
        if self.current.is_some() {
            return false;
        }
        let (cancelled, stopped, received, offering) = (false, false, false, false);
        self.current =
            Some(Current { exchange, request: part, response: Phase::Waiting, cancelled, stopped, received, offering });
        true
    }

    /// REQUEST with END and UPGRADE is sent (P-38); the same otherwise.
    #[must_use]
    pub fn begin_offer(&mut self, exchange: u16) -> bool {
        let begun = self.begin(exchange, Part::Last);
        if let Some(current) = self.current.as_mut().filter(|_| begun) {
            current.offering = true;
        }
        begun
    }

    /// Whether a switch is offered and not answered: nothing may be sent, and giving up means to close (P-39).
    #[must_use]
    pub fn is_offering(&self) -> bool {
        self.current.is_some_and(|current| current.offering)
    }

    /// Whether the request direction is open: DATA or TRAILERS may be sent, and END is still owed.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        self.current.is_some_and(|current| current.request == Part::More)
    }

    /// Whether an empty DATA with END is due now, whatever is left of the body (P-21).
    #[must_use]
    pub fn must_end_request(&self) -> bool {
        let due = |current: Current| current.stopped || current.response == Phase::Ended;
        self.is_sending() && self.current.is_some_and(due)
    }

    /// DATA with END, or TRAILERS, is sent.
    pub fn request_ended(&mut self) {
        if let Some(current) = &mut self.current {
            current.request = Part::Last;
        }
        self.settle();
    }

    /// The gateway no longer wants the answer: whether RESET is to be sent (P-26).
    #[must_use]
    pub fn cancel(&mut self) -> bool {
        match &mut self.current {
            Some(current) if current.response != Phase::Ended && !current.cancelled => {
                current.cancelled = true;
                current.request = Part::Last; // P-26: RESET ends this direction, too
                true
            }
            _ => false,
        }
    }

    /// A frame came.
    ///
    /// # Errors
    /// The frame is not allowed there (P-10).
    pub fn receive(&mut self, header: &FrameHeader) -> Result<OwnEvent, Violation> {
        if let Some(found) = common(header)? {
            return match found {
                Common::Ping if self.is_offering() => {
                    Err(violation(header, "P-39", "no PING between an offered switch and its answer"))
                }
                Common::Ping => Ok(OwnEvent::Ping),
                Common::Pong => Ok(OwnEvent::Pong),
                Common::Drain => Ok(OwnEvent::Drain),
                Common::Log => Ok(OwnEvent::Log),
                Common::ConnectionReset => Ok(OwnEvent::ConnectionReset),
                Common::Skipped => Ok(OwnEvent::Skipped),
                Common::Welcome | Common::More => Err(violation(header, "P-11", "only the gateway sends this")),
            };
        }
        let current = match &mut self.current {
            Some(current) if current.exchange == header.exchange && current.response != Phase::Ended => current,
            _ if header.kind == FrameType::RESET => return Ok(OwnEvent::Ignored), // P-26
            Some(current) if current.exchange == header.exchange => {
                return Err(violation(header, "P-20", "the answer has ended"));
            }
            _ => return Err(violation(header, "P-19", "this exchange is not on this own connection")),
        };
        if header.kind == FrameType::STOP {
            let late = current.request == Part::Last || current.stopped;
            current.stopped = true;
            return Ok(if late { OwnEvent::Ignored } else { OwnEvent::Stop });
        }
        let part = match header.kind {
            FrameType::RESPONSE if current.offering && header.is_upgrade() => {
                current.response.switch(header)?;
                AnswerPart::Switched
            }
            _ => current.response.receive(header)?,
        };
        current.received = true;
        current.offering &= part == AnswerPart::Info;
        let cancelled = current.cancelled;
        self.settle();
        Ok(if cancelled { OwnEvent::Thrown(part) } else { OwnEvent::Part(part) })
    }

    fn settle(&mut self) {
        let over = |current: Current| current.request == Part::Last && current.response == Phase::Ended;
        if self.current.is_some_and(over) {
            self.current = None;
        }
    }
}
