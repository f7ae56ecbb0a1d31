//! The gateway's exchanges with one instance on one worker: ids, and what comes on shared connections (P-14 … P-18).
//!
//! ```text
//!            begin_shared                    RESPONSE+END | RESET
//!  (free) ───────────────▶ (open) ─────────────────────────────────▶ (free)
//!                            │ cancel        │ first frame on an answer connection
//!                            ▼               ▼
//!                        (cancelled)      (answering) ──final frame there──▶ (free)
//!                            │               │ cancel
//!                            │               ▼
//!                            └──────────▶ final frame, thrown away ────────▶ (free)
//! ```
//! Invariant: an id is free only after the final frame of the exchange that had it (P-15), or after its connection
//! ended. RESET goes on the shared connection in every state, so there it comes before the next REQUEST with its id
//! (P-26).

use super::{Common, Violation, common, violation};
use crate::frame::{FrameHeader, FrameType};
use std::collections::VecDeque;

/// A shared connection in [`GatewayExchanges`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedId(u32);

/// What a frame on a shared connection means to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedEvent {
    /// RESPONSE with END: the whole answer. The id is free again.
    Answer(u16),
    /// RESET for an open exchange. The id is free again.
    Reset(u16),
    /// The final frame of a cancelled exchange: throw it away. The id is free again.
    Thrown(u16),
    /// RESET for an exchange that has ended or is answered elsewhere (P-26).
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

