//! A connection on which a reply is due and nothing comes: is it slow or dead?
//!
//! From outside a slow command and a dead connection look alike, so silence alone never ends a connection:
//!
//! - Silence for [`stall`](crate::config::Probe::stall) makes the node suspect: the cluster's topology is asked for,
//!   and reads avoid the node if they may: those that wait for a replica ask the primary. If the topology says that the
//!   node is gone, its lane is retired; else everybody goes on waiting.
//! - When the deadline of the oldest command has passed, or no caller has a command on the connection, the node is
//!   asked for a sign of life on a connection of its own. It answers: this connection is half-open, and given up. It is
//!   busy with a script: this connection may be well. It does not answer: the connection is kept while anybody waits
//!   for a reply, up to [`MAX_SILENCE`].
//!
//! A peer whose kernel does not acknowledge what was written is the kernel's to notice:
//! [`tcp_user_timeout`](crate::Config::tcp_user_timeout).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::body::Lane;
use super::settings::Sign;
use super::state::{Oldest, State};
use crate::error::ErrorKind;

/// A node that is silent everywhere for so long is given up, once the deadline of the oldest command has passed,
/// although others still wait for it.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(10);

/// What a session knows about its connection's silence.
#[derive(Default)]
pub(super) struct Silence {
    /// It has lasted for so long that the node is suspect.
    is_suspected: bool,
    probe: Option<Pin<Box<dyn Future<Output = Sign> + Send>>>,
    /// No other probe before.
    probe_after: Option<Instant>,
}

impl Silence {
    /// Whether a probe's outcome has to be looked for in each turn.
    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Something was read.
    #[inline]
    pub(super) fn end(&mut self, lane: &Lane) {
        if self.is_suspected {
            self.is_suspected = false;
            lane.is_suspect.store(false, Ordering::Relaxed);
        }
    }

    /// A reply is overdue.
    #[cold]
    pub(super) fn go_on(&mut self, lane: &Arc<Lane>, cx: &mut Context<'_>, now: Instant) {
        if !self.is_suspected {
            self.is_suspected = true;
            lane.is_suspect.store(true, Ordering::Relaxed);
            tracing::debug!(server.address = &*lane.node(), "no sign of life while a reply is due");
            lane.watch.stalled();
            lane.wake_readers();
        }
        let is_soon = self.probe_after.is_some_and(|at| now < at);
        if self.probe.is_some() || is_soon || lane.shared.lock().state.oldest(now) == Oldest::Waits {
            return;
        }
        tracing::debug!(server.address = &*lane.node(), "a deadline has passed in silence: the node is probed");
        let (lane, address) = (Arc::clone(lane), lane.address());
        self.probe = Some(Box::pin(async move { lane.dial.probe(&address).await }));
        cx.waker().wake_by_ref();
    }

    /// Looks for the outcome of the probe.
    pub(super) fn poll_probe(&mut self, lane: &Lane, stall: Duration, cx: &mut Context<'_>) -> Result<(), ErrorKind> {
        let Some(probe) = &mut self.probe else { return Ok(()) };
        let Poll::Ready(sign) = probe.as_mut().poll(cx) else { return Ok(()) };
        let now = Instant::now();
        self.probe = None;
        self.probe_after = Some(now + stall);
        judge(sign, &lane.shared.lock().state, stall, now)
    }
}

/// Whether the connection is dead.
fn judge(sign: Sign, state: &State, stall: Duration, now: Instant) -> Result<(), ErrorKind> {
    if !state.is_stalled(now, stall) || state.oldest(now) == Oldest::Waits {
        return Ok(());
    }
    let is_needed = || state.is_awaited() && !state.is_stalled(now, MAX_SILENCE.max(stall));
    match sign {
        Sign::Busy => Ok(()),
        Sign::Alive => Err(ErrorKind::Connection(
            "half-open: the node answers on a new connection, and not on this one by the deadline of its oldest command"
                .into(),
        )),
        Sign::None if is_needed() => Ok(()),
        Sign::None => Err(ErrorKind::Connection("the node does not answer".into())),
    }
}
