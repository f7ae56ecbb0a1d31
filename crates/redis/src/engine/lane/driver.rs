//! A lane's driver: connects, runs the session, reports the loss, pauses, connects again; ends when the lane is closed.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::body::{Lane, Phase, Shared};
use super::session::{Ended, Session};
use super::settings::{DialError, WhenDown};
use super::state::TICK;
use super::state::leave::Circumstances;
use crate::credentials::Credentials;
use crate::error::ErrorKind;
use crate::net::connection::Connection;
use crate::net::stream::InlineWriter;
use crate::net::wire::{READ_BYTES, Wire};

/// A connection that held for less, and on which nothing was read or what is no reply, counts as a failed attempt: a
/// server that accepts everybody and throws them out is not to be stormed.
const STEADY: Duration = Duration::from_secs(1);

/// See the module. When it is dropped before its end, as its runtime is shut down, the lane is as new: the next command
/// starts another driver.
pub(super) struct Driver {
    lane: Arc<Lane>,
    has_ended: bool,
}

impl Driver {
    pub(super) fn new(lane: Arc<Lane>) -> Self {
        Self { lane, has_ended: false }
    }

    /// Runs until the lane is closed.
    pub(super) async fn run(mut self) {
        drive_and_renew(&self.lane).await;
        self.has_ended = true;
        self.lane.end(Phase::Closed, &ErrorKind::Closed);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.has_ended {
            let kind = ErrorKind::Connection("the tokio runtime that the connection lived on was shut down".into());
            self.lane.end(Phase::New, &kind);
        }
    }
}

/// Asks for each change of the credentials to be made known on the connection.
async fn renew(lane: &Lane, mut changes: watch::Receiver<Option<Credentials>>) {
    // The first connection begins with what is known now.
    changes.mark_unchanged();
    while changes.changed().await.is_ok() {
        let credentials = changes.borrow_and_update().clone();
        if credentials.is_some() {
            lane.shared.lock().renewal = credentials;
        }
    }
}

/// Connects again and again, and takes up new credentials meanwhile.
async fn drive_and_renew(lane: &Arc<Lane>) {
    let mut drive = pin!(drive(lane));
    let Some(changes) = lane.dial.changes() else { return drive.await };
    let mut renew = pin!(renew(lane, changes));
    let mut is_over = false;
    poll_fn(|cx| {
        // It ends with its provider, and what it asks for is done in the same turn.
        is_over = is_over || renew.as_mut().poll(cx).is_ready();
        drive.as_mut().poll(cx)
    })
    .await;
}

async fn drive(lane: &Arc<Lane>) {
    let mut failures = 0;
    loop {
        lane.watch.dialling();
        let Some(dialled) = while_down(lane, lane.dial.dial()).await else { return };
        failures += 1;
        match dialled {
            Ok(connection) => {
                let begin = Instant::now();
                let is_sane;
                match serve(lane, connection).await {
                    Ended::Drained => return,
                    Ended::Lost(kind) => {
                        is_sane = !matches!(kind, ErrorKind::Protocol(_)) && lane.has_read_since(begin);
                        lane.lose(&kind);
                    }
                }
                if begin.elapsed() >= STEADY || is_sane {
                    // The first attempt after a loss comes soon, yet not from all clients at once.
                    failures = 0;
                }
            }
            Err(error) => lane.miss(&error),
        }
        let pause = lane.settings.backoff.pause(failures, &mut fastrand::Rng::new());
        if while_down(lane, tokio::time::timeout(pause, lane.hurry.notified())).await.is_none() {
            return;
        }
    }
}

async fn serve(lane: &Arc<Lane>, connection: Connection) -> Ended {
    let Connection { address, transport, mut decoder, read_buffer, pushes, server, credentials, budget } = connection;
    decoder.use_spares(Arc::clone(&lane.spares) as _);
    let (wire, inline) = Wire::split(transport, decoder, read_buffer, budget, READ_BYTES);
    let _connected = Connected::new(lane);
    let mut session = Session::new(lane, wire, credentials);
    {
        let mut shared = lane.shared.lock();
        shared.state.counters.pushes += pushes.len() as u64;
        shared.state.counters.connects += 1;
        shared.mode = server.mode;
        if shared.address != address {
            shared.node = address.to_string().into();
            shared.address = address.clone();
        }
    }
    tracing::debug!(server.address = %address, lane.role = ?lane.role(), "connected");
    lane.watch.up(&address, &server);
    pushes.into_iter().for_each(|push| lane.watch.pushed(push));
    // Before any command is sent on it.
    if let Err(kind) = session.digest() {
        return Ended::Lost(kind);
    }
    lane.open(inline);
    session.run(lane).await
}

/// There is a connection. However it ends, even if the driver is dropped with its runtime, it ends before anybody is
/// told.
struct Connected<'l>(&'l Lane);

