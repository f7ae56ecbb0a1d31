//! The task that renews a lock, and gives it back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::server::{Renewed, ServerLock};
use super::state::{Held, Lost};
use crate::error::Advice;
use crate::recipes::pause::Pauses;

/// What the guard wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Orders {
    Keep,
    Release,
}

/// Renews the lock until its guard wants it released, or is dropped, or it is lost.
pub(super) async fn keep(
    lock: Arc<ServerLock>,
    holder: Arc<[u8]>,
    state: watch::Sender<Held>,
    mut orders: watch::Receiver<Orders>,
) {
    let lost = tokio::select! {
        biased;
        // Released, or dropped: the sender has gone.
        _ = orders.wait_for(|orders| *orders == Orders::Release) => None,
        lost = renewals(&lock, &holder, &state) => Some(lost),
    };
    let end = match lost {
        Some(lost) => Held::Lost(lost),
        None => match lock.release(&holder).await {
            Ok(true) => Held::Released,
            Ok(false) => Held::Lost(Lost::Taken),
            Err(_) => Held::Lost(Lost::Expired),
        },
    };
    state.send_replace(end);
}

/// Renews it every third of its time to live, and sooner after a failure. Ends when it is lost.
async fn renewals(lock: &ServerLock, holder: &[u8], state: &watch::Sender<Held>) -> Lost {
    let every = lock.ttl / 3;
    let mut pauses = Pauses::up_to(every);
    let mut pause = every;
    loop {
        let Held::Until(until) = *state.borrow() else { return Lost::Expired };
        if tokio::time::timeout_at(until.into(), tokio::time::sleep(pause)).await.is_err() {
            return Lost::Expired;
        }
        let since = Instant::now();
        let left = until.saturating_duration_since(since);
        if left.is_zero() {
            return Lost::Expired;
        }
        pause = match lock.renew(holder, left.max(Duration::from_millis(1))).await {
            Ok(Renewed::Yes) => {
                state.send_replace(Held::Until(lock.valid_until(since)));
                pauses.reset();
                every
            }
            Ok(Renewed::Gone) => return Lost::Taken,
            Err(error) if error.advice() == Advice::Never && error.server().is_none() => return Lost::Expired,
            Err(_) => pauses.take(),
        };
    }
}
