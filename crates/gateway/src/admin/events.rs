//! `GET /events`: the board as a stream of events (server-sent events, as HTML's standard has them).

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use pilotlight_printable as printable;
use tokio::time::{Interval, MissedTickBehavior};

use super::looks::{MAX_WATCHERS, PERIOD, Watcher};
use super::refused::{Refused, refused};
use super::shared::Shared;

/// The media type.
pub(super) const CONTENT_TYPE: &str = "text/event-stream";

/// Events that go on. It holds none: a reader that is slow gets fewer of them.
pub(super) struct Events {
    watcher: Watcher,
    tick: Interval,
}

impl Events {
    /// The first one comes at once, and has everything.
    pub(super) fn new(shared: &Arc<Shared>) -> Result<Self, Refused> {
        let watcher = Watcher::new(shared).ok_or_else(|| {
            let detail = format!("{MAX_WATCHERS} dashboards watch this gateway already; close one of them");
            refused(StatusCode::SERVICE_UNAVAILABLE, detail)
        })?;
        let mut tick = tokio::time::interval(PERIOD);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { watcher, tick })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Bytes> {
        ready!(self.tick.poll_tick(cx));
        Poll::Ready(printable::json(self.watcher.next()).into())
    }
}
