//! The zygotes that run, and the starts that wait for their forks.

use crate::guardian::SpawnRequest;
use crate::limits::MAX_ZYGOTE_EVENTS;
use crate::log::Tail;
use crate::zygote::{FromZygote, ZygoteLink};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;

/// Every zygote that runs, by the number that the guardian knows it by.
#[derive(Debug)]
pub(super) struct ZygoteTable {
    pub(super) all: HashMap<u64, Zygote>,
    pub(super) events: mpsc::Receiver<(u64, FromZygote)>,
    pub(super) sender: mpsc::Sender<(u64, FromZygote)>,
}

/// A zygote that runs.
#[derive(Debug)]
pub(super) struct Zygote {
    pub(super) service: usize,
    /// `None`: it was told to end.
    pub(super) link: Option<ZygoteLink>,
    pub(super) pid: Option<i32>,
    /// What it has in its environment, and what it forks has until that becomes an instance.
    pub(super) mark: String,
    pub(super) begun: Instant,
    pub(super) deadline: Option<Instant>,
    /// The starts that it is to fork, or has been asked to.
    pub(super) starts: BTreeMap<u64, Start>,
    pub(super) tail: Arc<Tail>,
}

/// A start that waits for a fork, with all that an ordinary one takes.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) request: SpawnRequest,
    pub(super) fds: Vec<OwnedFd>,
    /// How many variables of the environment the zygote has already.
    pub(super) shared: usize,
    pub(super) asked: bool,
}

impl Default for ZygoteTable {
    fn default() -> Self {
        let (sender, events) = mpsc::channel(MAX_ZYGOTE_EVENTS);
        Self { all: HashMap::new(), events, sender }
    }
}
