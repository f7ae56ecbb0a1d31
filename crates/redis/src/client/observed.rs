//! An operation that somebody observes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crate::config::Config;
use crate::engine::trail::Trail;
use crate::error::Error;
use crate::observer::{Beginning, Ongoing, Operation};
use crate::proto::slot::Slot;

/// An operation that is observed, since its beginning.
pub(crate) struct Observed {
    what: Subject,
    since: Instant,
    trail: Trail,
    /// What the observer made of its beginning.
    ongoing: Option<Box<dyn Ongoing>>,
}

/// What is known of an operation at its beginning.
pub(crate) struct Subject {
    pub(crate) name: Cow<'static, str>,
    pub(crate) slot: Option<Slot>,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) batch_size: Option<usize>,
}

impl Observed {
    /// `None`: nobody observes.
    #[inline]
    pub(crate) fn begin(config: &Config, what: impl FnOnce() -> Subject) -> Option<Box<Self>> {
        config.observer.is_some().then(|| Self::begun(config, what()))
    }

    #[cold]
    fn begun(config: &Config, what: Subject) -> Box<Self> {
        let Subject { name, slot, node, batch_size } = &what;
        let beginning =
            Beginning { name, slot: *slot, node: node.as_deref(), database: config.database, batch_size: *batch_size };
        let ongoing = config.observer.as_ref().and_then(|observer| observer.begun(&beginning));
        Box::new(Self { since: Instant::now(), trail: Trail::default(), ongoing, what })
    }

    /// Where it notes what is sent again.
    pub(crate) fn trail(&self) -> Trail {
        self.trail.clone()
    }

    /// Tells of its end.
    pub(crate) fn end(self, config: &Config, error: Option<&Error>) {
        let Some(observer) = &config.observer else { return };
        let Self { what, since, trail, ongoing } = self;
        let last = trail.last_node();
        let node = error.and_then(|error| error.node()).or(last.as_deref()).or(what.node.as_deref());
        let operation = Operation {
            name: what.name,
            slot: what.slot,
            node,
            database: config.database,
            batch_size: what.batch_size,
            attempts: 1 + trail.sent_again(),
            duration: since.elapsed(),
            error,
        };
        observer.ended(&operation);
        if let Some(ongoing) = ongoing {
            ongoing.ended(&operation);
        }
    }
}

impl std::fmt::Debug for Observed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observed").field("name", &self.what.name).field("since", &self.since).finish_non_exhaustive()
    }
}

/// Notes on `trail`, if there is one, what `work` sends again.
pub(crate) async fn followed<T>(trail: Option<Trail>, work: impl Future<Output = T>) -> T {
    match trail {
        Some(trail) => trail.follow(work).await,
        None => work.await,
    }
}

/// The name of an operation of several commands.
pub(crate) fn batch_name(kind: &'static str, mut names: impl Iterator<Item = &'static str>) -> Cow<'static, str> {
    let Some(first) = names.next() else { return Cow::Borrowed(kind) };
    if names.all(|name| name == first) { Cow::Owned(format!("{kind} {first}")) } else { Cow::Borrowed(kind) }
}
