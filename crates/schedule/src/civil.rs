//! The calendar: minutes of a clock on a wall, which knows no time zones.

use std::fmt;

const DAY: i64 = 24 * 60;

/// A minute of the Gregorian calendar, as minutes since 1970-01-01 00:00 of the same clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minute(i64);

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: u32,
    /// 1 to 31.
    pub(crate) day: u32,
    /// 0 is Sunday.
    pub(crate) weekday: u32,
}

impl Minute {
    /// The minute in which a clock shows this second, counted from 1970-01-01 00:00:00 of the same clock.
    #[must_use]
    pub fn of_second(second: i64) -> Self {
        Self(second.div_euclid(60))
    }

    /// Its first second, likewise.
    #[must_use]
    pub fn first_second(self) -> i64 {
        self.0.saturating_mul(60)
    }

    /// So many minutes later, or earlier.
    #[must_use]
    pub fn plus(self, minutes: i64) -> Self {
        Self(self.0.saturating_add(minutes))
    }

    pub(crate) fn of(day: i64, minute_of_day: u32) -> Self {
        Self(day.saturating_mul(DAY).saturating_add(minute_of_day.into()))
    }

    /// Days since 1970-01-01.
    pub(crate) fn day(self) -> i64 {
        self.0.div_euclid(DAY)
    }

    /// 0 to 1439.
    pub(crate) fn of_day(self) -> u32 {
        u32::try_from(self.0.rem_euclid(DAY)).unwrap_or_default()
    }
}

/// `2026-11-24 02:30`.
impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Date { year, month, day, .. }, minute) = (Date::of(self.day()), self.of_day());
        write!(f, "{year:04}-{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
    }
}

impl Date {
    /// Of days since 1970-01-01. Eras are of 400 years, which have 146,097 days; their years begin in March.
    pub(crate) fn of(days: i64) -> Self {
        let shifted = days.saturating_add(719_468); // from 0000-03-01 on
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let small = |number: i64| u32::try_from(number).unwrap_or_default();
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: small(month),
            day: small(day),
            weekday: small((days % 7 + 11) % 7), // 1970-01-01 was a Thursday
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        let check = |days, year, month, day, weekday| {
            assert_eq!(Date::of(days), Date { year, month, day, weekday });
        };
        check(0, 1970, 1, 1, 4);
        check(-1, 1969, 12, 31, 3);
        check(11_016, 2000, 2, 29, 2);
        check(20_781, 2026, 11, 24, 2);
        check(47_541, 2100, 3, 1, 1); // 2100 is no leap year
        check(-719_468, 0, 3, 1, 3);
    }

    #[test]
    fn days_follow_each_other() {
        let mut before = Date::of(-100_000);
        for days in -99_999..100_000 {
            let date = Date::of(days);
            assert_eq!(date.weekday, (before.weekday + 1) % 7);
            let is_next = match (date.month, date.day) {
                (1, 1) => (before.month, before.day, before.year + 1) == (12, 31, date.year),
                (_, 1) => before.month + 1 == date.month && (28..=31).contains(&before.day),
                _ => (before.month, before.day + 1) == (date.month, date.day),
            };
            assert!(is_next, "{date:?} after {before:?}");
            before = date;
        }
    }

    #[test]
    fn shown() {
        assert_eq!(Minute::of_second(1_795_487_459).to_string(), "2026-11-24 02:30");
        assert_eq!(Minute::of_second(-1).to_string(), "1969-12-31 23:59");
    }
}
