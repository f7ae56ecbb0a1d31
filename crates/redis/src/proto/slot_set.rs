//! A set of slots.

use std::fmt;
use std::str::FromStr;

use super::slot::{SLOTS, Slot};

/// A set of slots: one bit each. Its text is the ranges, as in `0-5460,7000`.
///
/// ```
/// use pilotlight_redis::SlotSet;
///
/// let mut slots: SlotSet = "0-99,4000".parse()?;
/// assert_eq!(slots.len(), 101);
/// slots.retain(|slot| slot.number() != 50);
/// assert_eq!(slots.to_string(), "0-49,51-99,4000");
/// # Ok::<(), pilotlight_redis::SlotSetError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

const WORDS: usize = SLOTS as usize / 64;

/// The text is no set of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a list of slots and ranges of slots")]
pub struct SlotSetError;

impl SlotSet {
    /// No slot.
    #[must_use]
    pub fn new() -> Self {
        Self(Box::new([0; WORDS]))
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        self.0[usize::from(slot.number() / 64)] |= bit(slot);
    }

    /// Takes a slot out.
    pub fn remove(&mut self, slot: Slot) {
        self.0[usize::from(slot.number() / 64)] &= !bit(slot);
    }

    /// Adds all slots of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(mine, its)| *mine |= its);
    }

    /// Keeps the slots that `keep` says.
    pub fn retain(&mut self, mut keep: impl FnMut(Slot) -> bool) {
        for slot in Slot::all() {
            if self.contains(slot) && !keep(slot) {
                self.remove(slot);
            }
        }
    }

    /// Whether the slot is in the set.
    #[must_use]
    pub fn contains(&self, slot: Slot) -> bool {
        self.0[usize::from(slot.number() / 64)] & bit(slot) != 0
    }

    /// How many slots.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has no slot.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Whether it has all slots.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.0.iter().all(|&word| word == u64::MAX)
    }

    /// The slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> {
        Slot::all().filter(|&slot| self.contains(slot))
    }
}

impl Default for SlotSet {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = Self::new();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl fmt::Display for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slots = self.iter().map(Slot::number).peekable();
        let mut separator = "";
        while let Some(first) = slots.next() {
            let mut last = first;
            while let Some(next) = slots.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotSet({self})")
    }
}

impl FromStr for SlotSet {
    type Err = SlotSetError;

    fn from_str(text: &str) -> Result<Self, SlotSetError> {
        let slot = |text: &str| text.parse().ok().and_then(Slot::new).ok_or(SlotSetError);
        let mut set = Self::new();
        for range in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (slot(first)?, slot(last)?);
            if first > last {
                return Err(SlotSetError);
            }
            (first.number()..=last.number()).filter_map(Slot::new).for_each(|slot| set.insert(slot));
        }
        Ok(set)
    }
}

fn bit(slot: Slot) -> u64 {
    1 << (slot.number() % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, slots: &[u16]) {
        let set: SlotSet = slots.iter().map(|&slot| Slot::new(slot).unwrap()).collect();
        assert_eq!(set.to_string(), text);
        assert_eq!(text.parse(), Ok(set));
    }

    #[test]
    fn the_text_is_ranges() {
        check("", &[]);
        check("0", &[0]);
        check("0-2,5,63-65,16383", &[65, 64, 63, 5, 2, 1, 0, 16383]);
        let full: SlotSet = Slot::all().collect();
        assert!(full.is_full() && full.len() == 16384 && full.to_string() == "0-16383");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [",", "1,", "a", "16384", "5-4", "-1", "1-", "1-2-3", " 1"] {
            assert_eq!(text.parse::<SlotSet>(), Err(SlotSetError), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn it_is_a_set(numbers in proptest::collection::btree_set(0_u16..16_384, 0..200), removed in 0_u16..16_384) {
            let mut set: SlotSet = numbers.iter().filter_map(|&slot| Slot::new(slot)).collect();
            proptest::prop_assert_eq!(set.to_string().parse(), Ok(set.clone()));
            proptest::prop_assert_eq!(set.len(), numbers.len());
            set.remove(Slot::new(removed).unwrap());
            let expected: Vec<u16> = numbers.into_iter().filter(|&slot| slot != removed).collect();
            proptest::prop_assert_eq!(set.iter().map(Slot::number).collect::<Vec<_>>(), expected);
        }
    }
}
