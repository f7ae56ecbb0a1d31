//! Time limits of what is done on a connection.

use std::time::{Duration, Instant};

use crate::error::{ErrorKind, TimeoutReport, TimeoutStage};

pub(super) async fn bounded<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

pub(super) fn overdue(since: Instant, limit: Option<Duration>, stage: TimeoutStage) -> ErrorKind {
    let age = since.elapsed();
    ErrorKind::Timeout(Box::new(TimeoutReport {
        timeout: limit.unwrap_or(age),
        age,
        stage,
        problem: None,
        queued: 0,
        in_flight: usize::from(stage == TimeoutStage::Sent),
        in_flight_bytes: 0,
        queued_bytes: 0,
        unparsed_bytes: 0,
        last_read: None,
        runtime_lag: Duration::ZERO,
    }))
}
