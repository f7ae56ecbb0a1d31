//! Clusters that form while other tests run. Forming one takes the servers two seconds in which they do nothing but wait: a master that has just been
//! started takes no writes (`CLUSTER_WRITABLE_DELAY`). Each cluster is used by one test, as before.
//!
//! Only when all tests run are any begun ahead. Those that nobody needed at the end are the testkit's to kill and remove.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;

use pilotlight_testkit::{Cluster, Error};

/// Begun ahead of each kind.
const AHEAD: usize = 6;

/// How a cluster is to be; those that are alike take each other's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) masters: usize,
    pub(crate) replicas_per_master: usize,
    /// Whether slots without a node keep all nodes from answering.
    pub(crate) needs_all_slots: bool,
}

type Begun = JoinHandle<Result<Cluster, Error>>;

static SPARES: LazyLock<Mutex<HashMap<Kind, VecDeque<Begun>>>> = LazyLock::new(Mutex::default);

impl Kind {
    /// So many masters with so many replicas each.
    pub(crate) const fn of(masters: usize, replicas_per_master: usize) -> Self {
        Self { masters, replicas_per_master, needs_all_slots: true }
    }

    /// A cluster of this kind. It blocks.
    pub(crate) fn start(self) -> Cluster {
        let mut spares = SPARES.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = spares.entry(self).or_default();
        let own = begun.pop_front().unwrap_or_else(|| self.begin());
        let ahead = if is_one_of_many() { AHEAD } else { 0 };
        while begun.len() < ahead {
            begun.push_back(self.begin());
        }
        drop(spares);
        own.join().unwrap().unwrap()
    }

    fn begin(self) -> Begun {
        let builder = Cluster::builder().masters(self.masters).replicas_per_master(self.replicas_per_master);
        let builder = if self.needs_all_slots { builder } else { builder.config("cluster-require-full-coverage no") };
        // A replica is announced when anything has been replicated: pings, if nothing else, which come every ten seconds otherwise.
        let builder = builder.config("repl-ping-replica-period 1");
        std::thread::spawn(move || builder.start())
    }
}

/// Whether all tests run: no word of the command line chooses some.
fn is_one_of_many() -> bool {
    std::env::args().skip(1).all(|arg| arg.starts_with('-'))
}
