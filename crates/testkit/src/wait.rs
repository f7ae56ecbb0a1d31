//! Bounded polling.

use crate::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two looks where a few milliseconds do not matter.
pub(crate) const EVERY: Duration = Duration::from_millis(5);

/// One look at something awaited.
pub(crate) enum Look<T> {
    Here(T),
    /// Not yet, and what was seen instead.
    NotYet(String),
}

/// Looks until it is here. An error of a look counts as "not yet": a node that is starting, stopped or dying refuses
/// connections.
pub(crate) fn until<T>(
    what: &str,
    within: Duration,
    every: Duration,
    mut look: impl FnMut() -> Result<Look<T>, Error>,
) -> Result<T, Error> {
    let deadline = Instant::now() + within;
    loop {
        let last = match look() {
            Ok(Look::Here(value)) => return Ok(value),
            Ok(Look::NotYet(seen)) => seen,
            Err(error) => error.to_string(),
        };
        if Instant::now() >= deadline {
            return Err(Error::Timeout { what: what.to_owned(), within, last });
        }
        sleep(every);
    }
}
