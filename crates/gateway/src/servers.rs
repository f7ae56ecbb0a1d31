//! The servers of a service that somebody else runs, as they are at the moment: a list that is replaced whole.
//!
//! Invariant: a server that is in the list before and after a change keeps its number, and with it the connections that
//! are kept to it, its open requests and what is known of its health.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use pilotlight_balance::{Group, MAX_SERVERS, Server, Tried};
use ring::hmac;

use crate::options::dns::ServerName;
use crate::options::external::{ExternalAddr, ExternalSpec, ServerSpec};
use crate::protocols::Spoken;
use crate::server_line::Line;
use crate::timing::{Moment, millis};

/// Bytes of what a client is told of a server: of 1,024 servers two are alike once in 10¹³ times.
const ID_BYTES: usize = 8;

/// The settings list the servers: nobody else gives them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed;

/// A service that another one of its name has taken over from, for as long as requests wait there.
pub(crate) trait Predecessor: std::fmt::Debug + Send + Sync {
    /// The service that has taken over has these servers now.
    fn follow_successor(&self, servers: &[ServerSpec]);

    /// How many requests wait there.
    fn waiting(&self) -> usize;
}

/// The servers of one service, and those that wait for one.
#[derive(Debug)]
pub(crate) struct Live {
    now: ArcSwap<Servers>,
    /// Held while the list is replaced.
    changing: Mutex<()>,
    line: Line,
    /// When a request began or ended last; 0: there was none.
    last_used: AtomicU64,
    /// What the DNS says of names.
    named: Mutex<Vec<Named>>,
    /// Services of this name that this one has taken over from, as long as requests wait there.
    predecessors: Mutex<Vec<Weak<dyn Predecessor>>>,
    /// The spell of waiting that somebody was told of last.
    told: AtomicU64,
    came: AtomicU64,
    went: AtomicU64,
    /// How many of each thousand requests get no server.
    without: AtomicU16,
}

/// A name that stands for servers, and what the DNS says of it.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: ServerName,
    /// Those of the last answer.
    pub(crate) servers: Vec<ServerSpec>,
    /// When that was; `None`: there was none.
    pub(crate) answered: Option<Instant>,
    /// When it is asked again.
    pub(crate) next: Option<Instant>,
    /// Why there was no answer the last time.
    pub(crate) error: Option<String>,
    /// Answers, and questions without one.
    pub(crate) answers: u64,
    pub(crate) failures: u64,
}

impl Named {
    fn new(name: &ServerName) -> Self {
        let (name, servers) = (name.clone(), Vec::new());
        Self { name, servers, answered: None, next: None, error: None, answers: 0, failures: 0 }
    }
}

/// A list of servers.
#[derive(Debug)]
pub(crate) struct Servers {
    /// In the order of `group`.
    all: Box<[OneServer]>,
    group: Group,
    /// Those of the settings; none: they are given.
    listed: Box<[ServerSpec]>,
}

/// One server.
#[derive(Debug)]
pub(crate) struct OneServer {
    spec: ServerSpec,
    address: String,
    number: u64,
    /// What clients are told of it that are to come back to it.
    id: Option<String>,
    /// What it speaks behind TLS, as far as that is known.
    spoken: AtomicU8,
}

impl Live {
    pub(crate) fn new(listed: Vec<ServerSpec>, spec: &ExternalSpec, sticky: Option<&[u8]>) -> Self {
        let none = Servers {
            all: Box::default(),
            group: Group::new(&[], spec.balance.settings),
            listed: listed.clone().into(),
        };
        Self {
            now: ArcSwap::from_pointee(none.with(listed.clone(), listed, spec, sticky)),
            changing: Mutex::default(),
            line: Line::new(spec.queue),
            last_used: AtomicU64::new(0),
            named: Mutex::new(spec.names.iter().map(Named::new).collect()),
            predecessors: Mutex::default(),
            told: AtomicU64::new(0),
            came: AtomicU64::new(0),
            went: AtomicU64::new(0),
            without: AtomicU16::new(0),
        }
    }

