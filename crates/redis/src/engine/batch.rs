//! Several commands at once: each lane's share is written and awaited as one submission.
//!
//! It goes in rounds: what came to an error that time may mend is sent again with all others of its kind, after one
//! pause for all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::config::Overload;
use crate::engine::core::Core;
use crate::engine::lane::{Lane, Refused, Ticket};
use crate::engine::reply_check::ReplyCheck;
use crate::engine::request::Request;
use crate::engine::retry::{self, FOREVER, Failure, History, Verdict};
use crate::engine::route::Target;
use crate::engine::submission::{Kind, Outcome, Submission, SubmissionError};
use crate::engine::{flight::Flight, options::CallOptions};
use crate::error::{Error, Ran};
use crate::out::Out;
use crate::proto::retry::Refresh;
use crate::reply::Value;

/// Sends all requests and awaits all replies, in the order of the requests. Those of one lane stay together and in
/// order; what is redirected is followed one by one, in order.
pub(crate) async fn run(core: &Core, requests: &[Request<'_, '_>], options: CallOptions) -> Vec<Result<Value, Error>> {
    let mut batch = Batch {
        core,
        requests,
        options,
        since: Instant::now(),
        retries: 0,
        asked: Instant::now(),
        topology_version: core.topology_version(),
        replies: requests.iter().map(|_| None).collect(),
        may_have_run: Vec::new(),
        again: Again::default(),
    };
    let mut round: Vec<(usize, Toward)> = (0..requests.len()).map(|index| (index, Toward::Target)).collect();
    while !round.is_empty() {
        batch.round(&round).await;
        round = batch.gather().await;
    }
    for index in batch.may_have_run {
        // That the last attempt was not sent says nothing about those before.
        batch.replies[index] = batch.replies[index].take().map(|reply| {
            reply.map_err(|error| match error.ran() {
                Ran::NotSent => error.with_ran(Ran::MaybeExecuted),
                _ => error,
            })
        });
    }
    // Each request has ended in one of the rounds.
    let mut replies = Vec::with_capacity(requests.len());
    replies.extend(batch.replies.into_iter().flatten());
    replies
}

struct Batch<'b, 'p, 'a> {
    core: &'b Core,
    requests: &'b [Request<'p, 'a>],
    options: CallOptions,
    since: Instant,
    /// When this round began.
    asked: Instant,
    /// The topology by which it was routed.
    topology_version: u64,
    retries: u32,
    replies: Vec<Option<Result<Value, Error>>>,
    /// Requests of which an attempt failed that may have been executed.
    may_have_run: Vec<usize>,
    again: Again,
}

/// What is sent again.
#[derive(Default)]
struct Again {
    requests: Vec<(usize, Toward)>,
    /// Why each of them is.
    errors: Vec<Error>,
    pause: Duration,
    refresh: Option<Refresh>,
}

#[derive(Clone, Copy)]
enum Toward {
    /// Where its target is.
    Target,
    /// The primary of its slot, as a replica did not answer.
    Primary,
}

/// What has no lane, or was not taken.
type Failures = Vec<(usize, Failure)>;

/// One lane's share of a round.
struct Group {
    lane: Arc<Lane>,
    /// Indices of its requests, in their order.
    requests: Vec<usize>,
    /// Where each of them ends, among their bytes.
    ends: Vec<usize>,
    check: Option<ReplyCheck>,
}

