//! Containers: the runtime that is an engine of the Docker Engine API.
//!
//! ```text
//!  owner ── start, orders ─▶ Containers ─▶ a task for each instance ── calls ─▶ engine
//!    ▲                          │                  ▲
//!    └──────── events ──────────┼──────────────────┤ "look": its container may have ended
//!                               └─ watcher: the engine's events, followed again when it comes back
//! ```
//!
//! What is left of a gateway before this one is found at the start, by its labels: what a configured service could use
//! is kept for its next starts, which the owner is told to begin; the rest is removed.
//!
//! Invariant: a container belongs to one instance at most (`Shared::taken`).
//! Invariant: containers that this gateway has not made are never removed.

mod labels;
mod left;
mod pull;
mod ready;
mod recipe;
mod run;
mod watch;

pub(crate) use recipe::Recipe;

use crate::limits::{MAX_RUN_ORDERS, MAX_RUNTIME_EVENTS, REMOVE_TIME};
use crate::runtime::{Order, Runtime, RuntimeEvent};
use crate::spec::ContainerOptions;
use left::Left;
use pilotlight_containers::{Engine, find};
use run::{Run, RunOrder};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch as watched};
use tokio::task::JoinSet;

/// What is needed to start an instance.
#[derive(Debug)]
pub(crate) struct StartContainer {
    pub(crate) id: u64,
    pub(crate) recipe: Recipe,
    /// Standard output and standard error: where its lines go.
    pub(crate) outputs: Vec<OwnedFd>,
}

/// What of a service may be found running.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) recipe: Recipe,
    pub(crate) max: u32,
}

/// The engine, and the instances that run there.
#[derive(Debug)]
pub(crate) struct Containers {
    shared: Arc<Shared>,
    runs: HashMap<u64, mpsc::Sender<RunOrder>>,
    tasks: JoinSet<u64>,
    events: mpsc::Receiver<RuntimeEvent>,
    _watcher: JoinSet<()>,
}

/// What the tasks share.
#[derive(Debug)]
struct Shared {
    engine: Engine,
    options: ContainerOptions,
    events: mpsc::Sender<RuntimeEvent>,
    /// Whether what was left behind has been looked through.
    looked: watched::Sender<bool>,
    /// Containers that nobody has taken yet.
    left: Mutex<Vec<Left>>,
    /// Containers of instances, and who is to look when something has become of one.
    taken: Mutex<HashMap<String, Arc<Notify>>>,
    pulls: pull::Pulls,
}

impl Containers {
    /// To be called within the supervisor's event loop. `expected`: what may be found running.
    pub(crate) fn new(options: ContainerOptions, expected: Vec<Expected>) -> Self {
        let socket = options.socket.clone();
        let engine = Engine::new(socket.unwrap_or_else(|| find(|name| std::env::var(name).ok())));
        let (sender, events) = mpsc::channel(MAX_RUNTIME_EVENTS);
        let shared = Arc::new(Shared {
            engine,
            options,
            events: sender,
            looked: watched::Sender::new(false),
            left: Mutex::default(),
            taken: Mutex::default(),
            pulls: pull::Pulls::default(),
        });
        let mut watcher = JoinSet::new();
        watcher.spawn(watch::watch(Arc::clone(&shared)));
        watcher.spawn(left::look(Arc::clone(&shared), expected));
        Self { shared, runs: HashMap::new(), tasks: JoinSet::new(), events, _watcher: watcher }
    }

    /// The container of this instance goes on, for another gateway.
    pub(crate) fn leave(&self, id: u64) {
        if let Some(run) = self.runs.get(&id) {
            let _ = run.try_send(RunOrder::Leave); // it has ended, or will by its owner's deadline
        }
    }

    /// Waits until what has ended is removed; `false` if that took too long.
    pub(crate) async fn finish(mut self) -> bool {
        self.runs.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(REMOVE_TIME, all).await.is_ok();
        if !in_time {
            tracing::error!("containers may be left; the next start of this gateway removes them");
        }
        in_time
    }
}

impl Runtime for Containers {
    type Start = StartContainer;

    fn start(&mut self, start: StartContainer) -> io::Result<()> {
        let (orders, ordered) = mpsc::channel(MAX_RUN_ORDERS);
        let id = start.id;
        let run = Run::new(Arc::clone(&self.shared), start, ordered)?;
        self.runs.insert(id, orders);
        self.tasks.spawn(run.run());
        Ok(())
    }

    fn order(&self, id: u64, order: Order) -> io::Result<()> {
        let Some(run) = self.runs.get(&id) else { return Ok(()) };
        match run.try_send(RunOrder::Do(order)) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(io::Error::other("the container engine does not keep up")),
        }
    }

    async fn next(&mut self) -> RuntimeEvent {
        loop {
            tokio::select! {
                // In this order: what an instance said last is heard before it is forgotten.
                biased;
                Some(event) = self.events.recv() => return event,
                Some(ended) = self.tasks.join_next() => if let Ok(id) = ended {
                    self.runs.remove(&id);
                },
                else => std::future::pending().await,
            }
        }
    }
}

impl Shared {
    async fn tell(&self, event: RuntimeEvent) {
        let _ = self.events.send(event).await; // a supervisor that has stopped
    }

    /// A start waits for this.
    async fn waits(&self, id: u64, what: String) {
        self.tell(RuntimeEvent::Waits { id, what }).await;
    }

    /// Takes a container for an instance, unless another one has it.
    fn take(&self, container: &str) -> Option<Arc<Notify>> {
        let mut taken = self.taken();
        if taken.contains_key(container) {
            return None;
        }
        let notify = Arc::new(Notify::new());
        taken.insert(container.to_owned(), Arc::clone(&notify));
        Some(notify)
    }

    fn give_back(&self, container: &str) {
        self.taken().remove(container);
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken_ids(&self) -> HashSet<String> {
        self.taken().keys().cloned().collect()
    }

    fn left(&self) -> MutexGuard<'_, Vec<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pause that grows with each try.
#[derive(Debug)]
struct Pause {
    next: Duration,
    longest: Duration,
}

impl Pause {
    fn new((first, longest): (Duration, Duration)) -> Self {
        Self { next: first, longest }
    }

    /// Cancel safe.
    async fn wait(&mut self) {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        tokio::time::sleep(pause).await;
    }
}
