//! Numbers for people.

use std::time::Duration;

/// `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `512 B`, `1.5 MB`, `5.0 GB`: decimal units, as `--data` and `--mb` mean them.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    match UNITS.iter().find(|(size, _)| number >= *size) {
        Some((size, unit)) => format!("{:.1} {unit}", number as f64 / *size as f64),
        None => format!("{number} B"),
    }
}

/// Nanoseconds as milliseconds with three digits.
pub(crate) fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3}", nanoseconds as f64 / 1e6)
}

/// Per second.
pub(crate) fn rate(number: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 { number as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 999, 1500, 5_000_000_000].map(bytes), ["0 B", "999 B", "1.5 kB", "5.0 GB"]);
        assert_eq!(milliseconds(1_234_567), "1.235");
    }
}
