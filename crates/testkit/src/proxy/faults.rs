//! What may happen to the bytes of a connection.

use std::time::Duration;

/// What happens to the bytes of a connection. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// From the client to the server.
    pub to_server: DirectionFaults,
    /// From the server to the client.
    pub to_client: DirectionFaults,
}

/// What happens to the bytes that go one way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectionFaults {
    /// Every byte arrives so much later; how many are on their way does not matter.
    pub delay: Duration,
    /// Bytes pass one by one with this pause between them (of at least a millisecond).
    pub drip: Option<Duration>,
    /// No byte passes; up to 256 KiB are kept, then the sender's kernel has to. Both ways paused is a connection that
    /// is half open.
    pub is_paused: bool,
    /// After so many further bytes, counted down as they pass, the whole connection ends: in the middle of a frame, if
    /// they say so.
    pub cut_after: Option<(u64, Ending)>,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// In order (FIN), on both sides.
    Close,
    /// RST, on both sides.
    Reset,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Direction {
    ToServer,
    ToClient,
}

impl Faults {
    pub(super) fn direction(&self, direction: Direction) -> &DirectionFaults {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }

    pub(super) fn direction_mut(&mut self, direction: Direction) -> &mut DirectionFaults {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}
