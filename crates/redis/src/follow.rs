//! What is not a plain command with a plain reply: full or broken lanes, errors of the server, redirects. One loop from
//! the trouble to the next attempt.
//!
//! What to do is decided by [`crate::proto::retry`]; this file does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::call::{CallOptions, Flight};
use crate::command::{Command, Flags, RequestPolicy};
use crate::config::{NodeAddress, Overload, ReadFrom};
use crate::copy::Sink;
use crate::core::Core;
use crate::error::{Advice, Error, ErrorKind, Ran, ServerError, TimeoutReport, TimeoutStage};
use crate::net::lane::{Carriage, Kind, Lane, Outcome, Refused, Ticket};
use crate::net::out::Out;
use crate::parcel::{Errand, Parcel};
use crate::proof::Proof;
use crate::proto::retry::{self, Attempt, Deployment, Next, Readers, Refresh, Repeat};
use crate::reply::{Value, mismatch};
use crate::route::Way;

/// Longer than anybody waits.
pub(crate) const FOREVER: Duration = Duration::from_secs(86_400 * 365);

/// Why a call left the ordinary way.
pub(crate) enum Trouble {
    /// No node is known for it.
    NoRoute(Error),
    /// A lane did not take it.
    Refused(Arc<Lane>, Arc<Refused>),
    /// What came back.
    Outcome(Arc<Lane>, Outcome),
    /// What that was judged to be.
    Failed(Arc<Lane>, Error),
}

/// Whether a command takes the short way: to the lane of its key and back.
#[inline]
pub(crate) fn is_ordinary(core: &Core, command: &Command<'_>) -> bool {
    let spec = command.spec();
    if spec.flags.has_any(Flags::BLOCKING.and(Flags::CONNECTION_STATE).and(Flags::WHILE_BUSY)) {
        return false;
    }
    if !core.is_cluster() {
        return true;
    }
    if spec.keys.is_empty() { spec.request == RequestPolicy::Default } else { command.has_one_slot() }
}

/// Goes on with an errand after `trouble`, until its reply or its deadline.
pub(crate) async fn follow(
    core: &Core,
    errand: &Errand<'_, '_>,
    options: CallOptions,
    trouble: Trouble,
    since: Instant,
) -> Result<Value, Error> {
    Journey::new(core, errand, options, since, Line::Shared).follow(trouble).await
}

/// An errand from its beginning to its reply or deadline, without the short way.
pub(crate) async fn begin(
    core: &Core,
    errand: &Errand<'_, '_>,
    options: CallOptions,
    since: Instant,
    line: Line,
) -> Result<Value, Error> {
    let mut journey = Journey::new(core, errand, options, since, line);
    let trouble = journey.route_and_submit().await;
    journey.follow(trouble).await
}

/// As [`begin`], on a connection that nobody shares, with the reply going to `sink` if it is a string.
pub(crate) async fn begin_into(
    core: &Core,
    errand: &Errand<'_, '_>,
    options: CallOptions,
    since: Instant,
    sink: &mut Sink<'_>,
) -> Result<Value, Error> {
    let mut journey = Journey { sink: Some(sink), ..Journey::new(core, errand, options, since, Line::Own) };
    let trouble = journey.route_and_submit().await;
    journey.follow(trouble).await
}

/// What becomes of one errand of many that travelled together.
pub(crate) enum Verdict {
    Done(Result<Value, Error>),
    /// Its way parts from that of the others: a redirect.
    Alone(Trouble),
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

/// When and how often an errand was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct History {
    pub(crate) since: Instant,
    /// When it was sent last.
    pub(crate) asked: Instant,
    /// Attempts before the last.
    pub(crate) retries: u32,
}

