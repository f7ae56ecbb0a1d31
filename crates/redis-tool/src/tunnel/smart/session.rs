//! One client: its commands in their order, its state, its replies in the order of the commands.
//!
//! What has come is sent as one batch, and the next batch is made of what came meanwhile: the busier a client, the
//! larger its batches.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::command::Flags;
use pilotlight_redis::commands::spec;
use pilotlight_redis::raw::Encoded;
use pilotlight_redis::{Command, Commands, Route, Value};
use pilotlight_resp::Protocol;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::catalogue::{self, Kind};
use super::identity::{Identity, Mute};
use super::replies::{OK, error_text};
use super::scan::Cursor;
use super::subscriber::{self, News, Subscriber};
use super::transaction::{Answer, Transaction, Watch};
use super::upstream::{End, Upstream};
use crate::refusal;
use crate::tunnel::clients::{Client, Unblock};
use crate::tunnel::request::{BadRequest, Parser, Request, Requests};
use crate::tunnel::shared::Shared;
use crate::tunnel::wire::Wire;

/// Most commands of one batch, whose replies are held until all of them are there.
const MAX_BATCH: usize = 256;

/// As long as nothing is known of a client's replies.
const FIRST_BATCH: usize = 32;

/// Replies of one batch should not take more, in bytes: if they do, the next batches are smaller.
const MAX_REPLY_BYTES: usize = 1024 * 1024;

/// Replies are written at the latest when they are so many bytes.
const FLUSH_BYTES: usize = 256 * 1024;

/// Words of commands up to this size are not counted against the memory that all clients share.
const UNCOUNTED_BYTES: usize = 64 * 1024;

/// How long a large command waits for memory.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Session {
    pub(super) wire: Wire,
    pub(super) shared: Arc<Shared>,
    pub(super) upstream: Arc<Upstream>,
    pub(super) end: End,
    pub(super) client: Identity,
    /// What other clients see of it.
    pub(super) entry: Arc<Client>,
    pub(super) mute: Mute,
    /// What is to be sent is sent, and then the connection is closed.
    pub(super) is_closing: bool,
    parser: Parser,
    /// Of the batch before, for its room.
    requests: Requests,
    subscriber: Subscriber,
    pub(super) transaction: Option<Transaction>,
    pub(super) watch: Option<Watch>,
    batch: usize,
    memory: Option<OwnedSemaphorePermit>,
}

/// Serves one client until it goes, or the tunnel ends.
pub(crate) async fn serve(
    socket: TcpStream,
    shared: Arc<Shared>,
    upstream: Arc<Upstream>,
    ending: watch::Receiver<bool>,
) -> io::Result<()> {
    let all = Arc::clone(&shared);
    let place = all.clients.enter(socket.peer_addr().ok(), socket.local_addr().ok(), upstream.database());
    let entry = place.client();
    let client = Identity {
        name: Bytes::new(),
        protocol: Protocol::Resp2,
        database: upstream.database(),
        is_known: shared.password.is_none(),
    };
    let end = upstream.end(client.protocol, client.database).map_err(io::Error::other)?;
    let session = Session {
        wire: Wire::new(socket, shared.limits.max_pending_bytes),
        end,
        client,
        entry: Arc::clone(&entry),
        mute: Mute::No,
        is_closing: false,
        parser: Parser::new(shared.limits.max_command_bytes),
        requests: Requests::default(),
        subscriber: Subscriber::default(),
        transaction: None,
        watch: None,
        batch: FIRST_BATCH,
        memory: None,
        shared,
        upstream,
    };
    tokio::select! {
        done = session.run(ending) => done,
        () = entry.killed() => Ok(()),
    }
}

impl Session {
    async fn run(mut self, mut ending: watch::Receiver<bool>) -> io::Result<()> {
        loop {
            let mut requests = std::mem::take(&mut self.requests);
            self.parse(&mut requests);
            if requests.is_empty() {
                self.requests = requests;
                self.wire.flush().await?;
                if self.is_closing || !self.wait(&mut ending).await? {
                    return Ok(());
                }
                continue;
            }
            self.shared.counters.add_commands(requests.len());
            self.process(&requests).await?;
            requests.clear();
            self.requests = requests;
            if self.parser.wanted() == 0 {
                self.memory = None;
            }
            if self.wire.unwritten() > FLUSH_BYTES {
                self.wire.flush().await?;
            }
        }
    }

