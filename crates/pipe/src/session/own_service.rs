//! The service's side of an own connection (P-19 … P-23).

use super::{Common, Part, Violation, common, violation};
use crate::frame::{FrameHeader, FrameType};

/// What a frame on an own connection means to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnServiceEvent {
    /// The connection is accepted (P-3).
    Welcome,
    /// A request, and whether it is complete.
    Request(u16, Part),
    /// A complete request whose answer may switch to another protocol (P-38).
    Offer(u16),
    /// More of the body.
    Data(Part),
    /// The end of the request's body, with fields.
    Trailers,
    /// DATA or TRAILERS that nobody wants any more (P-21).
    Thrown,
    /// RESET for the exchange: stop working on it; a final frame is still owed (P-26).
    Cancel,
    /// RESET for an exchange that has ended (P-26).
    Ignored,
    /// RESET on exchange 0: the gateway refuses the connection or reports a protocol error, and closes.
    ConnectionReset,
    /// Answer with PONG before anything else (P-35).
    Ping,
    /// The answer to a PING.
    Pong,
    /// Finish and close (P-31).
    Drain,
    /// An unknown type that may be skipped (P-7).
    Skipped,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    exchange: u16,
    request: Part,
    /// The final frame is sent.
    answered: bool,
    cancelled: bool,
    /// STOP is sent.
    stopped: bool,
    /// A switch is offered: the gateway sends nothing before it is answered (P-39).
    offered: bool,
}

/// One own connection.
///
/// ```
/// use pilotlight_pipe::frame::{FrameHeader, FrameType, flags};
/// use pilotlight_pipe::session::{OwnService, OwnServiceEvent, Part};
///
/// let mut connection = OwnService::default();
/// let header = |kind, flags, exchange| FrameHeader { length: 0, kind, flags, exchange };
/// assert_eq!(connection.receive(&header(FrameType::WELCOME, flags::NONE, 0))?, OwnServiceEvent::Welcome);
/// let request = header(FrameType::REQUEST, flags::END, 7);
/// assert_eq!(connection.receive(&request)?, OwnServiceEvent::Request(7, Part::Last));
/// assert!(connection.owes_answer());
/// connection.finish(); // the final frame is sent
/// assert!(connection.is_idle());
/// # Ok::<(), pilotlight_pipe::session::Violation>(())
/// ```
#[derive(Debug, Default)]
pub struct OwnService {
    welcomed: bool,
    /// What WELCOME agreed to (P-37).
    minor: u16,
    current: Option<Current>,
}

impl OwnService {
    /// WELCOME has agreed to this minor version (P-37).
    pub fn agreed(&mut self, minor: u16) {
        self.minor = minor;
    }

    /// Whether no exchange is in progress: the connection may be closed (P-23).
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    /// The exchange in progress.
    #[must_use]
    pub fn exchange(&self) -> Option<u16> {
        self.current.map(|current| current.exchange)
    }

    /// Whether a final frame is owed.
    #[must_use]
    pub fn owes_answer(&self) -> bool {
        self.current.is_some_and(|current| !current.answered)
    }

    /// The handler wants no more of the body: whether STOP is to be sent (P-21).
    #[must_use]
    pub fn stop(&mut self) -> bool {
        match &mut self.current {
            Some(current) if current.request == Part::More && !current.stopped && !current.answered => {
                current.stopped = true;
                true
            }
            _ => false,
        }
    }

    /// Whether the exchange in progress may switch to another protocol: RESPONSE with UPGRADE may be sent.
    #[must_use]
    pub fn is_offered(&self) -> bool {
        self.current.is_some_and(|current| current.offered && !current.answered)
    }

    /// RESPONSE is sent, and more of the answer follows.
    pub fn answer_begun(&mut self) {
        if let Some(current) = &mut self.current {
            current.offered = false;
        }
    }

    /// The final frame is sent.
    pub fn finish(&mut self) {
        if let Some(current) = &mut self.current {
            current.answered = true;
        }
        self.settle();
    }

