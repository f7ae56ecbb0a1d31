//! When the driver of a lane has to look up.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use super::silence::Silence;
use super::state::TICK;

/// When the driver has to look up though nothing came.
pub(super) struct Clock {
    pub(super) sleep: Pin<Box<Sleep>>,
    pub(super) due: Instant,
    /// The sleep wakes the driver when it is due.
    pub(super) is_set: bool,
    /// The last read of this turn.
    pub(super) read_at: Option<Instant>,
    pub(super) idle_ticks: u32,
    /// An idle lane got busy: it is to be looked at from now on.
    pub(super) starts: bool,
    pub(super) silence: Silence,
}

impl Clock {
    pub(super) fn new() -> Self {
        let due = Instant::now() + TICK;
        Self {
            sleep: Box::pin(tokio::time::sleep_until(due.into())),
            due,
            is_set: false,
            read_at: None,
            idle_ticks: 0,
            starts: false,
            silence: Silence::default(),
        }
    }

    pub(super) fn arm(&mut self, pause: Duration) {
        self.is_set = false;
        self.due = Instant::now() + pause;
        self.sleep.as_mut().reset(self.due.into());
    }
}
