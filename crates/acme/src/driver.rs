//! The owner of all certificates by ACME: a loop on a thread of its own, which asks the agenda what to do, and does it.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::agenda::{Agenda, Issuer, NameState, Work};
use crate::authority::{Authority, Means, Wanted, kept};
use crate::certificate::{Facts, Pair};
use crate::challenge::{Answers, Question};
use crate::demand::Demand;
use crate::error::OrderError;
use crate::handle::{Acme, Command, CommandError, Orders, Reply, Status};
use crate::https::Https;
use crate::name::{Name, Reach};
use crate::options::{AcmeSettings, LETS_ENCRYPT_STAGING};
use crate::renewal::Suggestion;
use crate::show::Certificates;
use crate::storage::{self, Item, Storage, StorageError};

/// Longest wait for nothing: clocks are set, and machines sleep.
const MAX_NAP: Duration = Duration::from_secs(600);
/// Certificates read from the storage at once, when names come.
const MAX_READS: usize = 64;
/// Questions about names at once.
const MAX_ASKED: usize = 8;

/// Why ACME cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The storage cannot be used.
    #[error("the storage of [tls.acme] cannot be used: {0}")]
    Storage(#[from] StorageError),
    /// The roots of an authority cannot be read.
    #[error("the authority {directory} cannot be used: {cause}")]
    Authority {
        /// Its directory.
        directory: String,
        /// What is wrong.
        cause: std::io::Error,
    },
}

/// The owner. It does nothing before [`run`](Self::run).
pub struct Driver {
    agenda: Agenda,
    reach: Reach,
    ask: Option<String>,
    asking: Option<Https>,
    demand: Demand,
    authorities: Vec<Arc<Authority>>,
    means: Arc<Means>,
    orders: Orders,
    questions: mpsc::Receiver<Question>,
    tasks: JoinSet<Done>,
    asked: usize,
    /// Who waits until nothing is being read.
    wait_for_reads: Vec<std::sync::mpsc::Sender<()>>,
    obtained: u64,
    failed: u64,
}

/// What a task has done.
enum Done {
    Read(Vec<(Name, Result<Option<Pair>, StorageError>)>),
    Ordered { name: Name, authority: usize, ordered: Result<Ordered, OrderError> },
    Suggested(Name, Suggestion),
    Imported(Pair, Vec<Name>, Result<(), StorageError>, Reply),
    Asked(Name, bool),
    Answered,
}

enum Ordered {
    New(Pair),
    /// Another gateway had stored it.
    Found(Pair),
    /// Another gateway is getting it.
    Elsewhere,
}

/// What the loop goes on with.
enum Event {
    Command(Option<Command>),
    Demand(String),
    Question(Question),
    Done(Option<Result<Done, tokio::task::JoinError>>),
    Time,
}

impl Driver {
    /// A handle, and the owner, which is to be run on a thread of its own. Within a tokio runtime.
    ///
    /// # Errors
    /// The storage or the roots of an authority cannot be used.
    pub fn new(settings: &AcmeSettings, certificates: Arc<dyn Certificates>) -> Result<(Acme, Self), StartError> {
        let storage = storage::open(&settings.storage)?;
        let (answers, questions) = Answers::shared();
        let authority = |of: &crate::options::AuthoritySettings| {
            let made = Authority::new(of.clone(), settings.email.clone());
            made.map(Arc::new).map_err(|cause| StartError::Authority { directory: of.directory.clone(), cause })
        };
        let authorities: Vec<Arc<Authority>> = settings.authorities.iter().map(authority).collect::<Result<_, _>>()?;
        let asking = settings.ask.as_ref().and_then(|_| Https::new(None).ok());
        let status = Status {
            authorities: authorities.iter().map(|authority| authority.directory().to_owned()).collect(),
            storage: storage.place(),
            ..Status::default()
        };
        let (acme, orders) = Acme::new(answers.clone(), settings.ask.is_some(), status);
        let driver = Self {
            agenda: Agenda::new(authorities.len(), fastrand::u64(..)),
            reach: settings.reach(),
            ask: settings.ask.clone(),
            asking,
            demand: Demand::new(SystemTime::now()),
            authorities,
            means: Arc::new(Means { storage, answers, certificates, challenges: settings.challenges }),
            orders,
            questions,
            tasks: JoinSet::new(),
            asked: 0,
            wait_for_reads: Vec::new(),
            obtained: 0,
            failed: 0,
        };
        Ok((acme, driver))
    }

