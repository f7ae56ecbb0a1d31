//! One open aggregate: what came, and how much is still owed.

use alloc::boxed::Box;
use alloc::vec::Vec;

use bytes::BytesMut;

use super::token::Kind;
use crate::spares::Spares;
use crate::value::{Attributed, Value};

/// Elements that are reserved at most when an aggregate is announced; beyond, memory grows with what has come.
const MAX_RESERVED: usize = 1024;

/// `left` of a streamed aggregate, which only its end marker completes. Counts within `max_elements` never reach it,
/// because the elements of a frame are held in memory.
pub(super) const STREAMED: usize = usize::MAX;

/// An aggregate that is being read.
#[derive(Debug)]
pub(super) enum Level {
    /// Array, set or push.
    Items { kind: Kind, left: usize, items: Vec<Value> },
    /// Map or attributes. `left` counts keys and values.
    Pairs { kind: Kind, left: usize, pairs: Vec<(Value, Value)>, key: Option<Value> },
    /// Attributes were read (`None`: and dropped), the value that they describe is owed.
    Attributed { attributes: Option<Vec<(Value, Value)>>, value: Option<Value> },
    /// A streamed string. Its chunks come as bulk values.
    Text { text: BytesMut },
}

/// What an aggregate becomes.
pub(super) enum Closed {
    Value(Value),
    Push(Vec<Value>),
    Attributes(Vec<(Value, Value)>),
}

impl Level {
    /// An aggregate of `count` elements (`None`: streamed), announced when `available` bytes of input follow.
    pub(super) fn new(kind: Kind, count: Option<usize>, available: usize, spares: Option<&dyn Spares>) -> Self {
        let left = count.unwrap_or(STREAMED);
        // An element takes at least 3 bytes (`_\r\n`), so no more memory is reserved than the input can fill.
        let backed = count.unwrap_or(0).min(available / 3).min(MAX_RESERVED);
        let spares = spares.filter(|_| left > 0);
        match kind {
            Kind::Array | Kind::Set | Kind::Push => {
                Level::Items { kind, left, items: with_room(spares.and_then(Spares::items), backed) }
            }
            Kind::Map | Kind::Attribute => {
                Level::Pairs { kind, left, pairs: with_room(spares.and_then(Spares::pairs), backed / 2), key: None }
            }
        }
    }

    /// Takes an element; says whether it was the last one owed.
    #[inline]
    pub(super) fn add(&mut self, element: Value) -> bool {
        match self {
            Level::Items { left, items, .. } => {
                items.push(element);
                owe_one_less(left)
            }
            Level::Pairs { left, pairs, key, .. } => {
                match key.take() {
                    None => *key = Some(element),
                    Some(first) => pairs.push((first, element)),
                }
                owe_one_less(left)
            }
            Level::Attributed { value, .. } => {
                *value = Some(element);
                true
            }
            Level::Text { text } => {
                if let Value::Bulk(chunk) = element {
                    text.extend_from_slice(&chunk);
                }
                false
            }
        }
    }

    /// Whether each element is counted as it comes, because no count was announced.
    #[inline]
    pub(super) fn is_streamed(&self) -> bool {
        matches!(self, Level::Items { left: STREAMED, .. } | Level::Pairs { left: STREAMED, .. })
    }

    /// Whether the end marker may come now.
    pub(super) fn may_end(&self) -> bool {
        match self {
            Level::Items { left, .. } => *left == STREAMED,
            Level::Pairs { left, key, .. } => *left == STREAMED && key.is_none(),
            Level::Attributed { .. } => false,
            Level::Text { .. } => true,
        }
    }

    pub(super) fn close(self) -> Closed {
        match self {
            Level::Items { kind: Kind::Push, items, .. } => Closed::Push(items),
            Level::Items { kind: Kind::Set, items, .. } => Closed::Value(Value::Set(items)),
            Level::Items { items, .. } => Closed::Value(Value::Array(items)),
            Level::Pairs { kind: Kind::Attribute, pairs, .. } => Closed::Attributes(pairs),
            Level::Pairs { pairs, .. } => Closed::Value(Value::Map(pairs)),
            Level::Attributed { attributes, value } => {
                let value = value.unwrap_or(Value::Null);
                Closed::Value(match attributes {
                    Some(attributes) => Value::Attributed(Box::new(Attributed { attributes, value })),
                    None => value,
                })
            }
            Level::Text { text } => Closed::Value(Value::Bulk(text.freeze())),
        }
    }
}

/// How many values are still owed to the whole reply, if an aggregate of `count` values is opened within these levels.
/// `None`: that cannot be told, or a push is among them.
pub(super) fn owed(levels: &[Level], kind: Kind, count: usize) -> Option<usize> {
    // What comes between elements takes no element's place.
    let (mut owed, mut is_aside) = (count, kind == Kind::Attribute);
    for level in levels.iter().rev() {
        let (left, is_next_aside) = match level {
            Level::Items { kind: Kind::Push, .. } | Level::Text { .. } => return None,
            Level::Items { left: STREAMED, .. } | Level::Pairs { left: STREAMED, .. } => return None,
            Level::Items { left, .. } => (*left, false),
            Level::Pairs { kind, left, .. } => (*left, *kind == Kind::Attribute),
            Level::Attributed { .. } => (1, false),
        };
        owed = owed.checked_add(left)?.checked_sub(usize::from(!is_aside))?;
        is_aside = is_next_aside;
    }
    // Attributes around everything: the value that they describe is to come.
    owed.checked_add(usize::from(is_aside))
}

fn with_room<T>(spare: Option<Vec<T>>, capacity: usize) -> Vec<T> {
    match spare {
        Some(mut spare) => {
            spare.reserve(capacity);
            spare
        }
        None => Vec::with_capacity(capacity),
    }
}

#[inline]
fn owe_one_less(left: &mut usize) -> bool {
    if *left != STREAMED {
        *left -= 1;
    }
    *left == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: Option<usize>, available: usize, max_reserved: usize) {
        for kind in [Kind::Array, Kind::Map] {
            let reserved = match Level::new(kind, count, available, None) {
                Level::Items { items, .. } => items.capacity(),
                Level::Pairs { pairs, .. } => pairs.capacity() * 2,
                level => panic!("{level:?}"),
            };
            assert!(reserved <= max_reserved, "{reserved} reserved for {kind:?} of {count:?}, {available} bytes came");
        }
    }

    #[test]
    fn what_is_announced_reserves_no_more_than_what_came_can_fill() {
        check(None, 1 << 20, 0);
        check(Some(1_000_000_000), 0, 0);
        check(Some(1_000_000_000), 30, 10);
        check(Some(1_000_000_000), 1 << 30, MAX_RESERVED);
        check(Some(100), 1 << 20, 100);
    }
}
