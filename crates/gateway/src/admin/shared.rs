//! What the responses of the interface are made from.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pilotlight_supervisor::Control;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::board::Board;
use super::logs::LogBook;
use super::order::Order;
use crate::metrics::recent::Recent;
use crate::metrics::sums::Times;
use crate::worker::Common;

/// How often a refusal is logged.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// What its responses are made from.
pub(super) struct Shared {
    pub(super) common: Arc<Common>,
    pub(super) dropped_access_lines: Option<Arc<AtomicU64>>,
    pub(super) dropped_log_lines: Vec<Arc<AtomicU64>>,
    pub(super) control: Control,
    pub(super) logs: LogBook,
    pub(super) config: Arc<dyn Fn() -> Value + Send + Sync>,
    pub(super) orders: UnboundedSender<Order>,
    pub(super) config_file: PathBuf,
    pub(super) runtime_dir: PathBuf,
    pub(super) begun: Instant,
    pub(super) refusals: Refusals,
    pub(super) recent: Mutex<Recent>,
    pub(super) board: Board,
}

impl Shared {
    /// Lines of the gateway and of services that were not written.
    pub(super) fn dropped_log_lines(&self) -> u64 {
        self.dropped_log_lines.iter().map(|lines| lines.load(Relaxed)).sum()
    }

    /// What was counted in the last minutes.
    pub(super) fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Once in [`crate::metrics::recent::TURN`].
    pub(super) fn turn(&self) {
        let all = self.common.metrics.all();
        let mut services: HashMap<&str, u64> = HashMap::with_capacity(all.len());
        for series in &all {
            *services.entry(&series.service).or_default() += series.requests();
        }
        let times = |name: &str| {
            let mut times = Times::default();
            all.iter().filter(|series| &*series.service == name).for_each(|series| times.add(series));
            times
        };
        self.recent().turn(Instant::now(), services.into_iter(), times);
    }
}

/// When the last refusal was logged, and how many were not since.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<(Option<Instant>, u64)>);

impl Refusals {
    pub(super) fn log(&self, why: &str) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, unsaid) = &mut *last;
        if at.is_some_and(|at| at.elapsed() < REFUSED_PAUSE) {
            *unsaid += 1;
            return;
        }
        tracing::warn!(since_the_last_line = *unsaid, "a connection to the admin socket was refused: {why}");
        (*at, *unsaid) = (Some(Instant::now()), 0);
    }
}
