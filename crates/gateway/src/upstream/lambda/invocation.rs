//! Invocations on their way between workers, and where each instance takes them.

use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use pilotlight_lambda::FunctionError;
use pilotlight_supervisor::{Instance, Lease, ServiceId};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot};

use crate::upstream::Delivery;

/// Invocations on their way to one instance; it has a place for one.
const MAX_SENT: usize = 4;
/// Pieces of a stream that wait for the client.
pub(super) const MAX_PIECES: usize = 16;

/// One event for an instance, which has the place at it.
pub(super) struct Invocation {
    pub(super) handed: Handed,
    pub(super) max_payload: usize,
    pub(super) max_stream: u64,
    pub(super) lease: Lease,
    pub(super) reply: oneshot::Sender<Result<Outcome, InvokeError>>,
}

/// What an instance is told of an invocation.
#[derive(Clone)]
pub(super) struct Handed {
    pub(super) id: String,
    pub(super) payload: Bytes,
    pub(super) deadline: Instant,
    /// That of X-Ray.
    pub(super) trace: String,
    /// The function's Amazon Resource Name.
    pub(super) arn: String,
}

/// What an instance answers.
pub(super) struct Outcome {
    pub(super) content_type: Vec<u8>,
    pub(super) body: OutcomeBody,
}

pub(super) enum OutcomeBody {
    Whole(Bytes),
    /// It ends with [`Part::End`], or has broken off.
    Stream(mpsc::Receiver<Part>),
}

/// What comes of a streamed result.
pub(super) enum Part {
    Data(Bytes),
    End,
    Failed(Box<FunctionError>),
    TooLarge { limit: u64 },
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum InvokeError {
    /// The function says so.
    Function(Box<FunctionError>),
    /// Its result is too large.
    TooLarge { limit: usize },
    /// It did not answer in time, and is being replaced.
    Late,
    /// The connection ended in the middle of the result.
    Broken,
    /// The instance has ended, or takes nothing any more.
    Ended(String, Delivery),
}

impl InvokeError {
    /// Whoever served the instance has gone.
    pub(super) fn gone() -> Self {
        Self::Ended("ended".to_owned(), Delivery::Maybe)
    }
}

/// Where each instance of a function takes its invocations, of all workers.
#[derive(Default)]
pub(crate) struct Functions(Mutex<FxHashMap<(ServiceId, u64), mpsc::Sender<Invocation>>>);

impl Functions {
    /// From now on until what is returned is dropped, invocations for the instance come here.
    pub(super) fn open(&self, instance: &Instance) -> (Open<'_>, mpsc::Receiver<Invocation>) {
        let (sender, receiver) = mpsc::channel(MAX_SENT);
        let key = (instance.service(), instance.number());
        self.0.lock().insert(key, sender);
        (Open { functions: self, key }, receiver)
    }

    /// Sends an invocation to whoever serves the instance.
    pub(super) fn send(&self, instance: &Instance, invocation: Invocation) -> Result<(), InvokeError> {
        let sender = self.0.lock().get(&(instance.service(), instance.number())).cloned();
        let sent = sender.is_some_and(|sender| sender.try_send(invocation).is_ok());
        if sent { Ok(()) } else { Err(InvokeError::Ended("is ending".to_owned(), Delivery::No)) }
    }
}

/// Closes the way to an instance.
pub(super) struct Open<'a> {
    functions: &'a Functions,
    key: (ServiceId, u64),
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.functions.0.lock().remove(&self.key);
    }
}
