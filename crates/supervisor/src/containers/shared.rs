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
    /// Removes a container of our making; if that cannot be now, later.
    pub(super) async fn remove(&self, container: &str) {
        if let Err(error) = self.engine.remove(container).await {
            tracing::debug!(%error, container = %short(container), "a container is removed later");
            self.remove_later(container);
        }
    }

    /// Beyond [`MAX_LEFTOVERS`] the next start of the gateway does it.
    pub(super) fn remove_later(&self, container: &str) {
        let mut leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
        if leftovers.len() < MAX_LEFTOVERS && !leftovers.iter().any(|one| one == container) {
            leftovers.push(container.to_owned());
        }
    }

    /// Removes what could not be removed before; those that still cannot be are kept for the next time.
    pub(super) async fn sweep(&self) {
        let leftovers = std::mem::take(&mut *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
        for container in leftovers {
            self.remove(&container).await;
        }
    }

    /// Whether there is something to sweep.
    pub(super) fn is_swept(&self) -> bool {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The part of a container's number that people see.
pub(super) fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}
