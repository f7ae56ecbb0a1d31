//! The owner of what is known of the cluster: takes changes, gathers them, and has the gateway follow.
//!
//! Invariant: what is in force stays in force until something else is; a configuration that is refused changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use pilotlight_cli::config::sections::Sectioned;
use pilotlight_cli::embedded::Following;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::base::Base;
use crate::certificates;
use crate::conditions::Statuses;
use crate::endpoints::{Endpoint, endpoints};
use crate::servers::Servers;
use crate::snapshot::{Key, Snapshot, Workload, WorkloadKey};
use crate::statuses::{Agreed, Batch, patches};
use crate::translate::{Checks, Options, Translation, translate};
use crate::watch::{Effect, Told};

/// How long changes are gathered from the first one on. Those that come while one is applied are gathered by that.
pub const GATHER: Duration = Duration::from_millis(5);
/// How long others wait that come behind endpoints that were given at once.
const GATHER_ENDPOINTS: Duration = Duration::from_millis(5);
/// Changes that are taken without a look at anything else.
const MAX_AT_ONCE: usize = 256;
/// How often, and how many times, it is looked whether a port is free again that was just let go of.
const CLOSING_LOOK: Duration = Duration::from_millis(20);
const MAX_CLOSING_LOOKS: u32 = 25;
/// How often what could not be done is tried again, and everything is looked at.
const AGAIN: Duration = Duration::from_secs(10);

/// What is known of workloads, for whoever scales them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workloads {
    /// Those that may be scaled.
    pub all: BTreeMap<WorkloadKey, Workload>,
    /// What services of the gateway wake.
    pub of_services: Arc<BTreeMap<String, BTreeSet<WorkloadKey>>>,
}

/// Where everything comes from and goes to.
pub struct Owner {
    /// The gateway.
    pub following: Following,
    /// Its servers.
    pub servers: Arc<dyn Servers>,
    /// What the cluster does not say.
    pub base: Base,
    /// Likewise.
    pub options: Options,
    /// The Service whose addresses statuses have.
    pub publish_service: Option<Key>,
    /// The folder of certificates.
    pub folder: PathBuf,
    /// How many watches have to be synced first.
    pub expected: usize,
    /// Set when the first configuration is in force.
    pub ready: Arc<AtomicBool>,
    /// Patches of statuses.
    pub batches: watch::Sender<Batch>,
    /// Workloads.
    pub workloads: watch::Sender<Arc<Workloads>>,
    /// Whether this replica leads.
    pub leads: watch::Receiver<bool>,
    /// State.
    pub state: State,
}

/// What is known, and what is in force.
#[derive(Default)]
pub struct State {
    snapshot: Snapshot,
    synced: usize,
    pending: Option<(Effect, Instant)>,
    /// When it was applied last.
    applied: Option<Instant>,
    checks: Checks,
    statuses: Statuses,
    agreed: Agreed,
    translation: Translation,
    /// What services of the configuration in force wake.
    of_services: Arc<BTreeMap<String, BTreeSet<WorkloadKey>>>,
    in_force: Option<Sectioned>,
    listening: BTreeSet<u16>,
    /// Ports that were listened on once.
    let_go: BTreeSet<u16>,
    /// Endpoints of services, and the share of their requests that has none.
    given: BTreeMap<String, (Vec<Endpoint>, u16)>,
    failure: Option<String>,
}

enum Action {
    Told(Vec<Told>),
    Apply,
    Led,
    Look,
    End,
}

impl Owner {
    /// Follows the cluster until nobody tells anything any more.
    pub async fn run(mut self, mut told: mpsc::Receiver<Told>) {
        let mut look = tokio::time::interval(AGAIN);
        loop {
            let action = self.select(&mut told, &mut look).await;
            match action {
                Action::Told(all) => all.into_iter().for_each(|one| self.take(one)),
                Action::Apply => self.apply().await,
                Action::Led => self.say(),
                Action::Look => self.look_again(),
                Action::End => return,
            }
        }
    }

