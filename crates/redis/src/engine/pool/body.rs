//! The pool itself: what is idle, what is lent, and how it ends.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::link::{Idle, Link};
use crate::address::NodeAddress;
use crate::config::Config;
use crate::engine::lane::Lane;
use crate::proto::topology::Role;
use crate::stats::{PoolNodeStats, PoolStats, Totals};

/// Unused connections are closed after this time.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(super) config: Arc<Config>,
    pub(super) max_per_node: usize,
    pub(super) node_pools: Mutex<HashMap<(NodeAddress, Role), Arc<NodePool>>>,
    pub(super) leased: watch::Sender<usize>,
    pub(super) phase: watch::Sender<Phase>,
    /// Closes what is not used any more; `None` while there is nothing to close.
    pub(super) reaper: Mutex<Option<AbortHandle>>,
    pub(super) totals: PoolTotals,
}

#[derive(Debug, Default)]
pub(super) struct PoolTotals {
    pub(super) leases: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) connects: AtomicU64,
    pub(super) connect_failures: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Open,
    /// Nothing new.
    Closing,
    /// What is still waiting ends.
    Cut,
}

/// The connections to one node.
#[derive(Debug)]
pub(super) struct NodePool {
    pub(super) permits: Arc<Semaphore>,
    pub(super) idle: Mutex<Vec<Idle>>,
    /// Those who wait until one is given back.
    pub(super) waiting: AtomicUsize,
}

impl Pool {
    pub(crate) fn new(config: &Arc<Config>) -> Arc<Self> {
        Arc::new(Self {
            config: Arc::clone(config),
            max_per_node: config.max_blocking_connections.clamp(1, Semaphore::MAX_PERMITS),
            node_pools: Mutex::default(),
            leased: watch::Sender::new(0),
            phase: watch::Sender::new(Phase::Open),
            reaper: Mutex::default(),
            totals: PoolTotals::default(),
        })
    }

    pub(crate) fn stats(&self) -> PoolStats {
        let mut nodes: Vec<_> = self
            .node_pools
            .lock()
            .iter()
            .map(|((node, role), node_pool)| node_pool.stats(node, *role, self.max_per_node))
            .collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        let PoolTotals { leases, waits, connects, connect_failures } = &self.totals;
        PoolStats {
            nodes,
            leases: Totals::read(leases),
            waits: Totals::read(waits),
            connects: Totals::read(connects),
            connect_failures: Totals::read(connect_failures),
        }
    }

    pub(super) fn node_pool(&self, lane: &Lane) -> Arc<NodePool> {
        let mut node_pools = self.node_pools.lock();
        let node_pool = node_pools.entry((lane.address(), lane.role())).or_insert_with(|| {
            let permits = Arc::new(Semaphore::new(self.max_per_node));
            Arc::new(NodePool { permits, idle: Mutex::default(), waiting: AtomicUsize::new(0) })
        });
        Arc::clone(node_pool)
    }

    /// No new leases; those that there are may end.
    pub(crate) fn close(&self) {
        self.phase.send_modify(|phase| *phase = (*phase).max(Phase::Closing));
        if let Some(reaper) = self.reaper.lock().take() {
            reaper.abort();
        }
        self.node_pools.lock().clear();
    }

    /// Ends what is still waiting.
    pub(crate) fn cut(&self) {
        self.phase.send_replace(Phase::Cut);
    }

    /// Waits until nothing is lent.
    pub(crate) async fn all_returned(&self) {
        // The sender is ours: it cannot have gone.
        let _ = self.leased.subscribe().wait_for(|&count| count == 0).await;
    }

    pub(super) fn put(self: &Arc<Self>, node_pool: &NodePool, mut link: Link, is_changed: bool) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let phase = self.phase.borrow();
        if *phase != Phase::Open {
            return;
        }
        link.rest();
        node_pool.idle.lock().push(Idle { link, since: Instant::now(), is_changed });
        let mut reaper = self.reaper.lock();
        // It is begun again if the runtime of the one before was shut down.
        if reaper.as_ref().is_none_or(AbortHandle::is_finished) {
            *reaper = Some(runtime.spawn(reap(Arc::downgrade(self))).abort_handle());
        }
    }

    /// Closes what has been idle for long. False: nothing is idle any more.
    pub(super) fn discard_old(&self, now: Instant) -> bool {
        let mut reaper = self.reaper.lock();
        let mut node_pools = self.node_pools.lock();
        let mut is_any_left = false;
        node_pools.retain(|_, node_pool| {
            let mut idle = node_pool.idle.lock();
            idle.retain(|idle| now.saturating_duration_since(idle.since) < MAX_IDLE);
            is_any_left |= !idle.is_empty();
            // The pool of a node whose connections are all gone goes, too: nodes come and go.
            !idle.is_empty() || node_pool.permits.available_permits() < self.max_per_node
        });
        if !is_any_left {
            *reaper = None;
        }
        is_any_left
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(reaper) = self.reaper.get_mut().take() {
            reaper.abort();
        }
    }
}

/// Runs while anything is idle.
async fn reap(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(MAX_IDLE / 3).await;
        match pool.upgrade() {
            Some(pool) if pool.discard_old(Instant::now()) => {}
            _ => return,
        }
    }
}

impl NodePool {
    /// The connection that was used last, if it is still there, as good as new, with the newest credentials.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection that it tries.
    pub(super) async fn take(&self, lane: &Lane) -> Option<Link> {
        loop {
            let Idle { mut link, is_changed, .. } = self.idle.lock().pop()?;
            if !link.is_quiet() || (is_changed && link.reset(lane).await.is_err()) {
                continue;
            }
            if link.renew().await.is_ok() {
                return Some(link);
            }
        }
    }

    fn stats(&self, node: &NodeAddress, role: Role, max: usize) -> PoolNodeStats {
        PoolNodeStats {
            node: node.to_string().into(),
            role,
            in_use: max - self.permits.available_permits().min(max),
            idle: self.idle.lock().len(),
            waiting: self.waiting.load(Ordering::Relaxed),
        }
    }
}

/// Counted while it lives.
pub(super) struct Waiter<'s>(&'s AtomicUsize);

impl<'s> Waiter<'s> {
    pub(super) fn new(count: &'s AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
