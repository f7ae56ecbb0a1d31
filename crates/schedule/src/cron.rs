//! Cron expressions as crontab(5) has them: minute, hour, day of the month, month, day of the week.

use crate::civil::{Date, Minute};
use std::fmt;
use std::ops::RangeInclusive;

/// Days that are looked at for one that fits: more than the eight years between two 29ths of February around 2100.
const MAX_DAYS: i64 = 9 * 366;
/// Bytes of an expression.
const MAX_LENGTH: usize = 256;

/// An expression, such as `30 2 * * 1-5`.
#[derive(Clone, Debug)]
pub struct Cron {
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// 0 is Sunday.
    weekdays: u64,
    /// Both kinds of days are given, and either is enough (POSIX.1-2017, crontab).
    either_day: bool,
}

/// As it was written.
impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Cron {}

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    /// Too few fields, or too many.
    #[error("it has {0} fields, not the five of cron: minute, hour, day of the month, month, day of the week")]
    Fields(usize),
    /// `@` and a word that means nothing here.
    #[error("{0} is no time")]
    Nickname(String),
    /// No number, and no name.
    #[error("{text:?} is no {field}")]
    Word {
        /// The part.
        text: String,
        /// The field.
        field: &'static str,
    },
    /// What other programs know.
    #[error("{text:?} is an extension of other programs, which is not read here")]
    Extension {
        /// The part.
        text: String,
        /// The field.
        field: &'static str,
    },
    /// Too small or too large.
    #[error("{value} is no {field}; it goes from {least} to {most}")]
    Range {
        /// The number.
        value: u32,
        /// The field.
        field: &'static str,
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// A range whose end comes first.
    #[error("the {field} {text:?} goes backwards")]
    Backwards {
        /// The part.
        text: String,
        /// The field.
        field: &'static str,
    },
    /// A step of zero, of more than there is, or without a range.
    #[error("the step of the {field} {text:?} {what}")]
    Step {
        /// The part.
        text: String,
        /// The field.
        field: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// No day fits.
    #[error("such a day never comes")]
    Never,
    /// Too long.
    #[error("it has more than {MAX_LENGTH} bytes")]
    TooLong,
}

impl CronError {
    /// What to write instead.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Fields(6) => {
                "take the seconds away: a schedule is due at the beginning of a minute, \"30 2 * * *\" at 02:30"
                    .to_owned()
            }
            Self::Fields(_) => {
                "for example \"30 2 * * *\" at 02:30 each day, \"*/5 * * * *\" every five minutes".to_owned()
            }
            Self::Nickname(word) if word.starts_with("@reboot") => {
                "a service that has to run from the start has min_instances = 1".to_owned()
            }
            Self::Nickname(word) if word.starts_with("@every") => {
                "write \"*/5 * * * *\" for every five minutes".to_owned()
            }
            Self::Nickname(_) => {
                "there are @hourly, @daily (or @midnight), @weekly, @monthly and @yearly (or @annually)".to_owned()
            }
            Self::Word { field, .. } => match *field {
                "month" => "write a number, or jan to dec".to_owned(),
                "day of the week" => "write a number, 0 and 7 being Sunday, or sun to sat".to_owned(),
                _ => "write numbers: 5, 1-5, */10, 0,30".to_owned(),
            },
            Self::Extension { text, .. } if text.contains('?') => "write * instead".to_owned(),
            Self::Extension { .. } => {
                "have the service look at the date: it is asked each day, and does nothing on the others".to_owned()
            }
            Self::Backwards { field: "hour", .. } => "write both parts: 22-23,0-6".to_owned(),
            Self::Backwards { .. } => "write both parts, with a comma between them".to_owned(),
            Self::Step { .. } => "write */15, or 0-30/10".to_owned(),
            Self::Range { .. } | Self::Never | Self::TooLong => return None,
        })
    }
}

/// A field: its name, what it takes, and words for that.
struct Field {
    name: &'static str,
    takes: RangeInclusive<u32>,
    words: &'static [&'static str],
    /// The number of the first word.
    first_word: u32,
}

