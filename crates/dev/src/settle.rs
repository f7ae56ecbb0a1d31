//! When a save is over. Pure: time is an argument.

use std::time::{Duration, Instant};

/// How long nothing may change before a save counts as whole. Editors write a file in several steps within a
/// millisecond or two, and formatters and checkouts follow each other closely; longer than this a developer waits for.
pub const QUIET: Duration = Duration::from_millis(10);
/// The same after a file that is whole: renamed into its place, or closed by its writer. What may follow is
/// another file of the same save.
pub const QUIET_AFTER_WHOLE: Duration = Duration::from_millis(4);
/// How long changes may follow each other before they count as whole all the same: something writes without end.
pub const LONGEST_SAVE: Duration = Duration::from_secs(2);

/// What a change leaves of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// All of it.
    Whole,
    /// Perhaps a part: more may be written.
    Part,
}

/// A save that goes on: when it began, and until when nothing may change.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settle(Option<(Instant, Instant)>);

impl Settle {
    /// Something has changed.
    pub(crate) fn changed(&mut self, now: Instant, left: Left) {
        let begun = self.0.map_or(now, |(begun, _)| begun);
        let quiet = match left {
            Left::Whole => QUIET_AFTER_WHOLE,
            Left::Part => QUIET,
        };
        self.0 = Some((begun, now + quiet));
    }

    /// When the save is over if nothing changes any more; `None`: there is none.
    pub(crate) fn over_at(&self) -> Option<Instant> {
        self.0.map(|(begun, quiet)| quiet.min(begun + LONGEST_SAVE))
    }

    /// Whether it is over; then the next change begins another one.
    pub(crate) fn take_over(&mut self, now: Instant) -> bool {
        let is_over = self.over_at().is_some_and(|at| at <= now);
        if is_over {
            self.0 = None;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_save_is_over_when_nothing_follows() {
        let mut settle = Settle::default();
        let begun = Instant::now();
        assert!(!settle.take_over(begun));
        settle.changed(begun, Left::Part);
        settle.changed(begun + QUIET / 2, Left::Part);
        assert!(!settle.take_over(begun + QUIET));
        assert!(settle.take_over(begun + QUIET / 2 + QUIET));
        assert_eq!(settle.over_at(), None);
    }

    #[test]
    fn a_file_that_is_whole_is_waited_for_less_long() {
        let mut settle = Settle::default();
        let begun = Instant::now();
        settle.changed(begun, Left::Part);
        settle.changed(begun, Left::Whole);
        assert_eq!(settle.over_at(), Some(begun + QUIET_AFTER_WHOLE));
        settle.changed(begun, Left::Part); // the next file is begun
        assert_eq!(settle.over_at(), Some(begun + QUIET));
    }

    #[test]
    fn writing_without_end_is_no_save_without_end() {
        let mut settle = Settle::default();
        let begun = Instant::now();
        let steps = (0..).map(|step| begun + QUIET / 2 * step);
        let over = steps.take(10_000).find(|now| {
            settle.changed(*now, Left::Part);
            settle.take_over(*now)
        });
        assert_eq!(over, Some(begun + LONGEST_SAVE));
    }
}
