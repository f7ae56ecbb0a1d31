//! When a certificate is renewed: within the window that its authority suggests (RFC 9773), else after two thirds of
//! its lifetime. Pure.

use std::time::{Duration, SystemTime};

/// Earliest and latest renewal of a certificate without a window, in parts of its lifetime.
const PART: (f64, f64) = (0.63, 2.0 / 3.0);
/// No window makes a renewal later than at this part of the lifetime.
const LATEST: f64 = 0.9;
/// How often a window is asked for when the authority does not say (RFC 9773 §4.3.2 gives 6 hours as an example).
const WINDOW_EVERY: Duration = Duration::from_secs(6 * 3600);
/// Shortest and longest time between two questions about a window (RFC 9773 §4.3.2: "within reasonable limits").
const WINDOW_PAUSE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));

/// Longest and shortest (as a part of the lifetime) time that a new certificate is left alone. Where the clocks of an
/// authority and of this machine differ by days, each new one is due when it comes.
const LEFT_ALONE: (Duration, f64) = (Duration::from_secs(6 * 3600), 0.1);

/// When an authority would like a certificate to be renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Not before.
    pub start: SystemTime,
    /// Not after.
    pub end: SystemTime,
}

/// What was answered to a question about a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// There is one.
    Window {
        /// When.
        window: Window,
        /// How long the answer holds.
        again_in: Duration,
    },
    /// The authority has no renewal information.
    Unsupported,
    /// It could not be asked.
    Failed,
}

/// A certificate's validity, and when it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    not_before: SystemTime,
    not_after: SystemTime,
    window: Option<Window>,
    /// It is new, and not renewed before.
    earliest: Option<SystemTime>,
    /// When it would be renewed were it not new.
    chosen: SystemTime,
    /// When the authority is asked for a window; `None` never.
    pub(crate) ask_at: Option<SystemTime>,
}

impl Renewal {
    /// Of a certificate for which no authority has suggested a time yet. `chance` is between 0 and 1.
    pub(crate) fn new(not_before: SystemTime, not_after: SystemTime, ask_at: Option<SystemTime>, chance: f64) -> Self {
        let chosen = part(not_before, not_after, PART.0 + (PART.1 - PART.0) * chance.clamp(0.0, 1.0));
        Self { not_before, not_after, window: None, earliest: None, chosen, ask_at }
    }

    /// When it is renewed.
    pub(crate) fn at(&self) -> SystemTime {
        self.earliest.map_or(self.chosen, |earliest| self.chosen.max(earliest))
    }

    /// It has just come: whatever the clocks say, there is not another order at once.
    pub(crate) fn is_new(&mut self, now: SystemTime) {
        let lifetime = self.not_after.duration_since(self.not_before).unwrap_or_default();
        self.earliest = Some(now + lifetime.mul_f64(LEFT_ALONE.1).min(LEFT_ALONE.0));
    }

    /// A clock that was set back makes no wait longer than it was.
    pub(crate) fn shorten(&mut self, now: SystemTime) {
        self.ask_at = self.ask_at.map(|at| at.min(now + WINDOW_PAUSE.1));
        if self.earliest.is_some_and(|earliest| earliest > now + LEFT_ALONE.0) {
            self.earliest = None;
        }
    }

    /// Follows what the authority said.
    pub(crate) fn suggested(&mut self, suggestion: Suggestion, now: SystemTime, chance: f64) {
        match suggestion {
            Suggestion::Window { window, again_in } => {
                self.ask_at = Some(now + again_in.clamp(WINDOW_PAUSE.0, WINDOW_PAUSE.1));
                // The same window again: the time in it was chosen.
                if self.window != Some(window) {
                    self.window = Some(window);
                    self.chosen = chosen(window, chance).min(part(self.not_before, self.not_after, LATEST));
                }
            }
            Suggestion::Unsupported => self.ask_at = None,
            Suggestion::Failed => self.ask_at = Some(now + WINDOW_EVERY.mul_f64(0.5 + 0.5 * chance)),
        }
    }
}