/// Judges an errand that travelled with others.
pub(crate) fn verdict(
    core: &Core,
    errand: &Errand<'_, '_>,
    options: CallOptions,
    trouble: Trouble,
    history: History,
) -> Verdict {
    let History { since, asked, retries } = history;
    let journey = Journey { asked, retries, ..Journey::new(core, errand, options, since, Line::Shared) };
    let (lane, error) = match journey.judge_now(trouble) {
        Judged::Reply(value) => return Verdict::Done(Ok(value)),
        Judged::Again(trouble) => return Verdict::Alone(trouble),
        Judged::Final(error) => return Verdict::Done(Err(error)),
        Judged::Failed(lane, error) => (lane, error),
    };
    // Without a runtime on the caller's thread there are no pauses.
    if Handle::try_current().is_err() {
        return Verdict::Done(Err(error));
    }
    let may_have_run = error.ran() != Ran::NotSent;
    let again = |error, after, refresh, to_primary| Verdict::Again { error, after, refresh, to_primary, may_have_run };
    let next = journey.next(lane.as_ref(), &error);
    if !matches!(next, Next::Redirect { .. }) {
        core.note(errand.parcel.name(), &error, &next);
    }
    match (next, lane) {
        (Next::Redirect { .. }, Some(lane)) => Verdict::Alone(Trouble::Failed(lane, error)),
        (Next::Primary { refresh }, _) if matches!(errand.way, Way::Usual) => {
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

/// On which connections an errand travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Those that all share.
    Shared,
    /// One that nobody else uses meanwhile: the errand may wait in the server.
    Own,
    /// A new one without a database, which a server that is busy with a script does not refuse ([`Flags::WHILE_BUSY`]).
    Bare,
}

struct Journey<'j, 'a, 's> {
    core: &'j Core,
    errand: &'j Errand<'j, 'a>,
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
    /// The map by which it was last routed.
    map_version: u64,
}

enum Judged {
    Reply(Value),
    Again(Trouble),
    /// Perhaps there is a way.
    Failed(Option<Arc<Lane>>, Error),
    /// There is none.
    Final(Error),
}

impl<'j, 'a, 's> Journey<'j, 'a, 's> {
    fn new(core: &'j Core, errand: &'j Errand<'j, 'a>, options: CallOptions, since: Instant, line: Line) -> Self {
        let map_version = core.map_version();
        Self {
            core,
            errand,
            options,
            since,
            line,
            sink: None,
            asked: since,
            redirects: 0,
            retries: 0,
            may_have_run: false,
            is_asking: false,
            map_version,
        }
    }

    async fn follow(mut self, mut trouble: Trouble) -> Result<Value, Error> {
        loop {
            trouble = match self.judge(trouble).await {
                Judged::Reply(value) => {
                    if let Parcel::Command(command) = self.errand.parcel {
                        self.core.note_reply(command, &value);
                    }
                    return Ok(value);
                }
                Judged::Again(again) => again,
                Judged::Failed(lane, error) => match self.step(lane, error).await {
                    Ok(trouble) => trouble,
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

    async fn judge(&mut self, trouble: Trouble) -> Judged {
        match trouble {
            Trouble::Refused(lane, refused) => match *refused {
                Refused::Full(used) => self.wait_for_budget(lane, used).await,
                _ => self.judge_now(Trouble::Refused(lane, refused)),
            },
            other => self.judge_now(other),
        }
    }

    /// What `trouble` means, without waiting.
    fn judge_now(&self, trouble: Trouble) -> Judged {
        let name = self.errand.parcel.name();
        let error = |kind: ErrorKind, ran, lane: &Arc<Lane>| Error::new(kind, ran, name).at(lane.node());
        match trouble {
            Trouble::NoRoute(error) => Judged::Failed(None, error),
            Trouble::Failed(lane, error) => Judged::Failed(Some(lane), error),
            Trouble::Outcome(lane, Outcome::One(Value::Error(text))) => {
                let server = ServerError::parse(&text);
                let ran = retry::ran(name, &server);
                Judged::Failed(Some(Arc::clone(&lane)), error(ErrorKind::Server(server), ran, &lane))
            }
            Trouble::Outcome(lane, Outcome::One(value @ Value::TooDeep)) => {
                let kind = ErrorKind::Reply(mismatch("a reply within max_depth", &value));
                Judged::Final(error(kind, Ran::Executed, &lane))
            }
            Trouble::Outcome(_, Outcome::One(value)) => Judged::Reply(value),
            Trouble::Outcome(lane, Outcome::Many(values)) => match self.errand.parcel.settle(values) {
                Ok(value) => Judged::Reply(value),
                Err(error) => Judged::Failed(Some(Arc::clone(&lane)), error.at(lane.node())),
            },
            Trouble::Outcome(lane, Outcome::Failed(failure)) => {
                let ran = self.errand.parcel.ran(&failure);
                let kind = failure.kind;
                // The lane has ended, the client has not.
                let is_gone = matches!(kind, ErrorKind::Closed) && !self.core.is_closed();
                let error = error(if is_gone { left() } else { kind }, ran, &lane);
                Judged::Failed(Some(lane), error)
            }
            Trouble::Refused(lane, refused) => match &*refused {
                Refused::Full(_) => Judged::Again(Trouble::Refused(lane, refused)),
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
        let config = self.core.config();
        let node = lane.node();
        // Without a runtime on the caller's thread there is no waiting with a deadline.
        if config.overload != Overload::Wait || Handle::try_current().is_err() {
            let full = ErrorKind::Overloaded {
                limit: "max_queued_bytes",
                in_flight_bytes: used,
                max_bytes: config.max_queued_bytes,
            };
            return Judged::Final(Error::new(full, Ran::NotSent, self.errand.parcel.name()).at(node));
        }
        let proof = Proof::wanted(self.core.config());
        let submitted = match tokio::time::timeout(self.remaining().unwrap_or(FOREVER), lane.room()).await {
            Ok(Err(crowd)) => {
                let kind = ErrorKind::Crowded { limit: "max_waiting_commands", waiting: crowd.waiting, max: crowd.max };
                return Judged::Final(Error::new(kind, Ran::NotSent, self.errand.parcel.name()).at(node));
            }
            // On a loaded machine room may come when the deadline has passed.
            Ok(Ok(turn)) if !self.is_late() => {
                self.submit_by(|carriage, encode| turn.submit(carriage, None, encode), false, &proof)
            }
            Ok(Ok(_)) | Err(_) => {
                let report = TimeoutReport {
                    timeout: self.options.timeout.unwrap_or(FOREVER),
                    age: self.since.elapsed(),
                    stage: TimeoutStage::Budget,
                    ..lane.report()
                };
                return Judged::Final(
                    Error::new(ErrorKind::Timeout(Box::new(report)), Ran::NotSent, self.errand.parcel.name()).at(node),
                );
            }
        };
        Judged::Again(outcome(lane, submitted, self.proven(proof)).await)
    }

    /// Does what is to be done after `error`, and sends the command again; or fails with it.
    async fn step(&mut self, lane: Option<Arc<Lane>>, error: Error) -> Result<Trouble, Error> {
        // Without a runtime on the caller's thread there are no pauses.
        if Handle::try_current().is_err() {
            return Err(error);
        }
        let asked = self.asked;
        let may_have_run = self.may_have_run || error.ran() != Ran::NotSent;
        let next = self.next(lane.as_ref(), &error);
        self.core.note(self.errand.parcel.name(), &error, &next);
        match next {
            Next::Fail(_) => Err(self.of_all_redirects(error)),
            // Who names a node wants that node's answer.
            Next::Redirect { .. } if matches!(self.errand.way, Way::Node(_)) => Err(error),
            Next::Primary { .. } if !matches!(self.errand.way, Way::Usual) => Err(error),
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
                    && matches!(problem.code(), "LOADING" | "MASTERDOWN")
                {
                    // Until the handshake shows that it is ready again, the replica is not asked for reads.
                    lane.reconnect(problem.text(), asked);
                }
                let parcel = &self.errand.parcel;
                Ok(match self.core.primary_lane(parcel.spec(), parcel.slot()) {
                    Ok(lane) => self.submit(lane, false).await,
                    Err(error) => Trouble::NoRoute(error),
                })
            }
            Next::Redirect { to, after } => {
                self.redirects += 1;
                if !after.is_zero() {
                    // The nodes do not agree. A map that most of them agree on is to be preferred.
                    let version = self.core.map_version();
                    self.core.want_refresh(Refresh::Urgent);
                    self.core.pause_or_new_map(after, Refresh::Urgent, version).await;
                    if self.is_late() {
                        return Err(self.of_all_redirects(error));
                    }
                    if self.core.map_version() != version {
                        return Ok(self.route_and_submit().await);
                    }
                }
                match self.core.redirected(&to, self.errand.parcel.slot()) {
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

    /// Waits before another attempt: until a new map comes, if one is awaited, at most for `pause`; not at all if there
    /// is a better way already.
    async fn pause(&mut self, pause: Duration, refresh: Refresh, lane: Option<&Arc<Lane>>, error: &Error) {
        let is_first = self.retries == 0;
        self.retries += 1;
        if is_first && self.has_better_way(lane, error) {
            return;
        }
        let pause = self.remaining().map_or(pause, |remaining| pause.min(remaining));
        self.core.pause_or_new_map(pause, refresh, self.map_version).await;
    }

    /// Whether the command would go elsewhere by now, or the lane that lost it is up again.
    fn has_better_way(&self, lane: Option<&Arc<Lane>>, error: &Error) -> bool {
        let Errand { parcel, way } = self.errand;
        let Ok(now) = self.core.lane_by(way, parcel.spec(), parcel.slot()) else { return false };
        let now = self.core.fitting(now, *parcel);
        let is_other = lane.is_none_or(|lane| !Arc::ptr_eq(lane, &now));
        !now.is_down() && (is_other || error.server().is_none())
    }

    fn next(&self, lane: Option<&Arc<Lane>>, error: &Error) -> Next {
        // A part of the reply has been written where it belongs.
        if self.sink.as_ref().is_some_and(|sink| sink.begun.is_some()) {
            return Next::Fail(retry::Stop::Hopeless);
        }
        // Without a node there is nothing to be judged but the map.
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
            command: self.errand.parcel.name(),
            flags: self.errand.parcel.spec().flags,
            repeat: if self.options.is_retryable { Repeat::Allowed } else { Repeat::IfReadOnly },
            asked: self.core.asked(&asked),
            role: lane.map_or(crate::proto::topology::Role::Primary, |lane| lane.role()),
            readers: match (&self.core.config().read_from, &self.errand.way) {
                (ReadFrom::OnlyReplicas, Way::Usual) => Readers::Replicas,
                _ => Readers::All,
            },
            deployment: if self.core.is_cluster() { Deployment::Cluster } else { Deployment::Standalone },
            redirects: self.redirects,
            retries: self.retries,
            elapsed: self.since.elapsed(),
            timeout: self.options.timeout,
        };
        retry::next(self.core.retry_policy(), &attempt, retry::Failure::of(error), &mut fastrand::Rng::new())
    }

    async fn route_and_submit(&mut self) -> Trouble {
        self.map_version = self.core.map_version();
        let Errand { parcel, way } = self.errand;
        match self.core.lane_by(way, parcel.spec(), parcel.slot()) {
            Ok(lane) => self.submit(lane, false).await,
            Err(error) => Trouble::NoRoute(error),
        }
    }

    /// Sends the errand to a lane's node, after `ASKING` if so, and awaits what comes of it.
    async fn submit(&mut self, lane: Arc<Lane>, is_asking: bool) -> Trouble {
        if self.line != Line::Shared {
            let carriage = self.carriage(is_asking);
            let mut out = Out::contiguous_only();
            self.encode(is_asking, &mut out);
            if self.line == Line::Bare {
                let outcome = self.core.pool().carry_bare(&lane, carriage, &out).await;
                return Trouble::Outcome(lane, outcome);
            }
            if let Some(sink) = &mut self.sink {
                let outcome = self.core.pool().carry_into(&lane, carriage, self.core.config(), &out, sink).await;
                return Trouble::Outcome(lane, outcome);
            }
            let outcome = self.core.pool().carry(&lane, carriage, self.core.config(), &out).await;
            return Trouble::Outcome(lane, outcome);
        }
        let lane = self.core.fitting(lane, self.errand.parcel);
        let proof = Proof::wanted(self.core.config());
        let submitted = self.submit_by(|carriage, encode| lane.submit(carriage, None, encode), is_asking, &proof);
        outcome(lane, submitted, self.proven(proof)).await
    }

    fn submit_by(
        &mut self,
        submit: impl FnOnce(Carriage, &mut dyn FnMut(&mut Out)) -> Result<Ticket, Refused>,
        is_asking: bool,
        proof: &Option<Proof>,
    ) -> Result<Ticket, Refused> {
        let carriage = self.carriage(is_asking);
        let carriage = proof.as_ref().map_or(carriage, |_| Proof::of(carriage));
        submit(carriage, &mut |out| {
            self.encode(is_asking, out);
            proof.iter().for_each(|proof| proof.encode(out));
        })
    }

    /// The proof, with how the replies before it are gathered.
    fn proven(&self, proof: Option<Proof>) -> Option<(Proof, Kind)> {
        Some((proof?, self.errand.parcel.replies().1))
    }

    fn carriage(&mut self, is_asking: bool) -> Carriage {
        (self.is_asking, self.asked) = (is_asking, Instant::now());
        let (replies, kind) = self.errand.parcel.replies();
        let skip = u32::from(is_asking);
        Carriage { replies: replies + skip, skip, kind, timeout: self.remaining() }
    }

    fn encode(&self, is_asking: bool, out: &mut Out) {
        if is_asking {
            out.page().extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
        }
        self.errand.parcel.encode(out);
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
async fn outcome(lane: Arc<Lane>, submitted: Result<Ticket, Refused>, proof: Option<(Proof, Kind)>) -> Trouble {
    match submitted {
        Ok(ticket) => {
            let (mut outcome, _) = Flight::new(Arc::clone(&lane), ticket).outcome().await;
            if let Some((proof, kind)) = proof {
                outcome = proof.check(outcome, kind, &lane);
            }
            Trouble::Outcome(lane, outcome)
        }
        Err(refused) => Trouble::Refused(lane, Arc::new(refused)),
    }
}

fn left() -> ErrorKind {
    ErrorKind::Connection("the node has left the cluster".into())
}
