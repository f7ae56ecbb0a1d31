//! One connection of a lane, from its handshake to its loss: reads, gives replies, writes waves, watches the clock.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use pilotlight_resp::{Frame, Value};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::yield_now;
use tokio::time::Sleep;

use super::body::{Condemned, Lane, Patience, Phase, Shared};
use super::clock::Clock;
use super::state::leave::Circumstances;
use super::state::{Doubt, Oldest, State, TICK};
use crate::credentials::Credentials;
use crate::error::ErrorKind;
use crate::net::renewal::Renewal;
use crate::net::stream::InlineWriter;
use crate::net::wire::Wire;

/// Reads and writes in one turn before other tasks get theirs.
const MAX_STEPS_PER_TURN: u32 = 16;

/// Replies given to their callers in one critical section.
const MAX_BATCH: usize = 256;

/// So many bytes are not kept waiting for more ([`flush_delay`](crate::Config::flush_delay)).
const MAX_GATHERED_BYTES: usize = 64 * 1024;

/// The shortest sleep that timers can tell.
const MIN_SLEEP: Duration = Duration::from_millis(1);

/// Ticks without work after which the driver stops ticking.
const IDLE_TICKS: u32 = 100;

/// Why a session ended.
pub(super) enum Ended {
    /// The connection is lost.
    Lost(ErrorKind),
    /// The lane was closed and nothing is awaited.
    Drained,
}

/// What there is to write.
enum Taken {
    /// A wave, perhaps a part of one.
    Wave,
    /// Nothing; whoever changes that wakes the driver.
    Nothing,
    /// More, in the next turn.
    Later,
    /// More, when commands have gathered for long enough.
    Delayed,
    /// Nothing ever any more.
    Ended,
}

pub(super) struct Session<'l> {
    lane: &'l Lane,
    wire: Wire,
    /// Bytes written since the lane's lock was last held.
    written: usize,
    /// The last read since then.
    read: Option<(Instant, usize)>,
    /// Replies in the last read.
    batch: usize,
    replies: Vec<Value>,
    wakers: Vec<Waker>,
    /// One turn was let pass for commands to gather.
    has_gathered: bool,
    /// One thread runs the driver and all callers.
    is_on_one_thread: bool,
    /// They gather for as long as is configured, since then.
    gathering: Option<Instant>,
    /// Ends that, if it is long.
    gathered: Option<Pin<Box<Sleep>>>,
    /// Who the server takes the client for.
    credentials: Option<Credentials>,
    /// The connection authenticates anew; until it has, nothing else is sent.
    renewal: Renewal,
    /// The last wave before that was taken.
    is_drained: bool,
    /// Kept from the callers meanwhile.
    inline: Option<InlineWriter>,
    clock: Clock,
}

impl<'l> Session<'l> {
    pub(super) fn new(lane: &'l Lane, wire: Wire, credentials: Option<Credentials>) -> Self {
        Self {
            lane,
            wire,
            written: 0,
            read: None,
            batch: 0,
            replies: Vec::with_capacity(MAX_BATCH),
            wakers: Vec::with_capacity(MAX_BATCH),
            has_gathered: false,
            is_on_one_thread: is_on_one_thread(),
            gathering: None,
            gathered: None,
            credentials,
            renewal: Renewal::default(),
            is_drained: false,
            inline: None,
            clock: Clock::new(),
        }
    }

    /// Runs until the connection is lost or the lane is closed and drained.
    pub(super) async fn run(mut self, lane: &Arc<Lane>) -> Ended {
        let ended = poll_fn(|cx| match self.poll(lane, cx) {
            Ok(poll) => poll,
            Err(kind) => Poll::Ready(Ended::Lost(kind)),
        })
        .await;
        let mut shared = self.lane.shared.lock();
        self.report(&mut shared.state);
        drop(shared);
        ended
    }

    fn poll(&mut self, lane: &Arc<Lane>, cx: &mut Context<'_>) -> Result<Poll<Ended>, ErrorKind> {
        let mut is_parked = false;
        self.clock.read_at = None;
        for _ in 0..MAX_STEPS_PER_TURN {
            let has_read = self.poll_read(cx)?;
            // Parked, the driver is woken by whoever has something to send.
            if is_parked && !has_read {
                self.poll_clock(lane, cx)?;
                return Ok(Poll::Pending);
            }
            is_parked = match self.take_wave(cx)? {
                Taken::Ended => return Ok(Poll::Ready(Ended::Drained)),
                Taken::Later => return Ok(Poll::Pending),
                // What comes meanwhile has to wake the driver: it reads until there is nothing.
                Taken::Delayed if has_read => continue,
                Taken::Delayed => return Ok(Poll::Pending),
                Taken::Nothing => true,
                Taken::Wave => false,
            };
            let has_written = match self.poll_write(cx) {
                Ok(has_written) => has_written,
                Err(kind) => {
                    self.read_rest(cx);
                    return Err(kind);
                }
            };
            if !has_read && !has_written {
                self.poll_clock(lane, cx)?;
                return Ok(Poll::Pending);
            }
        }
        cx.waker().wake_by_ref();
        self.poll_clock(lane, cx)?;
        Ok(Poll::Pending)
    }

