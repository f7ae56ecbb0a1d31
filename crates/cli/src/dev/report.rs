//! What a developer is told of starts: how long they took, what went wrong, and that they go on.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use pilotlight_dev::Columns;
use pilotlight_supervisor::{Service, ServiceState};

use crate::service_log::terminal_width;
use crate::standard_error::StandardError;

/// How often a service that starts is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// After this time a start is spoken of, and then again as often.
const SLOW_START: Duration = Duration::from_secs(2);

/// Prints lines of `pilotlight dev` itself.
#[derive(Clone)]
pub(super) struct Says {
    pub(super) stderr: StandardError,
    pub(super) columns: Columns,
}

impl Says {
    pub(super) fn line(&self, text: &str) {
        self.stderr.print(&self.columns.own(text, terminal_width()));
    }

    pub(super) fn error(&self, text: &str) {
        self.stderr.print(&self.columns.error(text, terminal_width()));
    }
}

/// A start that is waited for.
pub(super) struct Started {
    pub(super) service: Arc<Service>,
    /// When it was asked for.
    pub(super) at: Instant,
    /// Instances that there were before, ready ones and failures.
    pub(super) before: (u64, u64),
    /// Why: `app.py`.
    pub(super) because: String,
}

/// How often a service was ready, and how often it failed to become so.
pub(super) fn counts(service: &Service) -> (u64, u64) {
    let status = service.status();
    (status.starts, status.failed_starts)
}

/// Tells of starts until nobody sends any more. Of a service only the last start counts.
pub(super) fn run(starts: Receiver<Started>, says: Says) -> io::Result<()> {
    let tell = move || {
        let mut waiting: Vec<(Started, Duration)> = Vec::new();
        loop {
            let next = if waiting.is_empty() {
                starts.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                starts.recv_timeout(LOOK_EVERY)
            };
            match next {
                Ok(started) => {
                    waiting.retain(|(other, _)| !Arc::ptr_eq(&other.service, &started.service));
                    waiting.push((started, SLOW_START));
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            waiting.retain_mut(|(started, speak_at)| !is_told(started, speak_at, &says));
        }
    };
    std::thread::Builder::new().name("starts".into()).spawn(tell).map(drop)
}

/// Whether there is nothing more to tell of it.
fn is_told(started: &Started, speak_at: &mut Duration, says: &Says) -> bool {
    let Started { service, at, before, because } = started;
    let (name, took, status) = (service.name(), at.elapsed(), service.status());
    if status.failed_starts > before.1 {
        let why = status.last_error.map_or_else(|| "it did not start".to_owned(), |error| error.reason.to_string());
        says.error(&format!("{because} · {name}: {why}"));
        return true;
    }
    if status.starts > before.0 && status.state == ServiceState::Ready {
        let elsewhere = status.instances.iter().find_map(|one| one.listens_at);
        let elsewhere = elsewhere.map_or_else(String::new, |at| format!(", at {at} and not at its $PORT"));
        says.line(&format!("{because} · {name} is ready after {} ms{elsewhere}", took.as_millis()));
        return true;
    }
    if took >= *speak_at && status.state == ServiceState::Stopped && service.waiting() == 0 {
        return true; // it runs when somebody asks for it
    }
    if took >= *speak_at {
        says.line(&format!("{name} is starting, {} s so far", took.as_secs()));
        *speak_at += if took < 5 * SLOW_START { SLOW_START } else { 5 * SLOW_START };
    }
    false
}