const MINUTE: Field = Field { name: "minute", takes: 0..=59, words: &[], first_word: 0 };
const HOUR: Field = Field { name: "hour", takes: 0..=23, words: &[], first_word: 0 };
const DAY: Field = Field { name: "day of the month", takes: 1..=31, words: &[], first_word: 0 };
const MONTH: Field = Field {
    name: "month",
    takes: 1..=12,
    words: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    first_word: 1,
};
const WEEKDAY: Field = Field {
    name: "day of the week",
    takes: 0..=7,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    first_word: 0,
};

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// It means nothing, or no day fits.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        if text.len() > MAX_LENGTH {
            return Err(CronError::TooLong);
        }
        let text = text.trim();
        let written = if text.starts_with('@') { nickname(text)? } else { text };
        let fields: Vec<&str> = written.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else { return Err(CronError::Fields(fields.len())) };
        let sundays = WEEKDAY.read(weekday)?;
        let cron = Self {
            text: text.to_owned(),
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays: (sundays | sundays >> 7) & 0b111_1111,
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        cron.from(Minute::of(0, 0)).ok_or(CronError::Never)?;
        Ok(cron)
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it may be due in each hour of a day: then it follows the time that has gone by, and not what a clock
    /// shows.
    #[must_use]
    pub fn is_of_every_hour(&self) -> bool {
        self.hours == HOUR.all()
    }

    /// The first minute from this one on that fits. `None`: none comes within nine years.
    #[must_use]
    pub fn from(&self, minute: Minute) -> Option<Minute> {
        let today = minute.day();
        (today..today.saturating_add(MAX_DAYS)).filter(|day| self.has_day(Date::of(*day))).find_map(|day| {
            let begin = if day == today { minute.of_day() } else { 0 };
            (begin..24 * 60).find(|at| self.has_time(*at)).map(|at| Minute::of(day, at))
        })
    }

    fn has_day(&self, date: Date) -> bool {
        let (day, weekday) = (has(self.days, date.day), has(self.weekdays, date.weekday));
        has(self.months, date.month) && if self.either_day { day || weekday } else { day && weekday }
    }

    fn has_time(&self, minute_of_day: u32) -> bool {
        has(self.hours, minute_of_day / 60) && has(self.minutes, minute_of_day % 60)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn has(set: u64, number: u32) -> bool {
    set >> number & 1 == 1
}

fn nickname(text: &str) -> Result<&'static str, CronError> {
    Ok(match text.to_ascii_lowercase().as_str() {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        other => return Err(CronError::Nickname(other.to_owned())),
    })
}

impl Field {
    fn all(&self) -> u64 {
        self.takes.clone().fold(0, |set, number| set | 1 << number)
    }

    /// The numbers of a field as a set of bits.
    fn read(&self, text: &str) -> Result<u64, CronError> {
        text.split(',').try_fold(0, |set, part| Ok(set | self.part(part)?))
    }

    /// `*`, `5`, `1-5`, each of the first and the last with a step.
    fn part(&self, text: &str) -> Result<u64, CronError> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (*self.takes.start(), *self.takes.end()),
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            None => {
                let number = self.number(range)?;
                if step.is_some() {
                    return Err(self.wrong_step(text, "has no range"));
                }
                (number, number)
            }
        };
        // Sunday is the end of a week as well as its beginning.
        let last = if self.name == WEEKDAY.name && last == 0 && first > 0 { 7 } else { last };
        if first > last {
            return Err(CronError::Backwards { text: text.to_owned(), field: self.name });
        }
        let step = match step.map(str::parse::<u32>) {
            None => 1,
            Some(Ok(0)) => return Err(self.wrong_step(text, "is zero")),
            Some(Ok(step)) if step > *self.takes.end() => return Err(self.wrong_step(text, "is more than there is")),
            Some(Ok(step)) => step,
            Some(Err(_)) => return Err(self.wrong_step(text, "is no number")),
        };
        // `*` of days of the week is seven days, whatever the step.
        let last = if range == "*" && self.name == WEEKDAY.name { 6 } else { last };
        Ok((first..=last).step_by(step as usize).fold(0, |set, number| set | 1 << number))
    }

    fn number(&self, text: &str) -> Result<u32, CronError> {
        let lower = text.to_ascii_lowercase();
        if let Some(at) = self.words.iter().position(|word| *word == lower) {
            return Ok(self.first_word + u32::try_from(at).unwrap_or_default());
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let value = text.parse().unwrap_or(u32::MAX);
            let (least, most) = (*self.takes.start(), *self.takes.end());
            return match self.takes.contains(&value) {
                true => Ok(value),
                false => Err(CronError::Range { value, field: self.name, least, most }),
            };
        }
        let (text, field) = (text.to_owned(), self.name);
        let is_extension = text == "?"
            || text.contains('#')
            || matches!(lower.trim_start_matches(|c: char| c.is_ascii_digit()), "l" | "w" | "lw");
        Err(if is_extension { CronError::Extension { text, field } } else { CronError::Word { text, field } })
    }

    fn wrong_step(&self, text: &str, what: &'static str) -> CronError {
        CronError::Step { text: text.to_owned(), field: self.name, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn minute(text: &str) -> Minute {
        let number = |from: usize, to: usize| text[from..to].parse::<u32>().unwrap();
        let days = (0..50_000).find(|days| {
            let date = Date::of(*days);
            (date.year, date.month, date.day) == (i64::from(number(0, 4)), number(5, 7), number(8, 10))
        });
        Minute::of(days.unwrap(), number(11, 13) * 60 + number(14, 16))
    }

    /// The next times from one on.
    #[track_caller]
    fn check(cron: &str, from: &str, expected: &[&str]) {
        let cron = Cron::parse(cron).unwrap();
        let mut at = minute(from);
        for expected in expected {
            let found = cron.from(at).unwrap();
            assert_eq!(found.to_string(), *expected, "{cron}");
            at = found.plus(1);
        }
    }

    #[test]
    fn when_it_is_due() {
        check("* * * * *", "2026-11-24 02:30", &["2026-11-24 02:30", "2026-11-24 02:31"]);
        check("*/15 * * * *", "2026-11-24 02:31", &["2026-11-24 02:45", "2026-11-24 03:00", "2026-11-24 03:15"]);
        check("10-20/5,59 * * * *", "2026-11-24 02:16", &["2026-11-24 02:20", "2026-11-24 02:59", "2026-11-24 03:10"]);
        check("30 2 * * *", "2026-11-24 02:31", &["2026-11-25 02:30", "2026-11-26 02:30"]);
        check("0 22-23,0-1 * * *", "2026-11-24 23:01", &["2026-11-25 00:00", "2026-11-25 01:00", "2026-11-25 22:00"]);
        check("0 9 * * 1-5", "2026-11-27 10:00", &["2026-11-30 09:00", "2026-12-01 09:00"]); // a Friday
        check("0 9 * * mon-FRI", "2026-11-27 10:00", &["2026-11-30 09:00"]);
        check("0 0 * * sat-sun", "2026-11-24 00:00", &["2026-11-28 00:00", "2026-11-29 00:00", "2026-12-05 00:00"]);
        check("0 0 * * 7", "2026-11-24 00:00", &["2026-11-29 00:00"]);
        check("0 0 * * 5-7", "2026-11-29 00:00", &["2026-11-29 00:00", "2026-12-04 00:00"]);
        check("0 0 * * */3", "2026-11-24 00:00", &["2026-11-25 00:00", "2026-11-28 00:00", "2026-11-29 00:00"]);
        check("0 0 31 * *", "2026-11-24 00:00", &["2026-12-31 00:00", "2027-01-31 00:00", "2027-03-31 00:00"]);
        check("0 0 29 feb *", "2026-11-24 00:00", &["2028-02-29 00:00", "2032-02-29 00:00"]);
        check("0 0 29 2 *", "2096-03-01 00:00", &["2104-02-29 00:00"]);
        check("59 23 31 12 *", "2026-12-31 23:59", &["2026-12-31 23:59", "2027-12-31 23:59"]);
    }

    #[test]
    fn either_kind_of_day_is_enough_if_both_are_given() {
        // Fridays and the 13th.
        check(
            "0 0 13 * 5",
            "2026-11-24 00:00",
            &["2026-11-27 00:00", "2026-12-04 00:00", "2026-12-11 00:00", "2026-12-13 00:00"],
        );
        // With a star in one of them both have to fit (crontab(5)).
        check("0 0 */2 * 5", "2026-11-24 00:00", &["2026-11-27 00:00", "2026-12-11 00:00"]);
    }

    #[test]
    fn nicknames() {
        check("@hourly", "2026-11-24 02:31", &["2026-11-24 03:00"]);
        check("@daily", "2026-11-24 02:31", &["2026-11-25 00:00"]);
        check("@MIDNIGHT", "2026-11-24 02:31", &["2026-11-25 00:00"]);
        check("@weekly", "2026-11-24 02:31", &["2026-11-29 00:00"]);
        check("@monthly", "2026-11-24 02:31", &["2026-12-01 00:00"]);
        check("@annually", "2026-11-24 02:31", &["2027-01-01 00:00"]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text: &str, message: &str, help: &str| {
            let error = Cron::parse(text).unwrap_err();
            assert!(error.to_string().contains(message), "{text}: {error}");
            assert!(error.help().unwrap_or_default().contains(help), "{text}: {:?}", error.help());
        };
        check("", "it has 0 fields", "30 2 * * *");
        check("5 * * *", "it has 4 fields", "30 2 * * *");
        check("0 30 2 * * *", "it has 6 fields", "take the seconds away");
        check("60 * * * *", "60 is no minute; it goes from 0 to 59", "");
        check("0 24 * * *", "24 is no hour; it goes from 0 to 23", "");
        check("0 0 0 * *", "0 is no day of the month; it goes from 1 to 31", "");
        check("0 0 * 13 *", "13 is no month", "");
        check("0 0 * * 8", "8 is no day of the week; it goes from 0 to 7", "");
        check("0 99999999999 * * *", "is no hour", "");
        check("0 0 * january *", "\"january\" is no month", "jan to dec");
        check("0 0 * * monday", "\"monday\" is no day of the week", "sun to sat");
        check("a * * * *", "\"a\" is no minute", "numbers");
        check("-5 * * * *", "\"\" is no minute", "numbers");
        check("1,,2 * * * *", "\"\" is no minute", "numbers");
        check("0 22-6 * * *", "the hour \"22-6\" goes backwards", "22-23,0-6");
        check("*/0 * * * *", "is zero", "*/15");
        check("*/60 * * * *", "more than there is", "*/15");
        check("*/x * * * *", "is no number", "*/15");
        check("5/15 * * * *", "has no range", "0-30/10");
        check("0 0 L * *", "an extension of other programs", "look at the date");
        check("0 0 15W * *", "an extension", "");
        check("0 0 * * 5#2", "an extension", "");
        check("0 0 ? * 1", "an extension", "write * instead");
        check("@reboot", "@reboot is no time", "min_instances = 1");
        check("@every 5m", "@every 5m is no time", "*/5 * * * *");
        check("@noon", "@noon is no time", "@hourly");
        check("0 0 31 2,4,6 *", "never comes", "");
        check(&"0,".repeat(200), "more than 256 bytes", "");
    }

    /// A field's text, and the numbers that it stands for.
    fn field(least: u32, most: u32) -> impl Strategy<Value = (String, Vec<u32>)> {
        let one = prop_oneof![
            Just(("*".to_owned(), (least..=most).collect::<Vec<_>>())),
            (1..=most).prop_map(move |step| (format!("*/{step}"), (least..=most).step_by(step as usize).collect())),
            (least..=most).prop_map(|number| (number.to_string(), vec![number])),
            (least..=most, least..=most, 1..=most).prop_map(|(a, b, step)| {
                let (a, b) = (a.min(b), a.max(b));
                (format!("{a}-{b}/{step}"), (a..=b).step_by(step as usize).collect())
            }),
        ];
        proptest::collection::vec(one, 1..4).prop_map(|parts| {
            let (texts, numbers): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            (texts.join(","), numbers.concat())
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn it_is_the_first_minute_that_fits(
            fields in [field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)],
            begin in 0..40_000_000_i64,
        ) {
            let text: Vec<&str> = fields.iter().map(|(text, _)| text.as_str()).collect();
            let cron = match Cron::parse(&text.join(" ")) {
                Err(CronError::Never | CronError::TooLong) => return Ok(()),
                cron => cron.unwrap(),
            };
            let is_free = |at: usize| fields[at].0.starts_with('*');
            let fits = |minute: Minute| {
                let (date, at) = (Date::of(minute.day()), minute.of_day());
                let has = |at: usize, number: u32| fields[at].1.contains(&number);
                let (day, weekday) = (has(2, date.day), has(4, date.weekday));
                let on = if is_free(2) || is_free(4) { day && weekday } else { day || weekday };
                on && has(3, date.month) && has(1, at / 60) && has(0, at % 60)
            };
            let begin = Minute::of_second(begin * 60);
            let found = cron.from(begin).unwrap();
            prop_assert!(fits(found), "{cron}: {found}");
            // The first of them, as far as a day is looked back.
            let before = (1..1440).map(|back| found.plus(-back)).take_while(|minute| *minute >= begin).find(|minute| fits(*minute));
            prop_assert_eq!(before, None, "{} before {}", cron, found);
        }

        #[test]
        fn whatever_is_read_nothing_breaks(text in "[-*/,0-9a-z@#?LW ]{0,30}") {
            let _ = Cron::parse(&text);
        }
    }
}