    /// Reads once and gives what is complete to whom it belongs. False: there is nothing to read now.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<bool, ErrorKind> {
        let read = match self.wire.poll_read(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(read) => read?,
        };
        let now = Instant::now();
        self.clock.silence.end(self.lane);
        self.read = Some((now, read));
        self.clock.read_at = Some(now);
        self.batch = 0;
        self.digest()?;
        Ok(true)
    }

    /// Nothing can be written any more. What the server had to say before that is heard.
    fn read_rest(&mut self, cx: &mut Context<'_>) {
        for _ in 0..MAX_STEPS_PER_TURN {
            if !matches!(self.poll_read(cx), Ok(true)) {
                return;
            }
        }
    }

    /// Decodes what was read and gives it to whom it belongs.
    ///
    /// At first this is what the handshake has read beyond its end: pushes. A reply among it would be the first
    /// command's.
    pub(super) fn digest(&mut self) -> Result<(), ErrorKind> {
        loop {
            match self.wire.decode() {
                Ok(Some(Frame::Reply(value))) => {
                    self.replies.push(value);
                    if self.replies.len() == MAX_BATCH {
                        self.give_replies()?;
                    }
                }
                Ok(Some(Frame::Push(push))) => {
                    // What the server said before the push is delivered before it, what it says after, after.
                    self.give_replies()?;
                    self.lane.shared.lock().state.counters.pushes += 1;
                    self.lane.watch.pushed(push);
                }
                Ok(None) => return self.give_replies(),
                Err(error) => {
                    self.give_replies()?;
                    return Err(error.into());
                }
            }
        }
    }

    /// Wakes the callers of all replies decoded so far, outside the lock.
    fn give_replies(&mut self) -> Result<(), ErrorKind> {
        if self.replies.is_empty() {
            return Ok(());
        }
        if self.renewal.is_sent() {
            self.finish_renewal()?;
        }
        self.batch += self.replies.len();
        let mut shared = self.lane.shared.lock();
        self.report(&mut shared.state);
        shared.state.last_batch = self.batch;
        let completed = shared.state.complete(&mut self.replies, &mut self.wakers);
        let has_room = self.lane.is_room_wanted(&shared);
        drop(shared);
        self.wakers.drain(..).for_each(Waker::wake);
        self.lane.tell_room(has_room);
        completed.map_err(|doubt| {
            let text = match doubt {
                Doubt::Unasked => "a reply came that nothing was sent for",
                Doubt::Early => "a reply came before its command was sent",
            };
            ErrorKind::Protocol(text.into())
        })
    }

    /// Notes what was written and read since the lock was last held.
    #[inline]
    fn report(&mut self, state: &mut State) {
        state.note_written(std::mem::take(&mut self.written));
        if let Some((at, bytes)) = self.read.take() {
            state.note_read(at, bytes);
        }
    }

    /// Takes what callers have appended, unless the wave before is not written yet.
    fn take_wave(&mut self, cx: &mut Context<'_>) -> Result<Taken, ErrorKind> {
        let lane = self.lane;
        let mut shared = lane.shared.lock();
        self.report(&mut shared.state);
        if let Some(condemned) = &shared.condemned {
            let now = Instant::now();
            if !shared.state.is_awaited() || self.is_over(condemned, &shared.state, now) {
                return Err(condemned.reason.clone());
            }
        }
        match shared.phase {
            Phase::Closed => return Ok(Taken::Ended),
            // Nobody waits: not for what is in flight, nor for what is not written.
            Phase::Draining if !shared.state.is_wanted() => return Ok(Taken::Ended),
            _ => {}
        }
        let is_renewing = shared.renewal.is_some() || self.renewal.holds_up();
        let is_held_up = shared.condemned.is_some() || is_renewing && self.renew(&mut shared);
        if self.wire.is_written() && !is_held_up {
            if self.is_gathering(&shared.state) {
                drop(shared);
                return Ok(self.gather(cx));
            }
            self.has_gathered = false;
            self.gathering = None;
            if shared.state.is_due() {
                shared = self.expire(shared);
            }
            shared.state.take_wave(self.wire.out());
        }
        self.clock.starts = !shared.ticking && !shared.state.is_idle();
        shared.ticking |= self.clock.starts;
        if !self.wire.is_written() {
            return Ok(Taken::Wave);
        }
        if !shared.driver.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            shared.driver = Some(cx.waker().clone());
        }
        Ok(Taken::Nothing)
    }

    /// Ends the waiting of those whose deadline has passed: after a pause of the runtime they would be sent before
    /// anybody looks at the clock.
    #[cold]
    fn expire<'g>(&mut self, mut shared: MutexGuard<'g, Shared>) -> MutexGuard<'g, Shared> {
        let unparsed_bytes = self.wire.unparsed_bytes();
        let circumstances = Circumstances { is_connected: true, unparsed_bytes, lag: Duration::ZERO };
        shared.state.expire(circumstances, &mut self.wakers);
        MutexGuard::unlocked(&mut shared, || self.wakers.drain(..).for_each(Waker::wake));
        shared
    }

    /// Callers that come in crowds get one turn of the scheduler to join the wave, or as much time as is configured:
    /// one write for many commands.
    #[inline]
    fn is_gathering(&self, state: &State) -> bool {
        let Some(delay) = self.lane.settings.flush_delay else {
            return !self.has_gathered && state.last_batch > 1 && !state.out.is_empty();
        };
        let is_crowd = state.queued() > 1 || state.is_awaiting() && state.queued() > 0;
        is_crowd && state.out.len() < MAX_GATHERED_BYTES && self.gathering.is_none_or(|since| since.elapsed() < delay)
    }

    /// Looks again in a turn of the scheduler, or later: its timers are good for milliseconds.
    fn gather(&mut self, cx: &mut Context<'_>) -> Taken {
        self.has_gathered = true;
        if let Some(delay) = self.lane.settings.flush_delay {
            let now = Instant::now();
            let end = *self.gathering.get_or_insert(now) + delay;
            if end.saturating_duration_since(now) >= MIN_SLEEP {
                let sleep = self.gathered.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end.into())));
                if sleep.deadline() != end.into() {
                    sleep.as_mut().reset(end.into());
                }
                if sleep.as_mut().poll(cx).is_pending() {
                    return Taken::Delayed;
                }
            }
        }
        if self.is_on_one_thread && self.lane.settings.flush_delay.is_none() {
            // The runtime runs all ready tasks and polls its sockets before it runs the driver again. Callers whose
            // replies other lanes read meanwhile add their next commands to this wave. With several threads it would
            // not wait for those of the others.
            let _ = pin!(yield_now()).poll(cx);
        } else {
            cx.waker().wake_by_ref();
        }
        Taken::Later
    }

    /// Writes the wave as far as the kernel takes it. True: some of it.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<bool, ErrorKind> {
        let is_written = self.wire.is_written();
        match self.wire.poll_write(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Err(kind)) => return Err(kind),
            // AUTH is no caller's and has no place in the lane's order.
            Poll::Ready(Ok(_)) if self.renewal.is_sent() => {}
            Poll::Ready(Ok(written)) => self.written += written,
        }
        Ok(!is_written)
    }

    /// Deadlines, idleness, liveness.
    #[inline]
    fn poll_clock(&mut self, lane: &Arc<Lane>, cx: &mut Context<'_>) -> Result<(), ErrorKind> {
        // Something was read before the time, so it is not the clock that woke the driver.
        let is_early = self.clock.read_at.is_some_and(|at| at < self.clock.due);
        let is_calm =
            self.clock.is_set && !self.clock.starts && !self.clock.silence.is_probing() && !self.renewal.holds_up();
        if is_early && is_calm {
            return Ok(());
        }
        self.look_at_clock(lane, cx)
    }

    fn look_at_clock(&mut self, lane: &Arc<Lane>, cx: &mut Context<'_>) -> Result<(), ErrorKind> {
        if self.renewal.is_sent() {
            self.renewal.until(Instant::now())?;
        }
        if let Some(stall) = self.lane.settings.stall {
            self.clock.silence.poll_probe(self.lane, stall, cx)?;
        }
        if std::mem::take(&mut self.clock.starts) {
            self.clock.idle_ticks = 0;
            self.clock.arm(TICK);
        }
        // Out of budget, a sleep does not remember who polls it.
        self.clock.is_set = tokio::task::coop::has_budget_remaining();
        while self.clock.sleep.as_mut().poll(cx).is_ready() {
            let next = self.tick(lane, cx);
            self.clock.arm(next);
            self.clock.is_set = tokio::task::coop::has_budget_remaining();
        }
        Ok(())
    }

    /// One look at the clock; when to look again.
    fn tick(&mut self, lane: &Arc<Lane>, cx: &mut Context<'_>) -> Duration {
        let now = Instant::now();
        let lag = now.saturating_duration_since(self.clock.due);
        let mut shared = self.lane.shared.lock();
        shared.state.advance(now);
        let circumstances = Circumstances { is_connected: true, unparsed_bytes: self.wire.unparsed_bytes(), lag };
        shared.state.expire(circumstances, &mut self.wakers);
        let has_room = self.lane.is_room_wanted(&shared);
        let is_stalled = self.is_stalled(&shared.state, now);
        let mut next = TICK;
        shared.state.note_silence(now);
        if self.lane.settings.busy_ping.is_some_and(|every| shared.state.wants_ping(now, every)) {
            shared.state.ping(now);
            cx.waker().wake_by_ref();
        }
        if !shared.state.is_idle() {
            self.clock.idle_ticks = 0;
        } else if self.clock.idle_ticks < IDLE_TICKS {
            self.clock.idle_ticks += 1;
        } else if shared.ticking {
            shared.ticking = false;
            shared.state.shrink();
            self.wire.shrink();
            next = self.lane.settings.idle_ping.unwrap_or(Duration::from_secs(3600));
        } else if let Some(pause) = self.lane.settings.idle_ping {
            shared.state.ping(now);
            shared.ticking = true;
            next = TICK.min(pause);
            cx.waker().wake_by_ref();
        }
        drop(shared);
        if self.renewal.is_sent() {
            next = TICK;
        }
        self.wakers.drain(..).for_each(Waker::wake);
        self.lane.tell_room(has_room);
        if is_stalled {
            self.clock.silence.go_on(lane, cx, now);
        }
        next
    }

    /// Goes on with new credentials: nothing more is written, and as soon as nothing is awaited, AUTH, alone
    /// (redis/redis#15640). False: there is nothing to do for it.
    fn renew(&mut self, shared: &mut Shared) -> bool {
        if !self.renewal.holds_up() {
            let wanted = shared.renewal.take().filter(|wanted| Some(wanted) != self.credentials.as_ref());
            let Some(wanted) = wanted else { return false };
            self.renewal = Renewal::Wanted(wanted);
            self.is_drained = false;
            // Callers must not write by themselves meanwhile.
            self.inline = shared.inline.take();
        }
        if !self.wire.is_written() {
            return true;
        }
        // The last wave before: what a caller's own write left over has to be sent, or its reply would never come.
        if !std::mem::replace(&mut self.is_drained, true) {
            shared.state.take_wave(self.wire.out());
        }
        if self.wire.is_written() && !shared.state.is_awaiting() && !self.renewal.is_sent() {
            self.renewal.send(self.wire.out().page(), Instant::now());
            self.clock.arm(TICK);
        }
        true
    }

    /// Takes the reply to AUTH from the front of the replies.
    fn finish_renewal(&mut self) -> Result<(), ErrorKind> {
        if !self.wire.is_written() {
            return Err(ErrorKind::Protocol("a reply came before AUTH was sent".into()));
        }
        self.credentials = self.renewal.answered(&self.replies.remove(0))?;
        let inline = self.inline.take();
        let mut shared = self.lane.shared.lock();
        if matches!(shared.phase, Phase::Up) {
            shared.inline = inline;
        }
        Ok(())
    }

    fn is_stalled(&self, state: &State, now: Instant) -> bool {
        self.lane.settings.stall.is_some_and(|stall| state.is_stalled(now, stall))
    }

    /// Whether a condemned connection has had its time.
    fn is_over(&self, condemned: &Condemned, state: &State, now: Instant) -> bool {
        match condemned.patience {
            Patience::Silence(Some(until)) if now >= until => true,
            Patience::Silence(_) => {
                let is_older = |stall| now.saturating_duration_since(condemned.since) >= stall;
                self.lane.settings.stall.is_some_and(is_older) && self.is_stalled(state, now)
            }
            Patience::Deadlines => self.is_stalled(state, now) && state.oldest(now) != Oldest::Waits,
        }
    }
}

fn is_on_one_thread() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}
