//! What is not a plain command with a plain reply: full or broken lanes, errors of the server, redirects. One loop from
//! the failure to the next attempt.
//!
//! What to do is decided by [`crate::proto::retry`]; this file does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::config::{NodeAddress, Overload, ReadFrom};
use crate::engine::core::Core;
use crate::engine::lane::{Lane, Refused, Ticket};
use crate::engine::reply_check::ReplyCheck;
use crate::engine::request::{Payload, Request};
use crate::engine::route::Target;
use crate::engine::sink::Sink;
use crate::engine::submission::{Kind, Outcome, Submission};
use crate::engine::{flight::Flight, options::CallOptions};
use crate::error::table::About;
use crate::error::{Advice, Error, ErrorKind, Ran, ServerError, TimeoutReport, TimeoutStage};
use crate::out::Out;
use crate::proto::retry::{self, Attempt, Deployment, Next, Readers, Refresh, Repeat};
use crate::reply::{Value, mismatch};

/// Longer than anybody waits.
pub(crate) const FOREVER: Duration = Duration::from_secs(86_400 * 365);

/// Why a call left the ordinary way.
pub(crate) enum Failure {
    /// No node is known for it.
    NoRoute(Error),
    /// A lane did not take it.
    Refused(Arc<Lane>, Arc<Refused>),
    /// What came back.
    Outcome(Arc<Lane>, Outcome),
    /// What that was judged to be.
    Failed(Arc<Lane>, Error),
}

/// Goes on with a request after `failure`, until its reply or its deadline.
pub(crate) async fn follow(
    core: &Core,
    request: &Request<'_, '_>,
    options: CallOptions,
    failure: Failure,
    since: Instant,
) -> Result<Value, Error> {
    RetryLoop::new(core, request, options, since, Line::Shared).follow(failure).await
}

/// A request from its beginning to its reply or deadline, without the short way.
pub(crate) async fn begin(
    core: &Core,
    request: &Request<'_, '_>,
    options: CallOptions,
    since: Instant,
    line: Line,
) -> Result<Value, Error> {
    let mut run = RetryLoop::new(core, request, options, since, line);
    let failure = run.route_and_submit().await;
    run.follow(failure).await
}

/// As [`begin`], on a connection that nobody shares, with the reply going to `sink` if it is a string.
pub(crate) async fn begin_into(
    core: &Core,
    request: &Request<'_, '_>,
    options: CallOptions,
    since: Instant,
    sink: &mut Sink<'_>,
) -> Result<Value, Error> {
    let mut run = RetryLoop { sink: Some(sink), ..RetryLoop::new(core, request, options, since, Line::Own) };
    let failure = run.route_and_submit().await;
    run.follow(failure).await
}

/// What becomes of one request of many that travelled together.
pub(crate) enum Verdict {
    Done(Result<Value, Error>),
    /// Its way parts from that of the others: a redirect.
    Alone(Failure),
    /// It is sent again, with the others that are, after a pause.
    Again {
        /// Why: if there is no time left, this is what became of it.
        error: Error,
        after: Duration,
        refresh: Refresh,
        to_primary: bool,
        may_have_run: bool,
    },
}

/// When and how often a request was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct History {
    pub(crate) since: Instant,
    /// When it was sent last.
    pub(crate) asked: Instant,
    /// Attempts before the last.
    pub(crate) retries: u32,
}

/// Judges a request that travelled with others.
pub(crate) fn verdict(
    core: &Core,
    request: &Request<'_, '_>,
    options: CallOptions,
    failure: Failure,
    history: History,
) -> Verdict {
    let History { since, asked, retries } = history;
    let run = RetryLoop { asked, retries, ..RetryLoop::new(core, request, options, since, Line::Shared) };
    let (lane, error) = match run.judge_now(failure) {
        Judged::Reply(value) => return Verdict::Done(Ok(value)),
        Judged::Again(failure) => return Verdict::Alone(failure),
        Judged::Final(error) => return Verdict::Done(Err(error)),
        Judged::Failed(lane, error) => (lane, error),
    };
    // Without a runtime on the caller's thread there are no pauses.
    if Handle::try_current().is_err() {
        return Verdict::Done(Err(error));
    }
    let may_have_run = error.ran() != Ran::NotSent;
    let again = |error, after, refresh, to_primary| Verdict::Again { error, after, refresh, to_primary, may_have_run };
    let next = run.next(lane.as_ref(), &error);
    if !matches!(next, Next::Redirect { .. }) {
        core.note(request.payload.name(), &error, &next);
    }
    match (next, lane) {
        (Next::Redirect { .. }, Some(lane)) => Verdict::Alone(Failure::Failed(lane, error)),
        (Next::Primary { refresh }, _) if matches!(request.target, Target::Usual) => {
            again(error, Duration::ZERO, refresh, true)
        }
        (Next::Fail(_) | Next::Redirect { .. } | Next::Primary { .. }, _) => Verdict::Done(Err(error)),
        (Next::Resubmit { after }, _) => again(error, after, Refresh::No, false),
        (Next::Refresh { after, refresh }, _) => again(error, after, refresh, false),
        (Next::Reconnect { after, refresh }, lane) => {
            if let Some(lane) = lane
                && error.server().is_some()
            {
                lane.reconnect(REPLACED, asked);
            }
            again(error, after, refresh, false)
        }
    }
}