impl Batch<'_, '_, '_> {
    async fn round(&mut self, round: &[(usize, Toward)]) {
        (self.asked, self.topology_version) = (Instant::now(), self.core.topology_version());
        let (flights, failures) = self.launch(round).await;
        for (group, flight) in flights {
            let mut outcome = flight.outcome().await.0;
            if let Some(check) = &group.check {
                outcome = check.check(outcome, Kind::Many, &group.lane);
            }
            self.settle(&group, outcome).await;
        }
        for (index, failure) in failures {
            self.judge(index, failure).await;
        }
    }

    /// Submits each lane's requests in one piece.
    async fn launch(&self, round: &[(usize, Toward)]) -> (Vec<(Group, Flight)>, Failures) {
        let (groups, mut failures) = self.grouped(round);
        let mut flights = Vec::with_capacity(groups.len());
        let mut refused = Vec::new();
        for mut group in groups {
            let lane = Arc::clone(&group.lane);
            match self.submit(&mut group, |submission, encode| lane.submit(submission, None, encode)) {
                Ok(ticket) => flights.push((group, Flight::new(lane, ticket))),
                Err(why) => refused.push((group, why)),
            }
        }
        for (mut group, why) in refused {
            match self.launch_later(&mut group, why).await {
                Ok(flight) => flights.push((group, flight)),
                Err(refused) => {
                    let refused = Arc::new(refused);
                    let failure = || Failure::Refused(Arc::clone(&group.lane), Arc::clone(&refused));
                    failures.extend(group.requests.iter().map(|&index| (index, failure())));
                }
            }
        }
        (flights, failures)
    }

    /// Waits for the byte budget, if that is why a lane did not take its requests, and submits them.
    async fn launch_later(&self, group: &mut Group, why: Refused) -> Result<Flight, Refused> {
        let can_wait = self.core.config().overload == Overload::Wait && Handle::try_current().is_ok();
        if !can_wait || !matches!(why, Refused::Full(_)) {
            return Err(why);
        }
        let lane = Arc::clone(&group.lane);
        let Ok(Ok(turn)) = tokio::time::timeout(self.remaining().unwrap_or(FOREVER), lane.room()).await else {
            return Err(why);
        };
        if self.remaining() == Some(Duration::ZERO) {
            return Err(why);
        }
        let ticket = self.submit(group, |submission, encode| turn.submit(submission, None, encode))?;
        drop(turn);
        Ok(Flight::new(lane, ticket))
    }

    fn submit(
        &self,
        group: &mut Group,
        submit: impl FnOnce(Submission, &mut dyn FnMut(&mut Out)) -> Result<Ticket, Refused>,
    ) -> Result<Ticket, Refused> {
        #[expect(clippy::cast_possible_truncation, reason = "each has bytes, and the bytes are limited")]
        let replies = group.requests.len() as u32;
        let submission = Submission { replies, skip: 0, kind: Kind::Many, timeout: self.remaining() };
        let Group { requests, ends, check, .. } = group;
        *check = ReplyCheck::wanted(self.core.config());
        let submission = check.as_ref().map_or(submission, |_| ReplyCheck::of(submission));
        submit(submission, &mut |out| {
            let begin = out.len();
            for &index in &*requests {
                self.requests[index].payload.encode(out);
                ends.push(out.len() - begin);
            }
            check.iter().for_each(|check| check.encode(out));
        })
    }

    fn remaining(&self) -> Option<Duration> {
        self.options.timeout.map(|timeout| timeout.saturating_sub(self.since.elapsed()))
    }

    fn grouped(&self, round: &[(usize, Toward)]) -> (Vec<Group>, Failures) {
        let mut failures = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        for &(index, target) in round {
            match self.lane(index, target) {
                Ok(lane) => match groups.iter_mut().find(|group| Arc::ptr_eq(&group.lane, &lane)) {
                    Some(group) => group.requests.push(index),
                    None => groups.push(Group { lane, requests: vec![index], ends: Vec::new(), check: None }),
                },
                Err(error) => failures.push((index, Failure::NoRoute(error))),
            }
        }
        // All that goes to one node stays together: the order of one key's commands is that of the pipeline.
        for group in &mut groups {
            let bytes = group.requests.iter().map(|&index| self.requests[index].payload.size()).sum();
            group.lane = Arc::clone(group.lane.fitting(bytes));
        }
        (groups, failures)
    }

    /// Puts a lane's replies in their places; what came to an error is judged one by one, in order.
    async fn settle(&mut self, group: &Group, outcome: Outcome) {
        let (replies, failure) = match outcome {
            Outcome::Many(replies) => (replies, None),
            Outcome::One(reply) => (vec![reply], None),
            Outcome::Failed(mut failure) => (std::mem::take(&mut failure.replies), Some(failure)),
        };
        let mut replies = replies.into_iter();
        for (&index, &end) in group.requests.iter().zip(&group.ends) {
            let outcome = match (replies.next(), &failure) {
                (Some(value), _) if !matches!(value, Value::Error(_) | Value::TooDeep) => {
                    self.replies[index] = Some(Ok(value));
                    continue;
                }
                (Some(error), _) => Outcome::One(error),
                (None, Some(failure)) => Outcome::Failed(Box::new(failure_at(end, failure))),
                (None, None) => return,
            };
            self.judge(index, Failure::Outcome(Arc::clone(&group.lane), outcome)).await;
        }
    }

    fn lane(&self, index: usize, toward: Toward) -> Result<Arc<Lane>, Error> {
        let Request { payload, target, slot } = &self.requests[index];
        match toward {
            Toward::Target => self.core.lane_by(target, payload.spec(), *slot),
            Toward::Primary => self.core.lane_by(&Target::Primary(*slot), payload.spec(), None),
        }
    }

    async fn judge(&mut self, index: usize, failure: Failure) {
        let request = &self.requests[index];
        let history = History { since: self.since, asked: self.asked, retries: self.retries };
        match retry::verdict(self.core, request, self.options, failure, history) {
            Verdict::Done(reply) => self.replies[index] = Some(reply),
            Verdict::Alone(failure) => {
                self.replies[index] = Some(retry::follow(self.core, request, self.options, failure, self.since).await);
            }
            Verdict::Again { error, after, refresh, to_primary, may_have_run } => {
                if may_have_run {
                    self.may_have_run.push(index);
                }
                self.again.requests.push((index, if to_primary { Toward::Primary } else { Toward::Target }));
                self.again.errors.push(error);
                self.again.pause = self.again.pause.max(after);
                self.again.refresh = self.again.refresh.max(Some(refresh));
            }
        }
    }

    /// The next round, after its pause.
    async fn gather(&mut self) -> Vec<(usize, Toward)> {
        let Again { mut requests, errors, pause, refresh } = std::mem::take(&mut self.again);
        if let Some(refresh) = refresh {
            self.retries += 1;
            self.core.want_refresh(refresh);
            if !pause.is_zero() {
                let pause = self.remaining().map_or(pause, |remaining| pause.min(remaining));
                self.core.pause_or_new_topology(pause, refresh, self.topology_version).await;
            }
            // On a loaded machine a pause may outlast the deadline: what is sent then could run although its caller is
            // told that it is too late.
            if self.remaining() == Some(Duration::ZERO) {
                for ((index, _), error) in requests.drain(..).zip(errors) {
                    self.replies[index] = Some(Err(error));
                }
            }
            requests.sort_unstable_by_key(|&(index, _)| index);
        }
        requests
    }
}

/// What became of the request that ends after `end` bytes of those that were lost together.
fn failure_at(end: usize, failure: &SubmissionError) -> SubmissionError {
    let ran = if end <= failure.sent_bytes { Ran::MaybeExecuted } else { Ran::NotSent };
    SubmissionError { kind: failure.kind.clone(), ran, replies: Vec::new(), sent_bytes: 0 }
}
