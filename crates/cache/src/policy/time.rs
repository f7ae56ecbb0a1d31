//! Points in time, handed in by the caller and never read here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;

use super::date;

/// Milliseconds since the Unix epoch; passed in, never read.
///
/// Differences saturate at zero, so a clock that was set back makes stored responses look younger, never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The millisecond of `time`; times before 1970 count as 1970.
    pub fn from_system(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(millis(since))
    }

    /// Whole seconds since the Unix epoch, the resolution of an HTTP date.
    pub(crate) fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// Milliseconds from `earlier` to `self`, zero if `earlier` is later.
    pub(crate) fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Reads an HTTP date (RFC 9110 §5.6.7, all three formats); `None` for anything else.
    pub(crate) fn from_http_date(value: &HeaderValue) -> Option<Self> {
        date::seconds(value.to_str().ok()?).map(|seconds| Self(seconds * 1000))
    }

    /// Writes an IMF-fixdate. Years above 9999 cannot be written and are clamped.
    pub(crate) fn http_date(self) -> HeaderValue {
        const LAST_SECOND_OF_9999: u64 = 253_402_300_799;
        let time = UNIX_EPOCH + Duration::from_secs(self.seconds().min(LAST_SECOND_OF_9999));
        // A formatted date is plain ASCII; the epoch stands in for the error that cannot happen.
        HeaderValue::from_str(&httpdate::fmt_http_date(time))
            .unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT"))
    }
}

/// When an upstream exchange took place, for the age of its response (RFC 9111 §4.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// `request_time`: when the request was sent upstream. Time spent starting a service belongs before it.
    pub sent: Timestamp,
    /// `response_time`: when the response head arrived.
    pub received: Timestamp,
}

/// Whole milliseconds of `duration`, saturating.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &'static str, expected: Option<u64>) {
        let parsed = Timestamp::from_http_date(&HeaderValue::from_static(text));
        assert_eq!(parsed.map(Timestamp::seconds), expected, "{text}");
    }

    #[test]
    fn reads_the_three_formats_and_nothing_else() {
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        for garbage in ["0", "-1", "", "tomorrow", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 25:00:00 GMT"] {
            check(garbage, None);
        }
    }

    #[test]
    fn writes_what_it_reads() {
        let time = Timestamp(784_111_777_000);
        assert_eq!(Timestamp::from_http_date(&time.http_date()), Some(time));
        assert_eq!(Timestamp(u64::MAX).http_date(), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn differences_saturate() {
        assert_eq!(Timestamp(5).millis_since(Timestamp(9)), 0);
        assert_eq!(Timestamp(9).millis_since(Timestamp(5)), 4);
    }
}
