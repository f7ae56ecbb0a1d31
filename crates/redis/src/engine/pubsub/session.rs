//! One connection with subscriptions, from its handshake to its loss: reads, writes rounds, watches the clock. Reading
//! never waits for writing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use pilotlight_resp::{Decoder, Frame, Protocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::hub::Hub;
use super::notice::Notice;
use crate::config::{Credentials, NodeAddress};
use crate::engine::lane::{Dial, MAX_SILENCE, Sign};
use crate::error::ErrorKind;
use crate::net::connection::Connection;
use crate::net::renewal::{Changes, check_answer};
use crate::net::transport::Transport;
use crate::proto::handshake::encode_auth;

/// Room for reading that is made before each read, in bytes. Small, since a message that somebody keeps holds all that
/// was read with it.
const MIN_READ_BYTES: usize = 4 * 1024;

/// How long a connection is kept from which nothing is wanted.
const LINGER: Duration = Duration::from_secs(10);

/// Nothing to look at: any event comes before.
const LATER: Duration = Duration::from_secs(3600);

/// A server that does not answer `AUTH` for so long will not.
const AUTH_PATIENCE: Duration = Duration::from_secs(5);

/// Notices handed over at once.
const MAX_BATCH: usize = 256;

/// Why a session ended.
pub(super) enum Ended {
    /// The connection is lost.
    Lost(ErrorKind),
    /// Nothing is wanted from the node.
    Unneeded,
}

pub(super) struct Session<'s> {
    hub: &'s Arc<Hub>,
    node: &'s NodeAddress,
    /// The server itself, where the node is whichever is the primary.
    address: NodeAddress,
    wake: &'s Notify,
    dial: &'s dyn Dial,
    reader: ReadHalf<Transport>,
    writer: WriteHalf<Transport>,
    decoder: Decoder,
    input: BytesMut,
    notices: Vec<Notice>,
    out: Vec<u8>,
    written: usize,
    needs_flush: bool,
    clock: Clock,
    protocol: Protocol,
    changes: Changes,
    /// Who the server was told last that the client is.
    credentials: Option<Credentials>,
    renewal: Renewal,
    probe: Option<Pin<Box<dyn Future<Output = Sign> + Send + 's>>>,
}

/// New credentials on the live connection.
enum Renewal {
    None,
    /// `AUTH` is to be sent, alone, after the answer to the round under way.
    Wanted(Credentials),
    /// Nothing is sent before its answer.
    Sent(Credentials, Instant),
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
    Read(io::Result<usize>),
    Wrote(io::Result<usize>),
    Flushed(io::Result<()>),
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
        let Connection { address, transport, decoder, read_buffer, server, credentials, .. } = connection;
        let (reader, writer) = tokio::io::split(transport);
        Self {
            hub,
            node,
            address,
            wake,
            dial,
            reader,
            writer,
            decoder,
            input: read_buffer,
            notices: Vec::new(),
            out: Vec::new(),
            written: 0,
            needs_flush: false,
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
            renewal: Renewal::None,
            probe: None,
        }
    }

    /// Runs until the connection is lost or not needed any more.
    pub(super) async fn run(mut self) -> Ended {
        let mut result = self.decode();
        loop {
            if let Err(kind) = result {
                return Ended::Lost(kind);
            }
            let due = match self.look() {
                Ok(Some(due)) => due,
                Ok(None) => return Ended::Unneeded,
                Err(kind) => return Ended::Lost(kind),
            };
            let action = self.select(due).await;
            result = self.apply(action);
        }
    }

    async fn select(&mut self, due: Instant) -> Action {
        self.input.reserve(self.decoder.wanted().max(MIN_READ_BYTES));
        let has_output = self.written < self.out.len();
        let has_work = has_output || self.needs_flush;
        let is_renewing = matches!(self.renewal, Renewal::Sent(..));
        let output = async {
            match has_output {
                true => Action::Wrote(self.writer.write(&self.out[self.written..]).await),
                false => Action::Flushed(self.writer.flush().await),
            }
        };
        let probe = async {
            match &mut self.probe {
                Some(probe) => probe.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            read = self.reader.read_buf(&mut self.input) => Action::Read(read),
            action = output, if has_work => action,
            sign = probe => Action::Probed(sign),
            () = self.wake.notified() => Action::Look,
            () = self.changes.changed(), if !is_renewing => Action::Look,
            () = tokio::time::sleep_until(due) => Action::Look,
        }
    }

    fn apply(&mut self, action: Action) -> Result<(), ErrorKind> {
        let lost = |error: io::Error| ErrorKind::Connection(error.to_string().into());
        match action {
            Action::Read(Ok(0)) => return Err(ErrorKind::Connection("the server closed the connection".into())),
            Action::Wrote(Ok(0)) => return Err(ErrorKind::Connection("nothing could be written".into())),
            Action::Read(read) => {
                read.map_err(lost)?;
                self.clock.last_read = Instant::now();
                self.decode()?;
            }
            Action::Wrote(written) => {
                self.written += written.map_err(lost)?;
                self.needs_flush = true;
                if self.written == self.out.len() {
                    self.out.clear();
                    self.written = 0;
                }
            }
            Action::Flushed(flushed) => {
                flushed.map_err(lost)?;
                self.needs_flush = false;
            }
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
        let Some(frame) = self.decoder.decode(&mut self.input)? else { return Ok(None) };
        // In RESP3 everything else is a push.
        if let (Renewal::Sent(credentials, _), Frame::Reply(reply)) = (&self.renewal, &frame) {
            check_answer(reply)?;
            self.credentials = Some(credentials.clone());
            self.renewal = Renewal::None;
            return Ok(Some(Notice::Other));
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
        let mut turn = self.hub.turn(self.node, &mut self.out, is_renewing);
        let auth_until = self.renew(turn.is_waiting, now)?;
        turn.is_waiting |= auth_until.is_some();
        if let Some(failures) = turn.failures {
            let pause = self.hub.config().reconnect.pause(failures, &mut fastrand::Rng::new());
            self.clock.retry_at.get_or_insert(now + pause);
        }
        let idle_until = probe.idle_ping.map(|pause| self.clock.last_read + pause);
        if !turn.is_waiting && idle_until.is_some_and(|at| at <= now) {
            self.hub.ping(self.node, &mut self.out);
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
        if matches!(self.renewal, Renewal::Sent(..)) {
            return Ok(true);
        }
        if let Some(credentials) = self.changes.take(self.credentials.as_ref()) {
            // RESP2 allows no `AUTH` beside subscriptions.
            if self.protocol == Protocol::Resp2 {
                let text = "the credentials have changed, which RESP2 cannot tell on a connection with subscriptions";
                return Err(ErrorKind::Connection(text.into()));
            }
            self.renewal = Renewal::Wanted(credentials);
        }
        Ok(matches!(self.renewal, Renewal::Wanted(_)))
    }

    /// Sends `AUTH` if it is wanted and no answer is due: nothing before it may be in doubt (redis/redis#15640). Until
    /// when its answer has to come.
    fn renew(&mut self, is_waiting: bool, now: Instant) -> Result<Option<Instant>, ErrorKind> {
        if let Renewal::Wanted(credentials) = &self.renewal
            && !is_waiting
        {
            encode_auth(&mut self.out, credentials);
            self.renewal = Renewal::Sent(credentials.clone(), now);
        }
        let Renewal::Sent(_, since) = self.renewal else { return Ok(None) };
        let until = since + AUTH_PATIENCE;
        if until <= now {
            return Err(ErrorKind::Connection("the server does not answer AUTH".into()));
        }
        Ok(Some(until))
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
