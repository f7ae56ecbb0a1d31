//! Sessions: which frame is allowed when (spec §5–§9), for each kind of connection and for both sides.
//!
//! Pure: the caller gives a session the header of each frame that it reads and says what it sends; the session returns
//! an event, or the rule that was broken. It holds no payloads, does no I/O and knows no clock, so limits in time
//! (`cancel_grace`, `hello_timeout`) belong to the connection that owns it.
//!
//! | connection | gateway's side | service's side |
//! |---|---|---|
//! | shared | [`GatewayExchanges`] | [`SharedService`] |
//! | own | [`OwnGateway`] | [`OwnService`] |
//! | answer | [`AnswerGateway`] | [`AnswerService`] |

mod answer_gateway;
mod answer_service;
mod exchanges;
mod own_gateway;
mod own_service;
mod phase;
mod shared_service;
#[cfg(test)]
mod tests;

pub use answer_gateway::{AnswerEvent, AnswerGateway};
pub use answer_service::{AnswerService, AnswerServiceEvent};
pub use exchanges::{GatewayExchanges, SharedEvent, SharedId};
pub use own_gateway::{OwnEvent, OwnGateway};
pub use own_service::{OwnService, OwnServiceEvent};
pub use phase::AnswerPart;
pub use shared_service::{SharedService, SharedServiceEvent};

use crate::control::ControlError;
use crate::frame::{FrameError, FrameHeader, FrameType};
use crate::head::HeadError;
use crate::hello::HelloError;
use crate::reset::{Reset, ResetCode, ResetError};
use std::fmt;

/// Whether a frame ends its direction of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// More frames follow.
    More,
    /// The last frame of the direction.
    Last,
}

impl Part {
    fn of(header: &FrameHeader) -> Self {
        if header.is_end() { Self::Last } else { Self::More }
    }
}

/// A frame that is not allowed where it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule of the specification, `P-n`.
    pub rule: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// The frame's type.
    pub kind: u8,
    /// The frame's exchange.
    pub exchange: u16,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, what, kind, exchange } = *self;
        write!(f, "{rule}: {what} (")?;
        match FrameType::name(kind) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "type {kind}")?,
        }
        write!(f, ", exchange {exchange})")
    }
}

impl std::error::Error for Violation {}

/// Everything that a peer can do wrong. Its text begins with the rule and is what RESET(PROTOCOL) carries (P-10).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Bytes that are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame at the wrong time.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// A malformed head or trailers.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A malformed or refused HELLO or WELCOME.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// A malformed RESET.
    #[error(transparent)]
    Reset(#[from] ResetError),
    /// A malformed control frame.
    #[error(transparent)]
    Control(#[from] ControlError),
}

impl ProtocolError {
    /// The RESET(PROTOCOL) that answers it, to be sent on exchange 0 before closing (P-10).
    #[must_use]
    pub fn to_reset(&self) -> Reset {
        Reset::new(ResetCode::Protocol, self.to_string())
    }
}

fn violation(header: &FrameHeader, rule: &'static str, what: &'static str) -> Violation {
    Violation { rule, what, kind: header.kind, exchange: header.exchange }
}

/// What may come in any state, decided before the state is looked at.
enum Common {
    Ping,
    Pong,
    Drain,
    More,
    Log,
    Welcome,
    ConnectionReset,
    Skipped,
}

/// Sorts out the frames of the connection itself. `None`: the frame belongs to an exchange.
fn common(header: &FrameHeader) -> Result<Option<Common>, Violation> {
    let found = match header.kind {
        FrameType::RESET if header.exchange == 0 => Common::ConnectionReset,
        FrameType::LOG => Common::Log,
        FrameType::REQUEST..=FrameType::RESET if header.exchange == 0 => {
            return Err(violation(header, "P-15", "exchange 0 is no exchange"));
        }
        FrameType::REQUEST..=FrameType::RESET => return Ok(None),
        FrameType::HELLO => return Err(violation(header, "P-11", "HELLO comes once, from the service")),
        FrameType::WELCOME => Common::Welcome,
        FrameType::PING => Common::Ping,
        FrameType::PONG => Common::Pong,
        FrameType::DRAIN => Common::Drain,
        FrameType::MORE => Common::More,
        _ if header.is_ignorable() => return Ok(Some(Common::Skipped)), // P-7
        _ => return Err(violation(header, "P-7", "an unknown type without IGNORABLE")),
    };
    if header.exchange != 0 && header.kind != FrameType::LOG {
        return Err(violation(header, "P-11", "a frame of the connection must be on exchange 0"));
    }
    Ok(Some(found))
}
