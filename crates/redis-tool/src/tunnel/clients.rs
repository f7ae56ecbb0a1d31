//! The clients of a tunnel, by numbers of its own: what `CLIENT ID` tells, `CLIENT LIST` shows, and `CLIENT KILL` and
//! `UNBLOCK` are about. To the servers, nobody is one of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use pilotlight_resp::Protocol;
use tokio::sync::{Notify, oneshot};

/// All of them.
#[derive(Debug)]
pub(crate) struct Clients {
    next: AtomicU64,
    known: Mutex<BTreeMap<u64, Arc<Client>>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    addr: Option<SocketAddr>,
    local: Option<SocketAddr>,
    since: Instant,
    state: Mutex<State>,
    killed: Notify,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) name: Bytes,
    pub(crate) database: u16,
    pub(crate) protocol: Protocol,
    /// Subscriptions: channels, patterns, channels of shards.
    pub(crate) channels: usize,
    pub(crate) patterns: usize,
    pub(crate) shards: usize,
    /// Commands that wait for `EXEC`, after `MULTI`.
    pub(crate) queued: Option<usize>,
    /// The last command, and when it came.
    command: &'static str,
    last: Instant,
    /// Ends the blocking command that the client waits for.
    blocked: Option<oneshot::Sender<Unblock>>,
}

/// How a blocking command is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unblock {
    /// As if its time was over.
    Timeout,
    /// By an error.
    Error,
}

/// A client's place in the list, as long as it is connected.
#[derive(Debug)]
pub(crate) struct Place<'c> {
    clients: &'c Clients,
    client: Arc<Client>,
}

/// Which clients `CLIENT KILL` is about: those that all of it fits.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) id: Option<u64>,
    pub(crate) addr: Option<String>,
    pub(crate) local: Option<String>,
    /// `normal`, `pubsub`; a tunnel has no others.
    pub(crate) kind: Option<String>,
    pub(crate) user: Option<String>,
    /// Seconds that they have been there at least.
    pub(crate) min_age: Option<u64>,
    /// This one stays.
    pub(crate) skipped: Option<u64>,
}

impl Clients {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(1), known: Mutex::default() }
    }

    /// One more.
    pub(crate) fn enter(&self, addr: Option<SocketAddr>, local: Option<SocketAddr>, database: u16) -> Place<'_> {
        let state = State {
            name: Bytes::new(),
            database,
            protocol: Protocol::Resp2,
            channels: 0,
            patterns: 0,
            shards: 0,
            queued: None,
            command: "",
            last: Instant::now(),
            blocked: None,
        };
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            addr,
            local,
            since: Instant::now(),
            state: Mutex::new(state),
            killed: Notify::new(),
        });
        self.known().insert(client.id, Arc::clone(&client));
        Place { clients: self, client }
    }

    /// A line for each that is wanted, by number.
    pub(crate) fn list(&self, is_wanted: impl Fn(&Client) -> bool) -> String {
        self.known().values().filter(|client| is_wanted(client)).map(|client| client.line()).collect()
    }

    /// Disconnects those that the filter fits, and counts them. The one that `asker` is has to go by itself: it is told
    /// if so.
    pub(crate) fn kill(&self, filter: &Filter, asker: u64) -> (usize, bool) {
        let meant: Vec<_> = {
            let mut known = self.known();
            let meant: Vec<_> = known.values().filter(|client| filter.fits(client)).cloned().collect();
            meant.iter().for_each(|client| drop(known.remove(&client.id)));
            meant
        };
        meant.iter().filter(|client| client.id != asker).for_each(|client| client.killed.notify_one());
        (meant.len(), meant.iter().any(|client| client.id == asker))
    }

    /// False: there is no such client, or it waits for nothing.
    pub(crate) fn unblock(&self, id: u64, how: Unblock) -> bool {
        let client = self.known().get(&id).cloned();
        let blocked = client.and_then(|client| client.state().blocked.take());
        blocked.is_some_and(|blocked| blocked.send(how).is_ok())
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// The tunnel's port that it came in by.
    pub(crate) fn port(&self) -> Option<u16> {
        self.local.map(|local| local.port())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commands came, of which this is the last.
    pub(crate) fn note(&self, command: &'static str) {
        let mut state = self.state();
        (state.command, state.last) = (command, Instant::now());
    }

    /// It waits for a blocking command: what ends it early.
    pub(crate) fn block(&self) -> oneshot::Receiver<Unblock> {
        let (sender, receiver) = oneshot::channel();
        self.state().blocked = Some(sender);
        receiver
    }

    /// It waits no more.
    pub(crate) fn unblocked(&self) {
        self.state().blocked = None;
    }

    /// Until somebody disconnects it.
    pub(crate) async fn killed(&self) {
        self.killed.notified().await;
    }

    /// `normal`, or `pubsub` with subscriptions.
    pub(crate) fn kind(&self) -> &'static str {
        if self.state().is_listening() { "pubsub" } else { "normal" }
    }

    /// As in `CLIENT LIST` of Redis 7.0. What a tunnel has none of (descriptors, buffers, users) is 0, or the usual.
    pub(crate) fn line(&self) -> String {
        let address = |addr: Option<SocketAddr>| addr.map_or_else(String::new, |addr| addr.to_string());
        let state = self.state();
        let flags = match () {
            () if state.blocked.is_some() => "b",
            () if state.queued.is_some() => "x",
            () if state.is_listening() => "P",
            () => "N",
        };
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={flags} db={} sub={} psub={} ssub={} multi={} \
             qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd={} \
             user=default redir=-1 resp={}\n",
            self.id,
            address(self.addr),
            address(self.local),
            String::from_utf8_lossy(&state.name),
            self.since.elapsed().as_secs(),
            state.last.elapsed().as_secs(),
            state.database,
            state.channels,
            state.patterns,
            state.shards,
            state.queued.map_or(-1, |queued| i64::try_from(queued).unwrap_or(i64::MAX)),
            if state.command.is_empty() {
                "NULL".to_owned()
            } else {
                state.command.to_ascii_lowercase().replace(' ', "|")
            },
            if state.protocol == Protocol::Resp3 { 3 } else { 2 },
        )
    }
}

impl State {
    fn is_listening(&self) -> bool {
        self.channels + self.patterns + self.shards > 0
    }
}

impl Place<'_> {
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.clients.known().remove(&self.client.id);
    }
}

impl Filter {
    fn fits(&self, client: &Client) -> bool {
        let is = |wanted: &Option<String>, addr: Option<SocketAddr>| {
            wanted.as_ref().is_none_or(|wanted| addr.is_some_and(|addr| addr.to_string() == *wanted))
        };
        self.skipped != Some(client.id)
            && self.id.is_none_or(|id| id == client.id)
            && is(&self.addr, client.addr)
            && is(&self.local, client.local)
            && self.kind.as_ref().is_none_or(|kind| *kind == client.kind())
            && self.user.as_ref().is_none_or(|user| user == "default")
            && self.min_age.is_none_or(|age| client.since.elapsed().as_secs() >= age)
    }
}