    /// A frame came.
    ///
    /// # Errors
    /// The frame is not allowed there (P-10).
    pub fn receive(&mut self, header: &FrameHeader) -> Result<OwnServiceEvent, Violation> {
        let found = common(header)?;
        if self.is_offered() {
            return Err(violation(header, "P-39", "nothing comes between an offered switch and its answer"));
        }
        if !self.welcomed && !matches!(found, Some(Common::Welcome | Common::ConnectionReset | Common::Skipped)) {
            return Err(violation(header, "P-3", "WELCOME comes first"));
        }
        if let Some(found) = found {
            return match found {
                Common::Welcome if self.welcomed => Err(violation(header, "P-3", "WELCOME comes once")),
                Common::Welcome => {
                    self.welcomed = true;
                    Ok(OwnServiceEvent::Welcome)
                }
                Common::Ping => Ok(OwnServiceEvent::Ping),
                Common::Pong => Ok(OwnServiceEvent::Pong),
                Common::Drain => Ok(OwnServiceEvent::Drain),
                Common::ConnectionReset => Ok(OwnServiceEvent::ConnectionReset),
                Common::Skipped => Ok(OwnServiceEvent::Skipped),
                Common::More => Err(violation(header, "P-23", "MORE comes on shared connections")),
                Common::Log => Err(violation(header, "P-11", "only the service sends this")),
            };
        }
        match header.kind {
            FrameType::REQUEST => self.request(header),
            FrameType::DATA | FrameType::TRAILERS => self.body(header),
            FrameType::RESET => Ok(self.reset(header.exchange)),
            _ => Err(violation(header, "P-11", "only the service sends this")),
        }
    }

    fn request(&mut self, header: &FrameHeader) -> Result<OwnServiceEvent, Violation> {
        if self.current.is_some() {
            return Err(violation(header, "P-19", "the exchange before has not ended in both directions"));
        }
        let (exchange, request) = (header.exchange, Part::of(header));
        let offered = header.is_upgrade() && self.minor >= 1; // P-7: otherwise it is a bit that is not known
        if offered && request == Part::More {
            return Err(violation(header, "P-38", "a REQUEST with UPGRADE and without END"));
        }
        self.current = Some(Current { exchange, request, answered: false, cancelled: false, stopped: false, offered });
        Ok(if offered { OwnServiceEvent::Offer(exchange) } else { OwnServiceEvent::Request(exchange, request) })
    }

    fn body(&mut self, header: &FrameHeader) -> Result<OwnServiceEvent, Violation> {
        let current = match &mut self.current {
            Some(current) if current.exchange == header.exchange => current,
            _ => return Err(violation(header, "P-19", "this exchange is not on this own connection")),
        };
        if current.request == Part::Last {
            return Err(violation(header, "P-20", "the request has ended"));
        }
        let trailers = header.kind == FrameType::TRAILERS;
        current.request = if trailers { Part::Last } else { Part::of(header) };
        let (request, unwanted) = (current.request, current.answered || current.stopped || current.cancelled);
        self.settle();
        Ok(match (unwanted, trailers) {
            (true, _) => OwnServiceEvent::Thrown,
            (false, true) => OwnServiceEvent::Trailers,
            (false, false) => OwnServiceEvent::Data(request),
        })
    }

    fn reset(&mut self, exchange: u16) -> OwnServiceEvent {
        let Some(current) = self.current.as_mut().filter(|current| current.exchange == exchange) else {
            return OwnServiceEvent::Ignored; // P-26: it has ended
        };
        let late = current.answered || current.cancelled;
        current.cancelled = true;
        current.request = Part::Last; // P-26: no DATA follows it
        self.settle();
        if late { OwnServiceEvent::Ignored } else { OwnServiceEvent::Cancel }
    }

    fn settle(&mut self) {
        if self.current.is_some_and(|current| current.answered && current.request == Part::Last) {
            self.current = None;
        }
    }
}
