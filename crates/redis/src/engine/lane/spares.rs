//! Vectors of replies that were read, for the replies to come: reading a hash into a struct takes from the heap what
//! the struct owns, and nothing for the list of its fields.

use parking_lot::Mutex;
use pilotlight_resp::{self as resp, Value};

use crate::reply::Spare;

/// What a lane keeps of them, in bytes.
const MAX_SPARE_BYTES: usize = 64 * 1024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    items: Vec<Vec<Value>>,
    pairs: Vec<Vec<(Value, Value)>>,
    bytes: usize,
}

impl Spares {
    /// Takes back what was emptied, as far as there is room.
    pub(crate) fn keep(&self, spare: Spare) {
        let mut kept = self.0.lock();
        let Kept { items, pairs, bytes } = &mut *kept;
        if let Some(vector) = spare.items {
            keep(items, vector, bytes);
        }
        if let Some(vector) = spare.pairs {
            keep(pairs, vector, bytes);
        }
    }
}

impl resp::Spares for Spares {
    fn items(&self) -> Option<Vec<Value>> {
        let mut kept = self.0.lock();
        let vector = kept.items.pop()?;
        kept.bytes -= bytes_of(&vector);
        Some(vector)
    }

    fn pairs(&self) -> Option<Vec<(Value, Value)>> {
        let mut kept = self.0.lock();
        let vector = kept.pairs.pop()?;
        kept.bytes -= bytes_of(&vector);
        Some(vector)
    }
}

fn keep<T>(kept: &mut Vec<Vec<T>>, vector: Vec<T>, bytes: &mut usize) {
    let size = bytes_of(&vector);
    if vector.is_empty() && size > 0 && *bytes + size <= MAX_SPARE_BYTES {
        *bytes += size;
        kept.push(vector);
    }
}

fn bytes_of<T>(vector: &Vec<T>) -> usize {
    vector.capacity() * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use pilotlight_resp::Spares as _;

    use super::*;

    fn spare(capacity: usize) -> Spare {
        Spare { items: Some(Vec::with_capacity(capacity)), pairs: Some(Vec::with_capacity(capacity)) }
    }

    #[test]
    fn what_is_kept_is_given_again() {
        let spares = Spares::default();
        assert!(spares.items().is_none());
        spares.keep(spare(4));
        assert!(spares.items().unwrap().capacity() >= 4 && spares.items().is_none());
        assert!(spares.pairs().unwrap().capacity() >= 4 && spares.pairs().is_none());
        assert_eq!(spares.0.lock().bytes, 0);
    }

    #[test]
    fn no_more_is_kept_than_may_be() {
        let spares = Spares::default();
        for _ in 0..10_000 {
            spares.keep(spare(16));
        }
        assert!((1..=MAX_SPARE_BYTES).contains(&spares.0.lock().bytes));
        spares.keep(Spare { items: Some(Vec::with_capacity(MAX_SPARE_BYTES)), pairs: Some(Vec::new()) });
        assert!(spares.0.lock().items.iter().all(|vector| vector.capacity() < MAX_SPARE_BYTES));
    }
}
