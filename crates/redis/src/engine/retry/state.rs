//! What is to be done, what was tried, and what is tried next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tokio::runtime::Handle;

use super::judge::{self, Failure, Judged};
use crate::address::NodeAddress;
use crate::config::ReadFrom;
use crate::engine::core::Core;
use crate::engine::lane::Lane;
use crate::engine::options::CallOptions;
use crate::engine::request::{Payload, Request};
use crate::engine::route::Target;
use crate::engine::sink::Sink;
use crate::error::table::About;
use crate::error::{Advice, Error, ErrorKind, Ran, Reason, TimeoutReport, TimeoutStage};
use crate::proto::redirect::Redirect;
use crate::proto::retry::{self, Attempt, Deployment, Next, Readers, Refresh, Repeat};
use crate::proto::topology::Role;
use crate::reply::Value;

/// Longer than anybody waits.
pub(super) const FOREVER: Duration = Duration::from_secs(86_400 * 365);

/// How soon the topology is looked at again while no node is known.
const NO_NODE_PAUSE: Duration = Duration::from_millis(50);

const REPLACED: &str = "another server has its place";

/// On which connections requests travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Those that all share.
    Shared,
    /// One that nobody else uses meanwhile: the request may wait in the server.
    Own,
    /// A new one without a database, which a server that is busy with a script does not refuse
    /// ([`Flags::WHILE_BUSY`](crate::command::Flags::WHILE_BUSY)).
    Bare,
}

/// Requests of one round. One needs no heap.
pub(super) type Tries = SmallVec<[Try; 1]>;

/// One attempt at one request.
pub(super) struct Try {
    pub(super) index: usize,
    pub(super) lead: Lead,
    pub(super) attempts: Attempts,
}

/// Where an attempt goes.
pub(super) enum Lead {
    /// Where the request's target is.
    Target,
    /// To the primary of its slot, as a replica did not answer.
    Primary,
    /// To this lane, again or after a redirect.
    Lane(Arc<Lane>),
}

/// What was tried before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attempts {
    pub(super) redirects: u32,
    pub(super) retries: u32,
    /// One of them may have been executed.
    pub(super) may_have_run: bool,
    /// The last one went to where a slot is being imported.
    pub(super) is_asking: bool,
}

/// What is sent again.
#[derive(Default)]
pub(super) struct Again {
    pub(super) at_once: Postponed,
    /// After one pause for all, which ends then.
    pub(super) later: Postponed,
    pub(super) until: Option<Instant>,
    pub(super) refresh: Option<Refresh>,
}

pub(super) type Postponed = SmallVec<[Retry; 1]>;

pub(super) struct Retry {
    pub(super) it: Try,
    /// Why: if there is no time left, that is what became of it.
    pub(super) error: Error,
    pub(super) redirect: Option<Detour>,
}

/// A redirect, and whether others came before it: then a newer topology is to be preferred to it.
pub(super) struct Detour {
    pub(super) to: Redirect,
    pub(super) is_late: bool,
}

/// What is to be done, and by when.
#[derive(Clone, Copy)]
pub(super) struct Work<'r, 'p, 'a> {
    pub(super) core: &'r Core,
    pub(super) requests: &'r [Request<'p, 'a>],
    pub(super) options: CallOptions,
    pub(super) since: Instant,
    pub(super) line: Line,
}

pub(super) struct RetryLoop<'r, 'p, 'a, 's> {
    pub(super) work: Work<'r, 'p, 'a>,
    /// Where the reply goes, if not to the caller.
    pub(super) sink: Option<&'r mut Sink<'s>>,
    /// By which the last round was routed.
    pub(super) topology_version: u64,
    pub(super) replies: SmallVec<[Option<Result<Value, Error>>; 1]>,
    pub(super) again: Again,
    /// Why the last attempt of a request failed that is made again, by the request's place.
    pub(super) problems: BTreeMap<usize, Reason>,
}

impl Attempts {
    /// Whether there was one before.
    pub(super) fn is_again(&self) -> bool {
        self.redirects + self.retries > 0
    }
}

impl Try {
    pub(super) fn first(index: usize) -> Self {
        Self { index, lead: Lead::Target, attempts: Attempts::default() }
    }
}

impl<'r, 'p, 'a, 's> RetryLoop<'r, 'p, 'a, 's> {
    pub(super) fn new(
        core: &'r Core,
        requests: &'r [Request<'p, 'a>],
        options: CallOptions,
        since: Instant,
        line: Line,
    ) -> Self {
        Self {
            work: Work { core, requests, options, since, line },
            sink: None,
            topology_version: core.topology_version(),
            replies: requests.iter().map(|_| None).collect(),
            again: Again::default(),
            problems: BTreeMap::new(),
        }
    }

