//! The service's side of an answer connection (P-24, P-25).
//!
//! What the gateway has to say about the exchange comes on the shared connection that carried its REQUEST (P-26), so
//! this session knows no exchanges: the service's [`SharedService`](super::SharedService) does.

use super::{Common, Violation, common, violation};
use crate::frame::FrameHeader;

/// What a frame on an answer connection means to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerServiceEvent {
    /// The connection is accepted (P-3).
    Welcome,
    /// RESET on exchange 0: the gateway refuses the connection or reports a protocol error, and closes.
    ConnectionReset,
    /// An unknown type that may be skipped (P-7).
    Skipped,
}

/// One answer connection.
///
/// ```
/// use pilotlight_pipe::frame::{FrameHeader, FrameType, flags};
/// use pilotlight_pipe::session::{AnswerService, AnswerServiceEvent};
///
/// let mut connection = AnswerService::default();
/// let welcome = FrameHeader { length: 0, kind: FrameType::WELCOME, flags: flags::NONE, exchange: 0 };
/// assert_eq!(connection.receive(&welcome)?, AnswerServiceEvent::Welcome);
/// let request = FrameHeader { kind: FrameType::REQUEST, exchange: 7, ..welcome };
/// assert_eq!(connection.receive(&request).unwrap_err().rule, "P-25"); // requests do not come here
/// # Ok::<(), pilotlight_pipe::session::Violation>(())
/// ```
#[derive(Debug, Default)]
pub struct AnswerService {
    welcomed: bool,
}

impl AnswerService {
    /// A frame came.
    ///
    /// # Errors
    /// The frame is not allowed there (P-10).
    pub fn receive(&mut self, header: &FrameHeader) -> Result<AnswerServiceEvent, Violation> {
        match common(header)? {
            Some(Common::Welcome) if !self.welcomed => {
                self.welcomed = true;
                Ok(AnswerServiceEvent::Welcome)
            }
            Some(Common::Welcome) => Err(violation(header, "P-3", "WELCOME comes once")),
            Some(Common::ConnectionReset) => Ok(AnswerServiceEvent::ConnectionReset),
            Some(Common::Skipped) => Ok(AnswerServiceEvent::Skipped),
            _ if !self.welcomed => Err(violation(header, "P-3", "WELCOME comes first")),
            _ => Err(violation(
                header,
                "P-25",
                "on an answer connection the gateway sends WELCOME, and RESET on exchange 0",
            )),
        }
    }
}