    /// How many of each thousand requests get no server.
    pub(crate) fn share_without_servers(&self) -> u16 {
        self.without.load(Relaxed)
    }

    /// Sets how many of each thousand requests get no server from now on.
    pub(crate) fn set_share_without_servers(&self, thousandths: u16) {
        self.without.store(thousandths, Relaxed);
    }

    /// The servers that there are now.
    pub(crate) fn now(&self) -> Arc<Servers> {
        self.now.load_full()
    }

    /// Those that wait because there is no server, or none that may have another request.
    pub(crate) fn line(&self) -> &Line {
        &self.line
    }

    /// The names that are followed.
    pub(crate) fn named(&self) -> Vec<Named> {
        self.lock_named().clone()
    }

    fn lock_named(&self) -> MutexGuard<'_, Vec<Named>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that the settings list, and those that the DNS names.
    fn all_of(&self, listed: &[ServerSpec]) -> Vec<ServerSpec> {
        let mut servers = listed.to_vec();
        servers.extend(self.lock_named().iter().flat_map(|named| named.servers.iter().cloned()));
        servers
    }

    /// What the DNS says of a name. Returns all servers if that is news.
    pub(crate) fn resolved(
        &self,
        name: &ServerName,
        found: Result<Vec<ServerSpec>, String>,
        next: Duration,
        spec: &ExternalSpec,
        sticky: Option<&[u8]>,
    ) -> Option<Vec<ServerSpec>> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = self.lock_named().iter_mut().find(|one| one.name == *name)?.learn(found, next, &spec.name);
        let now = self.now.load();
        let servers = is_news.then(|| self.all_of(&now.listed))?;
        self.replace(now.with(servers.clone(), now.listed.to_vec(), spec, sticky), spec);
        Some(servers)
    }

    /// Whether requests may have to wait for a server to come.
    pub(crate) fn may_be_empty(&self) -> bool {
        self.now.load().listed.is_empty()
    }

    /// Whether somebody gives its servers, so that one that takes no connection is about to be replaced.
    pub(crate) fn is_given(&self, spec: &ExternalSpec) -> bool {
        self.may_be_empty() && spec.names.is_empty()
    }

    /// The settings list others.
    /// Returns all servers.
    pub(crate) fn list(&self, listed: Vec<ServerSpec>, spec: &ExternalSpec, sticky: Option<&[u8]>) -> Vec<ServerSpec> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let servers = self.all_of(&listed);
        let next = self.now.load().with(servers.clone(), listed, spec, sticky);
        self.replace(next, spec);
        servers
    }

    /// Others are given.
    ///
    /// # Errors
    /// The settings list them.
    pub(crate) fn give(
        &self,
        servers: Vec<ServerSpec>,
        spec: &ExternalSpec,
        sticky: Option<&[u8]>,
    ) -> Result<(), Listed> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now.load();
        if !now.listed.is_empty() || !spec.names.is_empty() {
            return Err(Listed);
        }
        self.replace(now.with(servers, Vec::new(), spec, sticky), spec);
        Ok(())
    }

    /// Goes on from where the servers of other settings are.
    pub(crate) fn take_over(
        &self,
        old: &Self,
        predecessor: Weak<dyn Predecessor>,
        spec: &ExternalSpec,
        sticky: Option<&[u8]>,
    ) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (listed, before) = (self.now.load().listed.to_vec(), old.now());
        let is_named = |live: &Self| !live.lock_named().is_empty();
        let are_given = listed.is_empty() && before.listed.is_empty() && !is_named(self) && !is_named(old);
        let given = || before.all.iter().map(|one| one.spec.clone()).collect();
        for named in &mut *self.lock_named() {
            // Until the DNS says it anew.
            if let Some(known) = old.lock_named().iter().find(|known| known.name == named.name) {
                named.clone_from(known);
            }
        }
        let servers: Vec<ServerSpec> = if are_given { given() } else { self.all_of(&listed) };
        self.last_used.fetch_max(old.last_used.load(Relaxed), Relaxed);
        self.set_share_without_servers(old.share_without_servers());
        self.replace(before.with(servers.clone(), listed, spec, sticky), spec);
        let mut all = std::mem::take(&mut *old.lock_predecessors());
        all.push(predecessor);
        *self.lock_predecessors() = all;
        self.tell_predecessors(&servers);
    }

    /// The service that has taken over has these servers.
    pub(crate) fn follow_successor(&self, servers: Vec<ServerSpec>, spec: &ExternalSpec, sticky: Option<&[u8]>) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now.load();
        self.replace(now.with(servers, now.listed.to_vec(), spec, sticky), spec);
    }

    /// Requests that wait there get one of these servers.
    pub(crate) fn tell_predecessors(&self, servers: &[ServerSpec]) {
        let mut all = self.lock_predecessors();
        all.retain(|one| one.upgrade().inspect(|old| old.follow_successor(servers)).is_some());
    }

    /// Requests that wait, here or where this has taken over from.
    pub(crate) fn waiting(&self) -> usize {
        let elsewhere = |one: &Weak<dyn Predecessor>| one.upgrade().map(|old| old.waiting());
        self.line.length() + self.lock_predecessors().iter().filter_map(elsewhere).sum::<usize>()
    }

    fn lock_predecessors(&self) -> MutexGuard<'_, Vec<Weak<dyn Predecessor>>> {
        self.predecessors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, next: Servers, spec: &ExternalSpec) {
        let before = self.now.load();
        let (now, then) = (before.numbers(), next.numbers());
        let (came, went) = (then.difference(&now).count() as u64, now.difference(&then).count() as u64);
        self.came.fetch_add(came, Relaxed);
        self.went.fetch_add(went, Relaxed);
        if came + went > 0 {
            tracing::info!(service = spec.name, came, went, servers = next.all.len(), "its servers have changed");
        }
        if !next.all.is_empty() {
            self.told.store(0, Relaxed);
        }
        self.now.store(Arc::new(next));
        self.line.call_first();
    }

    /// A request begins, or has ended.
    pub(crate) fn is_used(&self, now: Moment) {
        self.last_used.store(now.as_ns(), Relaxed);
    }

    /// When that was last.
    pub(crate) fn last_used(&self) -> Option<Moment> {
        let ns = self.last_used.load(Relaxed);
        (ns != 0).then(|| Moment::of_ns(ns))
    }

    /// Servers that have come, and those that have gone, since this was made.
    pub(crate) fn changes(&self) -> (u64, u64) {
        (self.came.load(Relaxed), self.went.load(Relaxed))
    }

    /// A request waits though there is no server that takes connections. Returns whether that is to be told: once until
    /// there is a server, or nobody waits any more.
    pub(crate) fn is_needed_anew(&self) -> bool {
        let spell = self.line.spell();
        self.now.load().group.takes_none(millis(Moment::now())) && self.told.swap(spell, Relaxed) != spell
    }
}