    pub(super) fn only_reply(mut self) -> Result<Value, Error> {
        self.replies.pop().flatten().unwrap_or(Ok(Value::Null))
    }

    /// What became of an attempt.
    pub(super) fn judge(&mut self, it: Try, failure: Failure, asked: Instant) {
        match judge::judge(self.work.core, &self.work.requests[it.index], failure) {
            Judged::Reply(value) => {
                if let Payload::Command(command) = self.work.requests[it.index].payload {
                    self.work.core.note_reply(command, &value);
                }
                self.replies[it.index] = Some(Ok(value));
            }
            Judged::Full(lane) => {
                let error = self.work.no_room(&lane, it.index);
                self.try_again(Try { lead: Lead::Lane(lane), ..it }, error, Duration::ZERO, Refresh::No);
            }
            Judged::Failed(lane, error) => self.step(it, lane.as_ref(), error, asked),
            Judged::Final(error) => self.fail(&it, error),
        }
    }

    /// That the last attempt was not sent says nothing about those before.
    pub(super) fn fail(&mut self, it: &Try, error: Error) {
        let error = match error.ran() {
            Ran::NotSent if it.attempts.may_have_run => error.with_ran(Ran::MaybeExecuted),
            _ => error,
        };
        let problem = self.problems.get(&it.index);
        let error = error.of_whole(self.work.options.timeout, self.work.since.elapsed(), problem);
        self.replies[it.index] = Some(Err(error));
    }

    /// Sends it again in the next round if there is a way, or fails with `error`.
    fn step(&mut self, mut it: Try, lane: Option<&Arc<Lane>>, error: Error, asked: Instant) {
        // Without a runtime on the caller's thread there are no pauses.
        if Handle::try_current().is_err() {
            return self.fail(&it, error);
        }
        let next = self.next(&it.attempts, it.index, lane, &error, asked);
        self.work.core.note(self.work.name(it.index), &error, &next);
        if let Next::Redirect { to, after } = next {
            return self.redirect(it, to, after, error);
        }
        let target = &self.work.requests[it.index].target;
        if matches!(next, Next::Fail(_)) || matches!(next, Next::Primary { .. } if !matches!(target, Target::Usual)) {
            let error = of_all_redirects(&it.attempts, error);
            return self.fail(&it, error);
        }
        let is_first = it.attempts.retries == 0;
        it.attempts.retries += 1;
        it.attempts.may_have_run |= error.ran() != Ran::NotSent;
        // A slot on its way is still asked for where it goes to.
        it.attempts.is_asking &= matches!(next, Next::Resubmit { .. });
        it.lead = match (&next, lane) {
            (Next::Resubmit { .. }, Some(lane)) => Lead::Lane(Arc::clone(lane)),
            (Next::Primary { .. }, _) => Lead::Primary,
            _ => Lead::Target,
        };
        if let Some(lane) = lane {
            give_up(lane, &error, &next, asked);
        }
        let may_skip = is_first && matches!(next, Next::Refresh { .. } | Next::Reconnect { .. });
        let is_there = may_skip && self.has_better_way(it.index, lane, &error);
        let pause = if is_there { Duration::ZERO } else { next.after().unwrap_or_default() };
        self.try_again(it, error, pause, next.refresh());
    }

    /// Who names a node wants that node's answer; anybody else's request goes where the server says.
    fn redirect(&mut self, mut it: Try, to: Redirect, after: Duration, error: Error) {
        if matches!(self.work.requests[it.index].target, Target::Node(_)) {
            return self.fail(&it, error);
        }
        it.attempts.redirects += 1;
        // If it is not the first, the nodes do not agree. A topology that most of them agree on is to be preferred.
        let is_late = !after.is_zero();
        let refresh = if is_late { Refresh::Urgent } else { Refresh::No };
        self.postpone(Retry { it, error, redirect: Some(Detour { to, is_late }) }, after, refresh);
    }

    fn try_again(&mut self, it: Try, error: Error, pause: Duration, refresh: Refresh) {
        self.postpone(Retry { it, error, redirect: None }, pause, refresh);
    }

    pub(super) fn postpone(&mut self, retry: Retry, pause: Duration, refresh: Refresh) {
        if let Some(problem) = retry.error.as_problem() {
            self.problems.insert(retry.it.index, problem);
        }
        if self.again.refresh < Some(refresh) {
            self.again.refresh = Some(refresh);
            self.work.core.want_refresh(refresh);
        }
        if pause.is_zero() {
            self.again.at_once.push(retry);
        } else {
            self.again.until = self.again.until.max(Some(Instant::now() + pause));
            self.again.later.push(retry);
        }
    }

