//! Times as text.

use std::io::Write;

/// Writes milliseconds since 1970 as RFC 3339 does, in UTC.
pub fn rfc3339(out: &mut Vec<u8>, at_ms: u64) {
    let (seconds, ms) = (at_ms / 1000, at_ms % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // A Vec takes everything.
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z");
}

/// Days since 1970-01-01 as a date: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153; // months from March
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(at_ms: u64, expected: &str) {
        let mut out = Vec::new();
        rfc3339(&mut out, at_ms);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn times() {
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_007, "2000-02-29T00:00:00.007Z");
        check(4_102_444_799_999, "2099-12-31T23:59:59.999Z");
    }

    proptest! {
        #[test]
        fn dates(days in 0_u64..100_000) {
            let mut out = Vec::new();
            rfc3339(&mut out, days * 86_400_000);
            let text = String::from_utf8(out).unwrap();
            let at = UNIX_EPOCH + Duration::from_secs(days * 86_400);
            let http = httpdate::fmt_http_date(at); // Sun, 06 Nov 1994 08:49:37 GMT
            let month = "JanFebMarAprMayJunJulAugSepOctNovDec".find(&http[8..11]).unwrap() / 3 + 1;
            prop_assert_eq!(&text[..10], format!("{}-{month:02}-{}", &http[12..16], &http[5..7]));
        }
    }
}