impl Named {
    /// Returns whether it stands for other servers than before.
    fn learn(&mut self, found: Result<Vec<ServerSpec>, String>, next: Duration, service: &str) -> bool {
        let (now, name) = (Instant::now(), &self.name.name);
        self.next = now.checked_add(next);
        match found {
            Ok(servers) => {
                if self.error.take().is_some() {
                    tracing::info!(service, name, "the DNS answers again");
                }
                if servers.is_empty() && (self.answered.is_none() || !self.servers.is_empty()) {
                    tracing::warn!(service, name, "the DNS knows no server by this name");
                }
                self.answers += 1;
                self.answered = Some(now);
                let is_news = self.servers != servers;
                self.servers = servers;
                is_news
            }
            Err(why) => {
                if self.error.is_none() {
                    let last =
                        if self.answered.is_some() { "the last answer counts" } else { "it has no server by it" };
                    tracing::warn!(service, name, "a name cannot be looked up, {last}: {why}");
                }
                self.failures += 1;
                self.error = Some(why);
                false
            }
        }
    }
}

impl Servers {
    /// The list that follows this one.
    fn with(
        &self,
        servers: Vec<ServerSpec>,
        listed: Vec<ServerSpec>,
        spec: &ExternalSpec,
        sticky: Option<&[u8]>,
    ) -> Self {
        let count = servers.len();
        let mut seen = HashSet::new();
        let named = |server: ServerSpec| {
            let address = server.addr.to_string();
            (server, address)
        };
        let mut each: Vec<(ServerSpec, String)> = servers.into_iter().map(named).collect();
        each.retain(|(_, address)| seen.insert(address.clone()));
        if each.len() > MAX_SERVERS {
            tracing::warn!(
                service = spec.name,
                count,
                "it has more than {MAX_SERVERS} servers: the rest get no requests"
            );
            each.truncate(MAX_SERVERS);
        }
        let places: Vec<Server<'_>> = each
            .iter()
            .map(|(server, address)| Server::new(address, server.weight).of_priority(server.priority))
            .collect();
        let group = self.group.with(&places, spec.balance.settings, millis(Moment::now()));
        let known: HashMap<u64, &OneServer> = self.all.iter().map(|one| (one.number, one)).collect();
        let key = sticky.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret));
        let one = |(index, (server, address)): (usize, (ServerSpec, String))| {
            let number = group.number(index);
            let id = key.as_ref().map(|key| id(key, &spec.name, &address));
            let known = known.get(&number).filter(|one| one.spec.host == server.host);
            let spoken = known.map_or(0, |one| one.spoken.load(Relaxed));
            OneServer { spec: server, address, number, id, spoken: AtomicU8::new(spoken) }
        };
        let all = each.into_iter().enumerate().map(one).collect();
        Self { all, group, listed: listed.into() }
    }

    pub(crate) fn all(&self) -> &[OneServer] {
        &self.all
    }

    pub(crate) fn one(&self, index: usize) -> Option<&OneServer> {
        self.all.get(index)
    }

    /// What is known of them.
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// Those of the settings.
    pub(crate) fn listed(&self) -> &[ServerSpec] {
        &self.listed
    }

    /// The server of this number.
    pub(crate) fn of_number(&self, number: u64) -> Option<usize> {
        self.all.iter().position(|one| one.number == number)
    }

    fn numbers(&self) -> HashSet<u64> {
        self.all.iter().map(|one| one.number).collect()
    }

    /// Whether there is a server that is not left out.
    pub(crate) fn has_one_in(&self, now: Moment) -> bool {
        self.group.has_others(Tried::default(), millis(now))
    }

    /// Requests that are open.
    pub(crate) fn open(&self) -> u32 {
        (0..self.all.len()).map(|index| self.group.open(index)).sum()
    }

    /// The server that a client was told of by this.
    pub(crate) fn of_id(&self, id: &[u8]) -> Option<usize> {
        self.all.iter().position(|one| one.id().is_some_and(|own| own.as_bytes() == id))
    }
}