    /// Whether the request would go elsewhere by now, or the lane that lost it is up again.
    fn has_better_way(&self, index: usize, lane: Option<&Arc<Lane>>, error: &Error) -> bool {
        let Request { payload, target, slot } = &self.work.requests[index];
        let Ok(now) = self.work.core.lane_by(target, payload.spec(), *slot) else { return false };
        let now = self.work.core.fitting(now, *payload);
        let is_other = lane.is_none_or(|lane| !Arc::ptr_eq(lane, &now));
        !now.is_down() && (is_other || error.server().is_none())
    }

    fn next(&self, attempts: &Attempts, index: usize, lane: Option<&Arc<Lane>>, error: &Error, asked: Instant) -> Next {
        // A part of the reply has been written where it belongs.
        if self.sink.as_ref().is_some_and(|sink| sink.begun.is_some()) {
            return Next::Fail(retry::Stop::Hopeless);
        }
        // Without a node there is nothing to be judged but the topology.
        if matches!(error.kind(), ErrorKind::Cluster(_)) {
            return match self.work.remaining() {
                Some(Duration::ZERO) => Next::Fail(retry::Stop::Deadline),
                _ => Next::Refresh { after: NO_NODE_PAUSE, refresh: Refresh::Urgent },
            };
        }
        if self.work.core.fails_fast() && matches!(error.kind(), ErrorKind::Connect(_)) {
            return Next::Fail(retry::Stop::Hopeless);
        }
        let Request { payload, target, .. } = &self.work.requests[index];
        let address = lane.map_or_else(|| NodeAddress::tcp("", 0), |lane| lane.address());
        let attempt = Attempt {
            spec: payload.spec(),
            repeat: if self.work.options.is_retryable { Repeat::Allowed } else { Repeat::IfReadOnly },
            asked: self.work.core.asked(&address),
            has_just_looked: lane.is_some_and(|lane| lane.has_just_looked(asked)),
            role: lane.map_or(Role::Primary, |lane| lane.role()),
            readers: match (&self.work.core.config().read_from, target) {
                (ReadFrom::OnlyReplicas, Target::Usual) => Readers::Replicas,
                _ => Readers::All,
            },
            deployment: if self.work.core.is_cluster() { Deployment::Cluster } else { Deployment::Standalone },
            redirects: attempts.redirects,
            retries: attempts.retries,
            elapsed: self.work.since.elapsed(),
            timeout: self.work.options.timeout,
        };
        retry::next(self.work.core.retry_policy(), &attempt, retry::FailureKind::of(error), &mut fastrand::Rng::new())
    }
}

impl Work<'_, '_, '_> {
    /// The deadline has passed while it waited for the byte budget of a lane.
    pub(super) fn no_room(&self, lane: &Lane, index: usize) -> Error {
        let report = TimeoutReport {
            timeout: self.options.timeout.unwrap_or(FOREVER),
            age: self.since.elapsed(),
            stage: TimeoutStage::Budget,
            ..lane.report()
        };
        Error::new(ErrorKind::Timeout(Box::new(report)), Ran::NotSent, self.name(index)).at(lane.node())
    }

    pub(super) fn name(&self, index: usize) -> &'static str {
        self.requests[index].payload.name()
    }

    pub(super) fn remaining(&self) -> Option<Duration> {
        self.remaining_at(Instant::now())
    }

    pub(super) fn remaining_at(&self, now: Instant) -> Option<Duration> {
        self.options.timeout.map(|timeout| timeout.saturating_sub(now.saturating_duration_since(self.since)))
    }
}

/// A connection to a server that is not what it was, or not ready, is given up: until a handshake shows that it is
/// ready again, a replica is not asked for reads.
fn give_up(lane: &Lane, error: &Error, next: &Next, asked: Instant) {
    match (next, error.server()) {
        (Next::Reconnect { .. }, Some(_)) => lane.reconnect(REPLACED, asked),
        (Next::Primary { .. }, Some(problem)) if error.judge(problem).about == About::Readiness => {
            lane.reconnect(problem.text(), asked);
        }
        _ => {}
    }
}

/// A redirect that is not followed any more says how many were.
pub(super) fn of_all_redirects(attempts: &Attempts, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Server(last) if attempts.redirects > 0 && last.advice() == Advice::Redirect => {
            let kind = ErrorKind::Redirects { redirects: attempts.redirects, last: last.clone() };
            error.with_kind(kind)
        }
        _ => error,
    }
}
