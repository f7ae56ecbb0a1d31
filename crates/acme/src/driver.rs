//! The owner of all certificates by ACME: a loop on a thread of its own, which asks the agenda what to do, and does it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::agenda::{Agenda, Demand, Issuer, MAX_ON_DEMAND, NameState, Permission, Work};
use crate::authority::{Authority, Means, Wanted};
use crate::certificate::Pair;
use crate::challenge::{Answers, Question};
use crate::demand::{FAILED_MAX, REFUSED};
use crate::error::OrderError;
use crate::handle::{Acme, Asked, Command, CommandError, OnDemandStatus, Orders, Reply, Status};
use crate::name::Name;
use crate::on_demand::{OnDemand, Verdict};
use crate::options::{AcmeSettings, LETS_ENCRYPT_STAGING};
use crate::order::{Ordered, keep, order};
use crate::renewal::Suggestion;
use crate::show::Certificates;
use crate::storage::{self, Item, StorageError};
use crate::stored::{is_for, newer, stored};

/// Longest wait for nothing: clocks are set, and machines sleep.
const MAX_NAP: Duration = Duration::from_secs(600);
/// Certificates read from the storage at once, when names come.
const MAX_READS: usize = 64;
/// How often it is tried to keep certificates that could not be kept when they came.
const KEPT_EVERY: Duration = Duration::from_secs(10);

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
    /// The address that is asked cannot be.
    #[error("on_demand.ask of [tls.acme] cannot be asked: {0}")]
    Ask(std::io::Error),
}

/// The owner. It does nothing before [`run`](Self::run).
pub struct Driver {
    agenda: Agenda,
    on_demand: Option<OnDemand>,
    authorities: Vec<Arc<Authority>>,
    means: Arc<Means>,
    orders: Orders,
    questions: mpsc::Receiver<Question>,
    tasks: JoinSet<Done>,
    /// In use, and not in the storage, which could not keep them; tried again then.
    unkept: BTreeMap<Name, Pair>,
    keep_at: Option<SystemTime>,
    /// Callers that wait until nothing is being read.
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
    Looked(Name, Result<Looked, StorageError>),
    Permitted(Name, Permission),
    Kept(Vec<(Name, Pair, Result<(), StorageError>)>),
    Answered,
}

/// What was found of a name that a client has asked for.
enum Looked {
    Stored(Pair),
    Asked(Permission),
}

