//! The trait of what a reply can be read as, and how a reply that cannot is told.

use bytes::Bytes;
use pilotlight_resp::{DecodeErrorKind, Value};

use crate::error::{ReplyError, ServerError};

/// A type that a reply can be read as. An error reply is never a value, except for [`Value`] and
/// `Result<T, ServerError>`.
///
/// ```no_run
/// use std::collections::HashMap;
///
/// use pilotlight_redis::{Client, Commands, Error, FromReply, ReplyError, Value};
///
/// struct Celsius(f64);
///
/// impl FromReply for Celsius {
///     fn from_reply(value: Value) -> Result<Self, ReplyError> {
///         f64::from_reply(value).map(Self)
///     }
/// }
///
/// # async fn example(client: Client) -> Result<(), Error> {
/// let coldest = client.get("coldest").read_as::<Option<Celsius>>().await?;
/// let fields = client.hgetall("user:1").read_as::<HashMap<String, String>>().await?;
/// # Ok(()) }
/// ```
pub trait FromReply: Sized {
    /// Reads the reply.
    ///
    /// # Errors
    /// The reply is of another type, or an error.
    fn from_reply(value: Value) -> Result<Self, ReplyError>;

    /// Reads the elements of an array; tuples take several elements each where the array is flat.
    ///
    /// # Errors
    /// As [`FromReply::from_reply`].
    #[doc(hidden)]
    fn from_elements(elements: Vec<Value>) -> Result<Vec<Self>, ReplyError> {
        elements.into_iter().map(Self::from_reply).collect()
    }

    /// Reads the reply, and may leave the vectors that it was in, emptied, in `spare`.
    ///
    /// # Errors
    /// As [`FromReply::from_reply`].
    #[doc(hidden)]
    #[inline]
    fn from_reply_and_spare(value: Value, _: &mut Spare) -> Result<Self, ReplyError> {
        Self::from_reply(value)
    }

    /// Whether the reply says that there is nothing, which an `Option` of this type reads as `None`.
    #[doc(hidden)]
    #[inline]
    fn is_nothing(value: &Value) -> bool {
        matches!(value, Value::Null)
    }

    /// What a field of this type is that is missing, if that is no error.
    #[doc(hidden)]
    fn missing() -> Option<Self> {
        None
    }

    /// Reads a string as a list of `Self`: only bytes can.
    #[doc(hidden)]
    fn from_bytes(_: &Bytes) -> Option<Vec<Self>> {
        None
    }
}

/// The vectors that a reply was in, emptied: the connection's next replies may use them.
#[derive(Debug, Default)]
pub struct Spare {
    pub(crate) items: Option<Vec<Value>>,
    pub(crate) pairs: Option<Vec<(Value, Value)>>,
}

impl Spare {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_none() && self.pairs.is_none()
    }
}

impl FromReply for Value {
    #[inline]
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        Ok(value)
    }
}

/// Any reply that is not an error: what it says is not looked at.
impl FromReply for () {
    #[inline]
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        match value {
            Value::Error(_) => Err(mismatch("OK", &value)),
            Value::Attributed(attributed) => Self::from_reply(attributed.value),
            _ => Ok(()),
        }
    }
}

impl<T: FromReply> FromReply for Option<T> {
    #[inline]
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        match value {
            Value::Attributed(attributed) => Self::from_reply(attributed.value),
            value if T::is_nothing(&value) => Ok(None),
            value => T::from_reply(value).map(Some),
        }
    }

    #[inline]
    fn from_reply_and_spare(value: Value, spare: &mut Spare) -> Result<Self, ReplyError> {
        match value {
            Value::Attributed(attributed) => Self::from_reply(attributed.value),
            value if T::is_nothing(&value) => Ok(None),
            value => T::from_reply_and_spare(value, spare).map(Some),
        }
    }

    fn missing() -> Option<Self> {
        Some(None)
    }
}

/// An error of the server as a value: for one command of a pipeline, one element of an array.
impl<T: FromReply> FromReply for Result<T, ServerError> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        match value {
            Value::Error(text) => Ok(Err(ServerError::parse(&text))),
            Value::Attributed(attributed) => Self::from_reply(attributed.value),
            other => T::from_reply(other).map(Ok),
        }
    }
}

/// The error for `value` where `expected` was asked for.
#[cold]
pub(crate) fn mismatch(expected: &'static str, value: &Value) -> ReplyError {
    let (found, server) = match value {
        Value::Null => ("null", None),
        Value::Integer(_) => ("an integer", None),
        Value::Boolean(_) => ("a boolean", None),
        Value::Double(_) => ("a double", None),
        Value::BigNumber(_) => ("a big number", None),
        Value::Simple(_) => ("a status", None),
        Value::Bulk(_) => ("a string", None),
        Value::Verbatim { .. } => ("a verbatim string", None),
        Value::Error(text) => ("an error", Some(ServerError::parse(text))),
        Value::Array(_) => ("an array", None),
        Value::Set(_) => ("a set", None),
        Value::Map(_) => ("a map", None),
        Value::Push(_) => ("a push", None),
        Value::Attributed(_) => ("a value with attributes", None),
        Value::Skipped(limit) => return skipped(*limit),
    };
    ReplyError { expected, found, server, detail: None }
}

/// The error for a reply that exceeds a limit of [`Config::reply_limits`](crate::Config::reply_limits).
#[cold]
pub(crate) fn skipped(limit: DecodeErrorKind) -> ReplyError {
    let expected = match limit {
        DecodeErrorKind::BulkTooLong(_) => "a reply within max_bulk_bytes",
        DecodeErrorKind::LineTooLong => "a reply within max_line_bytes",
        DecodeErrorKind::TooDeep => "a reply within max_depth",
        DecodeErrorKind::TooManyElements(_) => "a reply within max_elements",
        DecodeErrorKind::FrameTooLong => "a reply within max_frame_bytes",
        _ => "a reply within reply_limits",
    };
    ReplyError { expected, found: "a larger one", server: None, detail: Some(limit.to_string().into()) }
}

/// The error for an array of another length than `expected` has.
#[cold]
pub(super) fn wrong_length(expected: &'static str) -> ReplyError {
    ReplyError { expected, found: "an array of another length", server: None, detail: None }
}
