//! What came of an attempt, and what that means.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::config::Overload;
use crate::engine::core::Core;
use crate::engine::hint;
use crate::engine::lane::{Lane, Refused};
use crate::engine::request::Request;
use crate::engine::submission::{Outcome, SubmissionError};
use crate::error::{Error, ErrorKind, Ran, ServerError};
use crate::reply::{Value, skipped};

/// What came of an attempt, if it is no plain reply.
pub(crate) enum Failure {
    /// No node is known for it.
    NoRoute(Error),
    /// A lane did not take it.
    Refused(Arc<Lane>, Arc<Refused>),
    /// What came back.
    Outcome(Arc<Lane>, Outcome),
    /// It was given up before a lane took it.
    GivenUp(Error),
}

impl Failure {
    /// A read that waits no longer for a replica.
    pub(crate) fn silent_replica(lane: Arc<Lane>) -> Self {
        Self::Outcome(lane, silent_replica())
    }
}

/// The outcome of reads that wait no longer for a replica.
#[cold]
pub(super) fn silent_replica() -> Outcome {
    let kind = ErrorKind::Connection("the replica is silent".into());
    let (ran, replies) = (Ran::MaybeExecuted, Vec::new());
    Outcome::Failed(Box::new(SubmissionError { kind, ran, replies, sent_bytes: usize::MAX }))
}

pub(super) enum Judged {
    Reply(Value),
    /// It waits for the byte budget of this lane.
    Full(Arc<Lane>),
    /// Perhaps there is a way.
    Failed(Option<Arc<Lane>>, Error),
    /// There is none.
    Final(Error),
}

/// What `failure` means.
pub(super) fn judge(core: &Core, request: &Request<'_, '_>, failure: Failure) -> Judged {
    let name = request.payload.name();
    let error = |kind: ErrorKind, ran, lane: &Arc<Lane>| Error::new(kind, ran, name).at(lane.node());
    match failure {
        Failure::NoRoute(error) => Judged::Failed(None, error),
        Failure::GivenUp(error) => Judged::Final(error),
        Failure::Outcome(lane, Outcome::One(Value::Error(text))) => {
            let error = Error::answered(request.payload.spec(), ServerError::parse(&text)).at(lane.node());
            let hint = hint::of(core, &lane, &error);
            Judged::Failed(Some(lane), error.hinted(hint))
        }
        Failure::Outcome(lane, Outcome::One(Value::Skipped(limit))) => {
            Judged::Final(error(ErrorKind::Reply(skipped(limit)), Ran::Executed, &lane))
        }
        Failure::Outcome(_, Outcome::One(value)) => Judged::Reply(value),
        Failure::Outcome(lane, Outcome::Many(values)) => match request.payload.settle(values) {
            Ok(value) => Judged::Reply(value),
            Err(error) => {
                let error = error.at(lane.node());
                Judged::Failed(Some(lane), error)
            }
        },
        Failure::Outcome(lane, Outcome::Failed(failure)) => {
            // The lane has ended, the client has not.
            let is_gone = matches!(failure.kind, ErrorKind::Closed) && !core.is_closed();
            let error = error(if is_gone { left() } else { failure.kind }, failure.ran, &lane);
            Judged::Failed(Some(lane), error)
        }
        Failure::Refused(lane, refused) => match &*refused {
            Refused::Full(_) if can_wait(core) => Judged::Full(lane),
            Refused::Full(used) => {
                let max_bytes = core.config().max_queued_bytes;
                let full = ErrorKind::Overloaded { limit: "max_queued_bytes", in_flight_bytes: *used, max_bytes };
                Judged::Final(error(full, Ran::NotSent, &lane))
            }
            Refused::Down(kind) if core.fails_fast() => Judged::Final(error(kind.clone(), Ran::NotSent, &lane)),
            Refused::Down(kind) => {
                let error = error(kind.clone(), Ran::NotSent, &lane);
                Judged::Failed(Some(lane), error)
            }
            // The node has left the cluster: another has its slots.
            Refused::Closed if !core.is_closed() => {
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

/// Without a runtime on the caller's thread there is no waiting with a deadline.
pub(super) fn can_wait(core: &Core) -> bool {
    core.config().overload == Overload::Wait && Handle::try_current().is_ok()
}

fn left() -> ErrorKind {
    ErrorKind::Connection("the node has left the cluster".into())
}
