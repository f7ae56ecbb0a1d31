//! Clusters that form while other tests run. Forming one takes the servers two seconds in which they do nothing but
//! wait: a master that has just been started takes no writes (`CLUSTER_WRITABLE_DELAY`). Each cluster is used by one
//! test, as before.
//!
//! Only when all tests run is any begun ahead. Those that nobody needed at the end are the testkit's to kill and
//! remove.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pilotlight_testkit::{ClientAuth, Cluster, ClusterBuilder, Error};

/// Begun ahead of each kind, and of those with more masters, which few tests use.
const AHEAD: usize = 5;
const AHEAD_OF_LARGE: usize = 2;

/// How a cluster is to be; those that are alike take each other's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) masters: usize,
    pub(crate) replicas_per_master: usize,
    /// Whether slots without a node keep all nodes from answering.
    pub(crate) needs_all_slots: bool,
}

/// Clusters that one test each needs; all are begun with the first cluster of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Single {
    /// Replicas, and nodes that are suspected late.
    Patient,
    /// Nobody is suspected within a test, and slots without a node keep nobody from answering.
    Unsuspecting,
    HostNames,
    UnknownEndpoints,
    Ipv6,
    Secured,
}

type Begun = JoinHandle<Result<Cluster, Error>>;

#[derive(Default)]
struct Spares {
    alike: HashMap<Kind, VecDeque<Begun>>,
    single: HashMap<Single, Begun>,
    has_begun: bool,
}

static SPARES: LazyLock<Mutex<Spares>> = LazyLock::new(Mutex::default);

impl Kind {
    /// So many masters with so many replicas each.
    pub(crate) const fn of(masters: usize, replicas_per_master: usize) -> Self {
        Self { masters, replicas_per_master, needs_all_slots: true }
    }

    /// A cluster of this kind. It blocks.
    pub(crate) fn start(self) -> Cluster {
        let own = Spares::with(|spares| {
            let begun = spares.alike.entry(self).or_default();
            let own = begun.pop_front().unwrap_or_else(|| begin(self.builder()));
            while begun.len() < self.ahead() {
                begun.push_back(begin(self.builder()));
            }
            own
        });
        own.join().unwrap().unwrap()
    }

    fn ahead(self) -> usize {
        match self.masters {
            _ if !is_one_of_many() => 0,
            ..=3 => AHEAD,
            _ => AHEAD_OF_LARGE,
        }
    }

    fn builder(self) -> ClusterBuilder {
        let builder = Cluster::builder().masters(self.masters).replicas_per_master(self.replicas_per_master);
        let builder = if self.needs_all_slots { builder } else { builder.config("cluster-require-full-coverage no") };
        // A replica is announced when anything has been replicated: pings, if nothing else, which come every ten
        // seconds otherwise.
        builder.config("repl-ping-replica-period 1")
    }
}

impl Single {
    const ALL: [Self; 6] =
        [Self::Patient, Self::Unsuspecting, Self::HostNames, Self::UnknownEndpoints, Self::Ipv6, Self::Secured];

    /// This cluster. It blocks.
    pub(crate) fn start(self) -> Cluster {
        let begun = Spares::with(|spares| spares.single.remove(&self));
        begun.unwrap_or_else(|| begin(self.builder())).join().unwrap().unwrap()
    }

    fn builder(self) -> ClusterBuilder {
        let builder = Cluster::builder();
        match self {
            Self::Patient => builder.replicas_per_master(1).node_timeout(Duration::from_millis(1500)),
            Self::Unsuspecting => {
                builder.config("cluster-require-full-coverage no").node_timeout(Duration::from_secs(60))
            }
            Self::HostNames => {
                builder.config("cluster-announce-hostname localhost").config("cluster-preferred-endpoint-type hostname")
            }
            Self::UnknownEndpoints => builder.config("cluster-preferred-endpoint-type unknown-endpoint"),
            Self::Ipv6 => builder.config("bind 127.0.0.1 ::1").config("cluster-announce-ip ::1"),
            Self::Secured => builder.tls(ClientAuth::None),
        }
    }
}

impl Spares {
    fn with<T>(take: impl FnOnce(&mut Self) -> T) -> T {
        let mut spares = SPARES.lock().unwrap_or_else(PoisonError::into_inner);
        if is_one_of_many() && !spares.has_begun {
            spares.has_begun = true;
            spares.single = Single::ALL.into_iter().map(|single| (single, begin(single.builder()))).collect();
        }
        take(&mut spares)
    }
}

fn begin(builder: ClusterBuilder) -> Begun {
    std::thread::spawn(move || builder.start())
}

/// Whether all tests run: no word of the command line chooses some.
fn is_one_of_many() -> bool {
    std::env::args().skip(1).all(|arg| arg.starts_with('-'))
}
