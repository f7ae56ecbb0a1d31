//! What to do with a command that failed: one table from the failure to the next step.
//!
//! A command is sent again only if it certainly did not run, or if running it twice does no harm: it only reads, or its
//! caller marked it. Every pause ends before the command's deadline; if it cannot, the failure is final.

use std::time::Duration;

use fastrand::Rng;

use super::asked::Asked;
use super::redirect::{Redirect, RedirectKind};
use super::topology::Role;
use crate::command::{CommandSpec, Flags};
use crate::error::table::{About, Judgement, Remedy, judge};
use crate::error::{Aborted, Error, ErrorKind, Ran, ServerError};

/// Limits of what is tried for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RetryPolicy {
    /// Most redirects that are followed. Default 64: with their pauses about ten seconds, so that mostly the deadline
    /// comes first.
    pub max_redirects: u32,
    /// Most other attempts after the first, for a command without a deadline; else that one ends them. Default 64.
    pub max_retries: u32,
    /// Longest first pause. Default 10 ms.
    pub min_pause: Duration,
    /// Longest pause. Default 200 ms: after a failover the next attempt is at most that late.
    pub max_pause: Duration,
}

/// A command's history at the moment it failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    /// What is known about the command.
    pub spec: &'a CommandSpec,
    /// Whether the caller allowed to run it twice.
    pub repeat: Repeat,
    /// Who was asked.
    pub asked: Asked<'a>,
    /// Whether the connection to it was just made to see who has its address.
    pub has_just_looked: bool,
    /// What the asked node was taken for.
    pub role: Role,
    /// Whom else a read may ask.
    pub readers: Readers,
    /// Whether there is a topology to be refreshed.
    pub deployment: Deployment,
    /// Redirects followed so far.
    pub redirects: u32,
    /// Other attempts after the first so far.
    pub retries: u32,
    /// Time since the caller submitted the command.
    pub elapsed: Duration,
    /// The caller's time limit, if there is one.
    pub timeout: Option<Duration>,
}

/// Who may answer a read that a replica did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Readers {
    /// The primary, too.
    #[default]
    All,
    /// Other replicas, or the same later.
    Replicas,
}

/// Whether a command may run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Repeat {
    /// Only if it changes nothing.
    #[default]
    IfReadOnly,
    /// The caller said so.
    Allowed,
}

/// What the client is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// One server, or a primary found through Sentinel.
    Standalone,
    /// A cluster.
    Cluster,
}

/// How a command failed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FailureKind<'a> {
    /// The server answered with an error.
    Server(&'a ServerError),
    /// There was no connection, or it was lost. [`Ran::NotSent`] if the command did not leave whole, else
    /// [`Ran::MaybeExecuted`].
    Connection(Ran),
    /// It cannot succeed: misuse, a reply of another type, a passed deadline, a full queue, a closed client.
    Final,
}

/// The next step for a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// The failure is the result.
    Fail(Stop),
    /// The same node again.
    Resubmit {
        /// After this pause.
        after: Duration,
    },
    /// The shard's primary at once, instead of the replica that was asked.
    Primary {
        /// Whether the topology is doubtful.
        refresh: Refresh,
    },
    /// The node that the redirect names, after `ASKING` if [`Redirect::asking`]. If [`Redirect::moved`]: patch the
    /// slot's owner and ask for a refresh in the background.
    Redirect {
        /// Where to.
        to: Redirect,
        /// After this pause. None for the first redirects; later, the nodes do not agree, and a new topology that comes
        /// meanwhile is to be preferred.
        after: Duration,
    },
    /// Ask for a refresh of the topology in the background, and route the command anew.
    Refresh {
        /// After this pause, be the topology new or not.
        after: Duration,
        /// How soon the refresh is wanted.
        refresh: Refresh,
    },
    /// Replace the connection, with the name looked up anew, and send the command there.
    Reconnect {
        /// After this pause.
        after: Duration,
        /// Whether the topology is doubtful, too.
        refresh: Refresh,
    },
}

/// Whether and how soon the topology has to be asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refresh {
    /// It is not in doubt.
    No,
    /// It is stale, but commands find their way (`MOVED`).
    Soon,
    /// Commands wait for it: their node is gone.
    Urgent,
}

/// Why nothing more is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The same command would fail again.
    Hopeless,
    /// It may have run, and running it twice is not allowed.
    MayHaveRun,
    /// The deadline comes before the next attempt.
    Deadline,
    /// [`RetryPolicy::max_redirects`].
    TooManyRedirects,
    /// [`RetryPolicy::max_retries`].
    TooManyRetries,
    /// The server is part of a cluster and the client was told that it is not.
    NotACluster,
}

