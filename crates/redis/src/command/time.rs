//! Parameters that are times: a number in the command's own unit, as it is, or a [`Duration`] or [`SystemTime`].
//!
//! A time is rounded up to the unit, so that nothing ends before it: a key lives at least so long, a command waits at
//! least so long. Where the server takes 0 for "at once" or "for ever", a time of zero is most often a mistake: it is
//! refused ([`Misuse::Argument`](crate::Misuse::Argument)) before anything is sent. A number 0 is sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::arg::Arg;

/// Longest time that is sent: half of what 64 bits of milliseconds hold, so that now and it are a time that servers
/// can write down.
const MAX_MILLISECONDS: u128 = (i64::MAX / 2) as u128;

const TOO_LONG: &str = "the time is longer than 146 million years";
const ZERO_SECONDS: &str = "the time is zero; if the key is to go at once, use DEL or the number 0";
const ZERO_MILLISECONDS: &str =
    "the time is zero: the server would end it at once, or never; give the number 0 for that";
const ZERO_WAIT: &str = "the time is zero: the server would wait for ever; give the number 0 for that";
const BEFORE_1970: &str = "the time is before 1970";

macro_rules! time {
    ($(#[$doc:meta])* $name:ident from $($number:ty),*; $from:ty => $convert:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name(Arg<'static>);

        impl $name {
            #[inline]
            pub(crate) fn of(time: impl Into<Self>) -> Arg<'static> {
                time.into().0
            }
        }

        impl From<$from> for $name {
            #[inline]
            fn from(time: $from) -> Self {
                let convert: fn($from) -> Result<Arg<'static>, &'static str> = $convert;
                Self(convert(time).unwrap_or_else(Arg::Invalid))
            }
        }

        impl From<&$from> for $name {
            #[inline]
            fn from(time: &$from) -> Self {
                Self::from(*time)
            }
        }

        $(
            impl From<$number> for $name {
                #[inline]
                fn from(number: $number) -> Self {
                    Self(Arg::from(number))
                }
            }
        )*
    };
}

time! {
    /// A time to live in seconds: a whole number, or a [`Duration`], which is rounded up to whole seconds and must not
    /// be zero.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use pilotlight_redis::{Client, Commands, Error};
    /// # async fn example(client: &Client) -> Result<(), Error> {
    /// client.expire("session", 60).await?;
    /// client.expire("session", Duration::from_millis(1500)).await?;      // 2 s
    /// # Ok(()) }
    /// ```
    Seconds from i32, i64, u8, u16, u32, u64, usize;
    Duration => |time| whole(time, Duration::from_secs(1), Some(ZERO_SECONDS))
}

time! {
    /// A time in milliseconds: a whole number, or a [`Duration`], which is rounded up to whole milliseconds and must
    /// not be zero.
    Milliseconds from i32, i64, u8, u16, u32, u64, usize;
    Duration => |time| whole(time, Duration::from_millis(1), Some(ZERO_MILLISECONDS))
}

time! {
    /// How long something must have been idle, in milliseconds: a whole number, or a [`Duration`], which is rounded up
    /// to whole milliseconds. Zero is a time like any other.
    IdleMilliseconds from i32, i64, u8, u16, u32, u64, usize;
    Duration => |time| whole(time, Duration::from_millis(1), None)
}

time! {
    /// How long a command waits in the server, in seconds: a number, of which 0 is for ever, or a [`Duration`], which
    /// is rounded up to whole milliseconds and must not be zero.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use pilotlight_redis::{Client, Commands, Error};
    /// # async fn example(client: &Client) -> Result<(), Error> {
    /// client.blpop("jobs", 0.5).await?;
    /// client.blpop("jobs", Duration::from_millis(500)).await?;
    /// # Ok(()) }
    /// ```
    WaitSeconds from f32, f64, i32, i64, u8, u16, u32, u64, usize;
    Duration => wait
}

time! {
    /// A Unix time in seconds: a whole number, or a [`SystemTime`] not before 1970, which is rounded up to whole
    /// seconds.
    UnixSeconds from i32, i64, u32, u64;
    SystemTime => |time| whole(since_epoch(time)?, Duration::from_secs(1), None)
}

