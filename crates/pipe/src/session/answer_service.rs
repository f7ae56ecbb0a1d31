//! The service's side of an answer connection (P-24, P-25).

use super::{Common, Violation, common, violation};
use crate::frame::{FrameHeader, FrameType};

/// What a frame on an answer connection means to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerServiceEvent {
    /// The connection is accepted (P-3).
    Welcome,
    /// RESET for the answer in progress: a final frame is still owed (P-26).
    Cancel,
    /// RESET for an answer that has ended (P-26).
    Ignored,
    /// RESET on exchange 0: the gateway refuses the connection or reports a protocol error, and closes.
    ConnectionReset,
    /// An unknown type that may be skipped (P-7).
    Skipped,
}

/// One answer connection.
#[derive(Debug, Default)]
pub struct AnswerService {
    welcomed: bool,
    current: Option<u16>,
}

impl AnswerService {
    /// An answer begins here. `false`, and nothing changes, if another is in progress (P-25).
    #[must_use]
    pub fn begin(&mut self, exchange: u16) -> bool {
        let free = self.current.is_none();
        if free {
            self.current = Some(exchange);
        }
        free
    }

    /// The final frame is sent: the connection may carry another answer.
    pub fn finish(&mut self) {
        self.current = None;
    }

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
            None if header.kind == FrameType::RESET && self.welcomed => {
                let current = self.current == Some(header.exchange);
                Ok(if current {
                    AnswerServiceEvent::Cancel
                } else {
                    AnswerServiceEvent::Ignored
                })
            }
            _ if !self.welcomed => Err(violation(header, "P-3", "WELCOME comes first")),
            _ => Err(violation(
                header,
                "P-25",
                "the gateway sends WELCOME and RESET on an answer connection",
            )),
        }
    }
}
