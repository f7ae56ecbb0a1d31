//! Times and sizes as text, and the nearest word to a misspelt one. Pure.

use std::fmt;
use std::time::Duration;

use super::shown::shown;

/// Why a text is not the value that it should be, with what may have been meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) reason: String,
    pub(super) help: Option<String>,
}

impl Rejected {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Rejected { reason: reason.into(), help: None }
    }

    pub(super) fn help(reason: impl Into<String>, help: impl Into<String>) -> Self {
        Rejected { reason: reason.into(), help: Some(help.into()) }
    }
}

/// A time as it is written in the file: `250ms`, `1m30s`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HumanTime(pub(super) Duration);

/// A size as it is written in the file: `32KiB`.
#[derive(Clone, Copy, Debug)]
pub(super) struct HumanSize(pub(super) u64);

const TIME_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
    ("B", 1),
];

/// Reads a time: whole numbers with `d`, `h`, `m`, `s`, `ms`, the larger unit first.
pub(super) fn time(text: &str) -> Result<Duration, Rejected> {
    let wrong = |why: &str| Rejected::help(format!("{} is not a time: {why}", shown(text)), suggested_time(text));
    let mut rest = text;
    let mut total: u64 = 0;
    let mut last_unit = u64::MAX;
    if rest.is_empty() {
        return Err(wrong("it is empty"));
    }
    while !rest.is_empty() {
        let (number, after) =
            leading_digits(rest).ok_or_else(|| wrong("it needs whole numbers, each with its unit"))?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        if unit.is_empty() {
            return Err(wrong("it has no unit"));
        }
        if unit.contains('.') || unit.contains(' ') {
            return Err(wrong("it needs whole numbers, each with its unit, without spaces"));
        }
        let Some((_, size)) = TIME_UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(wrong(&format!("{} is not one of the units d, h, m, s, ms", shown(unit))));
        };
        if *size >= last_unit {
            return Err(wrong("the units go from large to small, each once"));
        }
        last_unit = *size;
        total = number
            .and_then(|number| number.checked_mul(*size))
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| wrong("it is longer than any limit"))?;
        rest = next;
    }
    Ok(Duration::from_millis(total))
}

/// Reads a size: one whole number with `B`, `KiB`, `MiB`, `GiB`, `TiB` (1024) or `kB`, `MB`, `GB`, `TB` (1000), in any
/// case.
pub(super) fn size(text: &str) -> Result<u64, Rejected> {
    let wrong = |why: &str| Rejected::help(format!("{} is not a size: {why}", shown(text)), suggested_size(text));
    let (number, after) = leading_digits(text).ok_or_else(|| wrong("it needs a whole number with its unit"))?;
    let unit = after.strip_prefix(' ').unwrap_or(after);
    if unit.is_empty() {
        return Err(wrong("it has no unit"));
    }
    if unit.starts_with('.') {
        return Err(wrong("it needs a whole number with its unit"));
    }
    let Some((_, factor)) = SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
        return Err(wrong(&format!("{} is not one of the units B, KiB, MiB, GiB, TiB, kB, MB, GB, TB", shown(unit))));
    };
    number.and_then(|number| number.checked_mul(*factor)).ok_or_else(|| wrong("it is larger than any limit"))
}

/// The word of `known` that `word` was probably meant to be.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer words are no misspellings of ours, and the comparison is quadratic.
    const MAX_WORD: usize = 80;
    if word.is_empty() || word.len() > MAX_WORD {
        return None;
    }
    let simple = |text: &str| text.to_lowercase().replace(['-', ' ', '.'], "_");
    let wanted = simple(word);
    // Of a short word two letters are half of it, and every word is near to another one then.
    let allowed = match wanted.chars().count() {
        0..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&wanted, &simple(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

impl fmt::Display for HumanTime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return formatter.write_str("0s");
        }
        for (unit, size) in TIME_UNITS {
            if rest >= size {
                write!(formatter, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

impl fmt::Display for HumanSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = SIZE_UNITS.iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor));
        match whole {
            Some((unit, factor)) => write!(formatter, "{}{unit}", self.0 / factor),
            None => write!(formatter, "{}B", self.0),
        }
    }
}

/// The number at the start, none inside if it does not fit, and the rest.
fn leading_digits(text: &str) -> Option<(Option<u64>, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].parse().ok(), &text[end..]))
}

/// `1.5s`, `90 sec`, `5 MINUTES` or `30` as they should be written.
fn suggested_time(text: &str) -> String {
    let example = "write it like \"250ms\", \"10s\", \"1m30s\" or \"2h\"".to_owned();
    let Some((number, unit)) = decimal(text) else {
        return example;
    };
    let size = match unit.to_lowercase().as_str() {
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 1,
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return example,
    };
    match number.times(size).filter(|millis| *millis > 0) {
        Some(millis) => format!("write \"{}\"", HumanTime(Duration::from_millis(millis))),
        None => example,
    }
}