    async fn select(&mut self, told: &mut mpsc::Receiver<Told>, look: &mut tokio::time::Interval) -> Action {
        let due = self.state.pending.map(|(_, due)| due).filter(|_| self.state.synced >= self.expected);
        let mut all = Vec::new();
        tokio::select! {
            biased;
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Action::Apply,
            count = told.recv_many(&mut all, MAX_AT_ONCE) => match count {
                0 => Action::End,
                _ => Action::Told(all),
            },
            changed = self.leads.changed() => match changed {
                Ok(()) => Action::Led,
                Err(_) => Action::End,
            },
            _ = look.tick() => Action::Look,
        }
    }

    fn take(&mut self, told: Told) {
        let effect = match told {
            Told::Changed(change) => change(&mut self.state.snapshot),
            Told::Synced => {
                self.state.synced += 1;
                // There may be nothing at all.
                if self.state.synced == self.expected { Effect::Configuration } else { Effect::Nothing }
            }
        };
        self.is_due(effect);
    }

    fn is_due(&mut self, effect: Effect) {
        if effect == Effect::Nothing {
            return;
        }
        let now = Instant::now();
        // Somebody may wait for the first endpoint; many in a row are gathered.
        let due = match (effect, self.state.applied) {
            (Effect::Endpoints, None) => now,
            (Effect::Endpoints, Some(applied)) => now.max(applied + GATHER_ENDPOINTS),
            _ => now + GATHER,
        };
        let (known, due) = self.state.pending.map_or((effect, due), |(known, at)| (known, at.min(due)));
        self.state.pending = Some((known.max(effect), due));
    }

    /// What failed may be possible now.
    fn look_again(&mut self) {
        let failed = self.state.failure.is_some() || !self.options.unavailable.is_empty();
        if failed && self.state.synced >= self.expected {
            self.options.unavailable.clear();
            self.is_due(Effect::Configuration);
        } else if *self.leads.borrow() {
            self.say();
        }
    }

    /// Has the gateway follow what is known.
    async fn apply(&mut self) {
        let Some((effect, _)) = self.state.pending.take() else { return };
        if effect == Effect::Configuration {
            self.give_endpoints(); // to the services that there are, before what takes longer
            self.configure().await;
        }
        if effect >= Effect::Endpoints {
            // Also if nothing else can be followed: somebody may wait for a workload.
            self.tell_workloads();
            self.give_endpoints();
            self.state.applied = Some(Instant::now());
        }
        self.say(); // last, as nobody waits for it
        if self.state.failure.is_none() && !self.ready.swap(true, Ordering::AcqRel) {
            tracing::info!("the first configuration of the cluster is in force");
        }
    }

    async fn configure(&mut self) {
        if let Some(key) = &self.publish_service {
            let found = self.state.snapshot.services.get(key);
            self.options.addresses = found.map(|service| service.addresses.clone()).unwrap_or_default();
        }
        let translation = self.translated().await;
        self.state.statuses.clone_from(&translation.statuses);
        let text = self.base.with(&translation, &self.folder.join("idle.sock"));
        if self.state.in_force.as_ref() == Some(&text) {
            self.state.failure = None;
        } else {
            self.follow(&translation, text).await;
        }
        if self.state.failure.is_none() {
            let of_services = translation.backends.iter().map(|(name, one)| (name.clone(), one.workloads.clone()));
            self.state.of_services = Arc::new(of_services.filter(|(_, workloads)| !workloads.is_empty()).collect());
            self.state.let_go.extend(self.state.listening.difference(&translation.ports));
            self.state.listening.clone_from(&translation.ports);
            self.state.translation = translation;
        }
    }

    /// What whoever scales has to know.
    fn tell_workloads(&self) {
        let (all, of_services) = (&self.state.snapshot.workloads, &self.state.of_services);
        self.workloads.send_if_modified(|known| {
            let is_new = known.all != *all || known.of_services != *of_services;
            if is_new {
                *known = Arc::new(Workloads { all: all.clone(), of_services: Arc::clone(of_services) });
            }
            is_new
        });
    }