impl<'l> Connected<'l> {
    fn new(lane: &'l Lane) -> Self {
        lane.epoch.fetch_add(1, Ordering::Release);
        Self(lane)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        // In this order: who sees the next connection's number sees what was told of this one's end, too.
        self.0.watch.disconnected();
        self.0.epoch.fetch_add(1, Ordering::Release);
    }
}

/// Awaits `future` while there is no connection, ending the waits whose deadlines pass. `None`: the lane was closed.
async fn while_down<T>(lane: &Lane, future: impl Future<Output = T>) -> Option<T> {
    const CIRCUMSTANCES: Circumstances = Circumstances { is_connected: false, unparsed_bytes: 0, lag: Duration::ZERO };
    let mut future = pin!(future);
    let mut sleep = pin!(tokio::time::sleep(TICK));
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        loop {
            let mut wakers = Vec::new();
            let (is_waiting, has_room) = {
                let mut shared = lane.shared.lock();
                if matches!(shared.phase, Phase::Draining | Phase::Closed) {
                    return Poll::Ready(None);
                }
                shared.driver = Some(cx.waker().clone());
                shared.state.advance(Instant::now());
                shared.state.expire(CIRCUMSTANCES, &mut wakers);
                (!shared.state.is_idle(), lane.is_room_wanted(&shared))
            };
            wakers.into_iter().for_each(Waker::wake);
            lane.tell_room(has_room);
            if !is_waiting || sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            sleep.as_mut().reset((Instant::now() + TICK).into());
        }
    })
    .await
}

impl Lane {
    fn has_read_since(&self, begin: Instant) -> bool {
        self.shared.lock().state.has_read_since(begin)
    }

    /// There is a connection.
    fn open(&self, inline: Option<InlineWriter>) {
        let now = Instant::now();
        let mut shared = self.shared.lock();
        if matches!(shared.phase, Phase::Down(_)) {
            shared.phase = Phase::Up;
        }
        shared.inline = inline;
        shared.ticking = true;
        shared.condemned = None;
        shared.connected_at = now;
        shared.state.problem = None;
        shared.state.note_connected(now);
    }

    /// The connection is lost.
    fn lose(&self, kind: &ErrorKind) {
        let mut wakers = Vec::new();
        {
            let mut shared = self.shared.lock();
            self.is_suspect.store(false, Ordering::Relaxed);
            shared.inline = None;
            shared.condemned = None;
            shared.ticking = false;
            shared.state.counters.disconnects += 1;
            shared.state.fail_in_flight(kind, &mut wakers);
            self.fall(&mut shared, kind, self.settings.when_down == WhenDown::Fail, &mut wakers);
        }
        tracing::info!(server.address = &*self.node(), reason = %kind, "connection lost");
        self.watch.down(&kind.to_string());
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// No connection could be made.
    fn miss(&self, error: &DialError) {
        let mut wakers = Vec::new();
        {
            let mut shared = self.shared.lock();
            shared.state.counters.connect_failures += 1;
            let text = error.text.clone();
            let kind = if error.is_final { ErrorKind::Rejected(text) } else { ErrorKind::Connect(text) };
            let is_told = error.is_final || self.settings.when_down == WhenDown::Fail;
            self.fall(&mut shared, &kind, is_told, &mut wakers);
        }
        tracing::info!(
            server.address = &*self.node(),
            reason = &*error.text,
            is_final = error.is_final,
            "cannot connect"
        );
        self.watch.down(&error.text);
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
    }

    fn fall(&self, shared: &mut Shared, kind: &ErrorKind, is_told: bool, wakers: &mut Vec<Waker>) {
        shared.state.problem = Some(match kind {
            ErrorKind::Connect(reason) | ErrorKind::Rejected(reason) => reason.told(kind.to_string()),
            kind => kind.to_string().into(),
        });
        if is_told {
            shared.state.fail_queued(kind, wakers);
        }
        if !matches!(shared.phase, Phase::Draining | Phase::Closed) {
            shared.phase = Phase::Down(Some(kind.clone()));
        }
    }

    /// Nothing more will happen here: whoever waits is told. A lane that was closed stays so, whatever the next phase
    /// is to be.
    pub(super) fn end(&self, next: Phase, kind: &ErrorKind) {
        let mut wakers = Vec::new();
        let inline;
        {
            let mut shared = self.shared.lock();
            shared.phase = match shared.phase {
                Phase::Draining | Phase::Closed => Phase::Closed,
                _ => next,
            };
            shared.ticking = false;
            inline = shared.inline.take();
            wakers.extend(shared.driver.take());
            shared.state.fail_in_flight(kind, &mut wakers);
            shared.state.fail_queued(kind, &mut wakers);
            if matches!(shared.phase, Phase::Closed) {
                wakers.append(&mut shared.enders);
            }
        }
        // It has no more to say about the runtime that it lived on than its driver.
        drop(inline);
        self.room.notify_waiters();
        wakers.into_iter().for_each(Waker::wake);
    }
}