    /// Runs until it is told to stop, or nobody can tell it any more.
    ///
    /// # Cancel safety
    /// Dropping it drops orders that are under way.
    pub async fn run(mut self) {
        loop {
            let until = self.begin_work();
            self.publish();
            if !self.agenda.is_reading() {
                self.wait_for_reads.clear();
            }
            match self.select(until).await {
                Event::Command(Some(Command::Stop) | None) => break,
                Event::Command(Some(command)) => self.follow(command),
                Event::Demand(host) => self.demanded(&host),
                Event::Question(question) => self.question(question),
                Event::Done(Some(Ok(done))) => self.done(done),
                Event::Done(Some(Err(e))) => tracing::error!("a task of ACME ended: {e}; this is a bug of Pilotlight"),
                Event::Done(None) | Event::Time => {}
            }
        }
        self.tasks.shutdown().await;
    }

    async fn select(&mut self, until: Option<SystemTime>) -> Event {
        let nap = until.map_or(MAX_NAP, |until| until.duration_since(SystemTime::now()).unwrap_or_default());
        let demand = async {
            match &mut self.orders.demands {
                Some(demands) => demands.recv().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            command = self.orders.commands.recv() => Event::Command(command),
            Some(question) = self.questions.recv() => Event::Question(question),
            Some(done) = self.tasks.join_next() => Event::Done(Some(done)),
            Some(host) = demand, if self.asked < MAX_ASKED => Event::Demand(host),
            () = tokio::time::sleep(nap.min(MAX_NAP)) => Event::Time,
        }
    }

    /// Begins what is to be done now, and says when there is more.
    fn begin_work(&mut self) -> Option<SystemTime> {
        loop {
            match self.agenda.next(SystemTime::now()) {
                Work::Order { name, authority, attempt } => self.order(name, authority, attempt),
                Work::AskWindow { name, authority } => {
                    let (of, means) = (Arc::clone(&self.authorities[authority]), Arc::clone(&self.means));
                    let Some(facts) = self.agenda.facts(&name).cloned() else { continue };
                    self.tasks.spawn(async move { Done::Suggested(name, of.window(&facts, &means).await) });
                }
                Work::Nothing { until } => return until,
            }
        }
    }

    fn order(&mut self, name: Name, authority: usize, attempt: u64) {
        let (of, means) = (Arc::clone(&self.authorities[authority]), Arc::clone(&self.means));
        let held = self.agenda.facts(&name).cloned();
        let replaces = held.clone().filter(|_| self.agenda.is_from(&name, authority));
        self.tasks.spawn(async move {
            let wanted = Wanted { name: &name, replaces: replaces.as_ref(), attempt };
            let ordered = order(wanted, held.as_ref(), &of, &means).await;
            Done::Ordered { name, authority, ordered }
        });
    }

    fn follow(&mut self, command: Command) {
        match command {
            Command::Route(names) => {
                let changed = self.agenda.route(&names);
                if changed.over > 0 {
                    tracing::error!("{} hosts get no certificate: there are too many names", changed.over);
                }
                self.means.certificates.change(&[], &changed.gone);
                for names in changed.new.chunks(MAX_READS) {
                    self.read(names.to_vec());
                }
            }
            Command::Renew(host, reply) => {
                let _ = reply.send(self.renew(&host)); // who asked has gone
            }
            Command::Import(pair, reply) => match self.importable(&pair) {
                Ok(names) => {
                    let means = Arc::clone(&self.means);
                    self.tasks.spawn(async move {
                        let mut written = Ok(());
                        for name in &names {
                            let item = Item::Certificate(name.clone());
                            written = written.and(means.storage.write(&item, pair.to_stored()).await);
                        }
                        Done::Imported(pair, names, written, reply)
                    });
                }
                Err(e) => {
                    let _ = reply.send(Err(e)); // who asked has gone
                }
            },
            Command::TellWhenRead(reply) => self.wait_for_reads.push(reply),
            Command::Stop => {}
        }
    }

    fn renew(&mut self, host: &str) -> Result<Vec<Name>, CommandError> {
        let all: Vec<Name> = self.agenda.names(SystemTime::now()).map(|state| state.name).collect();
        let named = all.into_iter().filter(|name| host.is_empty() || name.as_str() == host.to_ascii_lowercase());
        let named: Vec<Name> = named.collect();
        if named.is_empty() {
            return Err(CommandError::UnknownName(host.to_owned()));
        }
        for name in &named {
            self.agenda.renew(name);
        }
        Ok(named)
    }

    fn importable(&self, pair: &Pair) -> Result<Vec<Name>, CommandError> {
        let facts = pair.facts()?;
        let fits = |state: &NameState| facts.names.iter().any(|name| is_for(name, state.name.as_str()));
        let named: Vec<Name> = self.agenda.names(SystemTime::now()).filter(fits).map(|state| state.name).collect();
        if named.is_empty() {
            return Err(CommandError::OtherNames(facts.names.join(", ")));
        }
        Ok(named)
    }

    /// Reads what the storage has of these names. Until then nothing is ordered for them.
    fn read(&mut self, names: Vec<Name>) {
        for name in &names {
            self.agenda.is_being_read(name);
        }
        let means = Arc::clone(&self.means);
        self.tasks.spawn(async move {
            let mut read = Vec::with_capacity(names.len());
            for name in names {
                let pair = stored(&name, &*means.storage).await;
                read.push((name, pair));
            }
            Done::Read(read)
        });
    }

    fn demanded(&mut self, host: &str) {
        let (Some(ask), Some(http)) = (&self.ask, &self.asking) else { return };
        let Ok(name) = Name::of_host(host, self.reach) else { return };
        if self.agenda.knows(&name) || !self.demand.admits(&name, SystemTime::now()) {
            return;
        }
        let separator = if ask.contains('?') { '&' } else { '?' };
        let (http, target) = (http.clone(), format!("{ask}{separator}domain={name}"));
        self.asked += 1;
        self.tasks.spawn(async move {
            let Ok(request) = Request::get(&target).body(Empty::<Bytes>::new()) else {
                return Done::Asked(name, false);
            };
            let answer = http.send(request).await;
            if let Err(e) = &answer {
                tracing::warn!(%name, "nobody says whether the name may have a certificate: {e}");
            }
            Done::Asked(name, answer.is_ok_and(|answer| answer.status().is_success()))
        });
    }

    fn question(&mut self, Question { token, reply }: Question) {
        let means = Arc::clone(&self.means);
        self.tasks.spawn(async move {
            let stored = means.storage.read(&Item::Challenge(token)).await.ok().flatten();
            let answer = stored.and_then(|bytes| String::from_utf8(bytes).ok());
            let _ = reply.send(answer.map(Arc::from)); // who asked has gone
            Done::Answered
        });
    }

    fn done(&mut self, done: Done) {
        let now = SystemTime::now();
        match done {
            Done::Read(read) => self.was_read(read, now),
            Done::Ordered { name, authority, ordered } => self.ordered(&name, authority, ordered, now),
            Done::Suggested(name, suggestion) => self.agenda.suggested(&name, suggestion, now),
            Done::Imported(pair, names, written, reply) => {
                let answer = written.map_err(CommandError::from).and_then(|()| {
                    let facts = pair.facts()?;
                    let installed: Vec<(Name, Pair)> = names.iter().map(|name| (name.clone(), pair.clone())).collect();
                    self.install(&installed);
                    names.iter().for_each(|name| self.agenda.hold(name, facts.clone(), Issuer::Imported, now));
                    Ok(names)
                });
                let _ = reply.send(answer); // who asked has gone
            }
            Done::Asked(name, may) => {
                self.asked -= 1;
                if may && self.agenda.demand(&name) {
                    self.read(vec![name]);
                } else if !may {
                    tracing::debug!(%name, "the name may have no certificate");
                }
            }
            Done::Answered => {}
        }
    }

    fn was_read(&mut self, read: Vec<(Name, Result<Option<Pair>, StorageError>)>, now: SystemTime) {
        let mut installed = Vec::new();
        for (name, pair) in read {
            self.agenda.was_read(&name);
            match pair.map(|pair| pair.and_then(|pair| pair.facts().ok().map(|facts| (pair, facts)))) {
                Ok(Some((pair, facts))) => {
                    self.agenda.hold(&name, facts, self.issuer(&pair), now);
                    installed.push((name, pair));
                }
                Ok(None) => {}
                Err(e) => tracing::warn!(%name, "{e}"),
            }
        }
        self.install(&installed);
    }

    fn ordered(&mut self, name: &Name, authority: usize, ordered: Result<Ordered, OrderError>, now: SystemTime) {
        let (pair, is_new) = match ordered {
            Ok(Ordered::New(pair)) => (pair, true),
            Ok(Ordered::Found(pair)) => (pair, false),
            Ok(Ordered::Elsewhere) => return self.agenda.is_elsewhere(name, now),
            Err(e) => {
                self.failed += 1;
                tracing::warn!(%name, "no certificate: {e}");
                return self.agenda.failed(name, authority, e.failure(), e.to_string(), now);
            }
        };
        let Ok(facts) = pair.facts() else { return }; // it was looked at when it came
        if is_new {
            self.obtained += 1;
            tracing::info!(%name, from = pair.issued_by.as_deref().unwrap_or_default(), "a certificate was obtained");
        }
        let issuer = self.issuer(&pair);
        if self.agenda.knows(name) {
            self.install(&[(name.clone(), pair)]);
        }
        self.agenda.obtained(name, facts, issuer, now);
    }

    fn install(&self, installed: &[(Name, Pair)]) {
        if installed.is_empty() {
            return;
        }
        for (name, why) in self.means.certificates.change(installed, &[]) {
            tracing::error!(%name, "the certificate cannot be used: {why}");
        }
    }

    fn issuer(&self, pair: &Pair) -> Issuer {
        let directory = pair.issued_by.as_deref();
        match self.authorities.iter().position(|of| Some(of.directory()) == directory) {
            Some(index) => Issuer::Configured(index),
            None if directory == Some(LETS_ENCRYPT_STAGING) => Issuer::Staging,
            None if directory.is_some() => Issuer::Other,
            None => Issuer::Imported,
        }
    }

    fn publish(&self) {
        let mut status = self.orders.status.lock().unwrap_or_else(PoisonError::into_inner);
        let names = self.agenda.names(SystemTime::now()).collect();
        let (obtained, failed) = (self.obtained, self.failed);
        let Status { authorities, storage, .. } = &**status;
        let (authorities, storage) = (authorities.clone(), storage.clone());
        *status = Arc::new(Status { names, authorities, storage, obtained, failed });
    }
}

/// One order, unless another gateway has placed it or has stored what it brought.
async fn order(
    wanted: Wanted<'_>,
    held: Option<&Facts>,
    authority: &Authority,
    means: &Means,
) -> Result<Ordered, OrderError> {
    let name = wanted.name;
    let item = Item::Certificate(name.clone());
    let Some(mut lease) = means.storage.lease(&item).await? else {
        return Ok(newer(name, held, means).await?.map_or(Ordered::Elsewhere, Ordered::Found));
    };
    let work = async {
        // Under the lease: its last holder has stored what he got before he gave it back.
        if let Some(pair) = newer(name, held, means).await? {
            return Ok(Ordered::Found(pair));
        }
        let pair = authority.order(wanted, means).await?;
        means.storage.write(&item, pair.to_stored()).await?;
        Ok(Ordered::New(pair))
    };
    let ordered = kept(&mut *lease, work).await;
    if let Err(e) = lease.release().await {
        tracing::warn!(%name, "a lease could not be given back, and ends by itself: {e}");
    }
    ordered
}

/// What the storage has, if it is another one than what is held, and lasts longer.
async fn newer(name: &Name, held: Option<&Facts>, means: &Means) -> Result<Option<Pair>, StorageError> {
    let Some(pair) = stored(name, &*means.storage).await? else { return Ok(None) };
    let Ok(found) = pair.facts() else { return Ok(None) };
    let is_newer = held.is_none_or(|held| found.fingerprint != held.fingerprint && found.not_after >= held.not_after);
    Ok((is_newer && found.not_after > SystemTime::now()).then_some(pair))
}

/// What the storage has of a name, if it is a certificate of that name.
async fn stored(name: &Name, storage: &dyn Storage) -> Result<Option<Pair>, StorageError> {
    let Some(bytes) = storage.read(&Item::Certificate(name.clone())).await? else { return Ok(None) };
    let of_name = |pair: Pair| {
        let names = pair.facts().ok()?.names;
        names.iter().any(|one| is_for(one, name.as_str())).then_some(pair)
    };
    match Pair::from_stored(&bytes) {
        Ok(pair) => Ok(of_name(pair)),
        Err(e) => {
            tracing::warn!(%name, "what is stored cannot be used: {e}");
            Ok(None)
        }
    }
}

/// RFC 9525 §6.3: a wildcard stands for one label.
fn is_for(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(parent) => host.split_once('.').is_some_and(|(_, rest)| rest == parent),
        None => pattern == host,
    }
}

/// Names, each once, and why others have none.
#[must_use]
pub fn names_of<'a>(hosts: impl IntoIterator<Item = &'a str>, reach: Reach) -> BTreeSet<Name> {
    hosts.into_iter().filter_map(|host| Name::of_host(host, reach).ok()).collect()
}