time! {
    /// A Unix time in milliseconds: a whole number, or a [`SystemTime`] not before 1970, which is rounded up to whole
    /// milliseconds.
    UnixMilliseconds from i32, i64, u32, u64;
    SystemTime => |time| whole(since_epoch(time)?, Duration::from_millis(1), None)
}

/// How many units `time` is, rounded up.
fn whole(time: Duration, unit: Duration, zero: Option<&'static str>) -> Result<Arg<'static>, &'static str> {
    match zero {
        Some(why) if time.is_zero() => return Err(why),
        _ if time.as_millis() > MAX_MILLISECONDS => return Err(TOO_LONG),
        _ => {}
    }
    let units = time.as_nanos().div_ceil(unit.as_nanos());
    i64::try_from(units).map(Arg::Integer).map_err(|_| TOO_LONG)
}

fn wait(time: Duration) -> Result<Arg<'static>, &'static str> {
    match whole(time, Duration::from_millis(1), Some(ZERO_WAIT))? {
        Arg::Integer(milliseconds) if milliseconds % 1000 == 0 => Ok(Arg::Integer(milliseconds / 1000)),
        #[expect(clippy::cast_precision_loss, reason = "waits of more than 285,000 years are not exact")]
        Arg::Integer(milliseconds) => Ok(Arg::Double(milliseconds as f64 / 1000.0)),
        other => Ok(other),
    }
}

fn since_epoch(time: SystemTime) -> Result<Duration, &'static str> {
    time.duration_since(UNIX_EPOCH).map_err(|_| BEFORE_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arg: Arg<'static>, expected: &str) {
        match arg {
            Arg::Invalid(why) => assert!(!expected.is_empty() && why.contains(expected), "{why}"),
            arg => assert_eq!(String::from_utf8_lossy(&arg.to_bytes()), expected),
        }
    }

    const NANOSECOND: Duration = Duration::from_nanos(1);

    #[test]
    fn a_number_is_sent_as_it_is() {
        check(Seconds::of(0), "0");
        check(Seconds::of(-1), "-1");
        check(Seconds::of(60_u32), "60");
        check(Milliseconds::of(u64::MAX), "18446744073709551615");
        check(WaitSeconds::of(0), "0");
        check(WaitSeconds::of(0.0), "0");
        check(WaitSeconds::of(0.25_f32), "0.25");
        check(UnixSeconds::of(1_700_000_000), "1700000000");
    }

    #[test]
    fn a_duration_is_rounded_up() {
        check(Seconds::of(Duration::from_secs(60)), "60");
        check(Seconds::of(Duration::from_secs(60) + NANOSECOND), "61");
        check(Seconds::of(NANOSECOND), "1");
        check(Milliseconds::of(Duration::from_micros(1500)), "2");
        check(Milliseconds::of(Duration::from_secs(1)), "1000");
        check(IdleMilliseconds::of(Duration::from_micros(1)), "1");
        check(WaitSeconds::of(Duration::from_secs(2)), "2");
        check(WaitSeconds::of(Duration::from_millis(250)), "0.25");
        check(WaitSeconds::of(NANOSECOND), "0.001");
    }

    #[test]
    fn zero_and_eternity_are_refused() {
        check(Seconds::of(Duration::ZERO), "zero");
        check(Milliseconds::of(Duration::ZERO), "zero");
        check(WaitSeconds::of(Duration::ZERO), "for ever");
        check(IdleMilliseconds::of(Duration::ZERO), "0");
        check(Seconds::of(Duration::MAX), "longer than");
        check(Milliseconds::of(Duration::MAX), "longer than");
        check(WaitSeconds::of(Duration::MAX), "longer than");
        check(Seconds::of(Duration::from_millis(i64::MAX as u64 / 2)), "4611686018427388");
        check(Seconds::of(Duration::from_millis(i64::MAX as u64 / 2 + 1)), "longer than");
    }

    #[test]
    fn a_point_in_time_is_counted_from_1970() {
        let time = UNIX_EPOCH + Duration::from_millis(1_700_000_000_001);
        check(UnixSeconds::of(time), "1700000001");
        check(UnixMilliseconds::of(time + NANOSECOND), "1700000000002");
        check(UnixSeconds::of(UNIX_EPOCH), "0");
        check(UnixSeconds::of(UNIX_EPOCH - NANOSECOND), "1970");
    }
}