/// Free ids before the oldest of them is used again, while there are new ones: a peer's late frame then names no
/// exchange and is found out, instead of being taken for a part of the next one.
const MIN_RESTING: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Free,
    Own,
    Open {
        shared: SharedId,
        cancelled: bool,
    },
    /// `None` once that connection is gone.
    Answering {
        shared: Option<SharedId>,
        cancelled: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct SharedConnection {
    limit: u16,
    open: u16,
}

/// The exchange ids of one instance on one worker.
///
/// ```
/// use pilotlight_pipe::frame::{FrameHeader, FrameType, flags};
/// use pilotlight_pipe::session::{GatewayExchanges, SharedEvent};
///
/// let mut exchanges = GatewayExchanges::default();
/// let connection = exchanges.add_shared(16); // what its HELLO said
/// let exchange = exchanges.begin_shared(connection).expect("there is room"); // send REQUEST with it
/// assert_eq!(exchanges.room(connection), 15);
/// let header = FrameHeader { length: 0, kind: FrameType::RESPONSE, flags: flags::END, exchange };
/// assert_eq!(exchanges.receive(connection, &header)?, SharedEvent::Answer(exchange));
/// assert_eq!(exchanges.room(connection), 16);
/// # Ok::<(), pilotlight_pipe::session::Violation>(())
/// ```
#[derive(Debug)]
pub struct GatewayExchanges {
    /// By id; 0 is never used. Grows to the most exchanges that were open at once and [`MIN_RESTING`].
    slots: Vec<Slot>,
    /// The longest free first.
    free: VecDeque<u16>,
    min_resting: usize,
    shared: Vec<Option<SharedConnection>>,
}

impl Default for GatewayExchanges {
    fn default() -> Self {
        Self { slots: vec![Slot::Free], free: VecDeque::new(), min_resting: MIN_RESTING, shared: Vec::new() }
    }
}

impl GatewayExchanges {
    /// A shared connection was accepted; `limit` is its HELLO's `exchanges`.
    pub fn add_shared(&mut self, limit: u16) -> SharedId {
        let shared = Some(SharedConnection { limit, open: 0 });
        let index = match self.shared.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.shared.push(None);
                self.shared.len() - 1
            }
        };
        self.shared[index] = shared;
        SharedId(index as u32)
    }

    /// A shared connection has ended. Appends the exchanges that had no answer yet to `lost`, without the cancelled
    /// ones; those that are answered on answer connections go on.
    pub fn remove_shared(&mut self, id: SharedId, lost: &mut Vec<u16>) {
        for exchange in 1..self.slots.len() {
            match self.slots[exchange] {
                Slot::Open { shared, cancelled } if shared == id => {
                    if !cancelled {
                        lost.push(exchange as u16);
                    }
                    self.release(exchange as u16);
                }
                // The place will be another connection's: this answer must not count there.
                Slot::Answering { shared: Some(shared), cancelled } if shared == id => {
                    self.slots[exchange] = Slot::Answering { shared: None, cancelled };
                }
                _ => {}
            }
        }
        if let Some(place) = self.shared.get_mut(id.0 as usize) {
            *place = None;
        }
    }

    /// How many more exchanges the connection takes (P-14).
    #[must_use]
    pub fn room(&self, id: SharedId) -> u16 {
        self.shared.get(id.0 as usize).copied().flatten().map_or(0, |shared| shared.limit - shared.open)
    }

    /// An id for a REQUEST on a shared connection; `None` when the connection is full (P-14) or all ids are taken.
    pub fn begin_shared(&mut self, id: SharedId) -> Option<u16> {
        if self.room(id) == 0 {
            return None;
        }
        let exchange = self.take(Slot::Open { shared: id, cancelled: false })?;
        if let Some(Some(shared)) = self.shared.get_mut(id.0 as usize) {
            shared.open += 1;
        }
        Some(exchange)
    }

    /// An id for an exchange on an own connection; `None` when all ids are taken.
    pub fn begin_own(&mut self) -> Option<u16> {
        self.take(Slot::Own)
    }

    /// The exchange of an own connection has ended in both directions, or the connection has.
    pub fn end_own(&mut self, exchange: u16) {
        if self.slot(exchange) == Slot::Own {
            self.release(exchange);
        }
    }

    /// The gateway no longer wants the answer. `true`: RESET(CANCELLED) or RESET(DEADLINE) is to be sent on the shared
    /// connection that carried the REQUEST, also when the answer comes on an answer connection (P-26). `false`: it has
    /// ended, was cancelled before, is on an own connection, which knows itself, or its shared connection is gone. The
    /// id stays taken until the final frame.
    pub fn cancel(&mut self, exchange: u16) -> bool {
        match self.slots.get_mut(usize::from(exchange)) {
            Some(Slot::Open { cancelled, .. }) => !std::mem::replace(cancelled, true),
            Some(Slot::Answering { shared, cancelled }) => !std::mem::replace(cancelled, true) && shared.is_some(),
            Some(Slot::Free | Slot::Own) | None => false,
        }
    }

    /// A frame came on a shared connection.
    ///
    /// # Errors
    /// The frame is not allowed there (P-10).
    pub fn receive(&mut self, id: SharedId, header: &FrameHeader) -> Result<SharedEvent, Violation> {
        if let Some(found) = common(header)? {
            return match found {
                Common::Ping => Ok(SharedEvent::Ping),
                Common::Pong => Ok(SharedEvent::Pong),
                Common::Drain => Ok(SharedEvent::Drain),
                Common::Log => Ok(SharedEvent::Log),
                Common::ConnectionReset => Ok(SharedEvent::ConnectionReset),
                Common::Skipped => Ok(SharedEvent::Skipped),
                Common::Welcome | Common::More => Err(violation(header, "P-11", "only the gateway sends this")),
            };
        }
        let exchange = header.exchange;
        match (header.kind, self.slot(exchange)) {
            (FrameType::RESPONSE, _) if !header.is_end() => {
                Err(violation(header, "P-17", "RESPONSE without END on a shared connection"))
            }
            (FrameType::INFO | FrameType::DATA | FrameType::TRAILERS, _) => {
                Err(violation(header, "P-17", "a part of an answer on a shared connection"))
            }
            (FrameType::RESPONSE | FrameType::RESET, Slot::Open { shared, cancelled }) if shared == id => {
                self.release(exchange);
                Ok(match (cancelled, header.kind) {
                    (true, _) => SharedEvent::Thrown(exchange), // P-26
                    (false, FrameType::RESPONSE) => SharedEvent::Answer(exchange),
                    (false, _) => SharedEvent::Reset(exchange),
                })
            }
            (FrameType::RESET, _) => Ok(SharedEvent::Ignored), // P-26
            (FrameType::RESPONSE, Slot::Answering { .. }) => {
                Err(violation(header, "P-24", "the exchange is answered on an answer connection"))
            }
            (FrameType::RESPONSE, _) => Err(violation(header, "P-16", "no such exchange is open on this connection")),
            _ => Err(violation(header, "P-11", "not allowed on a shared connection")),
        }
    }

    /// The first frame of an answer came on an answer connection. `Some(cancelled)` if the exchange waits for it.
    pub(super) fn begin_answer(&mut self, exchange: u16) -> Option<bool> {
        let slot = self.slots.get_mut(usize::from(exchange))?;
        let Slot::Open { shared, cancelled } = *slot else {
            return None;
        };
        *slot = Slot::Answering { shared: Some(shared), cancelled };
        Some(cancelled)
    }

    /// Whether the exchange has no part of an answer yet.
    pub(super) fn is_waiting(&self, exchange: u16) -> bool {
        matches!(self.slot(exchange), Slot::Open { .. })
    }

    /// Whether the answer in progress is no longer wanted.
    pub(super) fn is_cancelled(&self, exchange: u16) -> bool {
        matches!(self.slot(exchange), Slot::Answering { cancelled: true, .. })
    }

    /// The final frame came on an answer connection, or the connection ended.
    pub(super) fn end_answer(&mut self, exchange: u16) {
        self.release(exchange);
    }

    #[cfg(test)]
    pub(super) fn min_resting(&mut self, ids: usize) {
        self.min_resting = ids;
    }

    fn slot(&self, exchange: u16) -> Slot {
        self.slots.get(usize::from(exchange)).copied().unwrap_or(Slot::Free)
    }

    fn take(&mut self, slot: Slot) -> Option<u16> {
        if self.free.len() < self.min_resting.max(1)
            && let Ok(exchange) = u16::try_from(self.slots.len())
        {
            self.slots.push(slot);
            return Some(exchange);
        }
        let exchange = self.free.pop_front()?;
        self.slots[usize::from(exchange)] = slot;
        Some(exchange)
    }

    fn release(&mut self, exchange: u16) {
        let shared = match self.slot(exchange) {
            Slot::Free => return,
            Slot::Own => None,
            Slot::Open { shared, .. } => Some(shared),
            Slot::Answering { shared, .. } => shared,
        };
        if let Some(shared) = shared.and_then(|id| self.shared.get_mut(id.0 as usize)?.as_mut()) {
            shared.open -= 1;
        }
        self.slots[usize::from(exchange)] = Slot::Free;
        self.free.push_back(exchange);
    }
}
