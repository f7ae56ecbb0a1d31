//! Which node owns each slot.
//!
//! ```text
//! blocks   of 64 slots: their one owner, or nobody ─┐   512 bytes, always in the cache
//! slots    the owner of each, or nobody            ◄┘   32 KiB
//! ```
//!
//! Slots are given away in ranges, so nearly every block has one owner, and a command touches no line of the large
//! table: with 256 callers, which use the cache for themselves, that took 54 of 1,900 ns (`perf`, W1, a loaded
//! machine).
//!
//! Invariant: a block names an owner only if all of its slots have it.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::proto::slot::{SLOTS, Slot};

/// Owner of a slot that nobody serves.
pub(super) const NOBODY: u16 = u16::MAX;

/// Slots of a block.
const BLOCK: usize = 64;

/// See the module.
pub(super) struct Owners {
    slots: Box<[AtomicU16]>,
    blocks: Box<[AtomicU16]>,
}

impl Owners {
    /// Nobody owns anything.
    pub(super) fn nobodys() -> Self {
        Self { slots: nobody(usize::from(SLOTS)), blocks: nobody(usize::from(SLOTS) / BLOCK) }
    }

    /// The index of a slot's owner, or [`NOBODY`].
    #[inline]
    pub(super) fn of(&self, slot: Slot) -> u16 {
        let number = usize::from(slot.number());
        match self.blocks[number / BLOCK].load(Ordering::Acquire) {
            NOBODY => self.slots[number].load(Ordering::Relaxed),
            owner => owner,
        }
    }

    /// Gives a slot to another owner; the one before is returned.
    pub(super) fn give(&self, slot: Slot, owner: u16) -> u16 {
        let number = usize::from(slot.number());
        let before = self.slots[number].swap(owner, Ordering::Relaxed);
        // After the slot: who finds no owner here finds the new one there.
        self.blocks[number / BLOCK].store(NOBODY, Ordering::Release);
        before
    }

    /// Names the owners of whole blocks, once all slots are given.
    pub(super) fn settle(&mut self) {
        for (block, slots) in self.blocks.iter_mut().zip(self.slots.chunks_mut(BLOCK)) {
            let first = *slots[0].get_mut();
            let is_one = slots.iter_mut().all(|owner| *owner.get_mut() == first);
            *block.get_mut() = if is_one { first } else { NOBODY };
        }
    }
}

impl Clone for Owners {
    fn clone(&self) -> Self {
        let slots = self.slots.iter().map(|owner| AtomicU16::new(owner.load(Ordering::Relaxed))).collect();
        let mut owners = Self { slots, ..Self::nobodys() };
        owners.settle();
        owners
    }
}

fn nobody(count: usize) -> Box<[AtomicU16]> {
    (0..count).map(|_| AtomicU16::new(NOBODY)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u16) -> Slot {
        Slot::new(number).expect("in range")
    }

    #[test]
    fn blocks_say_what_the_slots_say() {
        let mut owners = Owners::nobodys();
        // Two ranges that meet within a block, and a gap.
        let expected = |number: u16| match number {
            0..1000 => 0,
            1000..8000 => 1,
            9000..16_384 => 2,
            _ => NOBODY,
        };
        for slot in Slot::all().filter(|slot| expected(slot.number()) != NOBODY) {
            assert_eq!(owners.give(slot, expected(slot.number())), NOBODY);
        }
        let check = |owners: &Owners| {
            assert!(Slot::all().all(|slot| owners.of(slot) == expected(slot.number())));
        };
        check(&owners);
        owners.settle();
        check(&owners);
        check(&owners.clone());
        assert_eq!(owners.blocks.iter().filter(|block| block.load(Ordering::Relaxed) == NOBODY).count(), 1 + 16);
    }

    #[test]
    fn one_slot_of_a_block_goes_to_another_owner() {
        let mut owners = Owners::nobodys();
        for slot in Slot::all() {
            owners.give(slot, 3);
        }
        owners.settle();
        assert_eq!(owners.give(slot(100), 5), 3);
        for owners in [&owners, &owners.clone()] {
            let others = Slot::all().filter(|&slot| owners.of(slot) != 3).collect::<Vec<_>>();
            assert_eq!((&others[..], owners.of(slot(100))), (&[slot(100)][..], 5));
        }
    }
}
