//! How late this machine is by itself: a loaded one is no fault of the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

const EVERY: Duration = Duration::from_millis(5);
/// Less than this is what timers are always late by.
const USUAL: Duration = Duration::from_millis(2);
/// A client may be later than a deadline by this, and by what the machine is late.
const LATENESS: Duration = Duration::from_millis(50);
const SAMPLERS: usize = 2;

/// Every lateness of some timers. The tasks that measure end with the last handle.
pub(crate) struct Lag(Mutex<Vec<Late>>);

struct Late {
    due: Instant,
    came: Instant,
}

impl Lag {
    pub(crate) fn start() -> Arc<Self> {
        let lag = Arc::new(Self(Mutex::default()));
        for _ in 0..SAMPLERS {
            let weak = Arc::downgrade(&lag);
            tokio::spawn(async move {
                loop {
                    let due = Instant::now() + EVERY;
                    tokio::time::sleep_until(due.into()).await;
                    let (Some(lag), came) = (weak.upgrade(), Instant::now()) else { return };
                    if came - due > USUAL {
                        lag.0.lock().push(Late { due, came });
                    }
                }
            });
        }
        lag
    }

    /// Whether what began then and had so much time was in time, if it took that long. To be asked some milliseconds
    /// later.
    pub(crate) fn excuses(&self, begin: Instant, limit: Duration, took: Duration) -> bool {
        let end = begin + took;
        let late = self.0.lock();
        let overlapping = late.iter().filter(|late| late.came >= begin && late.due <= end);
        // A call is a chain of timers and wake-ups, each of which may be late.
        took <= limit + LATENESS + overlapping.map(|late| late.came - late.due).sum::<Duration>()
    }

    /// Fails the test if what began then is over its limit by now.
    pub(crate) async fn assert_in_time(&self, begin: Instant, limit: Duration) {
        let took = begin.elapsed();
        tokio::time::sleep(EVERY * 3).await;
        assert!(self.excuses(begin, limit, took), "{took:?} instead of {limit:?}");
    }

    pub(crate) fn longest(&self) -> Duration {
        self.0.lock().iter().map(|late| late.came - late.due).max().unwrap_or_default()
    }
}
