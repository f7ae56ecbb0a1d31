//! A service whose socket takes no further connection: its backlog is full (Linux says so with `EAGAIN`, on Unix
//! sockets only).
//!
//! A request that meets one waits under the settings of those that wait for an instance, and is counted with them. The
//! kernel tells nobody when there is room, so the request looks again, ever more slowly.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pilotlight_supervisor::Service;

use super::{CameTo, SendError, UpstreamError};
use crate::net::{Destination, Socket};

/// Between two looks: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// What is said to a client that may come again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Connects, and waits for a place in the backlog if there is none. `service`: whose settings apply; none: it is
/// somebody else's, and nothing is waited for.
pub(super) async fn connect(
    place: Destination<'_>,
    name: &str,
    service: Option<&Arc<Service>>,
) -> Result<Socket, SendError> {
    let full = match Socket::connect(place).await {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => e,
        done => return done.map_err(|e| unreachable(name, place, &e)),
    };
    let Some(service) = service else {
        let (service, text) = (name.to_owned(), full.to_string());
        return Err(UpstreamError::Overloaded { service, text, retry_after: RETRY_AFTER }.into());
    };
    let waiting = service.wait().map_err(SendError::Start)?;
    let connected = waiting.within("its socket took no connection", look_again(place)).await;
    connected.map_err(SendError::Start)?.map_err(|e| unreachable(name, place, &e))
}

/// Connects as soon as there is room.
async fn look_again(place: Destination<'_>) -> io::Result<Socket> {
    let mut pause = PAUSE.0;
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
        match Socket::connect(place).await {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

fn unreachable(name: &str, place: Destination<'_>, error: &io::Error) -> SendError {
    let (service, place, cause) = (name.to_owned(), place.to_string(), error.to_string());
    UpstreamError::Connect { service, place, cause, came: CameTo::Nobody }.into()
}
