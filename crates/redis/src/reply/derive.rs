//! What derived code calls. It is no part of the interface: only `pilotlight-redis-derive` of the same version may.

pub use bytes::Bytes;
pub use pilotlight_resp::Value;

use super::collections::elements;
use super::read::wrong_length;
pub use super::read::{FromReply, Spare};
pub use crate::error::ReplyError;

/// A struct of which the fields come one by one, in any order.
pub trait FromFields: Sized {
    /// What came so far.
    type Slots: Default;

    /// Takes a value, or gives it back if no field has this name.
    ///
    /// # Errors
    /// The value is not what the field is.
    fn place(slots: &mut Self::Slots, name: &Bytes, value: Value) -> Result<Option<Value>, ReplyError>;

    /// The struct, when all has come.
    ///
    /// # Errors
    /// A field is missing.
    fn finish(slots: Self::Slots) -> Result<Self, ReplyError>;
}

const EXPECTED: &str = "a map";

/// Reads a map, a flat array, or an array of pairs.
///
/// # Errors
/// The reply is nothing of this, or a field is missing or of another type.
pub fn read<T: FromFields>(value: Value, spare: &mut Spare) -> Result<T, ReplyError> {
    let mut slots = T::Slots::default();
    match value {
        Value::Map(mut pairs) => {
            for (name, value) in pairs.drain(..) {
                T::place(&mut slots, &Bytes::from_reply(name)?, value)?;
            }
            spare.pairs = Some(pairs);
        }
        Value::Attributed(attributed) => return read(attributed.value, spare),
        other => {
            let mut items = elements(other, EXPECTED)?;
            place_items::<T>(&mut slots, &mut items)?;
            spare.items = Some(items);
        }
    }
    T::finish(slots)
}

fn place_items<T: FromFields>(slots: &mut T::Slots, items: &mut Vec<Value>) -> Result<(), ReplyError> {
    if matches!(items.first(), Some(Value::Array(_))) {
        return items.drain(..).try_for_each(|pair| {
            let (name, value): (Bytes, Value) = FromReply::from_reply(pair)?;
            T::place(slots, &name, value).map(drop)
        });
    }
    if !items.len().is_multiple_of(2) {
        return Err(wrong_length("a flat array of names and values"));
    }
    let mut items = items.drain(..);
    while let (Some(name), Some(value)) = (items.next(), items.next()) {
        T::place(slots, &Bytes::from_reply(name)?, value)?;
    }
    Ok(())
}

/// Whether there is nothing of which a struct could be read: the answer of `HGETALL` where there is no key.
#[must_use]
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Map(pairs) => pairs.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The value of a field, which errors call `what`.
///
/// # Errors
/// It is of another type. If a field within it is, that one is named.
pub fn field<T: FromReply>(value: Value, what: &'static str) -> Result<T, ReplyError> {
    T::from_reply(value).map_err(|error| match error.expected.starts_with("field ") {
        true => error,
        false => ReplyError { expected: what, ..error },
    })
}

/// A field did not come.
///
/// # Errors
/// It is not of a kind that may be missing.
pub fn missing<T: FromReply>(what: &'static str) -> Result<T, ReplyError> {
    T::missing().ok_or(ReplyError { expected: what, found: "none of that name", server: None, detail: None })
}

/// A word, of which an enum is read.
///
/// # Errors
/// It is no string.
pub fn word(value: Value) -> Result<Bytes, ReplyError> {
    Bytes::from_reply(value)
}

/// The error for a word that an enum does not have.
#[must_use]
#[cold]
pub fn another_word(expected: &'static str) -> ReplyError {
    ReplyError { expected, found: "another word", server: None, detail: None }
}

/// What is left of the fields, in a map: for fields that are flattened.
macro_rules! rest {
    ($map:ty, $($bounds:tt)*) => {
        impl<$($bounds)*> FromFields for $map {
            type Slots = Vec<(K, V)>;

            fn place(slots: &mut Self::Slots, name: &Bytes, value: Value) -> Result<Option<Value>, ReplyError> {
                slots.push((K::from_reply(Value::Bulk(name.clone()))?, V::from_reply(value)?));
                Ok(None)
            }

            fn finish(slots: Self::Slots) -> Result<Self, ReplyError> {
                Ok(slots.into_iter().collect())
            }
        }
    };
}
rest!(std::collections::BTreeMap<K, V>, K: FromReply + Ord, V: FromReply);
rest!(
    std::collections::HashMap<K, V, S>,
    K: FromReply + Eq + std::hash::Hash, V: FromReply, S: std::hash::BuildHasher + Default
);
