//! Times of events as text.

const DAY: u64 = 24 * 3600;
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `12/Mar/2020:19:03:58 +0000`, as events have it.
pub(crate) fn text(ms: u64) -> String {
    let seconds = ms / 1000;
    let (year, month, day) = civil(seconds / DAY);
    let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{day:02}/{}/{year}:{hour:02}:{minute:02}:{second:02} +0000", MONTHS[month])
}

/// Year, month from 0 on, and day of the days since 1970: the proleptic Gregorian calendar, counted in years that begin
/// with March, so that the leap day is the last.
fn civil(days: u64) -> (u64, usize, u64) {
    let days = days + 719_468; // since 1 March of the year 0
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 2 } else { month - 10 };
    (year + era * 400 + u64::from(month < 2), month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, expected) in [
            (0, "01/Jan/1970:00:00:00 +0000"),
            (951_782_400, "29/Feb/2000:00:00:00 +0000"),
            (1_583_348_638, "04/Mar/2020:19:03:58 +0000"),
            (1_704_067_199, "31/Dec/2023:23:59:59 +0000"),
            (1_704_067_200, "01/Jan/2024:00:00:00 +0000"),
        ] {
            assert_eq!(text(seconds * 1000 + 999), expected);
        }
    }
}