/// The next step for a command that failed. `rng` spreads the pauses of many clients.
#[must_use]
pub(crate) fn next(policy: &RetryPolicy, attempt: &Attempt<'_>, failure: FailureKind<'_>, rng: &mut Rng) -> Next {
    let step = match failure {
        FailureKind::Final => return Next::Fail(Stop::Hopeless),
        FailureKind::Connection(ran) => connection(policy, attempt, ran, rng),
        FailureKind::Server(error) => server(policy, attempt, error, rng),
    };
    match attempt.timeout {
        Some(timeout) if step.after().is_some_and(|after| attempt.elapsed + after >= timeout) => {
            Next::Fail(Stop::Deadline)
        }
        _ => step,
    }
}

impl<'a> FailureKind<'a> {
    /// How an error is to be taken.
    #[must_use]
    pub(crate) fn of(error: &'a Error) -> Self {
        match error.kind() {
            ErrorKind::Server(server) | ErrorKind::Aborted(Aborted::Refused { error: server, .. }) => {
                Self::Server(server)
            }
            ErrorKind::Connect(_) | ErrorKind::Connection(_) | ErrorKind::Protocol(_) => Self::Connection(error.ran()),
            ErrorKind::Misuse(_)
            | ErrorKind::Reply(_)
            | ErrorKind::Rejected(_)
            | ErrorKind::Writer(_)
            | ErrorKind::Timeout(_)
            | ErrorKind::Overloaded { .. }
            | ErrorKind::Crowded { .. }
            | ErrorKind::Redirects { .. }
            | ErrorKind::Cluster(_)
            | ErrorKind::Partial(_)
            | ErrorKind::Aborted(Aborted::Changed { .. })
            | ErrorKind::Closed => Self::Final,
        }
    }
}

impl Next {
    /// The pause before the next attempt; `None` if there is none.
    #[must_use]
    pub(crate) fn after(&self) -> Option<Duration> {
        match self {
            Self::Fail(_) => None,
            Self::Primary { .. } => Some(Duration::ZERO),
            Self::Resubmit { after }
            | Self::Redirect { after, .. }
            | Self::Refresh { after, .. }
            | Self::Reconnect { after, .. } => Some(*after),
        }
    }

    /// Whether the topology of the cluster has to be asked for again.
    #[must_use]
    pub(crate) fn refresh(&self) -> Refresh {
        match self {
            Self::Fail(_) | Self::Resubmit { .. } => Refresh::No,
            Self::Redirect { after, .. } if !after.is_zero() => Refresh::Urgent,
            Self::Redirect { to, .. } if to.moved().is_some() => Refresh::Soon,
            Self::Redirect { .. } => Refresh::No,
            Self::Primary { refresh } | Self::Refresh { refresh, .. } | Self::Reconnect { refresh, .. } => *refresh,
        }
    }
}

impl Attempt<'_> {
    fn may_repeat(&self) -> bool {
        self.repeat == Repeat::Allowed || self.spec.flags.has(Flags::READONLY)
    }

    fn is_exhausted(&self, policy: &RetryPolicy) -> bool {
        self.timeout.is_none() && self.retries >= policy.max_retries
    }

    fn urgent(&self) -> Refresh {
        match self.deployment {
            Deployment::Cluster => Refresh::Urgent,
            Deployment::Standalone => Refresh::No,
        }
    }

    /// The first attempt went to a replica: its primary can be asked without any pause.
    fn has_primary_left(&self) -> bool {
        self.readers == Readers::All && self.role == Role::Replica && self.spec.flags.has(Flags::READONLY)
    }

    /// A redirect leads to a primary.
    fn may_follow(&self) -> bool {
        self.readers == Readers::All || self.role == Role::Primary || !self.spec.flags.has(Flags::READONLY)
    }
}

impl RetryPolicy {
    /// Half of a doubling, capped time and a random part of the other half: never none, so that attempts are bounded by
    /// time.
    fn pause(&self, attempts: u32, rng: &mut Rng) -> Duration {
        let longest =
            self.min_pause.saturating_mul(1_u32.checked_shl(attempts).unwrap_or(u32::MAX)).min(self.max_pause);
        longest.mul_f64(0.5 + rng.f64() / 2.0)
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_redirects: 64,
            max_retries: 64,
            min_pause: Duration::from_millis(10),
            max_pause: Duration::from_millis(200),
        }
    }
}

fn connection(policy: &RetryPolicy, attempt: &Attempt<'_>, ran: Ran, rng: &mut Rng) -> Next {
    if ran != Ran::NotSent && !attempt.may_repeat() {
        return Next::Fail(Stop::MayHaveRun);
    }
    if attempt.is_exhausted(policy) {
        return Next::Fail(Stop::TooManyRetries);
    }
    if attempt.has_primary_left() {
        return Next::Primary { refresh: attempt.urgent() };
    }
    let after = policy.pause(attempt.retries, rng);
    match attempt.deployment {
        Deployment::Cluster => Next::Refresh { after, refresh: Refresh::Urgent },
        Deployment::Standalone => Next::Reconnect { after, refresh: Refresh::No },
    }
}