    /// Translates, without the ports that cannot be had.
    async fn translated(&mut self) -> Translation {
        loop {
            let translation = translate(&self.state.snapshot, &self.options, &mut self.state.checks);
            let mut refused = Vec::new();
            for port in translation.ports.difference(&self.state.listening) {
                if let Some(why) = self.why_not(*port).await {
                    refused.push((*port, why));
                }
            }
            if refused.is_empty() {
                self.state.checks.forget();
                return translation;
            }
            for (port, why) in &refused {
                tracing::warn!("port {port} cannot be listened on: {why}");
            }
            self.options.unavailable.extend(refused);
        }
    }

    async fn why_not(&self, port: u16) -> Option<String> {
        let bind = || TcpListener::bind((self.options.bind, port)).err();
        let mut error = bind()?;
        for _ in 0..MAX_CLOSING_LOOKS {
            // Those that accept there close it when they are told, which is not at once.
            if error.kind() != std::io::ErrorKind::AddrInUse || !self.state.let_go.contains(&port) {
                break;
            }
            tokio::time::sleep(CLOSING_LOOK).await;
            error = bind()?;
        }
        let remedy = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "; --port-offset 8000 listens at a port that needs no rights",
            _ => "",
        };
        Some(format!("{error}{remedy}"))
    }

    async fn follow(&mut self, translation: &Translation, text: Sectioned) {
        let begun = Instant::now();
        if let Err(error) = certificates::write(&self.folder, translation) {
            let why = format!("certificates cannot be written to {}: {error}", self.folder.display());
            tracing::error!("{why}");
            self.state.failure = Some(why);
            return;
        }
        match self.following.follow(text.clone()).await {
            Ok(_) => {
                self.state.failure = None;
                self.state.in_force = Some(text);
                // Services that are new have nobody yet; those that have gone are asked for nothing.
                self.state.given.retain(|name, _| translation.backends.contains_key(name));
                tracing::debug!("a configuration of {} routes took {:?}", translation.routes, begun.elapsed());
                if let Err(error) = certificates::tidy(&self.folder, translation) {
                    tracing::warn!("old certificates stay in {}: {error}", self.folder.display());
                }
            }
            Err(pilotlight_cli::embedded::NotDone::Invalid(why) | pilotlight_cli::embedded::NotDone::Failed(why)) => {
                tracing::error!(
                    "the configuration of the cluster is not followed, everything goes on as before: {why}"
                );
                self.state.failure = Some(why);
            }
        }
    }

    /// Gives each service the endpoints that have changed.
    fn give_endpoints(&mut self) {
        let found = endpoints(&self.state.snapshot, &self.state.translation.backends);
        for (name, endpoints) in found {
            let without = self.state.translation.backends.get(&name).map_or(0, |backend| backend.without);
            let new = (endpoints, without);
            if self.state.given.get(&name) == Some(&new) {
                continue;
            }
            match self.servers.set(&name, &new.0, without) {
                Ok(()) => drop(self.state.given.insert(name, new)),
                Err(why) => tracing::warn!("endpoints of {name}: {why}"),
            }
        }
    }

    /// Says of each object what came of it, if that is this replica's part.
    fn say(&mut self) {
        if !*self.leads.borrow() || self.state.synced < self.expected {
            return;
        }
        let mut failed = None;
        if let Some(why) = &self.state.failure {
            let statuses = failed.insert(self.state.statuses.clone());
            statuses.values_mut().for_each(|wanted| wanted.unprogrammed(why));
        }
        let statuses = failed.as_ref().unwrap_or(&self.state.statuses);
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default().to_string();
        let batch = patches(&self.state.snapshot, statuses, &mut self.state.agreed, &now);
        if !batch.is_empty() {
            self.batches.send_replace(Arc::new(batch));
        }
    }
}
