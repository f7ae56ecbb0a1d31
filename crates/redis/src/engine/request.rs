//! What travels: a command with its arguments, one that is encoded already (in a pipeline), or a whole transaction.

use crate::command::{Command, CommandSpec};
use crate::commands::spec;
use crate::engine::route::Target;
use crate::engine::sealed::Sealed;
use crate::engine::submission::Kind;
use crate::error::Error;
use crate::out::Out;
use crate::proto::slot::Slot;
use crate::reply::Value;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'p, 'a> {
    Command(&'p Command<'a>),
    Encoded { spec: &'static CommandSpec, slot: Option<Slot>, bytes: &'p [u8] },
    Transaction(&'p Sealed),
}

/// What travels, and how.
#[derive(Clone)]
pub(crate) struct Request<'p, 'a> {
    pub(crate) payload: Payload<'p, 'a>,
    pub(crate) target: Target,
    /// Of its keys; computed once.
    pub(crate) slot: Option<Slot>,
}

impl<'p, 'a> Payload<'p, 'a> {
    pub(crate) fn spec(&self) -> &'static CommandSpec {
        match self {
            Self::Command(command) => command.spec(),
            Self::Encoded { spec, .. } => spec,
            Self::Transaction(_) => &spec::EXEC,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.spec().name
    }

    fn slot(&self) -> Option<Slot> {
        match self {
            Self::Command(command) => command.slot(),
            Self::Encoded { slot, .. } => *slot,
            Self::Transaction(sealed) => sealed.slot(),
        }
    }

    /// Bytes that it has, about.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Command(command) => command.size(),
            Self::Encoded { bytes, .. } => bytes.len(),
            Self::Transaction(sealed) => sealed.bytes().len(),
        }
    }

    /// Replies that it is answered with, and how they are gathered.
    pub(crate) fn replies(&self) -> (u32, Kind) {
        match self {
            Self::Command(_) | Self::Encoded { .. } => (1, Kind::One),
            Self::Transaction(sealed) => (sealed.replies(), Kind::Many),
        }
    }

    #[inline]
    pub(crate) fn encode(&self, out: &mut Out) {
        match self {
            Self::Command(command) => command.encode(out),
            Self::Encoded { bytes, .. } => out.page().extend_from_slice(bytes),
            Self::Transaction(sealed) => out.page().extend_from_slice(sealed.bytes()),
        }
    }

    /// The reply of the whole from all replies, or why there is none.
    pub(crate) fn settle(&self, replies: Vec<Value>) -> Result<Value, Error> {
        match self {
            Self::Command(_) | Self::Encoded { .. } => Ok(Value::Array(replies)),
            Self::Transaction(sealed) => sealed.settle(replies).map(Value::Array),
        }
    }

    /// On the way that its description says.
    pub(crate) fn usual(self) -> Request<'p, 'a> {
        Request::new(self, Target::Usual)
    }

    /// The same, if its slot is known.
    pub(crate) fn in_slot(self, slot: Slot) -> Request<'p, 'a> {
        Request { payload: self, target: Target::Usual, slot: Some(slot) }
    }
}

impl<'p, 'a> Request<'p, 'a> {
    pub(crate) fn new(payload: Payload<'p, 'a>, target: Target) -> Self {
        Self { payload, target, slot: payload.slot() }
    }
}
