//! One connection with subscriptions, from its handshake to its loss: reads, writes rounds, watches the clock. Reading
//! never waits for writing.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pilotlight_resp::{Frame, Protocol, Value};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::hub::Hub;
use super::notice::Notice;
use crate::config::{Credentials, NodeAddress};
use crate::engine::lane::{Dial, MAX_SILENCE, Sign};
use crate::error::ErrorKind;
use crate::net::connection::Connection;
use crate::net::renewal::{Changes, Renewal};
use crate::net::wire::Wire;
use crate::reply::skipped;

/// Room for reading that is made before each read, in bytes. Small, since a message that somebody keeps holds all that
/// was read with it.
const MIN_READ_BYTES: usize = 4 * 1024;

/// How long a connection is kept from which nothing is wanted.
const LINGER: Duration = Duration::from_secs(10);

/// Nothing to look at: any event comes before.
const LATER: Duration = Duration::from_secs(3600);

/// Notices handed over at once.
const MAX_BATCH: usize = 256;

/// Why a session ended.
pub(super) enum Ended {
    /// The connection is lost.
    Lost {
        /// Why.
        reason: ErrorKind,
        /// Whether anything was read on it.
        has_read: bool,
    },
    /// Nothing is wanted from the node.
    Unneeded,
}

impl Ended {
    /// Whether the connection was of use before its end: the next attempt is to come soon.
    pub(super) fn is_sane(&self) -> bool {
        match self {
            Self::Lost { reason, has_read } => *has_read && !matches!(reason, ErrorKind::Protocol(_)),
            Self::Unneeded => true,
        }
    }
}

pub(super) struct Session<'s> {
    hub: &'s Arc<Hub>,
    node: &'s NodeAddress,
    /// The server itself, where the node is whichever is the primary.
    address: NodeAddress,
    wake: &'s Notify,
    dial: &'s dyn Dial,
    wire: Wire,
    notices: Vec<Notice>,
    clock: Clock,
    protocol: Protocol,
    changes: Changes,
    /// Who the server was told last that the client is.
    credentials: Option<Credentials>,
    renewal: Renewal,
    has_read: bool,
    probe: Option<Pin<Box<dyn Future<Output = Sign> + Send + 's>>>,
}

struct Clock {
    last_read: Instant,
    /// When the round under way began.
    waiting_since: Option<Instant>,
    retry_at: Option<Instant>,
    unneeded_since: Option<Instant>,
    /// No other probe before.
    probe_after: Option<Instant>,
}

enum Action {
    Read,
    Wrote,
    Lost(ErrorKind),
    Probed(Sign),
    /// Something is wanted, or it is time to look.
    Look,
}

impl<'s> Session<'s> {
    pub(super) fn new(
        hub: &'s Arc<Hub>,
        node: &'s NodeAddress,
        wake: &'s Notify,
        dial: &'s dyn Dial,
        connection: Connection,
        changes: Changes,
    ) -> Self {
        let Connection { address, transport, decoder, read_buffer, server, credentials, budget, .. } = connection;
        let (mut wire, inline) = Wire::split(transport, decoder, read_buffer, budget, MIN_READ_BYTES);
        wire.keep(inline);
        Self {
            hub,
            node,
            address,
            wake,
            dial,
            wire,
            notices: Vec::new(),
            clock: Clock {
                last_read: Instant::now(),
                waiting_since: None,
                retry_at: None,
                unneeded_since: None,
                probe_after: None,
            },
            protocol: server.protocol,
            changes,
            credentials,
            renewal: Renewal::default(),
            has_read: false,
            probe: None,
        }
    }

    /// Runs until the connection is lost or not needed any more.
    pub(super) async fn run(mut self) -> Ended {
        let mut result = self.decode();
        loop {
            if let Err(reason) = result {
                return Ended::Lost { reason, has_read: self.has_read };
            }
            let due = match self.look() {
                Ok(Some(due)) => due,
                Ok(None) => return Ended::Unneeded,
                Err(reason) => return Ended::Lost { reason, has_read: self.has_read },
            };
            let action = self.select(due).await;
            result = self.apply(action);
        }
    }