/// RFC 9773 §4.2: "a uniform random time within the suggested window".
fn chosen(Window { start, end }: Window, chance: f64) -> SystemTime {
    start + end.duration_since(start).unwrap_or_default().mul_f64(chance.clamp(0.0, 1.0))
}

fn part(not_before: SystemTime, not_after: SystemTime, part: f64) -> SystemTime {
    not_before + not_after.duration_since(not_before).unwrap_or_default().mul_f64(part)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn day(days: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(days * 86_400)
    }

    fn days(days: u64) -> Duration {
        Duration::from_secs(days * 86_400)
    }

    #[test]
    fn without_a_window_at_two_thirds() {
        assert_eq!(Renewal::new(day(0), day(90), None, 1.0).at(), day(60));
        let earliest = Renewal::new(day(0), day(90), None, 0.0).at();
        assert!(earliest > day(56) && earliest < day(57));
    }

    #[test]
    fn a_window_says_when() {
        let mut renewal = Renewal::new(day(0), day(90), Some(day(0)), 1.0);
        let window = Window { start: day(40), end: day(44) };
        renewal.suggested(Suggestion::Window { window, again_in: days(30) }, day(1), 0.5);
        assert_eq!((renewal.at(), renewal.ask_at), (day(42), Some(day(2))));
        renewal.suggested(Suggestion::Window { window, again_in: Duration::ZERO }, day(2), 0.9);
        assert_eq!(renewal.at(), day(42), "the same window moves nothing");
        assert_eq!(renewal.ask_at, Some(day(2) + Duration::from_secs(60)));
        let past = Window { start: day(0), end: day(1) };
        renewal.suggested(Suggestion::Window { window: past, again_in: days(1) }, day(3), 0.5);
        assert!(renewal.at() < day(3), "it was revoked, or will be: at once");
        let late = Window { start: day(200), end: day(300) };
        renewal.suggested(Suggestion::Window { window: late, again_in: days(1) }, day(3), 0.5);
        assert_eq!(renewal.at(), day(81));
    }

    #[test]
    fn what_is_due_when_it_comes_is_not_ordered_again_at_once() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        // This machine's clock is 80 days ahead of the authority's.
        let mut renewal = Renewal::new(day(0), day(90), Some(day(80)), 1.0);
        assert!(renewal.at() < day(80));
        renewal.is_new(day(80));
        assert_eq!(renewal.at(), day(80) + hours(6));
        let past = Window { start: day(0), end: day(1) };
        renewal.suggested(Suggestion::Window { window: past, again_in: days(1) }, day(80), 0.5);
        assert_eq!(renewal.at(), day(80) + hours(6));
        // One for an hour.
        let mut renewal = Renewal::new(day(0), day(0) + hours(1), None, 1.0);
        renewal.is_new(day(1));
        assert_eq!(renewal.at(), day(1) + hours(1) / 10);
        let mut renewal = Renewal::new(day(0), day(90), None, 1.0);
        renewal.is_new(day(0));
        assert_eq!(renewal.at(), day(60));
        // It had come while this machine's clock was years ahead.
        let mut renewal = Renewal::new(day(0), day(90), None, 1.0);
        renewal.is_new(day(2000));
        renewal.shorten(day(1));
        assert_eq!(renewal.at(), day(60));
    }

    #[test]
    fn a_clock_that_was_set_back_has_the_window_asked_for_within_a_day() {
        let mut renewal = Renewal::new(day(0), day(90), Some(day(50)), 1.0);
        renewal.shorten(day(49));
        assert_eq!(renewal.ask_at, Some(day(50)));
        renewal.shorten(day(1));
        assert_eq!(renewal.ask_at, Some(day(2)));
    }

    #[test]
    fn without_an_answer_two_thirds_stay() {
        let mut renewal = Renewal::new(day(0), day(90), Some(day(0)), 1.0);
        renewal.suggested(Suggestion::Failed, day(1), 1.0);
        assert_eq!((renewal.at(), renewal.ask_at), (day(60), Some(day(1) + WINDOW_EVERY)));
        renewal.suggested(Suggestion::Unsupported, day(1), 1.0);
        assert_eq!((renewal.at(), renewal.ask_at), (day(60), None));
    }
}
