//! A service whose socket takes no further connection: its backlog is full (Linux says so with `EAGAIN`, on Unix
//! sockets only).
//!
//! Whoever meets that waits as those do that wait for an instance, under the same settings: at most `queue.max`
//! requests, for `queue.timeout` at most. The kernel tells nobody when there is room, so they look again, ever more
//! slowly.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pilotlight_supervisor::Service;

use super::UpstreamError;
use crate::net::{Place, Socket};

/// Between two looks: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// What is said to a client that may come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Connects, and waits for a place in the backlog if there is none. `service`: whose settings apply; none: it is
/// somebody else's, and nothing is waited for.
pub(super) async fn connect(
    place: Place<'_>,
    name: &str,
    service: Option<&Arc<Service>>,
) -> Result<Socket, UpstreamError> {
    let first = match Socket::connect(place).await {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => e,
        done => return done.map_err(|e| unreachable(name, place, &e)),
    };
    let Some(service) = service else { return Err(full(name, format!("{first}"))) };
    let limits = service.status().spec.queue;
    let Some(_waiting) = Waiting::join(service.backlogged(), limits.max) else {
        let text = format!(
            "its backlog is full, and {} requests wait for a place in it (services.{name}.queue.max)",
            limits.max
        );
        return Err(full(name, text));
    };
    let (begun, mut pause) = (Instant::now(), PAUSE.0);
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
        match Socket::connect(place).await {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            done => return done.map_err(|e| unreachable(name, place, &e)),
        }
        if begun.elapsed() >= limits.timeout {
            let seconds = limits.timeout.as_secs_f32();
            return Err(full(name, format!("its backlog was full for services.{name}.queue.timeout ({seconds} s)")));
        }
    }
}

fn full(name: &str, text: String) -> UpstreamError {
    UpstreamError::Overloaded { service: name.to_owned(), text, retry_after: RETRY_AFTER }
}

fn unreachable(name: &str, place: Place<'_>, error: &io::Error) -> UpstreamError {
    UpstreamError::Connect { service: name.to_owned(), place: place.to_string(), cause: error.to_string() }
}

/// One request that waits, while it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    /// `None`: there are as many already as may be.
    fn join(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let joined = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| (now < max).then_some(now + 1));
        joined.is_ok().then_some(Self(count))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