    async fn select(&mut self, due: Instant) -> Action {
        let (wire, is_renewing) = (&mut self.wire, self.renewal.is_sent());
        // What is to be written is little and comes to an end; if the kernel does not take it, there is reading.
        let moved = poll_fn(|cx| {
            if wire.has_output()
                && let Poll::Ready(written) = wire.poll_write(cx)
            {
                return Poll::Ready(written.map_or_else(Action::Lost, |_| Action::Wrote));
            }
            wire.poll_read(cx).map(|read| read.map_or_else(Action::Lost, |_| Action::Read))
        });
        let probe = async {
            match &mut self.probe {
                Some(probe) => probe.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            action = moved => action,
            sign = probe => Action::Probed(sign),
            () = self.wake.notified() => Action::Look,
            () = self.changes.changed(), if !is_renewing => Action::Look,
            () = tokio::time::sleep_until(due) => Action::Look,
        }
    }

    fn apply(&mut self, action: Action) -> Result<(), ErrorKind> {
        match action {
            Action::Read => {
                self.clock.last_read = Instant::now();
                self.has_read = true;
                self.decode()?;
            }
            Action::Wrote => {}
            Action::Lost(kind) => return Err(kind),
            Action::Probed(sign) => {
                self.probe = None;
                self.judge(sign)?;
            }
            Action::Look => {}
        }
        Ok(())
    }

    /// Hands over everything that is complete, up to an error.
    fn decode(&mut self) -> Result<(), ErrorKind> {
        loop {
            let notice = self.next_notice();
            let is_over = !matches!(notice, Ok(Some(_)));
            let ended = notice.map(|notice| self.notices.extend(notice));
            if (is_over || self.notices.len() == MAX_BATCH) && !self.notices.is_empty() {
                self.hub.receive(self.node, &mut self.notices)?;
            }
            if is_over {
                return ended;
            }
        }
    }

    fn next_notice(&mut self) -> Result<Option<Notice>, ErrorKind> {
        let Some(frame) = self.wire.decode()? else { return Ok(None) };
        // In RESP3 everything else is a push.
        if let (true, Frame::Reply(reply)) = (self.renewal.is_sent(), &frame) {
            self.credentials = self.renewal.answered(reply)?;
            return Ok(Some(Notice::Other));
        }
        if let Frame::Reply(Value::Skipped(limit)) = &frame {
            return Err(ErrorKind::Protocol(skipped(*limit).to_string().into()));
        }
        let notice =
            Notice::read(frame).ok_or_else(|| ErrorKind::Protocol("a reply came that no subscription has".into()))?;
        Ok(Some(notice))
    }

    /// Does what is due; when to look again. `None`: the connection is not needed.
    fn look(&mut self) -> Result<Option<Instant>, ErrorKind> {
        let now = Instant::now();
        let probe = self.hub.config().probe;
        if self.clock.retry_at.is_some_and(|at| at <= now) {
            self.clock.retry_at = None;
            self.hub.retry(self.node);
        }
        let is_renewing = self.wants_renewal()?;
        let mut turn = self.hub.turn(self.node, self.wire.out().page(), is_renewing);
        let auth_until = self.renew(turn.is_waiting, now)?;
        turn.is_waiting |= auth_until.is_some();
        if let Some(failures) = turn.failures {
            let pause = self.hub.config().reconnect.pause(failures, &mut fastrand::Rng::new());
            self.clock.retry_at.get_or_insert(now + pause);
        }
        let idle_until = probe.idle_ping.map(|pause| self.clock.last_read + pause);
        if !turn.is_waiting && idle_until.is_some_and(|at| at <= now) {
            self.hub.ping(self.node, self.wire.out().page());
            turn.is_waiting = true;
        }
        self.clock.waiting_since = turn.is_waiting.then(|| self.clock.waiting_since.unwrap_or(now));
        self.clock.unneeded_since = (!turn.is_needed).then(|| self.clock.unneeded_since.unwrap_or(now));
        let unneeded_until = self.clock.unneeded_since.map(|since| since + LINGER);
        if unneeded_until.is_some_and(|until| until <= now) {
            return Ok(None);
        }
        let silent_until = self.silent_until().map(|at| self.clock.probe_after.map_or(at, |after| at.max(after)));
        if self.probe.is_none() && silent_until.is_some_and(|at| at <= now) {
            let (dial, address) = (self.dial, self.address.clone());
            self.probe = Some(Box::pin(async move { dial.probe(&address).await }));
        }
        let silent_until = silent_until.filter(|_| self.probe.is_none());
        let idle_until = idle_until.filter(|_| !turn.is_waiting);
        let dues = [self.clock.retry_at, idle_until, silent_until, unneeded_until, auth_until];
        Ok(dues.into_iter().flatten().chain([now + LATER]).min())
    }

    /// Whether the connection is to authenticate anew, or does so.
    fn wants_renewal(&mut self) -> Result<bool, ErrorKind> {
        if !self.renewal.is_sent()
            && let Some(credentials) = self.changes.take(self.credentials.as_ref())
        {
            // RESP2 allows no `AUTH` beside subscriptions.
            if self.protocol == Protocol::Resp2 {
                let text = "the credentials have changed, which RESP2 cannot tell on a connection with subscriptions";
                return Err(ErrorKind::Connection(text.into()));
            }
            self.renewal = Renewal::Wanted(credentials);
        }
        Ok(self.renewal.holds_up())
    }

    /// Sends `AUTH` if it is wanted and no answer is due. Until when its answer has to come.
    fn renew(&mut self, is_waiting: bool, now: Instant) -> Result<Option<Instant>, ErrorKind> {
        if !is_waiting {
            self.renewal.send(self.wire.out().page(), now.into_std());
        }
        Ok(self.renewal.until(now.into_std())?.map(Instant::from_std))
    }

    /// When the node is suspected: an answer is due and nothing was read, both for
    /// [`stall`](crate::config::Probe::stall).
    fn silent_until(&self) -> Option<Instant> {
        let since = self.clock.waiting_since?.max(self.clock.last_read);
        Some(since + self.hub.config().probe.stall?)
    }

    /// What the node says on a new connection decides about one that is still silent. A busy node is not a dead one,
    /// and a new connection to it would only lose messages.
    fn judge(&mut self, sign: Sign) -> Result<(), ErrorKind> {
        let now = Instant::now();
        let Some(silent_until) = self.silent_until().filter(|&at| at <= now) else { return Ok(()) };
        self.clock.probe_after = Some(now + self.hub.config().probe.stall.unwrap_or_default());
        match sign {
            Sign::Busy => Ok(()),
            Sign::Alive => Err(ErrorKind::Connection(
                "half-open: the node answers on a new connection, but not on this one".into(),
            )),
            Sign::None if now < silent_until + MAX_SILENCE => Ok(()),
            Sign::None => Err(ErrorKind::Connection("the node does not answer".into())),
        }
    }
}
