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
    /// When it is renewed.
    pub(crate) at: SystemTime,
    /// When the authority is asked for a window; `None` never.
    pub(crate) ask_at: Option<SystemTime>,
}

impl Renewal {
    /// Of a certificate that nobody was asked about yet. `chance` is between 0 and 1.
    pub(crate) fn new(not_before: SystemTime, not_after: SystemTime, ask_at: Option<SystemTime>, chance: f64) -> Self {
        let at = part(not_before, not_after, PART.0 + (PART.1 - PART.0) * chance.clamp(0.0, 1.0));
        Self { not_before, not_after, window: None, at, ask_at }
    }

    /// Follows what the authority said.
    pub(crate) fn suggested(&mut self, suggestion: Suggestion, now: SystemTime, chance: f64) {
        match suggestion {
            Suggestion::Window { window, again_in } => {
                self.ask_at = Some(now + again_in.clamp(WINDOW_PAUSE.0, WINDOW_PAUSE.1));
                // The same window again: the time in it was chosen.
                if self.window != Some(window) {
                    self.window = Some(window);
                    self.at = chosen(window, chance).min(part(self.not_before, self.not_after, LATEST));
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
        assert_eq!(Renewal::new(day(0), day(90), None, 1.0).at, day(60));
        let earliest = Renewal::new(day(0), day(90), None, 0.0).at;
        assert!(earliest > day(56) && earliest < day(57));
    }

    #[test]
    fn a_window_says_when() {
        let mut renewal = Renewal::new(day(0), day(90), Some(day(0)), 1.0);
        let window = Window { start: day(40), end: day(44) };
        renewal.suggested(Suggestion::Window { window, again_in: days(30) }, day(1), 0.5);
        assert_eq!((renewal.at, renewal.ask_at), (day(42), Some(day(2))));
        renewal.suggested(Suggestion::Window { window, again_in: Duration::ZERO }, day(2), 0.9);
        assert_eq!(renewal.at, day(42), "the same window moves nothing");
        assert_eq!(renewal.ask_at, Some(day(2) + Duration::from_secs(60)));
        let past = Window { start: day(0), end: day(1) };
        renewal.suggested(Suggestion::Window { window: past, again_in: days(1) }, day(3), 0.5);
        assert!(renewal.at < day(3), "it was revoked, or will be: at once");
        let late = Window { start: day(200), end: day(300) };
        renewal.suggested(Suggestion::Window { window: late, again_in: days(1) }, day(3), 0.5);
        assert_eq!(renewal.at, day(81));
    }

    #[test]
    fn without_an_answer_two_thirds_stay() {
        let mut renewal = Renewal::new(day(0), day(90), Some(day(0)), 1.0);
        renewal.suggested(Suggestion::Failed, day(1), 1.0);
        assert_eq!((renewal.at, renewal.ask_at), (day(60), Some(day(1) + WINDOW_EVERY)));
        renewal.suggested(Suggestion::Unsupported, day(1), 1.0);
        assert_eq!((renewal.at, renewal.ask_at), (day(60), None));
    }
}