const REPLACED: &str = "another server has its place";

/// On which connections a request travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Those that all share.
    Shared,
    /// One that nobody else uses meanwhile: the request may wait in the server.
    Own,
    /// A new one without a database, which a server that is busy with a script does not refuse ([`Flags::WHILE_BUSY`]).
    Bare,
}

struct RetryLoop<'j, 'a, 's> {
    core: &'j Core,
    request: &'j Request<'j, 'a>,
    options: CallOptions,
    since: Instant,
    line: Line,
    /// Where the reply goes, if not to the caller.
    sink: Option<&'j mut Sink<'s>>,
    /// When the last attempt was submitted.
    asked: Instant,
    redirects: u32,
    retries: u32,
    /// An attempt before this one may have been executed.
    may_have_run: bool,
    /// The last attempt went to where a slot is being imported.
    is_asking: bool,
    /// The topology by which it was last routed.
    topology_version: u64,
}

enum Judged {
    Reply(Value),
    Again(Failure),
    /// Perhaps there is a way.
    Failed(Option<Arc<Lane>>, Error),
    /// There is none.
    Final(Error),
}

impl<'j, 'a, 's> RetryLoop<'j, 'a, 's> {
    fn new(core: &'j Core, request: &'j Request<'j, 'a>, options: CallOptions, since: Instant, line: Line) -> Self {
        let topology_version = core.topology_version();
        Self {
            core,
            request,
            options,
            since,
            line,
            sink: None,
            asked: since,
            redirects: 0,
            retries: 0,
            may_have_run: false,
            is_asking: false,
            topology_version,
        }
    }

    async fn follow(mut self, mut failure: Failure) -> Result<Value, Error> {
        loop {
            failure = match self.judge(failure).await {
                Judged::Reply(value) => {
                    if let Payload::Command(command) = self.request.payload {
                        self.core.note_reply(command, &value);
                    }
                    return Ok(value);
                }
                Judged::Again(again) => again,
                Judged::Failed(lane, error) => match self.step(lane, error).await {
                    Ok(failure) => failure,
                    Err(error) => return Err(self.of_all_attempts(error)),
                },
                Judged::Final(error) => return Err(self.of_all_attempts(error)),
            };
        }
    }

    /// The last attempt's error, as that of all attempts: that the last one was not sent says nothing about those
    /// before.
    fn of_all_attempts(&self, error: Error) -> Error {
        match error.ran() {
            Ran::NotSent if self.may_have_run => error.with_ran(Ran::MaybeExecuted),
            _ => error,
        }
    }

