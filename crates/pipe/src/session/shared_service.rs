//! The service's side of a shared connection (P-14 … P-18, P-24).
//!
//! Invariant: an exchange is open here from its REQUEST to its final frame, also while it is answered on an answer
//! connection, so that RESET finds the exchange it is meant for and no later one with the same id (P-26).

use super::{Common, Violation, common, violation};
use crate::frame::{FrameHeader, FrameType};

/// What a frame on a shared connection means to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedServiceEvent {
    /// The connection is accepted (P-3).
    Welcome,
    /// A whole request. The exchange is open until [`SharedService::finish`].
    Request(u16),
    /// RESET for an open exchange, wherever it is being answered: stop working on it; a final frame is still owed
    /// (P-26).
    Cancel(u16),
    /// RESET for an exchange that has ended (P-26).
    Ignored,
    /// RESET on exchange 0: the gateway refuses the connection or reports a protocol error, and closes.
    ConnectionReset,
    /// Answer with PONG before anything else (P-35).
    Ping,
    /// The answer to a PING.
    Pong,
    /// Finish, refuse later requests, close, exit (P-31).
    Drain,
    /// Dial more connections (P-23).
    More,
    /// An unknown type that may be skipped (P-7).
    Skipped,
}

/// One shared connection.
///
/// ```
/// use pilotlight_pipe::frame::{FrameHeader, FrameType, flags};
/// use pilotlight_pipe::session::{SharedService, SharedServiceEvent};
///
/// let mut connection = SharedService::new(16); // what its HELLO says
/// let header = |kind, flags, exchange| FrameHeader { length: 0, kind, flags, exchange };
/// assert_eq!(connection.receive(&header(FrameType::WELCOME, flags::NONE, 0))?, SharedServiceEvent::Welcome);
/// for exchange in [1, 2] {
///     let request = header(FrameType::REQUEST, flags::END, exchange);
///     assert_eq!(connection.receive(&request)?, SharedServiceEvent::Request(exchange));
/// }
/// assert!(connection.finish(2)); // its final frame is sent
/// assert_eq!(connection.open(), 1);
/// # Ok::<(), pilotlight_pipe::session::Violation>(())
/// ```
#[derive(Debug)]
pub struct SharedService {
    limit: u16,
    welcomed: bool,
    open: usize,
    /// By exchange id; as long as the highest id that came, 64 KiB at most.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Open,
    Cancelled,
}

impl SharedService {
    /// A connection whose HELLO said `exchanges`.
    #[must_use]
    pub fn new(exchanges: u16) -> Self {
        Self { limit: exchanges, welcomed: false, open: 0, slots: Vec::new() }
    }

    /// How many final frames are owed.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// The final frame of an exchange is about to be sent, here or on an answer connection. Not earlier: until then
    /// RESET comes here (P-26); and not later: as soon as the gateway has it, the id may come back here (P-15). `false`
    /// if none was owed.
    pub fn finish(&mut self, exchange: u16) -> bool {
        match self.slots.get_mut(usize::from(exchange)) {
            Some(slot) if *slot != Slot::Free => {
                *slot = Slot::Free;
                self.open -= 1;
                true
            }
            _ => false,
        }
    }

    /// A frame came.
    ///
    /// # Errors
    /// The frame is not allowed there (P-10).
    pub fn receive(&mut self, header: &FrameHeader) -> Result<SharedServiceEvent, Violation> {
        let found = common(header)?;
        if !self.welcomed && !matches!(found, Some(Common::Welcome | Common::ConnectionReset | Common::Skipped)) {
            return Err(violation(header, "P-3", "WELCOME comes first"));
        }
        if let Some(found) = found {
            return match found {
                Common::Welcome if self.welcomed => Err(violation(header, "P-3", "WELCOME comes once")),
                Common::Welcome => {
                    self.welcomed = true;
                    Ok(SharedServiceEvent::Welcome)
                }
                Common::Ping => Ok(SharedServiceEvent::Ping),
                Common::Pong => Ok(SharedServiceEvent::Pong),
                Common::Drain => Ok(SharedServiceEvent::Drain),
                Common::More => Ok(SharedServiceEvent::More),
                Common::ConnectionReset => Ok(SharedServiceEvent::ConnectionReset),
                Common::Skipped => Ok(SharedServiceEvent::Skipped),
                Common::Log => Err(violation(header, "P-11", "only the service sends this")),
            };
        }
        match header.kind {
            FrameType::REQUEST => self.request(header),
            FrameType::RESET => Ok(match self.slots.get_mut(usize::from(header.exchange)) {
                Some(slot) if *slot == Slot::Open => {
                    *slot = Slot::Cancelled;
                    SharedServiceEvent::Cancel(header.exchange)
                }
                _ => SharedServiceEvent::Ignored, // P-26
            }),
            _ => Err(violation(header, "P-11", "not allowed on a shared connection")),
        }
    }

    fn request(&mut self, header: &FrameHeader) -> Result<SharedServiceEvent, Violation> {
        if !header.is_end() {
            return Err(violation(header, "P-14", "REQUEST without END on a shared connection"));
        }
        let index = usize::from(header.exchange);
        if self.slots.get(index).is_some_and(|slot| *slot != Slot::Free) {
            return Err(violation(header, "P-15", "this exchange is still open"));
        }
        if self.open >= usize::from(self.limit) {
            return Err(violation(header, "P-14", "more exchanges than HELLO allows"));
        }
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::Free);
        }
        self.slots[index] = Slot::Open;
        self.open += 1;
        Ok(SharedServiceEvent::Request(header.exchange))
    }
}