/// `10M`, `1.5GiB`, `64 megabytes` as they should be written.
fn suggested_size(text: &str) -> String {
    let example = "write it like \"512B\", \"32KiB\" or \"10MiB\"".to_owned();
    let Some((number, unit)) = decimal(text) else {
        return example;
    };
    let size = match unit.to_lowercase().as_str() {
        "" | "b" | "byte" | "bytes" => 1,
        "k" | "ki" | "kib" | "kilobytes" => 1 << 10,
        "m" | "mi" | "mib" | "megabytes" => 1 << 20,
        "g" | "gi" | "gib" | "gigabytes" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return example,
    };
    match number.times(size).filter(|bytes| *bytes > 0) {
        Some(bytes) => format!("write \"{}\"", HumanSize(bytes)),
        None => example,
    }
}

/// A decimal number as an integer and the power of ten that it is to be divided by.
struct Decimal {
    digits: u64,
    divisor: u64,
}

impl Decimal {
    fn times(&self, factor: u64) -> Option<u64> {
        self.digits.checked_mul(factor).map(|product| product / self.divisor)
    }
}

/// `1.5 unit` taken apart.
fn decimal(text: &str) -> Option<(Decimal, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    if unit.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some((Decimal { digits, divisor }, unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_time(text: &str, expected: Result<u64, &str>) {
        let got = time(text).map(|time| time.as_millis());
        assert_eq!(
            got.map_err(|wrong| wrong.help),
            expected.map(u128::from).map_err(|help| Some(help.to_owned())),
            "{text:?}"
        );
    }

    #[track_caller]
    fn check_size(text: &str, expected: Result<u64, &str>) {
        assert_eq!(size(text).map_err(|wrong| wrong.help), expected.map_err(|help| Some(help.to_owned())), "{text:?}");
    }

    const ANY_TIME: &str = "write it like \"250ms\", \"10s\", \"1m30s\" or \"2h\"";
    const ANY_SIZE: &str = "write it like \"512B\", \"32KiB\" or \"10MiB\"";

    #[test]
    fn times() {
        check_time("250ms", Ok(250));
        check_time("1m30s", Ok(90_000));
        check_time("2h", Ok(7_200_000));
        check_time("1d1h1m1s1ms", Ok(90_061_001));
        check_time("0s", Ok(0));
        check_time("30", Err("write \"30s\""));
        check_time("1.5s", Err("write \"1s500ms\""));
        check_time("90 sec", Err("write \"1m30s\""));
        check_time("5 Minutes", Err("write \"5m\""));
        check_time("30s1m", Err(ANY_TIME));
        check_time("1s1s", Err(ANY_TIME));
        check_time("", Err(ANY_TIME));
        check_time("soon", Err(ANY_TIME));
        check_time("-1s", Err(ANY_TIME));
        check_time("99999999999999999999s", Err(ANY_TIME));
        check_time("18446744073709551615d", Err(ANY_TIME));
        check_time("5µs", Err(ANY_TIME));
    }

    #[test]
    fn sizes() {
        check_size("512B", Ok(512));
        check_size("32KiB", Ok(32 * 1024));
        check_size("10 MiB", Ok(10 << 20));
        check_size("10mb", Ok(10_000_000));
        check_size("1TiB", Ok(1 << 40));
        check_size("10M", Err("write \"10MiB\""));
        check_size("10k", Err("write \"10KiB\""));
        check_size("1.5GiB", Err("write \"1536MiB\""));
        check_size("1048576", Err("write \"1MiB\""));
        check_size("big", Err(ANY_SIZE));
        check_size("", Err(ANY_SIZE));
        check_size("99999999999999999999TiB", Err(ANY_SIZE));
    }

    #[test]
    fn near_words() {
        let known = ["command", "url", "transport", "dir", "env"];
        assert_eq!(nearest("comand", known), Some("command"));
        assert_eq!(nearest("Command", known), Some("command"));
        assert_eq!(nearest("trasnport", known), Some("transport"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("x", known), None);
        assert_eq!(nearest("", known), None);
    }

    proptest! {
        #[test]
        fn a_written_time_is_read_back(millis in 0..u64::from(u32::MAX)) {
            let written = Duration::from_millis(millis);
            prop_assert_eq!(time(&HumanTime(written).to_string()), Ok(written));
        }

        #[test]
        fn a_written_size_is_read_back(bytes in 0..u64::MAX) {
            prop_assert_eq!(size(&HumanSize(bytes).to_string()), Ok(bytes));
        }

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,40}") {
            let _ = (time(&text), size(&text), nearest(&text, ["listen", "dev"]));
        }
    }
}
