//! Takes the body of a response while it goes to the client, and stores it when it is complete.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use crate::body::StoredBody;
use crate::leader::LeaderGuard;
use crate::policy::storing::Plan;
use crate::policy::{Timestamp, Timing, Unstored};
use crate::purge::Mark;
use crate::recording::{LiveResponse, Recording, Tail};
use crate::stored::{Head, Stored};
use crate::weight;

/// What a recording whose length is not known takes from the budget at first.
const FIRST_RESERVE_BYTES: u64 = 4096;

/// Takes the body of a response on its way to the client. Dropping it unfinished stores nothing, and the next request
/// that waits leads.
#[derive(Debug)]
pub struct Recorder {
    /// `None` once the recording was given up.
    leader: Option<LeaderGuard>,
    response: Recorded,
    recording: Arc<Recording>,
    /// Bytes of body that there is memory for: their weight is taken from the cache's budget.
    reserved_bytes: u64,
    is_published: bool,
    failure: Unstored,
}

/// A response of which the body is recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) status: StatusCode,
    /// From [`fields::to_store`](crate::policy::fields::to_store).
    pub(crate) headers: HeaderMap,
    pub(crate) plan: Plan,
    pub(crate) timing: Timing,
    pub(crate) max_object_bytes: u64,
}

impl Recorded {
    fn stored(&self, headers: HeaderMap, body: StoredBody, mark: Mark) -> Stored {
        let Plan { freshness, vary, .. } = self.plan.clone();
        Stored::new(Head { status: self.status, headers, freshness, vary }, self.timing, body, mark)
    }
}

impl Recorder {
    pub(crate) fn new(leader: LeaderGuard, response: Recorded) -> Self {
        Self {
            leader: Some(leader),
            response,
            recording: Arc::default(),
            reserved_bytes: 0,
            is_published: false,
            failure: Unstored::Incomplete,
        }
    }

    /// The remaining freshness lifetime that the response will have, for `Cache-Status`.
    pub fn ttl_s(&self, now: Timestamp) -> i64 {
        self.response.plan.freshness.ttl_s(self.response.plan.freshness.age_s(now))
    }

    /// Records the next bytes of the body. They are copied: a chunk may be a small slice of a large read buffer, which
    /// keeping it would keep.
    ///
    /// # Errors
    /// Why the recording is over: the body is too large or longer than announced, or too many are recorded at once.
    /// Further calls say the same; the response itself goes on to the client.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Unstored> {
        let Some(leader) = &self.leader else {
            return Err(self.failure);
        };
        let needed = self.recording.len() as u64 + chunk.len() as u64;
        // A response longer than announced is broken; it ends as incomplete.
        if needed > self.response.plan.length.unwrap_or(self.response.max_object_bytes) {
            let why = if self.response.plan.length.is_some() { Unstored::Incomplete } else { Unstored::TooLarge };
            return self.give_up(why);
        }
        if needed > self.reserved_bytes {
            let doubled =
                (self.reserved_bytes * 2).max(FIRST_RESERVE_BYTES).min(self.response.max_object_bytes).max(needed);
            let wanted = self.response.plan.length.unwrap_or(doubled);
            let more = weight::of_recording(wanted) - weight::of_recording(self.reserved_bytes);
            if !leader.state().memory().lend(more) {
                return self.give_up(Unstored::Busy);
            }
            self.reserved_bytes = wanted;
        }
        self.recording.push(chunk, self.response.plan.length);
        self.publish(needed);
        Ok(())
    }

    /// Stores the response, whose body is now complete, and wakes those who wait for it.
    ///
    /// # Errors
    /// Why it was not stored: the body is not as long as announced, too large, or the target was changed meanwhile.
    pub fn finish(mut self, now: Timestamp) -> Result<Arc<Stored>, Unstored> {
        if self.response.plan.length.is_some_and(|length| length != self.recording.len() as u64)
            && self.leader.is_some()
        {
            // Those who wait are woken by the drop: another attempt may end well.
            return Err(Unstored::Incomplete);
        }
        let Some(leader) = self.leader.take() else {
            return Err(self.failure);
        };
        let body = self.recording.finish();
        let headers = std::mem::take(&mut self.response.headers);
        let mark = leader.mark(&headers);
        let stored = self.response.stored(headers, body, mark);
        self.release(&leader);
        let stored = Arc::new(stored);
        match leader.write(|state| state.memory().put(leader.key().clone(), &stored)) {
            None => Err(Unstored::Invalidated),
            Some(Err(_)) => {
                leader.stored(stored);
                Err(Unstored::TooLarge)
            }
            Some(Ok(())) => {
                leader.land_stored(&stored, now);
                Ok(stored)
            }
        }
    }

    /// Lets others read a part of the response, if it is certain that the rest will be recorded.
    fn publish(&mut self, recorded_bytes: u64) {
        let Some(leader) = self.leader.as_ref().filter(|leader| leader.is_shared() && !self.is_published) else {
            return;
        };
        // What is whole with the first bytes is stored in a moment.
        let Some(length) = self.response.plan.length.filter(|length| recorded_bytes < *length) else { return };
        self.is_published = true;
        let (headers, mark) = (self.response.headers.clone(), leader.mark(&self.response.headers));
        let head = self.response.stored(headers, StoredBody::default(), mark);
        // Everybody has to validate: they are told when it is whole.
        if head.is_reusable(self.response.timing.received) {
            let len = usize::try_from(length).unwrap_or(usize::MAX);
            leader.publish(LiveResponse { head: Arc::new(head), len, recording: Arc::clone(&self.recording) });
        }
    }

    /// What is recorded, for whom the response is on its way to.
    #[must_use]
    pub fn tail(&self) -> Tail {
        Tail::new(Arc::clone(&self.recording))
    }

    /// Makes sure that nobody waits for what is recorded, nor will; `false` if somebody does. After `true` it is to be
    /// dropped.
    pub fn close_unless_awaited(&self) -> bool {
        self.leader.as_ref().is_none_or(LeaderGuard::close_unless_awaited)
    }

    fn give_up(&mut self, why: Unstored) -> Result<(), Unstored> {
        self.failure = why;
        if let Some(leader) = self.leader.take() {
            self.release(&leader);
            leader.state().reasons().note(leader.hash(), why, self.response.timing.received);
            if why.is_lasting() {
                leader.state().flights().remember_solo(leader.solo(), self.response.timing.received);
            }
            leader.passed();
        }
        self.recording.break_off();
        Err(why)
    }

    fn release(&mut self, leader: &LeaderGuard) {
        leader.state().memory().take_back(weight::of_recording(std::mem::take(&mut self.reserved_bytes)));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            self.release(&leader);
            // Landed first: who is told that it broke off finds no flight to follow.
            drop(leader);
            self.recording.break_off();
        }
    }
}