    /// The commands that are there.
    fn parse(&mut self, requests: &mut Requests) {
        if self.is_closing {
            return;
        }
        let taken = self.parser.take(&mut self.wire.input, self.batch, requests);
        // What came before a mistake is answered first; the same error comes again.
        if let Err(error) = taken
            && requests.is_empty()
        {
            self.is_closing = true;
            if error != BadRequest::Http {
                self.wire.error(&format!("ERR {error}"));
            }
        }
    }

    /// Waits for something to do. False: there is nothing any more.
    async fn wait(&mut self, ending: &mut watch::Receiver<bool>) -> io::Result<bool> {
        let missing = self.parser.wanted();
        if missing > UNCOUNTED_BYTES && !self.has_memory(missing).await {
            self.wire.error("ERR the tunnel: other clients' commands take all of its memory (--max-buffered-mib)");
            self.wire.flush().await?;
            return Ok(false);
        }
        let news = tokio::select! {
            read = self.wire.read(missing) => return read,
            news = self.subscriber.next() => news,
            _ = ending.wait_for(|ending| *ending) => return Ok(false),
        };
        let mut next = Some(news);
        while let Some(news) = next {
            match news {
                News::Message(kind, message) => {
                    self.wire.value(&subscriber::push(kind, message), self.client.protocol);
                }
                News::TooSlow | News::Over => return Ok(false),
            }
            next = if self.wire.unwritten() < FLUSH_BYTES { self.subscriber.try_next() } else { None };
        }
        self.wire.flush().await?;
        Ok(true)
    }

    /// Takes a share of the memory for a command that lacks so many bytes.
    async fn has_memory(&mut self, missing: usize) -> bool {
        let (budget, all) = &self.shared.memory;
        let bytes = missing + self.wire.input.len();
        let wanted = u32::try_from(bytes / 1024).unwrap_or(u32::MAX).min(*all);
        let more = wanted.saturating_sub(self.memory.as_ref().map_or(0, |memory| memory.num_permits() as u32));
        let acquired = tokio::time::timeout(MEMORY_TIMEOUT, Arc::clone(budget).acquire_many_owned(more)).await;
        let Ok(Ok(permit)) = acquired else { return false };
        match &mut self.memory {
            Some(memory) => memory.merge(permit),
            None => self.memory = Some(permit),
        }
        true
    }

    async fn process(&mut self, requests: &Requests) -> io::Result<()> {
        let mut next = 0;
        while let Some(first) = requests.get(next) {
            let batch = self.ordinary(requests, next);
            if batch.is_empty() {
                self.one(&first).await?;
                next += 1;
            } else {
                next += batch.len();
                self.entry.note(requests.get(next - 1).map_or("", |last| last.name()));
                self.send(&batch).await;
            }
            if self.is_closing {
                break;
            }
        }
        Ok(())
    }

