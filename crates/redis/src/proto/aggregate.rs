//! Several nodes' replies to one command become one (redis.io, "Command tips", `response_policy`).

use crate::command::ResponsePolicy;
use crate::error::ServerError;
use crate::reply::Value;

/// Why one part of a command has no usable reply. `E`: what the caller's transport calls a failure.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Cause<E> {
    /// There was no reply.
    #[error("{0}")]
    Failed(E),
    /// The server answered with an error.
    #[error("the server answered: {0}")]
    Server(ServerError),
    /// The reply does not fit the others, or the policy.
    #[error("expected {expected}, the server sent {found}")]
    Shape {
        /// What the policy needs.
        expected: &'static str,
        /// What came.
        found: &'static str,
    },
    /// The sum is larger than 64 bits.
    #[error("the sum overflows")]
    Overflow,
}

/// Why replies cannot become one.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum AggregateError<E> {
    /// A reply that is needed failed.
    #[error("reply {reply}: {cause}")]
    Part {
        /// Which one, counted from 0: the caller knows the node.
        reply: usize,
        /// Why.
        cause: Cause<E>,
    },
    /// There was nobody to ask.
    #[error("no node was asked")]
    NoReplies,
    /// The command has rules of its own, which only its caller knows.
    #[error("replies to this command have no common rule")]
    NoRule,
}

/// One reply from those of several nodes, none of which was asked about a key.
///
/// Elements of sets are not compared: one that two nodes sent is in the result twice.
///
/// # Errors
/// The policy needs a reply that failed or has another type, or there is no policy.
pub(crate) fn aggregate<E>(policy: ResponsePolicy, replies: Vec<Result<Value, E>>) -> Result<Value, AggregateError<E>> {
    if replies.is_empty() {
        return Err(AggregateError::NoReplies);
    }
    match policy {
        ResponsePolicy::OneSucceeded => one_succeeded(replies),
        ResponsePolicy::Special => Err(AggregateError::NoRule),
        ResponsePolicy::AllSucceeded => Ok(all(replies)?.swap_remove(0)),
        ResponsePolicy::Default => Ok(collect(all(replies)?)),
        ResponsePolicy::AggLogicalAnd => fold(all(replies)?, |a, b| Some(i64::from(a != 0 && b != 0))),
        ResponsePolicy::AggLogicalOr => fold(all(replies)?, |a, b| Some(i64::from(a != 0 || b != 0))),
        ResponsePolicy::AggMin => fold(all(replies)?, |a, b| Some(a.min(b))),
        ResponsePolicy::AggMax => fold(all(replies)?, |a, b| Some(a.max(b))),
        ResponsePolicy::AggSum => fold(all(replies)?, i64::checked_add),
    }
}

/// A reply that is neither missing nor an error.
pub(super) fn succeeded<E>(reply: Result<Value, E>) -> Result<Value, Cause<E>> {
    match reply {
        Ok(Value::Error(text)) => Err(Cause::Server(ServerError::parse(&text))),
        Ok(Value::Attributed(inner)) => succeeded(Ok(inner.value)),
        Ok(value) => Ok(value),
        Err(error) => Err(Cause::Failed(error)),
    }
}

fn all<E>(replies: Vec<Result<Value, E>>) -> Result<Vec<Value>, AggregateError<E>> {
    let numbered = replies.into_iter().enumerate();
    numbered.map(|(reply, value)| succeeded(value).map_err(|cause| AggregateError::Part { reply, cause })).collect()
}

/// The first that succeeded; if none did, the first failure.
fn one_succeeded<E>(replies: Vec<Result<Value, E>>) -> Result<Value, AggregateError<E>> {
    let mut first = None;
    for (reply, value) in replies.into_iter().enumerate() {
        match succeeded(value) {
            Ok(value) => return Ok(value),
            Err(cause) => _ = first.get_or_insert(AggregateError::Part { reply, cause }),
        }
    }
    Err(first.unwrap_or(AggregateError::NoReplies))
}

/// All elements of all collections, which are of one kind; else the replies themselves.
fn collect(replies: Vec<Value>) -> Value {
    let collections = || replies.iter().filter(|reply| !matches!(reply, Value::Null));
    if collections().next().is_some() {
        if collections().all(|reply| matches!(reply, Value::Array(_))) {
            return Value::Array(replies.into_iter().flat_map(elements).collect());
        }
        if collections().all(|reply| matches!(reply, Value::Set(_))) {
            return Value::Set(replies.into_iter().flat_map(elements).collect());
        }
        if collections().all(|reply| matches!(reply, Value::Map(_))) {
            return Value::Map(replies.into_iter().flat_map(pairs).collect());
        }
    }
    Value::Array(replies)
}

fn elements(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => Vec::new(),
    }
}

fn pairs(value: Value) -> Vec<(Value, Value)> {
    match value {
        Value::Map(pairs) => pairs,
        _ => Vec::new(),
    }
}

/// Combines integers, or arrays of them place by place (`SCRIPT EXISTS`, `WAITAOF`).
fn fold<E>(replies: Vec<Value>, combine: impl Fn(i64, i64) -> Option<i64>) -> Result<Value, AggregateError<E>> {
    let mut sum: Option<Value> = None;
    for (reply, value) in replies.into_iter().enumerate() {
        let next = match (sum, value) {
            (None, Value::Array(items)) => {
                items.iter().map(|item| integer(item).map(Value::Integer)).collect::<Result<_, _>>().map(Value::Array)
            }
            (None, value) => integer(&value).map(Value::Integer),
            (Some(Value::Array(before)), Value::Array(items)) if before.len() == items.len() => {
                before.iter().zip(&items).map(|(a, b)| both(a, b, &combine)).collect::<Result<_, _>>().map(Value::Array)
            }
            (Some(Value::Array(_)), value) => {
                Err(Cause::Shape { expected: "an array as long as the others", found: value.type_name() })
            }
            (Some(before), value) => both(&before, &value, &combine),
        };
        sum = Some(next.map_err(|cause| AggregateError::Part { reply, cause })?);
    }
    sum.ok_or(AggregateError::NoReplies)
}

fn both<E>(a: &Value, b: &Value, combine: &impl Fn(i64, i64) -> Option<i64>) -> Result<Value, Cause<E>> {
    combine(integer(a)?, integer(b)?).map(Value::Integer).ok_or(Cause::Overflow)
}

fn integer<E>(value: &Value) -> Result<i64, Cause<E>> {
    match value {
        Value::Integer(number) => Ok(*number),
        Value::Boolean(yes) => Ok(i64::from(*yes)),
        Value::Error(text) => Err(Cause::Server(ServerError::parse(text))),
        other => Err(Cause::Shape { expected: "an integer", found: other.type_name() }),
    }
}

#[cfg(test)]
mod tests;
