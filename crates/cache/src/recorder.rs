//! Takes the body of an answer while it goes to the client, and stores it when it is complete.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use crate::body::Growing;
use crate::collapse::Landing;
use crate::fill::{is_lasting, land};
use crate::policy::storing::Plan;
use crate::policy::{Timestamp, Timing, Unstored, fields};
use crate::stored::Stored;

/// What a recording whose length is not known takes from the budget at first.
const FIRST_RESERVE_BYTES: u64 = 4096;

/// Takes the body of an answer on its way to the client. Dropping it unfinished stores nothing, and the next request that
/// waits leads.
#[derive(Debug)]
pub struct Recorder {
    /// `None` once the recording was given up.
    landing: Option<Landing>,
    status: StatusCode,
    headers: HeaderMap,
    plan: Plan,
    timing: Timing,
    max_object_bytes: u64,
    body: Growing,
    /// Bytes taken from the budget that all recordings share.
    reserved_bytes: u64,
    failure: Unstored,
}

impl Recorder {
    pub(crate) fn new(
        landing: Landing,
        status: StatusCode,
        headers: &HeaderMap,
        plan: Plan,
        (timing, max_object_bytes): (Timing, u64),
    ) -> Self {
        Self {
            landing: Some(landing),
            status,
            headers: fields::to_store(headers),
            plan,
            timing,
            max_object_bytes,
            body: Growing::default(),
            reserved_bytes: 0,
            failure: Unstored::Incomplete,
        }
    }

    /// The remaining freshness lifetime that the response will have, for `Cache-Status`.
    pub fn ttl_s(&self, now: Timestamp) -> i64 {
        self.plan.freshness.ttl_s(self.plan.freshness.age_s(now))
    }

    /// Records the next bytes of the body. They are copied: a chunk may be a small slice of a large read buffer, which
    /// keeping it would keep.
    ///
    /// # Errors
    /// Why the recording is over: the body is too large or longer than announced, or too many are recorded at once. Further
    /// calls say the same; the answer itself goes on to the client.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), Unstored> {
        let Some(landing) = &self.landing else {
            return Err(self.failure);
        };
        let needed = self.body.len() as u64 + chunk.len() as u64;
        // An answer longer than announced is broken; it ends as incomplete.
        if needed > self.plan.length.unwrap_or(self.max_object_bytes) {
            let why = if self.plan.length.is_some() { Unstored::Incomplete } else { Unstored::TooLarge };
            return self.give_up(why);
        }
        if needed > self.reserved_bytes {
            let doubled = (self.reserved_bytes * 2).max(FIRST_RESERVE_BYTES).min(self.max_object_bytes).max(needed);
            let wanted = self.plan.length.unwrap_or(doubled);
            let more = wanted - self.reserved_bytes;
            if !landing.cache().recording().take(more) {
                return self.give_up(Unstored::Busy);
            }
            self.reserved_bytes = wanted;
        }
        self.body.push(chunk, self.plan.length);
        Ok(())
    }

    /// Stores the response, whose body is now complete, and wakes those who wait for it.
    ///
    /// # Errors
    /// Why it was not stored: the body is not as long as announced, too large, or the target was changed meanwhile.
    pub fn finish(mut self, now: Timestamp) -> Result<Arc<Stored>, Unstored> {
        if self.plan.length.is_some_and(|length| length != self.body.len() as u64) && self.landing.is_some() {
            // Those who wait are woken by the drop: another attempt may end well.
            return Err(Unstored::Incomplete);
        }
        let Some(landing) = self.landing.take() else {
            return Err(self.failure);
        };
        let body = std::mem::take(&mut self.body).finish();
        let headers = std::mem::take(&mut self.headers);
        let mark = landing.mark(&headers);
        let stored = Stored::new(self.status, headers, body, self.plan.clone(), self.timing, mark);
        self.release(&landing);
        let stored = Arc::new(stored);
        match landing.write(|cache| cache.memory().put(landing.key().clone(), &stored)) {
            None => Err(Unstored::Invalidated),
            Some(Err(_)) => {
                landing.stored(stored);
                Err(Unstored::TooLarge)
            }
            Some(Ok(())) => {
                land(landing, &stored, now);
                Ok(stored)
            }
        }
    }

    fn give_up(&mut self, why: Unstored) -> Result<(), Unstored> {
        self.failure = why;
        self.body = Growing::default();
        if let Some(landing) = self.landing.take() {
            self.release(&landing);
            landing.cache().reasons().note(landing.hash(), why, self.timing.received);
            if is_lasting(why) {
                landing.cache().flights().remember_solo(landing.hash(), self.timing.received);
            }
            landing.passed();
        }
        Err(why)
    }

    fn release(&mut self, landing: &Landing) {
        landing.cache().recording().give_back(std::mem::take(&mut self.reserved_bytes));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(landing) = self.landing.take() {
            self.release(&landing);
        }
    }
}
