//! Times as annotations and the Gateway API write them: `5m`, `1h30m`, `500ms` (GEP-2257).

use std::time::Duration;

/// Reads a time. None: it is not one.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at_checked(digits).filter(|(number, _)| (1..=9).contains(&number.len()))?;
        let number: u64 = number.parse().ok()?;
        let (unit_ms, behind) = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)]
            .iter()
            .find_map(|(unit, ms)| Some((*ms, behind.strip_prefix(unit)?)))?;
        total = total.checked_add(Duration::from_millis(number.checked_mul(unit_ms)?))?;
        rest = behind;
    }
    (!text.is_empty()).then_some(total)
}

/// As the configuration file writes it; at least a millisecond.
#[must_use]
pub fn written(time: Duration) -> String {
    format!("{}ms", time.as_millis().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let ms = |text| parse(text).map(|time| time.as_millis());
        assert_eq!(ms("5m"), Some(300_000));
        assert_eq!(ms("1h30m10s500ms"), Some(5_410_500));
        assert_eq!(ms("0s"), Some(0));
        for wrong in ["", "5", "m", "5 m", "-5m", "5d", "1.5s", "9999999999s"] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }
}
