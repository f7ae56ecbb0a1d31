//! HTTP dates as a cache reads them (RFC 9110 §5.6.7), more leniently than others must.
//!
//! RFC 9111 §4.2: a cache matches names of days, months and the zone case-insensitively. Beyond that, the day of the
//! week is not compared with the date: both say the same, or one was miscounted, and the date is what is meant.

const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Seconds since the Unix epoch, 0 for what is before it; `None` for what is no date.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    text.as_bytes().try_into().ok().and_then(usual).or_else(|| any_format(text))
}

fn any_format(text: &str) -> Option<u64> {
    let (day_name, rest) = text.trim().split_at(text.trim().find([',', ' '])?);
    match rest.strip_prefix(", ") {
        // IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
        Some(rest) if is_day(day_name, Length::Short) => {
            let [day, month, year, time, zone] = parts(rest)?;
            instant(Day { year: number(year, 4)?, month: month_of(month)?, day: number(day, 2)? }, time, zone)
        }
        // rfc850-date: Sunday, 06-Nov-94 08:49:37 GMT
        Some(rest) if is_day(day_name, Length::Long) => {
            let [date, time, zone] = parts(rest)?;
            let mut date = date.split('-');
            let (day, month, year) = (date.next()?, date.next()?, date.next()?);
            let year = number(year, 2).filter(|_| date.next().is_none())?;
            let year = if year < 70 { 2000 + year } else { 1900 + year };
            instant(Day { year, month: month_of(month)?, day: number(day, 2)? }, time, zone)
        }
        // asctime-date: Sun Nov  6 08:49:37 1994
        None if is_day(day_name, Length::Short) => {
            let (month, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
            let [day, time, year] = parts(rest.strip_prefix(' ').unwrap_or(rest))?;
            let day = number(day, 2).or_else(|| number(day, 1))?;
            instant(Day { year: number(year, 4)?, month: month_of(month)?, day }, time, "GMT")
        }
        _ => None,
    }
}

/// The same for what nearly all senders write, an IMF-fixdate to the letter, without taking it apart first.
fn usual(text: &[u8; 29]) -> Option<u64> {
    let day_name = text.first_chunk::<3>()?;
    if !matches!(day_name, b"Mon" | b"Tue" | b"Wed" | b"Thu" | b"Fri" | b"Sat" | b"Sun") {
        return None;
    }
    let separators = [text[3], text[4], text[7], text[11], text[16], text[19], text[22]];
    if separators != *b",    ::" || text[25..] != *b" GMT" {
        return None;
    }
    let month = match &text[8..11] {
        b"Jan" => 0,
        b"Feb" => 1,
        b"Mar" => 2,
        b"Apr" => 3,
        b"May" => 4,
        b"Jun" => 5,
        b"Jul" => 6,
        b"Aug" => 7,
        b"Sep" => 8,
        b"Oct" => 9,
        b"Nov" => 10,
        b"Dec" => 11,
        _ => return None,
    };
    let two = |at: usize| {
        let [tens, ones] = [text[at], text[at + 1]].map(|byte| byte.wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then_some(u64::from(tens) * 10 + u64::from(ones))
    };
    calendar(
        Day { year: two(12)? * 100 + two(14)?, month, day: two(5)? },
        TimeOfDay { hour: two(17)?, minute: two(20)?, second: two(23)? },
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Short,
    Long,
}

fn is_day(name: &str, length: Length) -> bool {
    DAYS.iter().any(|day| match length {
        Length::Short => day.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(name)),
        Length::Long => day.eq_ignore_ascii_case(name),
    })
}

/// Exactly so many parts with one space between them.
fn parts<const N: usize>(text: &str) -> Option<[&str; N]> {
    let mut parts = text.split(' ');
    let mut found = [""; N];
    for part in &mut found {
        *part = parts.next()?;
    }
    parts.next().is_none().then_some(found)
}

fn number(text: &str, digits: usize) -> Option<u64> {
    (text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn month_of(name: &str) -> Option<usize> {
    MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))
}

fn instant(day: Day, time: &str, zone: &str) -> Option<u64> {
    // RFC 9111 §4.2: a zone other than GMT makes a date invalid.
    if !zone.eq_ignore_ascii_case("GMT") {
        return None;
    }
    let mut units = time.split(':').map(|unit| number(unit, 2));
    let time = TimeOfDay { hour: units.next()??, minute: units.next()??, second: units.next()?? };
    if units.next().is_some() {
        return None;
    }
    calendar(day, time)
}

#[derive(Clone, Copy)]
struct Day {
    year: u64,
    /// From 0.
    month: usize,
    day: u64,
}

#[derive(Clone, Copy)]
struct TimeOfDay {
    hour: u64,
    minute: u64,
    second: u64,
}

fn calendar(Day { year, month, day }: Day, time: TimeOfDay) -> Option<u64> {
    let TimeOfDay { hour, minute, second } = time;
    // RFC 9110 §5.6.7: second 60 is a leap second.
    if hour > 23 || minute > 59 || second > 60 || day == 0 || day > days_of(month, year) {
        return None;
    }
    let days = days_before(year) + (0..month).map(|month| days_of(month, year)).sum::<u64>() + day - 1;
    let since_epoch = days.checked_sub(days_before(1970));
    Some(since_epoch.map_or(0, |days| days * 86_400 + hour * 3600 + minute * 60 + second))
}

fn days_of(month: usize, year: u64) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

/// Days from the year 1 to the beginning of a year.
fn days_before(year: u64) -> u64 {
    let past = year.saturating_sub(1);
    past * 365 + past / 4 - past / 100 + past / 400
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(seconds(text), expected, "{text:?}");
    }

    #[test]
    fn the_three_formats() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun Nov 06 08:49:37 1994",
            "SUN, 06 nOV 1994 08:49:37 gmt",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            " Sun, 06 Nov 1994 08:49:37 GMT ",
        ] {
            check(text, Some(784_111_777));
        }
        check("Thu, 29 Feb 2024 23:59:60 GMT", Some(1_709_251_200));
        check("Wed, 01 Jan 1969 00:00:00 GMT", Some(0));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799));
        check("Sunday, 06-Nov-69 08:49:37 GMT", Some(3_150_953_377));
    }

    #[test]
    fn anything_else() {
        for text in [
            "",
            "0",
            "-1",
            "tomorrow",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 25:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:00 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun,06 Nov 1994 08:49:37 GMT",
            "Sun, 06  Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT x",
            "Sunday, 06-Nov-94-1 08:49:37 GMT",
        ] {
            check(text, None);
        }
    }

    proptest! {
        #[test]
        fn reads_what_others_write(second in 0u64..253_402_300_800) {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            prop_assert_eq!(seconds(&text), Some(second));
        }

        #[test]
        fn the_short_way_says_nothing_else_than_the_long_one(second in 0u64..253_402_300_800, at in 0usize..29, byte in "[ -~]") {
            let mut text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            prop_assert_eq!(usual(text.as_bytes().try_into().unwrap()), Some(second));
            text.replace_range(at..=at, &byte);
            if let Some(seconds) = usual(text.as_bytes().try_into().unwrap()) {
                prop_assert_eq!(any_format(&text), Some(seconds), "{}", text);
            }
        }

        #[test]
        fn takes_anything(text in "\\PC{0,40}") {
            let _ = seconds(&text);
        }
    }
}
