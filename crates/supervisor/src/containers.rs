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
//! Invariant: a container belongs to one instance at most (`shared.rs`).
//! Invariant: containers that this gateway has not made are never removed.

mod begin;
mod existing;
mod labels;
mod left;
mod pause;
mod print;
mod pull;
mod ready;
mod recipe;
mod run;
mod shared;
mod watch;

pub(crate) use left::Expected;
pub(crate) use recipe::Recipe;
pub(crate) use run::StartContainer;

use crate::limits::{ENGINE_PAUSE, MAX_RUN_ORDERS, MAX_RUNTIME_EVENTS, REMOVE_TIME};
use crate::runtime::{Order, Runtime, RuntimeEvent};
use crate::spec::ContainerOptions;
use pause::Pause;
use pilotlight_containers::{Engine, find};
use run::{Run, RunOrder};
use shared::Shared;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The engine, and the instances that run there.
#[derive(Debug)]
pub(crate) struct Containers {
    shared: Arc<Shared>,
    runs: HashMap<u64, mpsc::Sender<RunOrder>>,
    tasks: JoinSet<u64>,
    events: mpsc::Receiver<RuntimeEvent>,
    _watcher: JoinSet<()>,
}

impl Containers {
    /// To be called within the supervisor's event loop. `expected`: what may be found running.
    pub(crate) fn new(options: ContainerOptions, expected: Vec<Expected>) -> Self {
        let socket = options.socket.clone();
        let engine = Engine::new(socket.unwrap_or_else(|| find(|name| std::env::var(name).ok())));
        let (sender, events) = mpsc::channel(MAX_RUNTIME_EVENTS);
        let shared = Arc::new(Shared::new(engine, options, sender));
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
        let all = async {
            while self.tasks.join_next().await.is_some() {}
            let mut pause = Pause::new(&ENGINE_PAUSE);
            while !self.shared.is_swept() {
                self.shared.sweep().await;
                pause.wait().await;
            }
        };
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
