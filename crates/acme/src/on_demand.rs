//! Names that clients ask for and that no route names: the clients that wait, and what `on_demand.ask` said.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::agenda::Permission;
use crate::ask::Ask;
use crate::demand::{Budget, REFUSED, UNANSWERED};
use crate::handle::{Asked, OnDemandStatus, Waiting};
use crate::name::Name;
use crate::options;
use crate::storage::StorageError;

/// Names that are looked up at a time, in the storage and at `on_demand.ask`.
const MAX_LOOKS: usize = 8;
/// The log says at most this often that a name gets no certificate: any client may ask for any name.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// Names on demand, as their owner knows them.
pub(crate) struct OnDemand {
    ask: Ask,
    budget: Budget,
    waiting: Arc<Waiting>,
    /// Clients that wait for a name are woken when its sender is dropped.
    told: HashMap<Name, watch::Sender<()>>,
    looks: usize,
    status: OnDemandStatus,
    said: Option<Instant>,
}

/// What comes next for a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may have a certificate.
    Permitted,
    /// It gets none for this time.
    Refused(Duration),
}

impl OnDemand {
    /// # Errors
    /// The address cannot be used.
    pub(crate) fn new(settings: &options::OnDemand, waiting: &Arc<Waiting>, now: Instant) -> io::Result<Self> {
        Ok(Self {
            ask: Ask::new(&settings.ask)?,
            budget: Budget::new(settings.limit, now),
            waiting: Arc::clone(waiting),
            told: HashMap::new(),
            looks: 0,
            status: OnDemandStatus::new(settings.clone()),
            said: None,
        })
    }

    pub(crate) fn ask(&self) -> Ask {
        self.ask.clone()
    }

    pub(crate) fn status(&self) -> OnDemandStatus {
        self.status.clone()
    }

    /// Whether another name may be looked up.
    pub(crate) fn has_room(&self) -> bool {
        self.looks < MAX_LOOKS
    }

    /// Begins the lookup of a name.
    pub(crate) fn begin(&mut self, Asked { name, told }: Asked) -> Name {
        self.looks += 1;
        self.told.insert(name.clone(), told);
        name
    }

    /// The storage had a certificate.
    pub(crate) fn was_stored(&mut self) {
        self.looks -= 1;
        self.status.stored += 1;
    }

    /// The storage had none, and `on_demand.ask` has answered or failed.
    pub(crate) fn judge(&mut self, name: &Name, permission: Result<Permission, StorageError>, now: Instant) -> Verdict {
        self.looks -= 1;
        let permission = permission.unwrap_or_else(|e| Permission::Unknown(e.to_string()));
        match permission {
            Permission::Given => match self.budget.take(now) {
                Ok(()) => {
                    self.status.permitted += 1;
                    Verdict::Permitted
                }
                Err(wait) => {
                    self.status.limited += 1;
                    let limit = self.status.settings.limit;
                    self.say(
                        name,
                        &format!("on_demand.limit is reached: {} in {} s", limit.count, limit.per.as_secs()),
                        now,
                    );
                    Verdict::Refused(wait)
                }
            },
            Permission::Refused => {
                self.status.refused += 1;
                tracing::debug!(%name, "on_demand.ask says that the name may have no certificate");
                Verdict::Refused(REFUSED)
            }
            Permission::Unknown(why) => {
                self.status.unanswered += 1;
                self.say(name, &why, now);
                Verdict::Refused(UNANSWERED)
            }
        }
    }

    fn say(&mut self, name: &Name, why: &str, now: Instant) {
        if self.said.is_none_or(|at| now.saturating_duration_since(at) >= SAID_EVERY) {
            self.said = Some(now);
            tracing::warn!(%name, "a client asked for a name that gets no certificate now: {why}");
        }
    }

    /// Whether the lookup of a name has not ended.
    pub(crate) fn is_awaited(&self, name: &Name) -> bool {
        self.told.contains_key(name)
    }

    /// Ends the lookup of a name: it has a certificate (`None`), or is refused for a time.
    pub(crate) fn settle(&mut self, name: &Name, refused: Option<Duration>) {
        if let Some(told) = self.told.remove(name) {
            self.waiting.settle(name, refused);
            drop(told); // after it, so that clients that wake find the refusal
        }
    }
}