fn server(policy: &RetryPolicy, attempt: &Attempt<'_>, error: &ServerError, rng: &mut Rng) -> Next {
    let Judgement { ran, remedy, about } = judge(attempt.spec, error);
    if remedy == Remedy::GiveUp {
        return Next::Fail(Stop::Hopeless);
    }
    if ran != Ran::NotSent && !attempt.may_repeat() {
        return Next::Fail(Stop::MayHaveRun);
    }
    if remedy == Remedy::Redirect {
        return redirect(policy, attempt, error, about, rng);
    }
    if attempt.is_exhausted(policy) {
        return Next::Fail(Stop::TooManyRetries);
    }
    let after = policy.pause(attempt.retries, rng);
    match remedy {
        Remedy::GiveUp | Remedy::Redirect => Next::Fail(Stop::Hopeless),
        Remedy::WaitIfReading if !attempt.spec.flags.has(Flags::READONLY) => Next::Fail(Stop::Hopeless),
        // Until its handshake shows that it is ready again, others are asked.
        Remedy::Wait if !attempt.may_follow() => Next::Reconnect { after, refresh: Refresh::No },
        Remedy::Refresh if !attempt.may_follow() => Next::Reconnect { after, refresh: attempt.urgent() },
        Remedy::ReconnectOnce if attempt.retries > 0 => Next::Fail(Stop::Hopeless),
        Remedy::ReconnectOnce => Next::Reconnect { after: Duration::ZERO, refresh: Refresh::No },
        Remedy::Wait if attempt.has_primary_left() => Next::Primary { refresh: Refresh::No },
        Remedy::WaitIfReading if attempt.has_primary_left() => Next::Primary { refresh: Refresh::No },
        Remedy::Wait | Remedy::WaitIfReading => Next::Resubmit { after },
        Remedy::Refresh if attempt.has_primary_left() => Next::Primary { refresh: attempt.urgent() },
        Remedy::Refresh if attempt.deployment == Deployment::Cluster => {
            Next::Refresh { after, refresh: Refresh::Urgent }
        }
        Remedy::Refresh => Next::Resubmit { after },
        // Nobody else has the address; in a cluster the topology may tell of another.
        Remedy::Reconnect if attempt.has_just_looked && attempt.deployment == Deployment::Standalone => {
            Next::Fail(Stop::Hopeless)
        }
        Remedy::Reconnect => Next::Reconnect { after, refresh: attempt.urgent() },
    }
}

fn redirect(policy: &RetryPolicy, attempt: &Attempt<'_>, error: &ServerError, about: About, rng: &mut Rng) -> Next {
    let in_cluster = attempt.deployment == Deployment::Cluster;
    if !in_cluster && about == About::Slot {
        return Next::Fail(Stop::NotACluster);
    }
    if attempt.redirects >= policy.max_redirects {
        return Next::Fail(Stop::TooManyRedirects);
    }
    // MOVED, perhaps after it ASK, are followed at once. More are a cluster that has not agreed yet.
    let after = match attempt.redirects {
        0 | 1 => Duration::ZERO,
        more => policy.pause(more - 1, rng),
    };
    if !attempt.may_follow() {
        return Next::Refresh { after: policy.pause(attempt.retries, rng), refresh: attempt.urgent() };
    }
    let to = match Redirect::detect(error, &attempt.asked) {
        Ok(Some(to)) => to,
        Ok(None) | Err(_) if attempt.is_exhausted(policy) => return Next::Fail(Stop::TooManyRetries),
        // It says that the topology is stale without a way to go on: the topology will tell.
        Ok(None) | Err(_) => {
            return Next::Refresh { after: policy.pause(attempt.retries, rng), refresh: attempt.urgent() };
        }
    };
    match to.kind {
        // The same endpoint leads to another server by now: a load balancer, a port forward, a failover behind one
        // name.
        RedirectKind::Moved(_) | RedirectKind::Primary if to.address == *attempt.asked.address => {
            if attempt.is_exhausted(policy) {
                return Next::Fail(Stop::TooManyRetries);
            }
            let after = attempt.retries.checked_sub(1).map_or(Duration::ZERO, |more| policy.pause(more, rng));
            Next::Reconnect { after, refresh: if in_cluster { Refresh::Soon } else { Refresh::No } }
        }
        RedirectKind::Moved(_) | RedirectKind::Ask(_) | RedirectKind::Primary => Next::Redirect { to, after },
    }
}

#[cfg(test)]
mod tests;
