//! Commands with many keys in a cluster: split by slot and put together again in the order of the keys.
//!
//! Each part is atomic, the whole is not: an `MSET` over two slots can be half done. What promises more (`MSETNX`) is
//! never split.

use smallvec::SmallVec;

use super::aggregate::{AggregateError, Cause, aggregate, succeeded};
use super::slot::Slot;
use crate::command::{BeginSearch, Command, CommandSpec, FindKeys, KeySpec, RequestPolicy, ResponsePolicy};
use crate::error::Misuse;
use crate::reply::Value;

/// Where a command goes.
#[derive(Debug, Clone)]
pub(crate) enum Route<'a> {
    /// It has no key.
    Keyless,
    /// All its keys are in this slot.
    Slot(Slot),
    /// It becomes several.
    Split(Split<'a>),
}

/// A command in parts, one for each slot.
#[derive(Debug, Clone)]
pub(crate) struct Split<'a> {
    /// The parts, by slot.
    pub parts: Vec<Part<'a>>,
    /// How to put their replies together.
    pub join: Join,
}

/// The keys of one slot, with the other arguments.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    /// The slot.
    pub slot: Slot,
    /// The same command, for these keys.
    pub command: Command<'a>,
}

/// How the replies of parts become the reply of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Join {
    response: ResponsePolicy,
    /// For each key, in the caller's order: its part and its place among that part's keys.
    keys: Vec<(u32, u32)>,
    parts: usize,
}

/// What came of each key, when not all parts succeeded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Partial<E> {
    keys: Vec<(u32, u32)>,
    /// Of a command that answers key by key, the part's elements; of another, the part's one reply.
    parts: Vec<Result<Vec<Value>, Cause<E>>>,
    by_key: bool,
}

/// Where a command goes, by all its keys. Arguments are not copied.
///
/// # Errors
/// [`Misuse::CrossSlot`]: its keys are in different slots and it cannot be split.
pub(crate) fn route<'a>(command: &Command<'a>) -> Result<Route<'a>, Misuse> {
    let mut positions = command.key_positions();
    let slot_at = |position: usize| command.arguments().get(position).map(Command::slot_of);
    let Some(first) = positions.next().and_then(slot_at) else { return Ok(Route::Keyless) };
    let Some(other) = positions.filter_map(slot_at).find(|&slot| slot != first) else { return Ok(Route::Slot(first)) };
    let layout = Layout::of(command.spec(), command.arguments().len());
    match layout {
        Some(layout) => Ok(Route::Split(layout.split(command))),
        None => Err(Misuse::CrossSlot { first: first.number(), second: other.number() }),
    }
}

/// Arguments of a command that can be split: `before`, then `count` groups of `step` that begin with a key, then the
/// rest.
struct Layout {
    before: usize,
    step: usize,
    count: usize,
}

impl Layout {
    /// Only a command that says so, with one run of keys: one that counts its keys in an argument promises more than
    /// each part alone can keep.
    fn of(spec: &CommandSpec, arguments: usize) -> Option<Self> {
        let [KeySpec { begin: BeginSearch::Index(begin), find: FindKeys::Range { last, step, limit: 0 | 1 } }] =
            *spec.keys
        else {
            return None;
        };
        if spec.request != RequestPolicy::MultiShard || last >= 0 {
            return None;
        }
        let (before, step) = (usize::from(begin), usize::from(step.max(1)));
        let end = (arguments + 1).checked_sub(usize::from(last.unsigned_abs()))?;
        let length = end.checked_sub(before)?;
        // `MSET a 1 b` is for the server to refuse.
        (length % step == 0).then_some(Self { before, step, count: length / step })
    }

    fn split<'a>(&self, command: &Command<'a>) -> Split<'a> {
        let arguments = command.arguments();
        let group = |key: usize| &arguments[self.before + key * self.step..][..self.step];
        let mut by_slot: SmallVec<[(Slot, u32); 16]> =
            (0_u32..).take(self.count).map(|key| (Command::slot_of(&group(key as usize)[0]), key)).collect();
        by_slot.sort_unstable();
        let mut keys = vec![(0, 0); self.count];
        let mut parts = Vec::new();
        for same in by_slot.chunk_by(|a, b| a.0 == b.0) {
            let mut part =
                arguments[..self.before].iter().fold(Command::new(command.spec()), |part, arg| part.arg(arg));
            for (place, &(_, key)) in (0_u32..).zip(same) {
                keys[key as usize] = (parts.len() as u32, place);
                part = group(key as usize).iter().fold(part, |part, arg| part.arg(arg));
            }
            let after = &arguments[self.before + self.count * self.step..];
            parts.push(Part { slot: same[0].0, command: after.iter().fold(part, |part, arg| part.arg(arg)) });
        }
        let join = Join { response: command.spec().response, keys, parts: parts.len() };
        Split { parts, join }
    }
}

