//! Waiting for the byte budget: in the order of arrival, and before those who come later.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::body::{Lane, Phase, Refused, Shared};
use super::settings::WhenDown;
use super::state::Ticket;
use crate::engine::submission::Submission;
use crate::out::Out;

/// A place among those who wait for room in a lane's byte budget, given up when dropped.
pub(crate) struct Turn<'l> {
    lane: &'l Arc<Lane>,
    is_granted: bool,
}

/// Too many wait already.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) waiting: usize,
    pub(crate) max: usize,
}

impl Lane {
    /// Waits until there is room in the byte budget, or until the lane will not take anything anyway.
    ///
    /// # Errors
    /// As many as may wait do so already.
    ///
    /// # Cancel safety
    /// Whoever waits behind moves up.
    pub(crate) async fn room(self: &Arc<Self>) -> Result<Turn<'_>, Crowd> {
        let mut is_first = {
            let mut shared = self.shared.lock();
            let (waiting, max) = (shared.waiting_for_room, self.settings.max_waiting);
            if waiting >= max {
                return Err(Crowd { waiting, max });
            }
            shared.waiting_for_room += 1;
            shared.limit_bytes = 0;
            shared.waiting_for_room == 1
        };
        let mut turn = Turn { lane: self, is_granted: false };
        loop {
            let mut notified = pin!(self.room.notified());
            notified.as_mut().enable();
            if is_first {
                let shared = self.shared.lock();
                turn.is_granted = self.has_room(&shared);
                // Until the turn is over, nobody else is told.
                self.is_room_told.store(turn.is_granted, Ordering::Relaxed);
                drop(shared);
                if turn.is_granted {
                    return Ok(turn);
                }
            }
            notified.await;
            is_first = true;
        }
    }

    fn has_room(&self, shared: &Shared) -> bool {
        let takes = match shared.phase {
            Phase::New | Phase::Up => true,
            Phase::Down(ref reason) => reason.is_none() || self.settings.when_down == WhenDown::Queue,
            Phase::Draining | Phase::Closed => false,
        };
        !takes || shared.state.budget_used() < self.settings.max_queued_bytes
    }

    /// Whether somebody who waits for room is to be told of it, by [`Lane::tell_room`] outside the lock: once for each
    /// turn.
    #[inline]
    pub(super) fn is_room_wanted(&self, shared: &Shared) -> bool {
        shared.waiting_for_room > 0 && self.has_room(shared) && !self.is_room_told.swap(true, Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn tell_room(&self, has_room: bool) {
        if has_room {
            self.room.notify_one();
        }
    }
}

impl Turn<'_> {
    /// As [`Lane::submit`], and before all who still wait.
    pub(crate) fn submit(
        &self,
        submission: Submission,
        waker: Option<&Waker>,
        encode: impl FnOnce(&mut Out),
    ) -> Result<Ticket, Refused> {
        self.lane.accept(self.lane.shared.lock(), self.lane.settings.max_queued_bytes, submission, waker, encode)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut shared = self.lane.shared.lock();
        shared.waiting_for_room -= 1;
        if self.is_granted {
            self.lane.is_room_told.store(false, Ordering::Relaxed);
        }
        if shared.waiting_for_room == 0 {
            shared.limit_bytes = self.lane.settings.max_queued_bytes;
        }
        let has_room = self.lane.is_room_wanted(&shared);
        drop(shared);
        self.lane.tell_room(has_room);
    }
}
