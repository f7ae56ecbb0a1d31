//! Values of options.

use std::str::FromStr;
use std::time::Duration;

pub(super) const DURATION: &str = "a positive time such as 500ms, 2s, 1.5s, 5m or 1h";
pub(super) const OPTIONAL_DURATION: &str = "a positive time such as 500ms, 2s, 5m or 1h, or none";
pub(super) const SIZE: &str = "a positive number of bytes such as 65536, 64KiB, 64MiB or 1GiB";
pub(super) const OPTIONAL_SIZE: &str = "a positive number of bytes such as 65536, 64KiB, 64MiB or 1GiB, or none";
pub(super) const COUNT: &str = "a positive whole number";
pub(super) const FLAG: &str = "true or false";

/// A positive time with its unit.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit_seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let time = Duration::try_from_secs_f64(decimal(number)? * unit_seconds).ok()?;
    (!time.is_zero()).then_some(time)
}

/// A positive time, or `none`.
#[expect(clippy::option_option, reason = "the outer one is whether the text is valid, the inner one is the value")]
pub(super) fn optional_duration(text: &str) -> Option<Option<Duration>> {
    match text {
        "none" | "off" => Some(None),
        _ => duration(text).map(Some),
    }
}

/// A positive number of bytes, with or without a binary unit.
pub(super) fn size(text: &str) -> Option<usize> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let unit_bytes = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    count::<usize>(number)?.checked_mul(unit_bytes)
}

/// A positive number of bytes, or `none`.
#[expect(clippy::option_option, reason = "the outer one is whether the text is valid, the inner one is the value")]
pub(super) fn optional_size(text: &str) -> Option<Option<usize>> {
    match text {
        "none" | "off" => Some(None),
        _ => size(text).map(Some),
    }
}

/// A positive whole number.
pub(super) fn count<T: FromStr + Default + PartialEq>(text: &str) -> Option<T> {
    natural(text).filter(|number| *number != T::default())
}

/// A whole number.
pub(super) fn natural<T: FromStr>(text: &str) -> Option<T> {
    // `FromStr` would take a sign.
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A decimal number without sign and exponent.
pub(super) fn decimal(text: &str) -> Option<f64> {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') { text.parse().ok() } else { None }
}

pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" | "1" => Some(true),
        "false" | "no" | "0" => Some(false),
        _ => None,
    }
}
