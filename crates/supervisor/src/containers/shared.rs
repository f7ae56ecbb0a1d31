//! What the tasks of instances share.

use super::pull::Pulls;
use crate::limits::MAX_LEFTOVERS;
use crate::runtime::RuntimeEvent;
use crate::spec::ContainerOptions;
use pilotlight_containers::Engine;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc, watch};

/// What the tasks share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Engine,
    pub(super) options: ContainerOptions,
    pub(super) events: mpsc::Sender<RuntimeEvent>,
    /// Whether what was left behind has been looked through.
    pub(super) looked: watch::Sender<bool>,
    /// Containers that nobody has taken yet.
    pub(super) left: Mutex<Vec<Left>>,
    /// Containers of instances, and who is to look when something has become of one.
    pub(super) taken: Mutex<HashMap<String, Arc<Notify>>>,
    pub(super) pulls: Pulls,
    /// Containers of our making that could not be removed when they should have been.
    leftovers: Mutex<Vec<String>>,
}

/// A container of this gateway that nobody uses.
#[derive(Clone, Debug)]
pub(super) struct Left {
    pub(super) container: String,
    pub(super) service: String,
    pub(super) hash: String,
}

impl Shared {
    /// For a new gateway, or one that begins with containers.
    pub(super) fn new(engine: Engine, options: ContainerOptions, events: mpsc::Sender<RuntimeEvent>) -> Self {
        Self {
            engine,
            options,
            events,
            looked: watch::Sender::new(false),
            left: Mutex::default(),
            taken: Mutex::default(),
            pulls: Pulls::default(),
            leftovers: Mutex::default(),
        }
    }

    pub(super) async fn tell(&self, event: RuntimeEvent) {
        let _ = self.events.send(event).await; // a supervisor that has stopped
    }

    /// A start waits for this.
    pub(super) async fn waits(&self, id: u64, what: String) {
        self.tell(RuntimeEvent::Waits { id, what }).await;
    }

    /// Takes a container for an instance, unless another one has it.
    pub(super) fn take(&self, container: &str) -> Option<Arc<Notify>> {
        let mut taken = self.taken();
        if taken.contains_key(container) {
            return None;
        }
        let notify = Arc::new(Notify::new());
        taken.insert(container.to_owned(), Arc::clone(&notify));
        Some(notify)
    }

    pub(super) fn give_back(&self, container: &str) {
        self.taken().remove(container);
    }

    pub(super) fn taken(&self) -> MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn taken_ids(&self) -> HashSet<String> {
        self.taken().keys().cloned().collect()
    }

    pub(super) fn left(&self) -> MutexGuard<'_, Vec<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// A container of our making is removed by the next [`sweep`](Self::sweep); beyond [`MAX_LEFTOVERS`] by the next
    /// start of the gateway.
    pub(super) fn remove_later(&self, container: &str) {
        let mut leftovers = self.leftovers();
        if leftovers.len() < MAX_LEFTOVERS && !leftovers.iter().any(|one| one == container) {
            leftovers.push(container.to_owned());
        }
    }

    /// Removes what is to be removed later; what cannot be is kept for the next time, and so is the rest if this ends
    /// before it is through.
    pub(super) async fn sweep(&self) {
        let leftovers = self.leftovers().clone();
        for container in leftovers {
            match self.engine.remove(&container).await {
                Ok(()) => self.leftovers().retain(|one| *one != container),
                Err(error) => {
                    tracing::debug!(%error, container = %short(&container), "a container is removed later");
                }
            }
        }
    }

    /// Whether there is something to sweep.
    pub(super) fn is_swept(&self) -> bool {
        self.leftovers().is_empty()
    }

    fn leftovers(&self) -> MutexGuard<'_, Vec<String>> {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a container's number that people see.
pub(super) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
