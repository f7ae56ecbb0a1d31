//! A counter that many threads add to without sharing a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

const PLACES: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tally([Place; PLACES]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Place(AtomicU64);

thread_local! {
    static PLACE: Cell<usize> = Cell::new(fastrand::usize(..PLACES));
}

impl Tally {
    #[inline]
    pub(super) fn add_one(&self) {
        self.0[PLACE.get()].0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|place| place.0.load(Ordering::Relaxed)).sum()
    }
}
