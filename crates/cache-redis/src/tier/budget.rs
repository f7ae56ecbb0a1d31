//! The time that reads may take.

use std::pin::pin;
use std::time::Duration;

/// No response within the time.
pub(super) struct Late;

/// Waits for a future for a time. What becomes ready in the same turn of the event loop in which the time ends counts
/// as in time: a worker that was busy for longer than the budget looks at its sockets before it gives up.
///
/// # Cancel safety
/// That of the future.
pub(super) async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Result<T, Late> {
    let mut future = pin!(future);
    if let Ok(value) = tokio::time::timeout(time, &mut future).await {
        return Ok(value);
    }
    tokio::task::yield_now().await;
    tokio::select! {
        biased;
        value = &mut future => Ok(value),
        () = std::future::ready(()) => Err(Late),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, poll_fn, ready};
    use std::task::Poll;

    use super::*;

    const TIME: Duration = Duration::from_millis(6);

    #[tokio::test(start_paused = true)]
    async fn late_after_its_time_and_not_before() {
        let begun = tokio::time::Instant::now();
        assert!(matches!(within(TIME, ready(1)).await, Ok(1)));
        assert!(matches!(within(TIME, tokio::time::sleep(TIME / 2)).await, Ok(())));
        assert_eq!(begun.elapsed(), TIME / 2);
        assert!(matches!(within(TIME, pending::<()>()).await, Err(Late)));
        assert!(begun.elapsed() >= TIME + TIME / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_in_the_same_turn_counts() {
        let looks = Cell::new(0);
        let third_look = poll_fn(|_| {
            looks.set(looks.get() + 1);
            if looks.get() == 3 { Poll::Ready(()) } else { Poll::Pending }
        });
        assert!(matches!(within(TIME, third_look).await, Ok(())));
        assert_eq!(looks.get(), 3, "at the start, when the time is over, and once more");
    }
}