impl OneServer {
    pub(crate) fn new(spec: ServerSpec, number: u64, id: Option<String>) -> Self {
        let address = spec.addr.to_string();
        Self { spec, address, number, id, spoken: AtomicU8::new(0) }
    }

    pub(crate) fn spec(&self) -> &ServerSpec {
        &self.spec
    }

    /// Where it listens, for people.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Which kept connections lead to it.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// What clients are told of it.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The host that it is, without the port.
    pub(crate) fn host(&self) -> &str {
        match (&self.spec.host, &self.spec.addr) {
            (Some(host), _) | (None, ExternalAddr::Tcp(host, _)) => host,
            (None, ExternalAddr::Unix(_)) => "localhost",
        }
    }

    /// What it speaks behind TLS.
    pub(crate) fn spoken(&self) -> Spoken {
        match self.spoken.load(Relaxed) {
            1 => Spoken::Http1,
            2 => Spoken::Http2,
            _ => Spoken::Unknown,
        }
    }

    pub(crate) fn speaks(&self, what: Spoken) {
        self.spoken.store(what as u8, Relaxed);
    }
}

/// The same in every gateway with the same secret, whatever the order of the servers.
fn id(key: &hmac::Key, service: &str, address: &str) -> String {
    let tag = hmac::sign(key, format!("{service}\n{address}").as_bytes());
    tag.as_ref().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect()
}
