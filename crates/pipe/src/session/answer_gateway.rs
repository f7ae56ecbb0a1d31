//! The gateway's side of an answer connection (P-24, P-25).

use super::phase::Phase;
use super::{AnswerPart, Common, GatewayExchanges, Violation, common, violation};
use crate::frame::{FrameHeader, FrameType};

/// What a frame on an answer connection means to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEvent {
    /// A part of the answer to this exchange.
    Part(u16, AnswerPart),
    /// A part of the answer to a cancelled exchange: throw it away (P-26). With the final one its id is free again.
    Thrown(u16, AnswerPart),
    /// RESET for an exchange that has ended (P-26).
    Ignored,
    /// RESET on exchange 0: the service reports a protocol error and closes.
    ConnectionReset,
    /// A log line.
    Log,
    /// An unknown type that may be skipped (P-7).
    Skipped,
}

/// One answer connection.
///
/// ```
/// use pilotlight_pipe::frame::{FrameHeader, FrameType, flags};
/// use pilotlight_pipe::session::{AnswerEvent, AnswerGateway, AnswerPart, GatewayExchanges, Part};
///
/// let mut exchanges = GatewayExchanges::default();
/// let shared = exchanges.add_shared(16);
/// let exchange = exchanges.begin_shared(shared).expect("there is room"); // REQUEST is sent there
/// let mut answers = AnswerGateway::default();
/// for (kind, flags, part) in [
///     (FrameType::RESPONSE, flags::NONE, AnswerPart::Response(Part::More)),
///     (FrameType::DATA, flags::END, AnswerPart::Data(Part::Last)),
/// ] {
///     let header = FrameHeader { length: 0, kind, flags, exchange };
///     assert_eq!(answers.receive(&header, &mut exchanges)?, AnswerEvent::Part(exchange, part));
/// }
/// assert_eq!(answers.exchange(), None);
/// # Ok::<(), pilotlight_pipe::session::Violation>(())
/// ```
#[derive(Debug, Default)]
pub struct AnswerGateway {
    current: Option<(u16, Phase)>,
}

impl AnswerGateway {
    /// The exchange whose answer is in progress here.
    #[must_use]
    pub fn exchange(&self) -> Option<u16> {
        self.current.map(|(exchange, _)| exchange)
    }

    /// A frame came. `exchanges` are those of the same instance and worker.
    ///
    /// # Errors
    /// The frame is not allowed there (P-10).
    pub fn receive(
        &mut self,
        header: &FrameHeader,
        exchanges: &mut GatewayExchanges,
    ) -> Result<AnswerEvent, Violation> {
        if let Some(found) = common(header)? {
            return match found {
                Common::Log => Ok(AnswerEvent::Log),
                Common::ConnectionReset => Ok(AnswerEvent::ConnectionReset),
                Common::Skipped => Ok(AnswerEvent::Skipped),
                Common::Ping | Common::Pong | Common::Drain => {
                    Err(violation(header, "P-25", "an answer connection carries answers only"))
                }
                Common::Welcome | Common::More => Err(violation(header, "P-11", "only the gateway sends this")),
            };
        }
        let exchange = header.exchange;
        let mut phase = match self.current {
            Some((current, phase)) if current == exchange => phase,
            _ if header.kind == FrameType::RESET && !self.may_begin(exchange, exchanges) => {
                return Ok(AnswerEvent::Ignored); // P-26
            }
            Some(_) => {
                return Err(violation(header, "P-25", "an answer connection carries one answer at a time"));
            }
            None => Phase::Waiting,
        };
        let part = phase.receive(header)?;
        if self.current.is_none() && exchanges.begin_answer(exchange).is_none() {
            return Err(violation(header, "P-24", "no open exchange of a shared connection waits for this answer"));
        }
        let cancelled = exchanges.is_cancelled(exchange);
        self.current = Some((exchange, phase));
        if part.is_final() {
            self.current = None;
            exchanges.end_answer(exchange);
        }
        Ok(if cancelled { AnswerEvent::Thrown(exchange, part) } else { AnswerEvent::Part(exchange, part) })
    }

    /// The connection has ended: the exchange whose answer is cut (P-34), unless it was cancelled.
    pub fn close(&mut self, exchanges: &mut GatewayExchanges) -> Option<u16> {
        let (exchange, _) = self.current.take()?;
        let cancelled = exchanges.is_cancelled(exchange);
        exchanges.end_answer(exchange);
        (!cancelled).then_some(exchange)
    }

    /// A RESET for another exchange than the current one: it is an answer only where one may begin.
    fn may_begin(&self, exchange: u16, exchanges: &GatewayExchanges) -> bool {
        self.current.is_none() && exchanges.is_waiting(exchange)
    }
}