/// What the loop goes on with.
enum Event {
    Command(Option<Command>),
    Asked(Asked),
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
        let status = Status {
            authorities: authorities.iter().map(|authority| authority.directory().to_owned()).collect(),
            storage: storage.place(),
            on_demand: settings.on_demand.clone().map(OnDemandStatus::new),
            ..Status::default()
        };
        let (acme, orders) = Acme::new(answers.clone(), settings.reach(), status);
        let on_demand = match (&settings.on_demand, &orders.waiting) {
            (Some(settings), Some(waiting)) => {
                Some(OnDemand::new(settings, waiting, Instant::now()).map_err(StartError::Ask)?)
            }
            _ => None,
        };
        let driver = Self {
            agenda: Agenda::new(authorities.len(), fastrand::u64(..)),
            on_demand,
            authorities,
            means: Arc::new(Means { storage, answers, certificates, challenges: settings.challenges }),
            orders,
            questions,
            tasks: JoinSet::new(),
            unkept: BTreeMap::new(),
            keep_at: None,
            wait_for_reads: Vec::new(),
            obtained: 0,
            failed: 0,
        };
        Ok((acme, driver))
    }

    /// Runs until a command stops it, or until every handle that could send one is dropped.
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
                Event::Asked(asked) => self.asked(asked),
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
        let has_room = self.on_demand.as_ref().is_some_and(OnDemand::has_room);
        let asked = async {
            match &mut self.orders.asked {
                Some(asked) => asked.recv().await,
                None => None,
            }
        };
        tokio::select! {
            biased;
            command = self.orders.commands.recv() => Event::Command(command),
            Some(question) = self.questions.recv() => Event::Question(question),
            Some(done) = self.tasks.join_next() => Event::Done(Some(done)),
            Some(asked) = asked, if has_room => Event::Asked(asked),
            () = tokio::time::sleep(nap.min(MAX_NAP)) => Event::Time,
        }
    }

    /// Begins what is to be done now, and says when there is more.
    fn begin_work(&mut self) -> Option<SystemTime> {
        let now = SystemTime::now();
        self.means.certificates.change(&[], &self.agenda.forget_refused(now));
        self.keep_again(now);
        loop {
            match self.agenda.next(SystemTime::now()) {
                Work::Order { name, authority, attempt } => self.order(name, authority, attempt),
                Work::AskWindow { name, authority } => {
                    let (of, means) = (Arc::clone(&self.authorities[authority]), Arc::clone(&self.means));
                    let Some(facts) = self.agenda.facts(&name).cloned() else { continue };
                    self.tasks.spawn(async move { Done::Suggested(name, of.window(&facts, &means).await) });
                }
                Work::AskPermission { name } => {
                    let ask = self.on_demand.as_ref().map(OnDemand::ask);
                    self.tasks.spawn(async move {
                        let permission = match ask {
                            Some(ask) => ask.ask(&name).await,
                            None => Permission::Refused,
                        };
                        Done::Permitted(name, permission)
                    });
                }
                Work::Nothing { until } => return [until, self.keep_at].into_iter().flatten().min(),
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
                let _ = reply.send(self.renew(&host)); // an error: the caller does not wait any more
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
                    let _ = reply.send(Err(e)); // an error: the caller does not wait any more
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

    /// A client has asked for a name that has no certificate: it is in the storage, or `on_demand.ask` says whether it
    /// may have one.
    fn asked(&mut self, asked: Asked) {
        let Some(on_demand) = &mut self.on_demand else { return };
        let name = on_demand.begin(asked);
        let (ask, means) = (on_demand.ask(), Arc::clone(&self.means));
        self.tasks.spawn(async move {
            let looked = match newer(&name, None, &*means.storage).await {
                Ok(Some(pair)) => Ok(Looked::Stored(pair)),
                Ok(None) => Ok(Looked::Asked(ask.ask(&name).await)),
                Err(e) => Err(e),
            };
            Done::Looked(name, looked)
        });
    }

    fn looked(&mut self, name: &Name, looked: Result<Looked, StorageError>, now: SystemTime) {
        let Some(on_demand) = &mut self.on_demand else { return };
        let verdict = match looked {
            Ok(Looked::Stored(pair)) => {
                on_demand.was_stored();
                self.agenda.demand(name, now);
                self.was_read(vec![(name.clone(), Ok(Some(pair)))], now);
                return self.settle(name, None);
            }
            Ok(Looked::Asked(permission)) => on_demand.judge(name, Ok(permission), Instant::now()),
            Err(e) => on_demand.judge(name, Err(e), Instant::now()),
        };
        match verdict {
            Verdict::Permitted => {
                let demand = self.agenda.demand(name, now);
                self.expect(name, demand, now);
            }
            Verdict::Refused(wait) => self.settle(name, Some(wait)),
        }
    }

    /// Clients that wait for a name go on waiting, or learn that it gets no certificate.
    fn expect(&mut self, name: &Name, demand: Demand, now: SystemTime) {
        match demand {
            Demand::Ordered => {}
            Demand::NotBefore(until) => {
                let wait = until.duration_since(now).unwrap_or_default();
                self.settle(name, Some(wait.min(FAILED_MAX)));
            }
            Demand::Full => {
                tracing::error!(%name, "no certificate: there are {MAX_ON_DEMAND} names on demand already");
                self.settle(name, Some(REFUSED));
            }
        }
    }

    fn settle(&mut self, name: &Name, refused: Option<Duration>) {
        if let Some(on_demand) = &mut self.on_demand {
            on_demand.settle(name, refused);
        }
    }

    /// Tries to keep the certificates that could not be kept when they came.
    fn keep_again(&mut self, now: SystemTime) {
        // A clock that was set back delays nothing.
        self.keep_at = self.keep_at.map(|at| at.min(now + KEPT_EVERY));
        if self.keep_at.is_none_or(|at| at > now) {
            return;
        }
        self.keep_at = None;
        let (unkept, means) = (self.unkept.clone(), Arc::clone(&self.means));
        self.tasks.spawn(async move {
            let mut kept = Vec::with_capacity(unkept.len());
            for (name, pair) in unkept {
                let done = keep(&name, &pair, &means).await;
                kept.push((name, pair, done));
            }
            Done::Kept(kept)
        });
    }

    fn was_kept(&mut self, kept: Vec<(Name, Pair, Result<(), StorageError>)>, now: SystemTime) {
        for (name, pair, done) in kept {
            if done.is_ok() && self.unkept.get(&name) == Some(&pair) {
                self.unkept.remove(&name);
                self.agenda.remark(&name, None, now);
                tracing::info!(%name, "the certificate is kept now");
            }
        }
        self.keep_at = (!self.unkept.is_empty()).then(|| now + KEPT_EVERY);
    }

    fn question(&mut self, Question { token, reply }: Question) {
        let means = Arc::clone(&self.means);
        self.tasks.spawn(async move {
            let stored = means.storage.read(&Item::Challenge(token)).await.ok().flatten();
            let answer = stored.and_then(|bytes| String::from_utf8(bytes).ok());
            let _ = reply.send(answer.map(Arc::from)); // an error: the caller does not wait any more
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
                let _ = reply.send(answer); // an error: the caller does not wait any more
            }
            Done::Looked(name, looked) => self.looked(&name, looked, now),
            Done::Permitted(name, permission) => self.agenda.permitted(&name, permission, now),
            Done::Kept(kept) => self.was_kept(kept, now),
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
        let (pair, unkept) = match ordered {
            Ok(Ordered::New(pair, unkept)) => {
                self.obtained += 1;
                tracing::info!(%name, from = pair.issued_by.as_deref().unwrap_or_default(), "a certificate was obtained");
                (pair, unkept)
            }
            Ok(Ordered::Found(pair)) => (pair, None),
            Ok(Ordered::Elsewhere) => return self.agenda.is_elsewhere(name, now),
            Err(e) => {
                self.failed += 1;
                tracing::warn!(%name, "no certificate: {e}");
                self.agenda.failed(name, authority, e.failure(), e.to_string(), now);
                if self.on_demand.as_ref().is_some_and(|on_demand| on_demand.is_awaited(name)) {
                    let demand = self.agenda.waits(name, now);
                    self.expect(name, demand, now);
                }
                return;
            }
        };
        let Ok(facts) = pair.facts() else { return }; // it was looked at when it came
        let issuer = self.issuer(&pair);
        if self.agenda.knows(name) {
            self.install(&[(name.clone(), pair.clone())]);
        }
        self.agenda.obtained(name, facts, issuer, now);
        self.settle(name, None);
        self.unkept.remove(name);
        if let Some(e) = unkept {
            let text = format!("the new certificate is used, but not kept for the next start: {e}");
            tracing::error!(%name, "{text}");
            self.agenda.remark(name, Some(text), now);
            self.unkept.insert(name.clone(), pair);
            self.keep_at = self.keep_at.or(Some(now + KEPT_EVERY));
        }
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
        let on_demand = self.on_demand.as_ref().map(OnDemand::status);
        *status = Arc::new(Status { names, authorities, storage, obtained, failed, on_demand });
    }
}
