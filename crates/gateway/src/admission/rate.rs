//! Rates, by the generic cell rate algorithm (ITU-T I.371, annex A): of each key one number is kept, the moment at
//! which all that was admitted will have been paid for. Pure: the time is an argument.
//!
//! ```text
//!          admitted: interval                      refused: more than `burst` ahead
//!  now ──────┴──────┴──────┴─── paid until     now ───────────────────────┴─────── paid until
//!   └────── at most burst × interval ─────┘
//! ```

use std::fmt;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// How often something may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How often …
    pub count: NonZeroU32,
    /// … in this time.
    pub per: Period,
}

/// A time of which people say how often something may happen in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
}

impl Period {
    /// Every period with what it is called behind the slash.
    pub const ALL: [(&'static str, Self); 4] =
        [("s", Self::Second), ("m", Self::Minute), ("h", Self::Hour), ("d", Self::Day)];

    /// How long it is, in seconds.
    #[must_use]
    pub fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 24 * 3600,
        }
    }
}

impl Rate {
    /// Values of `count`. Beyond it an interval would be of few nanoseconds.
    pub const COUNT: RangeInclusive<u32> = 1..=1_000_000;

    fn interval_ns(self) -> u64 {
        (self.per.seconds() * SECOND_NS / u64::from(self.count.get())).max(1)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = Period::ALL.iter().find(|(_, period)| *period == self.per).map_or("s", |(name, _)| name);
        write!(f, "{}/{per}", self.count)
    }
}

/// A rate, and how much may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// What one admission costs, in nanoseconds.
    pub(crate) interval_ns: u64,
    /// How far ahead of the present all may be paid for, in nanoseconds.
    pub(crate) ahead_ns: u64,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paid {
    /// It is admitted; all is paid for until then.
    Until(u64),
    /// It is refused; it would be admitted after this time.
    TooEarly(Duration),
}

impl Pace {
    pub(crate) fn new(rate: Rate, burst: NonZeroU32) -> Self {
        let interval_ns = rate.interval_ns();
        Self { interval_ns, ahead_ns: interval_ns.saturating_mul(u64::from(burst.get())) }
    }

    /// One more of a key whose admissions are paid for until `paid_until`; both in nanoseconds of one clock.
    #[inline]
    pub(crate) fn pay(self, paid_until: u64, now: u64) -> Paid {
        let until = paid_until.max(now).saturating_add(self.interval_ns);
        let ahead = until - now;
        if ahead <= self.ahead_ns {
            Paid::Until(until)
        } else {
            Paid::TooEarly(Duration::from_nanos(ahead - self.ahead_ns))
        }
    }

    /// How long one more is too early while all is paid for until `ahead_ns` nanoseconds from now.
    pub(crate) fn wait(self, ahead_ns: u64) -> Duration {
        Duration::from_nanos(ahead_ns.saturating_add(self.interval_ns).saturating_sub(self.ahead_ns))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    fn pace(count: u32, per: Period, burst: u32) -> Pace {
        Pace::new(Rate { count: number(count), per }, number(burst))
    }

    /// How many of those that come at these times, in nanoseconds, are admitted.
    fn admitted(pace: Pace, times: impl IntoIterator<Item = u64>) -> u64 {
        let (mut paid_until, mut admitted) = (0, 0);
        for now in times {
            if let Paid::Until(until) = pace.pay(paid_until, now) {
                paid_until = until;
                admitted += 1;
            }
        }
        admitted
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let ten = pace(10, Period::Second, 5);
        assert_eq!(admitted(ten, vec![SECOND_NS; 100]), 5);
        assert_eq!(admitted(ten, (0..1000).map(|ms| SECOND_NS + ms * 1_000_000)), 5 + 9);
        let one = pace(1, Period::Second, 1);
        assert_eq!(one.pay(3 * SECOND_NS, 2 * SECOND_NS), Paid::TooEarly(Duration::from_secs(1)));
        assert_eq!(one.pay(2 * SECOND_NS, 2 * SECOND_NS), Paid::Until(3 * SECOND_NS));
    }

    #[test]
    fn a_refused_client_is_admitted_after_the_time_that_it_got() {
        let slow = pace(3, Period::Hour, 2);
        let Paid::Until(first) = slow.pay(0, 5) else { panic!() };
        let Paid::Until(second) = slow.pay(first, 5) else { panic!() };
        let Paid::TooEarly(wait) = slow.pay(second, 5) else { panic!() };
        assert_eq!(wait, Duration::from_secs(1200));
        let then = 5 + u64::try_from(wait.as_nanos()).unwrap();
        assert!(matches!(slow.pay(second, then - 1), Paid::TooEarly(_)));
        assert!(matches!(slow.pay(second, then), Paid::Until(_)));
    }

    #[test]
    fn rates_as_they_are_written() {
        for (count, per, text) in [(100, Period::Second, "100/s"), (5, Period::Minute, "5/m"), (1, Period::Day, "1/d")]
        {
            assert_eq!(Rate { count: number(count), per }.to_string(), text);
        }
    }

    proptest! {
        /// In no window more than the burst and what the rate gives.
        #[test]
        fn never_more_than_promised(
            count in 1..2000_u32, burst in 1..50_u32, steps in prop::collection::vec(0..2_000_000_u64, 1..500),
        ) {
            let pace = pace(count, Period::Second, burst);
            let (mut paid_until, mut now, mut times) = (0, SECOND_NS, Vec::new());
            for step in steps {
                now += step;
                if let Paid::Until(until) = pace.pay(paid_until, now) {
                    paid_until = until;
                    times.push(now);
                }
            }
            for (first, from) in times.iter().enumerate() {
                for (last, to) in times.iter().enumerate().skip(first) {
                    let most = u64::from(burst) + (to - from) / pace.interval_ns;
                    prop_assert!((last - first + 1) as u64 <= most);
                }
            }
        }
    }
}
