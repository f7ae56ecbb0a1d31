//! When a schedule is due next, and what a change of the clock does to that.
//!
//! Where a clock is put forward, times are left out; where it is put back, times come twice. A schedule that may be due
//! in each hour follows the time that goes by: what is left out does not happen, what comes twice happens twice, so
//! hourly stays hourly. One of certain hours happens once for each day that its clock shows: what is left out is due
//! when the clock has been put forward, and of what comes twice the first counts.

use crate::civil::Minute;
use crate::cron::Cron;
use crate::zone::Zone;

/// More than any clock is put forward or back, in minutes (Lord Howe does half an hour, Antarctica up to three).
const MAX_CHANGE: i64 = 4 * 60;
/// More than the offsets of two clocks differ by, in seconds.
const A_DAY: i64 = 24 * 3600;
/// How many times that a clock shows are looked at for one that comes.
const MAX_TRIES: usize = 10_000;

/// A cron expression by the clock of a place.
#[derive(Clone, Debug)]
pub struct Schedule {
    cron: Cron,
    zone: Zone,
}

/// The moments at which a clock shows a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Once(i64),
    Twice(i64, i64),
    /// Never, as it is put forward over it; the moment at which that happens.
    LeftOut(i64),
}

impl Schedule {
    /// This expression by that clock.
    #[must_use]
    pub fn new(cron: Cron, zone: Zone) -> Self {
        Self { cron, zone }
    }

    /// The expression.
    #[must_use]
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    /// Whose clock counts.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// What its clock shows at this second since 1970.
    #[must_use]
    pub fn shown(&self, second: i64) -> Minute {
        Minute::of_second(second.saturating_add(self.zone.offset(second)))
    }

    /// The first second since 1970, later than this one, at which it is due. `None`: none comes within nine years.
    #[must_use]
    pub fn next(&self, after: i64) -> Option<i64> {
        let now = self.shown(after);
        let mut at = now.plus(-MAX_CHANGE);
        let mut best: Option<i64> = None;
        for _ in 0..MAX_TRIES {
            at = self.cron.from(at)?;
            // A time that a clock shows later than this comes later than the best.
            if best.is_some_and(|best| at > self.shown(best).plus(MAX_CHANGE)) {
                break;
            }
            let due = self.due(at).into_iter().flatten().filter(|due| *due > after).min();
            best = best.into_iter().chain(due).min();
            at = at.plus(1);
        }
        best
    }

    /// The moments at which it is due for a time that its clock shows.
    fn due(&self, minute: Minute) -> [Option<i64>; 2] {
        match (self.when(minute), self.cron.is_of_every_hour()) {
            (Shown::Once(at), _) | (Shown::Twice(at, _), false) | (Shown::LeftOut(at), false) => [Some(at), None],
            (Shown::Twice(first, second), true) => [Some(first), Some(second)],
            (Shown::LeftOut(_), true) => [None, None],
        }
    }

    fn when(&self, minute: Minute) -> Shown {
        let clock = minute.first_second();
        let (before, after) = (self.zone.offset(clock - A_DAY), self.zone.offset(clock + A_DAY));
        let shows = |second: &i64| second + self.zone.offset(*second) == clock;
        let (early, late) = (clock - before.max(after), clock - before.min(after));
        match (shows(&early), shows(&late)) {
            (true, true) if early != late => Shown::Twice(early, late),
            (true, _) => Shown::Once(early),
            (false, true) => Shown::Once(late),
            (false, false) => Shown::LeftOut(self.change_between(early, late)),
        }
    }

    /// The first second with another offset than the one before.
    fn change_between(&self, from: i64, to: i64) -> i64 {
        let (mut low, mut high) = (from - A_DAY, to + A_DAY);
        let before = self.zone.offset(low);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.zone.offset(middle) == before { low = middle } else { high = middle }
        }
        high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(cron: &str, zone: &str) -> Schedule {
        Schedule::new(Cron::parse(cron).unwrap(), Zone::load(zone).unwrap())
    }

    /// Seconds since 1970 of a time in UTC.
    fn utc(text: &str) -> i64 {
        let number = |from: usize, to: usize| text[from..to].parse::<i64>().unwrap();
        let (year, month) = (number(0, 4), number(5, 7));
        let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let day_of_year = (153 * from_march + 2) / 5 + number(8, 10) - 1;
        let days = year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
        (days * 24 + number(11, 13)) * 3600 + number(14, 16) * 60
    }

    /// The next times after one, in UTC.
    #[track_caller]
    fn check(cron: &str, zone: &str, after: &str, expected: &[&str]) {
        let schedule = schedule(cron, zone);
        let mut at = utc(after);
        for expected in expected {
            at = schedule.next(at).unwrap();
            assert_eq!(Minute::of_second(at).to_string(), *expected, "{cron} in {zone}");
            assert_eq!(at % 60, 0);
        }
    }

    #[test]
    fn in_utc() {
        check("30 2 * * *", "UTC", "2026-11-24 02:30", &["2026-11-25 02:30", "2026-11-26 02:30"]);
        check("*/20 * * * *", "UTC", "2026-11-24 02:30", &["2026-11-24 02:40", "2026-11-24 03:00"]);
        check("0 0 29 2 *", "UTC", "2026-11-24 02:30", &["2028-02-29 00:00", "2032-02-29 00:00"]);
    }

