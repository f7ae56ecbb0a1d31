//! Names of releases: the time at which they were made, in an order that clocks cannot turn round.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a name.
const MAX_NAME: usize = 100;
/// Characters of a label that are kept.
const MAX_LABEL: usize = 40;
/// Bytes of `20261124-001500`.
const TIME_LENGTH: usize = 15;

/// The name of a release, `20261124-001500-abcdef`: when it was made (UTC), and what it is of. Their order is that of
/// the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// A name for now, later than that of the newest release, however the clock is set. Of the label letters, digits,
    /// `.`, `_` and `-` are kept; one without any gets random digits.
    #[must_use]
    pub fn new(now: SystemTime, newest: Option<&Self>, label: &str) -> Self {
        let mut seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut time = civil(seconds);
        if let Some(newest) = newest.and_then(|newest| newest.time())
            && *newest >= *time
        {
            seconds = seconds.max(since_epoch(newest)) + 1;
            time = civil(seconds);
        }
        let label: String = label.chars().filter(|c| is_allowed(*c)).take(MAX_LABEL).collect();
        let label = if label.is_empty() { format!("{:06x}", fastrand::u32(..1 << 24)) } else { label };
        Self(format!("{time}-{label}"))
    }

    /// A name that somebody wrote: letters, digits, `.`, `_`, `-`, not beginning with a dot, at most 100 bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_good =
            !text.is_empty() && text.len() <= MAX_NAME && !text.starts_with(['.', '-']) && text.chars().all(is_allowed);
        is_good.then(|| Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `20261124-001500`, if it begins like that.
    fn time(&self) -> Option<&str> {
        let time = self.0.get(..TIME_LENGTH)?;
        let is_time =
            time.bytes().enumerate().all(|(at, byte)| if at == 8 { byte == b'-' } else { byte.is_ascii_digit() });
        is_time.then_some(time)
    }

    /// When it was made, as its name says.
    #[must_use]
    pub fn made(&self) -> Option<SystemTime> {
        self.time().map(|time| UNIX_EPOCH + Duration::from_secs(since_epoch(time)))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Seconds since 1970 as `20261124-001500`. The calendar's arithmetic is that of eras of 400 years, each of 146,097
/// days, whose years begin in March.
fn civil(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468; // from 0000-03-01 on
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// The reverse. What is no date is the nearest that the arithmetic gives.
fn since_epoch(time: &str) -> u64 {
    let part = |from: usize, to: usize| time.get(from..to).and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0);
    let (year, month, day) = (part(0, 4), part(4, 6).clamp(1, 12), part(6, 8).clamp(1, 31));
    let year = if month <= 2 { year.saturating_sub(1) } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).saturating_sub(719_468);
    days * 86_400 + part(9, 11) * 3600 + part(11, 13) * 60 + part(13, 15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_time_is_that_of_the_calendar() {
        let check = |seconds, expected: &str| {
            assert_eq!(civil(seconds), expected);
            assert_eq!(since_epoch(expected), seconds);
        };
        check(0, "19700101-000000");
        check(951_782_399, "20000228-235959");
        check(951_782_400, "20000229-000000");
        check(1_795_479_300, "20261124-001500");
        check(4_107_542_400, "21000301-000000");
    }

    #[test]
    fn names_that_are_taken() {
        for good in ["20261124-001500-abcdef", "v1.2_3", "a"] {
            assert_eq!(Name::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", ".incoming-1", "a/b", "-x", "a b", "ä", &"x".repeat(101)] {
            assert_eq!(Name::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_label_has_only_what_a_name_may_have() {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_479_300);
        assert_eq!(Name::new(now, None, "v1/../ 2").as_str(), "20261124-001500-v1..2");
        assert_eq!(Name::new(now, None, "/").as_str().len(), TIME_LENGTH + 7);
    }

    proptest! {
        #[test]
        fn a_new_name_is_later_whatever_the_clock_says(clock in 0..4_000_000_000_u64, back in 0..4_000_000_000_u64, labels in ["[a-z]{0,5}", "[a-z]{0,5}"]) {
            let first = Name::new(UNIX_EPOCH + Duration::from_secs(clock), None, &labels[0]);
            let second = Name::new(UNIX_EPOCH + Duration::from_secs(clock.saturating_sub(back)), Some(&first), &labels[1]);
            prop_assert!(second > first, "{second} after {first}");
            prop_assert_eq!(Name::parse(second.as_str()), Some(second.clone()));
        }

        #[test]
        fn times_are_read_as_they_are_written(seconds in 0..200_000_000_000_u64) {
            prop_assert_eq!(since_epoch(&civil(seconds)), seconds);
        }
    }
}
