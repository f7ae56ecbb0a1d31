//! The tier in Redis, between memory and the service: the leader of a flight asks it for all that wait.

use std::time::Instant;

use super::{Asking, Exchange, State};
use crate::action::{Action, Keep, Refusal, Response, Status, Verdict};
use crate::event::{Adopted, Found, RedisReply, Stale};
use crate::handles::Handles;

impl<H: Handles> Exchange<H> {
    pub(super) fn redis(&mut self, asking: Asking<H>, fill: H::Fill, answer: RedisReply<H>, now: Instant) -> Action<H> {
        match answer {
            RedisReply::Silent => self.fill(asking, fill),
            // What another gateway is getting is waited for, as long as its service may take.
            RedisReply::Answered { redis, is_shared, found } if is_shared && !asking.is_served_by(found) => {
                self.state = State::Lead(asking);
                Action::AwaitLead(fill, redis, self.wait_for_other(now))
            }
            RedisReply::Answered { redis, found, .. } => self.led(asking, fill, redis, found),
        }
    }

    /// Redis has said all that it will.
    pub(super) fn led(&mut self, asking: Asking<H>, fill: H::Fill, redis: H::Redis, found: Option<Found>) -> Action<H> {
        if asking.is_served_by(found) {
            self.state = State::Adopting(asking);
            return Action::Adopt(fill, redis);
        }
        let keep = if asking.is_improved_by(found) { Keep::Found } else { Keep::Nothing };
        self.state = State::Preparing(asking);
        Action::Prepare(fill, redis, keep)
    }

    pub(super) fn adopted(&mut self, asking: Asking<H>, adopted: Adopted<H>) -> Action<H> {
        match adopted {
            Adopted::Landed(stored) => self.hit_in_redis(stored),
            Adopted::Invalidated(fill, redis) => {
                self.state = State::Preparing(asking);
                Action::Prepare(fill, redis, Keep::Nothing)
            }
        }
    }

    pub(super) fn prepared(&mut self, asking: Asking<H>, fill: H::Fill, kept: Option<Stale<H>>) -> Action<H> {
        self.fill(Asking { stale: kept.or(asking.stale), ..asking }, fill)
    }

    pub(super) fn redis_only(&mut self, stored: Option<H::Stored>) -> Action<H> {
        match stored {
            Some(stored) => self.hit_in_redis(stored),
            None => self.finish(Response::Failure(Refusal::OnlyIfCached)),
        }
    }

    fn hit_in_redis(&mut self, stored: H::Stored) -> Action<H> {
        self.verdict = Verdict::Redis;
        self.finish(Response::Stored(stored, Status::Redis))
    }
}

impl<H: Handles> Asking<H> {
    /// RFC 9111 §4: of two responses the most recent one is used. Redis may have lost the last writes (a failover), or
    /// never have got them.
    fn is_served_by(&self, found: Option<Found>) -> bool {
        let is_older = |found: Found| self.stale.as_ref().is_some_and(|stale| found.received_ms < stale.received_ms);
        found.is_some_and(|found| found.serves && !is_older(found))
    }

    /// Whether what Redis has is better than what memory has, where neither answers.
    fn is_improved_by(&self, found: Option<Found>) -> bool {
        let is_newer = |found: Found| self.stale.as_ref().is_none_or(|stale| stale.received_ms < found.received_ms);
        found.is_some_and(|found| found.is_of_use && found.is_selected && is_newer(found))
    }
}