    /// The commands from one on that are for one lane each, and need nothing of this session.
    fn ordinary<'r>(&self, requests: &'r Requests, first: usize) -> Vec<Encoded<'r>> {
        let is_special = !self.client.is_known
            || self.transaction.is_some()
            || self.mute != Mute::No
            || subscriber::blocks_others(&self.subscriber, self.client.protocol);
        if is_special {
            return Vec::new();
        }
        let mut batch = Vec::with_capacity(requests.len() - first);
        batch.extend(requests.from(first).map_while(|request| self.encoded(&request)));
        batch
    }

    pub(super) fn encoded<'r>(&self, request: &Request<'r>) -> Option<Encoded<'r>> {
        match catalogue::kind(request) {
            Kind::Server | Kind::Ping => {}
            Kind::Scan if !self.upstream.is_cluster() => {}
            _ => return None,
        }
        if request.name() == "PUBLISH" && self.upstream.is_cluster() {
            // All messages of a channel go by one node, as they would come in another order by several.
            let command = request.words_from(1).fold(Command::new(&spec::SPUBLISH), Command::arg);
            return self.end.raw.encoded(&command, request.bytes);
        }
        self.end.raw.encoded_by(request.spec(), request.bytes, || request.command())
    }

    async fn send(&mut self, batch: &[Encoded<'_>]) {
        let replies = self.end.raw.batch(batch).await;
        let mut bytes = 0;
        for reply in replies {
            match reply {
                Ok(frame) => {
                    bytes += frame.len();
                    self.wire.frame(frame);
                }
                Err(error) => self.wire.error(&error_text(&error)),
            }
        }
        self.batch = match bytes {
            0..=MAX_REPLY_BYTES => (self.batch * 2).min(MAX_BATCH),
            _ => (batch.len() * MAX_REPLY_BYTES / bytes).max(1),
        };
    }

    /// A command that is not simply passed on.
    async fn one(&mut self, request: &Request<'_>) -> io::Result<()> {
        let was = self.mute;
        self.wire.is_mute = was != Mute::No;
        self.entry.note(request.name());
        let done = self.execute(request).await;
        self.wire.is_mute = false;
        self.tell();
        let is_another_skip = request.name() == "CLIENT REPLY" && request.is(2, "SKIP");
        if was == Mute::Next && self.mute == Mute::Next && !is_another_skip {
            self.mute = Mute::No;
        }
        done
    }

    /// Has other clients see what this one is now.
    fn tell(&self) {
        let mut state = self.entry.state();
        state.name.clone_from(&self.client.name);
        (state.database, state.protocol) = (self.client.database, self.client.protocol);
        [state.channels, state.patterns, state.shards] = self.subscriber.counts();
        state.queued = self.transaction.as_ref().map(Transaction::len);
    }

    async fn execute(&mut self, request: &Request<'_>) -> io::Result<()> {
        let kind = catalogue::kind(request);
        if !self.client.is_known && !matches!(kind, Kind::Hello | Kind::Auth | Kind::Quit | Kind::Reset) {
            self.wire.error("NOAUTH Authentication required.");
            return Ok(());
        }
        let listens = subscriber::blocks_others(&self.subscriber, self.client.protocol);
        if self.is_wrong(request, kind, listens) {
            self.have_refused(request, kind).await;
            return Ok(());
        }
        if listens && !matches!(kind, Kind::Subscribe | Kind::Unsubscribe | Kind::Ping | Kind::Quit | Kind::Reset) {
            let name = request.name().to_ascii_lowercase().replace(' ', "|");
            self.wire.error(&format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
            ));
            return Ok(());
        }
        if self.transaction.is_some() && !matches!(kind, Kind::Exec | Kind::Discard | Kind::Quit | Kind::Reset) {
            self.queue(request, kind);
            return Ok(());
        }
        match kind {
            Kind::Server => return self.ask(request).await,
            Kind::Ping if listens => {
                let items = [Bytes::from_static(b"pong"), Bytes::copy_from_slice(request.word(1))];
                self.wire.value(&Value::Array(items.map(Value::Bulk).into()), Protocol::Resp2);
            }
            Kind::Ping => return self.ask(request).await,
            Kind::Scan => return self.scan(request).await,
            Kind::Facts => self.facts(request).await,
            Kind::Hello => self.hello(request).await,
            Kind::Auth => self.auth(request),
            Kind::Select => self.select(request).await,
            Kind::Client => self.client(request),
            Kind::Quit => {
                self.wire.frame(OK);
                self.is_closing = true;
            }
            Kind::Reset => self.reset(),
            Kind::Multi => {
                self.transaction = Some(Transaction::default());
                self.wire.frame(OK);
            }
            Kind::Exec => self.exec().await,
            Kind::Discard => {
                self.watch = None;
                match self.transaction.take() {
                    Some(_) => self.wire.frame(OK),
                    None => self.wire.error("ERR DISCARD without MULTI"),
                }
            }
            Kind::Watch => self.begin_watch(request).await,
            Kind::Unwatch => {
                self.watch = None;
                self.wire.frame(OK);
            }
            Kind::Subscribe => self.subscribe(request).await,
            Kind::Unsubscribe => self.unsubscribe(request),
            Kind::Refused(why) => self.wire.error(&format!("ERR {why}")),
        }
        Ok(())
    }

    /// A command for the servers: blocking, for many nodes, split, or an ordinary one of a client that wants no
    /// replies.
    async fn ask(&mut self, request: &Request<'_>) -> io::Result<()> {
        if let Some(encoded) = self.encoded(request) {
            self.send(&[encoded]).await;
            return Ok(());
        }
        if request.spec().flags.has(Flags::BLOCKING) {
            // What came before is not to wait for it.
            self.wire.flush().await?;
            let Self { wire, end, entry, .. } = self;
            let unblocked = entry.block();
            let reply = tokio::select! {
                biased;
                reply = end.raw.run(request.command(), None) => reply,
                Ok(how) = unblocked => {
                    let answer = match how {
                        Unblock::Timeout => Answer::Null,
                        Unblock::Error => Answer::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".to_owned()),
                    };
                    self.answer(answer);
                    return Ok(());
                }
                // Nobody waits any more: no element is to be taken for nobody.
                () = wire.gone() => {
                    self.is_closing = true;
                    return Ok(());
                }
            };
            self.entry.unblocked();
            match reply {
                Ok(frame) => self.wire.frame(frame),
                Err(error) => self.wire.error(&error_text(&error)),
            }
            return Ok(());
        }
        match self.end.whole.run::<Value>(request.command()).await {
            Ok(value) => self.wire.value(&value, self.client.protocol),
            Err(error) => self.wire.error(&error_text(&error)),
        }
        Ok(())
    }

    async fn scan(&mut self, request: &Request<'_>) -> io::Result<()> {
        if !self.upstream.is_cluster() {
            return self.ask(request).await;
        }
        let Some(cursor) = Cursor::parse(request.word(1)) else {
            self.wire.error("ERR invalid cursor");
            return Ok(());
        };
        if self.end.raw.primaries().is_empty() {
            // Nothing was asked yet: this brings the map.
            if let Err(error) = self.end.raw.run(Command::raw("PING"), None).await
                && !refusal::is_answer(&error)
            {
                self.wire.error(&error_text(&error));
                return Ok(());
            }
        }
        let primaries = self.end.raw.primaries();
        let Some(node) = primaries.get(cursor.node) else {
            self.wire.bytes(b"*2\r\n$1\r\n0\r\n*0\r\n");
            return Ok(());
        };
        let command = Command::raw("SCAN").arg(cursor.within);
        let command = request.words_from(2).fold(command, |command, word| command.arg(word));
        match self.end.raw.run(command, Some(Route::Node(node.clone()))).await {
            Ok(frame) => match cursor.rewrite(&frame, primaries.len()) {
                Some((begin, keys)) => {
                    self.wire.bytes(&begin);
                    self.wire.frame(keys);
                }
                None => self.wire.frame(frame),
            },
            Err(error) => self.wire.error(&error_text(&error)),
        }
        Ok(())
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        match (answer, self.client.protocol) {
            (Answer::Frame(frame), _) => self.wire.frame(frame),
            (Answer::Error(text), _) => self.wire.error(&text),
            (Answer::Null, Protocol::Resp2) => self.wire.bytes(b"*-1\r\n"),
            (Answer::Null, Protocol::Resp3) => self.wire.bytes(b"_\r\n"),
        }
    }

    async fn subscribe(&mut self, request: &Request<'_>) {
        let word = request.name().to_ascii_lowercase();
        if request.len() < 2 {
            return self.wire.error(&format!("ERR wrong number of arguments for '{word}' command"));
        }
        let kind = subscriber::Kind::of(request.name());
        for name in request.words_from(1) {
            let name = Bytes::copy_from_slice(name);
            match self.subscriber.add(&self.end.whole, kind, &name).await {
                Ok(count) => {
                    self.confirm(&subscriber::confirmation(&word, Some(&name), count));
                }
                Err(error) => return self.wire.error(&error_text(&error)),
            }
        }
    }

    fn unsubscribe(&mut self, request: &Request<'_>) {
        let word = request.name().to_ascii_lowercase();
        let kind = subscriber::Kind::of(request.name());
        let names = match request.len() {
            0 | 1 => self.subscriber.names(kind),
            _ => request.words_from(1).map(Bytes::copy_from_slice).collect(),
        };
        if names.is_empty() {
            return self.confirm(&subscriber::confirmation(&word, None, self.subscriber.count(kind)));
        }
        for name in names {
            let count = self.subscriber.remove(kind, &name);
            self.confirm(&subscriber::confirmation(&word, Some(&name), count));
        }
    }

    /// Confirmations of subscriptions are messages to servers, which `CLIENT REPLY` keeps.
    fn confirm(&mut self, confirmation: &Value) {
        let is_mute = std::mem::replace(&mut self.wire.is_mute, false);
        self.wire.value(confirmation, self.client.protocol);
        self.wire.is_mute = is_mute;
    }

    /// Forgets what the client has switched on.
    pub(super) fn forget(&mut self) {
        self.transaction = None;
        self.watch = None;
        self.subscriber = Subscriber::default();
        self.mute = Mute::No;
    }
}
