//! Lists, sets, maps and tuples.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

use super::read::{FromReply, mismatch, wrong_length};
use crate::error::ReplyError;
use pilotlight_resp::Value;

/// The elements of an array, a set or a map; of a map, keys and values in turn.
pub(super) fn elements(value: Value, expected: &'static str) -> Result<Vec<Value>, ReplyError> {
    match value {
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => Ok(elements),
        Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        Value::Attributed(attributed) => elements(attributed.value, expected),
        other => Err(mismatch(expected, &other)),
    }
}

/// A tuple takes its parts from an array of its own, or, in a flat array, from the next elements. `Vec<u8>` reads a
/// string.
impl<T: FromReply> FromReply for Vec<T> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        match value {
            Value::Bulk(ref bytes) | Value::Simple(ref bytes) | Value::Verbatim { text: ref bytes, .. } => {
                T::from_bytes(bytes).ok_or_else(|| mismatch("an array", &value))
            }
            other => T::from_elements(elements(other, "an array")?),
        }
    }
}

impl<T: FromReply> FromReply for Box<[T]> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        Vec::from_reply(value).map(Vec::into_boxed_slice)
    }
}

impl<T: FromReply + Eq + Hash, S: BuildHasher + Default> FromReply for HashSet<T, S> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        Ok(T::from_elements(elements(value, "a set")?)?.into_iter().collect())
    }
}

impl<T: FromReply + Ord> FromReply for BTreeSet<T> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        Ok(T::from_elements(elements(value, "a set")?)?.into_iter().collect())
    }
}

/// From a map, a flat array, or an array of pairs.
impl<K: FromReply + Eq + Hash, V: FromReply, S: BuildHasher + Default> FromReply for HashMap<K, V, S> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        Ok(pairs(value)?.into_iter().collect())
    }
}

/// From a map, a flat array, or an array of pairs.
impl<K: FromReply + Ord, V: FromReply> FromReply for BTreeMap<K, V> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        Ok(pairs(value)?.into_iter().collect())
    }
}

fn pairs<K: FromReply, V: FromReply>(value: Value) -> Result<Vec<(K, V)>, ReplyError> {
    match value {
        Value::Map(pairs) => {
            pairs.into_iter().map(|(key, value)| Ok((K::from_reply(key)?, V::from_reply(value)?))).collect()
        }
        other => FromReply::from_elements(elements(other, "a map")?),
    }
}

/// An array of exactly so many.
impl<T: FromReply, const N: usize> FromReply for [T; N] {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        Vec::from_reply(value)?.try_into().map_err(|_| wrong_length("an array of a fixed length"))
    }
}

impl<T: FromReply> FromReply for VecDeque<T> {
    fn from_reply(value: Value) -> Result<Self, ReplyError> {
        Vec::from_reply(value).map(Self::from)
    }
}

macro_rules! tuples {
    ($($count:literal $expected:literal: $($part:ident)*;)*) => {$(
        impl<$($part: FromReply),*> FromReply for ($($part,)*) {
            fn from_reply(value: Value) -> Result<Self, ReplyError> {
                let elements = elements(value, $expected)?;
                if elements.len() != $count {
                    return Err(wrong_length($expected));
                }
                let mut elements = elements.into_iter();
                Ok(($(next::<$part>(&mut elements)?,)*))
            }

            fn from_elements(elements: Vec<Value>) -> Result<Vec<Self>, ReplyError> {
                if let Some(Value::Array(_)) = elements.first() {
                    return elements.into_iter().map(Self::from_reply).collect();
                }
                if elements.len() % $count != 0 {
                    return Err(wrong_length(concat!("a flat array of ", $expected, "s")));
                }
                let rows = elements.len() / $count;
                let mut elements = elements.into_iter();
                (0..rows).map(|_| Ok(($(next::<$part>(&mut elements)?,)*))).collect()
            }
        }
    )*};
}
tuples! {
    2 "array of 2": A B;
    3 "array of 3": A B C;
    4 "array of 4": A B C D;
    5 "array of 5": A B C D E;
    6 "array of 6": A B C D E F;
    7 "array of 7": A B C D E F G;
    8 "array of 8": A B C D E F G H;
    9 "array of 9": A B C D E F G H I;
    10 "array of 10": A B C D E F G H I J;
    11 "array of 11": A B C D E F G H I J K;
    12 "array of 12": A B C D E F G H I J K L;
}

fn next<T: FromReply>(elements: &mut std::vec::IntoIter<Value>) -> Result<T, ReplyError> {
    T::from_reply(elements.next().unwrap_or(Value::Null))
}