    /// A redirect that is not followed any more says how many were.
    fn of_all_redirects(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Server(last) if self.redirects > 0 && last.advice() == Advice::Redirect => {
                let kind = ErrorKind::Redirects { redirects: self.redirects, last: last.clone() };
                error.with_kind(kind)
            }
            _ => error,
        }
    }

    async fn judge(&mut self, failure: Failure) -> Judged {
        match failure {
            Failure::Refused(lane, refused) => match *refused {
                Refused::Full(used) => self.wait_for_budget(lane, used).await,
                _ => self.judge_now(Failure::Refused(lane, refused)),
            },
            other => self.judge_now(other),
        }
    }

    /// What `failure` means, without waiting.
    fn judge_now(&self, failure: Failure) -> Judged {
        let name = self.request.payload.name();
        let error = |kind: ErrorKind, ran, lane: &Arc<Lane>| Error::new(kind, ran, name).at(lane.node());
        match failure {
            Failure::NoRoute(error) => Judged::Failed(None, error),
            Failure::Failed(lane, error) => Judged::Failed(Some(lane), error),
            Failure::Outcome(lane, Outcome::One(Value::Error(text))) => {
                let error = Error::answered(self.request.payload.spec(), ServerError::parse(&text));
                Judged::Failed(Some(Arc::clone(&lane)), error.at(lane.node()))
            }
            Failure::Outcome(lane, Outcome::One(value @ Value::TooDeep)) => {
                let kind = ErrorKind::Reply(mismatch("a reply within max_depth", &value));
                Judged::Final(error(kind, Ran::Executed, &lane))
            }
            Failure::Outcome(_, Outcome::One(value)) => Judged::Reply(value),
            Failure::Outcome(lane, Outcome::Many(values)) => match self.request.payload.settle(values) {
                Ok(value) => Judged::Reply(value),
                Err(error) => Judged::Failed(Some(Arc::clone(&lane)), error.at(lane.node())),
            },
            Failure::Outcome(lane, Outcome::Failed(failure)) => {
                let ran = self.request.payload.ran(&failure);
                let kind = failure.kind;
                // The lane has ended, the client has not.
                let is_gone = matches!(kind, ErrorKind::Closed) && !self.core.is_closed();
                let error = error(if is_gone { left() } else { kind }, ran, &lane);
                Judged::Failed(Some(lane), error)
            }
            Failure::Refused(lane, refused) => match &*refused {
                Refused::Full(_) => Judged::Again(Failure::Refused(lane, refused)),
                Refused::Down(kind) if self.core.fails_fast() => {
                    Judged::Final(error(kind.clone(), Ran::NotSent, &lane))
                }
                Refused::Down(kind) => {
                    Judged::Failed(Some(Arc::clone(&lane)), error(kind.clone(), Ran::NotSent, &lane))
                }
                // The node has left the cluster: another has its slots.
                Refused::Closed if !self.core.is_closed() => {
                    let error = error(left(), Ran::NotSent, &lane);
                    Judged::Failed(Some(lane), error)
                }
                Refused::Closed => Judged::Final(error(ErrorKind::Closed, Ran::NotSent, &lane)),
                Refused::NoRuntime => {
                    let kind = ErrorKind::Connect("there is no tokio runtime on this thread".into());
                    Judged::Final(error(kind, Ran::NotSent, &lane))
                }
            },
        }
    }

    async fn wait_for_budget(&mut self, lane: Arc<Lane>, used: usize) -> Judged {
        let (config, node) = (self.core.config(), lane.node());
        // Without a runtime on the caller's thread there is no waiting with a deadline.
        if config.overload != Overload::Wait || Handle::try_current().is_err() {
            let full = ErrorKind::Overloaded {
                limit: "max_queued_bytes",
                in_flight_bytes: used,
                max_bytes: config.max_queued_bytes,
            };
            return Judged::Final(Error::new(full, Ran::NotSent, self.request.payload.name()).at(node));
        }
        let check = ReplyCheck::wanted(self.core.config());
        let submitted = match tokio::time::timeout(self.remaining().unwrap_or(FOREVER), lane.room()).await {
            Ok(Err(crowd)) => {
                let kind = ErrorKind::Crowded { limit: "max_waiting_commands", waiting: crowd.waiting, max: crowd.max };
                return Judged::Final(Error::new(kind, Ran::NotSent, self.request.payload.name()).at(node));
            }
            // On a loaded machine room may come when the deadline has passed.
            Ok(Ok(turn)) if !self.is_late() => {
                self.submit_by(|submission, encode| turn.submit(submission, None, encode), false, &check)
            }
            Ok(Ok(_)) | Err(_) => {
                let report = TimeoutReport {
                    timeout: self.options.timeout.unwrap_or(FOREVER),
                    age: self.since.elapsed(),
                    stage: TimeoutStage::Budget,
                    ..lane.report()
                };
                return Judged::Final(
                    Error::new(ErrorKind::Timeout(Box::new(report)), Ran::NotSent, self.request.payload.name())
                        .at(node),
                );
            }
        };
        Judged::Again(outcome(lane, submitted, self.checked(check)).await)
    }

    /// Does what is to be done after `error`, and sends the command again; or fails with it.
    async fn step(&mut self, lane: Option<Arc<Lane>>, error: Error) -> Result<Failure, Error> {
        // Without a runtime on the caller's thread there are no pauses.
        if Handle::try_current().is_err() {
            return Err(error);
        }
        let asked = self.asked;
        let may_have_run = self.may_have_run || error.ran() != Ran::NotSent;
        let next = self.next(lane.as_ref(), &error);
        self.core.note(self.request.payload.name(), &error, &next);
        match next {
            Next::Fail(_) => Err(self.of_all_redirects(error)),
            // Who names a node wants that node's answer.
            Next::Redirect { .. } if matches!(self.request.target, Target::Node(_)) => Err(error),
            Next::Primary { .. } if !matches!(self.request.target, Target::Usual) => Err(error),
            Next::Resubmit { after } => {
                self.may_have_run = may_have_run;
                self.retries += 1;
                tokio::time::sleep(after).await;
                if self.is_late() {
                    return Err(error);
                }
                match lane {
                    // A slot on its way is still asked for where it goes to.
                    Some(lane) => Ok(self.submit(lane, self.is_asking).await),
                    None => Ok(self.route_and_submit().await),
                }
            }
            Next::Primary { refresh } => {
                self.may_have_run = may_have_run;
                self.retries += 1;
                self.core.want_refresh(refresh);
                if let (Some(lane), Some(problem)) = (&lane, error.server())
                    && error.judge(problem).about == About::Readiness
                {
                    // Until the handshake shows that it is ready again, the replica is not asked for reads.
                    lane.reconnect(problem.text(), asked);
                }
                let Request { payload, slot, .. } = self.request;
                Ok(match self.core.primary_lane(payload.spec(), *slot) {
                    Ok(lane) => self.submit(lane, false).await,
                    Err(error) => Failure::NoRoute(error),
                })
            }
            Next::Redirect { to, after } => {
                self.redirects += 1;
                if !after.is_zero() {
                    // The nodes do not agree. A topology that most of them agree on is to be preferred.
                    let version = self.core.topology_version();
                    self.core.want_refresh(Refresh::Urgent);
                    self.core.pause_or_new_topology(after, Refresh::Urgent, version).await;
                    if self.is_late() {
                        return Err(self.of_all_redirects(error));
                    }
                    if self.core.topology_version() != version {
                        return Ok(self.route_and_submit().await);
                    }
                }
                match self.core.redirected(&to, self.request.slot) {
                    Some(lane) => Ok(self.submit(lane, to.asking()).await),
                    None => Err(error),
                }
            }
            Next::Refresh { after, refresh } => {
                self.may_have_run = may_have_run;
                self.core.want_refresh(refresh);
                self.pause(after, refresh, lane.as_ref(), &error).await;
                if self.is_late() {
                    return Err(error);
                }
                Ok(self.route_and_submit().await)
            }
            Next::Reconnect { after, refresh } => {
                self.may_have_run = may_have_run;
                self.core.want_refresh(refresh);
                if let Some(lane) = &lane
                    && error.server().is_some()
                {
                    lane.reconnect(REPLACED, asked);
                }
                self.pause(after, refresh, lane.as_ref(), &error).await;
                if self.is_late() {
                    return Err(error);
                }
                Ok(self.route_and_submit().await)
            }
        }
    }

    /// Waits before another attempt: until a new topology comes, if one is awaited, at most for `pause`; not at all if
    /// there is a better way already.
    async fn pause(&mut self, pause: Duration, refresh: Refresh, lane: Option<&Arc<Lane>>, error: &Error) {
        let is_first = self.retries == 0;
        self.retries += 1;
        if is_first && self.has_better_way(lane, error) {
            return;
        }
        let pause = self.remaining().map_or(pause, |remaining| pause.min(remaining));
        self.core.pause_or_new_topology(pause, refresh, self.topology_version).await;
    }

    /// Whether the command would go elsewhere by now, or the lane that lost it is up again.
    fn has_better_way(&self, lane: Option<&Arc<Lane>>, error: &Error) -> bool {
        let Request { payload, target, slot } = self.request;
        let Ok(now) = self.core.lane_by(target, payload.spec(), *slot) else { return false };
        let now = self.core.fitting(now, *payload);
        let is_other = lane.is_none_or(|lane| !Arc::ptr_eq(lane, &now));
        !now.is_down() && (is_other || error.server().is_none())
    }

    fn next(&self, lane: Option<&Arc<Lane>>, error: &Error) -> Next {
        // A part of the reply has been written where it belongs.
        if self.sink.as_ref().is_some_and(|sink| sink.begun.is_some()) {
            return Next::Fail(retry::Stop::Hopeless);
        }
        // Without a node there is nothing to be judged but the topology.
        if matches!(error.kind(), ErrorKind::Cluster(_)) {
            return match self.remaining() {
                Some(Duration::ZERO) => Next::Fail(retry::Stop::Deadline),
                _ => Next::Refresh { after: Duration::from_millis(50), refresh: Refresh::Urgent },
            };
        }
        if self.core.fails_fast() && matches!(error.kind(), ErrorKind::Connect(_)) {
            return Next::Fail(retry::Stop::Hopeless);
        }
        let asked = lane.map_or_else(|| NodeAddress::tcp("", 0), |lane| lane.address());
        let attempt = Attempt {
            spec: self.request.payload.spec(),
            repeat: if self.options.is_retryable { Repeat::Allowed } else { Repeat::IfReadOnly },
            asked: self.core.asked(&asked),
            role: lane.map_or(crate::proto::topology::Role::Primary, |lane| lane.role()),
            readers: match (&self.core.config().read_from, &self.request.target) {
                (ReadFrom::OnlyReplicas, Target::Usual) => Readers::Replicas,
                _ => Readers::All,
            },
            deployment: if self.core.is_cluster() { Deployment::Cluster } else { Deployment::Standalone },
            redirects: self.redirects,
            retries: self.retries,
            elapsed: self.since.elapsed(),
            timeout: self.options.timeout,
        };
        retry::next(self.core.retry_policy(), &attempt, retry::FailureKind::of(error), &mut fastrand::Rng::new())
    }

    async fn route_and_submit(&mut self) -> Failure {
        self.topology_version = self.core.topology_version();
        let Request { payload, target, slot } = self.request;
        match self.core.lane_by(target, payload.spec(), *slot) {
            Ok(lane) => self.submit(lane, false).await,
            Err(error) => Failure::NoRoute(error),
        }
    }

    /// Sends the request to a lane's node, after `ASKING` if so, and awaits what comes of it.
    async fn submit(&mut self, lane: Arc<Lane>, is_asking: bool) -> Failure {
        if self.line != Line::Shared {
            let submission = self.submission(is_asking);
            let mut out = Out::contiguous_only();
            self.encode(is_asking, &mut out);
            if self.line == Line::Bare {
                let outcome = self.core.pool().run_bare(&lane, submission, &out).await;
                return Failure::Outcome(lane, outcome);
            }
            if let Some(sink) = &mut self.sink {
                let outcome = self.core.pool().run_into(&lane, submission, self.core.config(), &out, sink).await;
                return Failure::Outcome(lane, outcome);
            }
            let outcome = self.core.pool().run(&lane, submission, self.core.config(), &out).await;
            return Failure::Outcome(lane, outcome);
        }
        let lane = self.core.fitting(lane, self.request.payload);
        let check = ReplyCheck::wanted(self.core.config());
        let submitted = self.submit_by(|submission, encode| lane.submit(submission, None, encode), is_asking, &check);
        outcome(lane, submitted, self.checked(check)).await
    }

    fn submit_by(
        &mut self,
        submit: impl FnOnce(Submission, &mut dyn FnMut(&mut Out)) -> Result<Ticket, Refused>,
        is_asking: bool,
        check: &Option<ReplyCheck>,
    ) -> Result<Ticket, Refused> {
        let submission = self.submission(is_asking);
        let submission = check.as_ref().map_or(submission, |_| ReplyCheck::of(submission));
        submit(submission, &mut |out| {
            self.encode(is_asking, out);
            check.iter().for_each(|check| check.encode(out));
        })
    }

    /// The check, with how the replies before it are gathered.
    fn checked(&self, check: Option<ReplyCheck>) -> Option<(ReplyCheck, Kind)> {
        Some((check?, self.request.payload.replies().1))
    }

    fn submission(&mut self, is_asking: bool) -> Submission {
        (self.is_asking, self.asked) = (is_asking, Instant::now());
        let (replies, kind) = self.request.payload.replies();
        let skip = u32::from(is_asking);
        Submission { replies: replies + skip, skip, kind, timeout: self.remaining() }
    }

    fn encode(&self, is_asking: bool, out: &mut Out) {
        if is_asking {
            out.page().extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
        }
        self.request.payload.encode(out);
    }

    /// On a loaded machine a pause may outlast the deadline: what is sent then could run although its caller is told
    /// that it is too late.
    fn is_late(&self) -> bool {
        self.remaining() == Some(Duration::ZERO)
    }

    fn remaining(&self) -> Option<Duration> {
        self.options.timeout.map(|timeout| timeout.saturating_sub(self.since.elapsed()))
    }
}

/// Awaits what comes of a command that was submitted, if it was.
async fn outcome(lane: Arc<Lane>, submitted: Result<Ticket, Refused>, check: Option<(ReplyCheck, Kind)>) -> Failure {
    match submitted {
        Ok(ticket) => {
            let (mut outcome, _) = Flight::new(Arc::clone(&lane), ticket).outcome().await;
            if let Some((check, kind)) = check {
                outcome = check.check(outcome, kind, &lane);
            }
            Failure::Outcome(lane, outcome)
        }
        Err(refused) => Failure::Refused(lane, Arc::new(refused)),
    }
}

fn left() -> ErrorKind {
    ErrorKind::Connection("the node has left the cluster".into())
}