    #[test]
    fn by_the_clock_of_a_place() {
        check("0 9 * * *", "Europe/Berlin", "2026-11-24 00:00", &["2026-11-24 08:00"]);
        check("0 9 * * *", "Europe/Berlin", "2026-07-24 00:00", &["2026-07-24 07:00"]);
        check("0 9 * * *", "Asia/Kolkata", "2026-07-24 00:00", &["2026-07-24 03:30"]);
        check("0 9 * * mon", "Pacific/Auckland", "2026-11-24 00:00", &["2026-11-29 20:00"]); // a Sunday in UTC
        check("0 0 1 * *", "America/Los_Angeles", "2026-11-24 00:00", &["2026-12-01 08:00"]);
    }

    #[test]
    fn what_is_left_out_is_due_when_the_clock_is_put_forward() {
        // In Berlin 2027-03-28 02:00 is 03:00, which is 01:00 UTC.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2027-03-27 00:00",
            &["2027-03-27 01:30", "2027-03-28 01:00", "2027-03-29 00:30"],
        );
        // Once, however much of it is left out.
        check("*/10 2 * * *", "Europe/Berlin", "2027-03-27 23:00", &["2027-03-28 01:00", "2027-03-29 00:00"]);
        // What is due then anyway, is due once.
        check("0 2,3 * * *", "Europe/Berlin", "2027-03-27 23:00", &["2027-03-28 01:00", "2027-03-29 00:00"]);
        check(
            "0 */2 * * *",
            "Europe/Berlin",
            "2027-03-27 22:59",
            &["2027-03-27 23:00", "2027-03-28 01:00", "2027-03-28 02:00"],
        );
        // What is due in each hour follows the time that goes by.
        check(
            "30 * * * *",
            "Europe/Berlin",
            "2027-03-27 23:31",
            &["2027-03-28 00:30", "2027-03-28 01:30", "2027-03-28 02:30"],
        );
        check(
            "*/30 * * * *",
            "Europe/Berlin",
            "2027-03-28 00:15",
            &["2027-03-28 00:30", "2027-03-28 01:00", "2027-03-28 01:30"],
        );
    }

    #[test]
    fn of_what_comes_twice_the_first_counts() {
        // In Berlin 2026-10-25 03:00 is 02:00 again, which is 01:00 UTC.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24 00:00",
            &["2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"],
        );
        check(
            "0 2,3 * * *",
            "Europe/Berlin",
            "2026-10-24 23:00",
            &["2026-10-25 00:00", "2026-10-25 02:00", "2026-10-26 01:00"],
        );
        // Asked in the second of the two hours.
        check("15 2 * * *", "Europe/Berlin", "2026-10-25 01:10", &["2026-10-26 01:15"]);
        check(
            "30 * * * *",
            "Europe/Berlin",
            "2026-10-24 23:31",
            &["2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30"],
        );
        check(
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25 00:31",
            &["2026-10-25 01:00", "2026-10-25 01:30", "2026-10-25 02:00"],
        );
    }

    #[test]
    fn clocks_that_are_odd() {
        // By half an hour: 2026-10-04 02:00 is 02:30, and 2026-04-05 02:00 is 01:30 again.
        check("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 00:00", &["2026-10-03 15:30", "2026-10-04 15:15"]);
        check("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 00:00", &["2026-04-04 14:45", "2026-04-05 15:15"]);
        // A whole day was left out, and what was due on it when it would have begun: Samoa had no 30th of December 2011.
        check(
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29 00:00",
            &["2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"],
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn it_agrees_with_looking_at_every_minute(
            cron in prop_oneof![Just("*/7 * * * *"), Just("30 * * * *"), Just("30 2 * * *"), Just("15,45 1-3 * * *"), Just("0 */3 * * *"), Just("5 0 * * *")],
            zone in prop_oneof![Just("UTC"), Just("Europe/Berlin"), Just("America/New_York"), Just("Australia/Lord_Howe"), Just("Asia/Kolkata"), Just("America/St_Johns")],
            // Any day, and those before the clocks of these places are changed in 2026.
            days in prop_oneof![0..366_i64, proptest::sample::select(vec![65, 66, 86, 87, 93, 94, 275, 276, 296, 297, 303, 304])],
            minutes in 0..1440_i64,
        ) {
            let schedule = schedule(cron, zone);
            let after = utc("2026-01-01 00:00") + (days * 1440 + minutes) * 60;
            let every_hour = schedule.cron().is_of_every_hour();
            let fits = |minute: Minute| schedule.cron().from(minute) == Some(minute);
            let is_due = |second: i64| {
                let (shown, before) = (schedule.shown(second), schedule.shown(second - 60));
                let again = (1..=MAX_CHANGE).any(|back| schedule.shown(second - back * 60) == shown);
                let left_out = (1..MAX_CHANGE).map(|more| before.plus(more)).take_while(|minute| *minute < shown).any(fits);
                match every_hour {
                    true => fits(shown),
                    false => fits(shown) && !again || left_out,
                }
            };
            let expected = (1..3 * 1440).map(|more| after + more * 60).find(|second| is_due(*second));
            prop_assert_eq!(schedule.next(after), expected, "{} in {} after {}", cron, zone, Minute::of_second(after));
        }

        #[test]
        fn it_always_goes_on(after in any::<i64>()) {
            for zone in ["UTC", "Europe/Berlin"] {
                if let Some(next) = schedule("30 2 * * *", zone).next(after / 4) {
                    prop_assert!(next > after / 4);
                }
            }
        }
    }
}