impl Join {
    /// The reply of the whole from those of [`Split::parts`], in their order. A reply that is missing is a failure of
    /// [`Cause::Shape`].
    ///
    /// # Errors
    /// A part failed, or its reply does not fit.
    pub(crate) fn join<E>(self, replies: Vec<Result<Value, E>>) -> Result<Value, Partial<E>> {
        let by_key = self.response == ResponsePolicy::Default;
        let mut parts: Vec<Result<Vec<Value>, Cause<E>>> =
            replies.into_iter().take(self.parts).map(|reply| succeeded(reply).map(|value| vec![value])).collect();
        parts.resize_with(self.parts, || Err(Cause::Shape { expected: "a reply", found: "nothing" }));
        if by_key {
            parts = (0_u32..).zip(parts).map(|(part, reply)| self.elements(part, reply?)).collect();
        }
        let partial = |parts| Partial { keys: self.keys.clone(), parts, by_key };
        if parts.iter().any(Result::is_err) {
            return Err(partial(parts));
        }
        let mut values: Vec<Vec<Value>> = parts.into_iter().flatten().collect();
        if by_key {
            let take = |&(part, place): &(u32, u32)| {
                std::mem::replace(&mut values[part as usize][place as usize], Value::Null)
            };
            return Ok(Value::Array(self.keys.iter().map(take).collect()));
        }
        let replies: Vec<Value> = values.into_iter().flatten().collect();
        aggregate(self.response, replies.iter().cloned().map(Ok).collect()).map_err(|error| {
            let mut parts: Vec<_> = replies.into_iter().map(|reply| Ok(vec![reply])).collect();
            let (at, cause) = match error {
                AggregateError::Part { reply, cause } => (reply, cause),
                AggregateError::NoReplies | AggregateError::NoRule => {
                    (0, Cause::Shape { expected: "a rule for several replies", found: "none" })
                }
            };
            parts[at] = Err(cause);
            partial(parts)
        })
    }

    /// One element for each key of the part.
    fn elements<E>(&self, part: u32, reply: Vec<Value>) -> Result<Vec<Value>, Cause<E>> {
        let wanted = self.keys.iter().filter(|key| key.0 == part).count();
        match reply.into_iter().next() {
            Some(Value::Array(items)) if items.len() == wanted => Ok(items),
            other => {
                let found = other.as_ref().map_or("nothing", Value::type_name);
                Err(Cause::Shape { expected: "an array with an element for each key", found })
            }
        }
    }
}

impl<E> Partial<E> {
    /// Number of keys.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// What came of a key, counted in the caller's order: its own element, or the one reply of the part that it was in
    /// (`DEL`: how many of them). `None` if there is no such key.
    #[must_use]
    pub(crate) fn key(&self, key: usize) -> Option<Result<&Value, &Cause<E>>> {
        let &(part, place) = self.keys.get(key)?;
        let place = if self.by_key { place as usize } else { 0 };
        match self.parts.get(part as usize)? {
            Ok(values) => values.get(place).map(Ok),
            Err(cause) => Some(Err(cause)),
        }
    }

    /// The failed parts: which one of [`Split::parts`], and why.
    #[cfg(test)]
    pub(crate) fn failures(&self) -> impl Iterator<Item = (usize, &Cause<E>)> {
        self.parts.iter().enumerate().filter_map(|(part, reply)| reply.as_ref().err().map(|cause| (part, cause)))
    }

    /// The first failure, taken out: for those who report one error for the whole.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn into_first(self) -> Option<(usize, Cause<E>)> {
        self.parts.into_iter().enumerate().find_map(|(part, reply)| reply.err().map(|cause| (part, cause)))
    }
}

#[cfg(test)]
mod tests;
