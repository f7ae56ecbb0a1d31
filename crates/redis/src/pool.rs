//! Connections that are not shared: lent to one user at a time, kept for the next one while they are as good as new.
//!
//! Invariant: a connection is put back only between two commands and with nothing switched on that another user would
//! notice. An exchange takes the connection out of its lease, so that a future that is dropped in the middle closes it.

mod lease;
mod link;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;

use crate::config::{Config, NodeAddress};
use crate::copy::Sink;
use crate::error::{ErrorKind, Ran, TimeoutReport, TimeoutStage};
use crate::net::lane::{Kind, Lane, Outcome, Submission, SubmissionError};
use crate::net::out::Out;
use crate::proto::topology::Role;
use crate::reply::Value;
use crate::stats::{PoolNodeStats, PoolStats, Totals};
pub(crate) use lease::Lease;
use link::{Idle, Link};

/// Unused connections are closed after this time.
const MAX_IDLE: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    config: Arc<Config>,
    max_per_node: usize,
    node_pools: Mutex<HashMap<(NodeAddress, Role), Arc<NodePool>>>,
    leased: watch::Sender<usize>,
    phase: watch::Sender<Phase>,
    /// Closes what is not used any more; `None` while there is nothing to close.
    reaper: Mutex<Option<AbortHandle>>,
    totals: PoolTotals,
}

#[derive(Debug, Default)]
struct PoolTotals {
    leases: AtomicU64,
    waits: AtomicU64,
    connects: AtomicU64,
    connect_failures: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// Nothing new.
    Closing,
    /// What is still waiting ends.
    Cut,
}

/// The connections to one node.
#[derive(Debug)]
struct NodePool {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    /// Those who wait until one is given back.
    waiting: AtomicUsize,
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

    /// A connection to a lane's node: one that is not used, or a new one.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        patience: Option<Duration>,
    ) -> Result<Lease, SubmissionError> {
        let not_sent = |kind| SubmissionError { kind, ran: Ran::NotSent, replies: Vec::new(), sent_bytes: 0 };
        if *self.phase.borrow() != Phase::Open {
            return Err(not_sent(ErrorKind::Closed));
        }
        let since = Instant::now();
        let node_pool = self.node_pool(lane);
        let permit = match bounded(patience, self.permit(&node_pool)).await {
            Some(Some(permit)) => permit,
            Some(None) => return Err(not_sent(ErrorKind::Closed)),
            None => return Err(not_sent(overdue(since, patience, TimeoutStage::Pool))),
        };
        self.leased.send_modify(|count| *count += 1);
        let mut lease = Lease {
            pool: Arc::clone(self),
            node_pool,
            lane: Arc::clone(lane),
            node: lane.node(),
            link: None,
            is_spoilt: false,
            holds_renewal: false,
            is_endless: false,
            _permit: permit,
        };
        let remaining = || patience.map(|patience| patience.saturating_sub(since.elapsed()));
        let link = match bounded(remaining(), lease.node_pool.take()).await.flatten() {
            Some(link) => link,
            None => match bounded(remaining(), Link::dial(lane, &self.config)).await {
                Some(Ok(link)) => {
                    Totals::add_one(&self.totals.connects);
                    link
                }
                Some(Err(error)) => {
                    Totals::add_one(&self.totals.connect_failures);
                    return Err(not_sent(ErrorKind::Connect(error.text)));
                }
                None => return Err(not_sent(overdue(since, patience, TimeoutStage::Connecting))),
            },
        };
        Totals::add_one(&self.totals.leases);
        lease.node = link.connection.address.to_string().into();
        lease.link = Some(link);
        Ok(lease)
    }

    /// `None`: the pool is closed.
    async fn permit(&self, node_pool: &NodePool) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&node_pool.permits).try_acquire_owned() {
            return Some(permit);
        }
        Totals::add_one(&self.totals.waits);
        let _waiter = Waiter::new(&node_pool.waiting);
        Arc::clone(&node_pool.permits).acquire_owned().await.ok()
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

    /// Borrows a connection for one submission. Finding one takes no longer than any command may take, however long the
    /// submission may.
    pub(crate) async fn run(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        submission: Submission,
        config: &Config,
        out: &Out,
    ) -> Outcome {
        let since = Instant::now();
        let exchanged = async {
            let mut lease = self.lease(lane, submission.timeout.or(config.command_timeout)).await?;
            let remaining = submission.timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
            lease.exchange(out, submission.replies, remaining).await
        };
        match exchanged.await {
            Ok(mut values) => {
                values.drain(..submission.skip as usize);
                match submission.kind {
                    Kind::One => Outcome::One(values.pop().unwrap_or(Value::Null)),
                    Kind::Many => Outcome::Many(values),
                }
            }
            Err(failure) => Outcome::Failed(Box::new(failure)),
        }
    }

    /// As [`run`](Self::run), by a new connection that has no database, and is not kept.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(crate) async fn run_bare(&self, lane: &Arc<Lane>, submission: Submission, out: &Out) -> Outcome {
        let since = Instant::now();
        let mut stage = TimeoutStage::Connecting;
        let work = async {
            let mut link = Link::dial_bare(lane).await.map_err(|error| match error.is_final {
                true => ErrorKind::Rejected(error.text),
                false => ErrorKind::Connect(error.text),
            })?;
            stage = TimeoutStage::Sent;
            link.send(out.contiguous(Default::default()).unwrap_or_default()).await?;
            link.receive(submission.replies).await
        };
        let kind = match bounded(submission.timeout, work).await {
            Some(Ok(mut values)) => return Outcome::One(values.pop().unwrap_or(Value::Null)),
            Some(Err(kind)) => kind,
            None => overdue(since, submission.timeout, stage),
        };
        let (ran, sent_bytes) = match stage {
            TimeoutStage::Sent => (Ran::MaybeExecuted, out.len()),
            _ => (Ran::NotSent, 0),
        };
        Outcome::Failed(Box::new(SubmissionError { kind, ran, replies: Vec::new(), sent_bytes }))
    }

    /// As [`run`](Self::run), of one command whose reply goes to `sink` if it is a string. The reply is given,
    /// otherwise its size.
    pub(crate) async fn run_into(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        submission: Submission,
        config: &Config,
        out: &Out,
        sink: &mut Sink<'_>,
    ) -> Outcome {
        let since = Instant::now();
        let copied = async {
            let mut lease = self.lease(lane, submission.timeout.or(config.command_timeout)).await?;
            let remaining = submission.timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
            lease.copy(out, submission.skip, remaining, config.command_timeout, sink).await
        };
        match copied.await {
            Ok(value) => Outcome::One(value),
            Err(failure) => Outcome::Failed(Box::new(failure)),
        }
    }

    fn node_pool(&self, lane: &Lane) -> Arc<NodePool> {
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

    fn put(self: &Arc<Self>, node_pool: &NodePool, link: Link) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let phase = self.phase.borrow();
        if *phase != Phase::Open {
            return;
        }
        node_pool.idle.lock().push(Idle { link, since: Instant::now() });
        let mut reaper = self.reaper.lock();
        // It is begun again if the runtime of the one before was shut down.
        if reaper.as_ref().is_none_or(AbortHandle::is_finished) {
            *reaper = Some(runtime.spawn(reap(Arc::downgrade(self))).abort_handle());
        }
    }

    /// Closes what has been idle for long. False: nothing is idle any more.
    fn discard_old(&self, now: Instant) -> bool {
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
    /// The connection that was used last, if it is still there, with the newest credentials.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection that it tries.
    async fn take(&self) -> Option<Link> {
        loop {
            let mut link = self.idle.lock().pop()?.link;
            if link.is_quiet() && link.renew().await.is_ok() {
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
struct Waiter<'s>(&'s AtomicUsize);

impl<'s> Waiter<'s> {
    fn new(count: &'s AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn bounded<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

fn overdue(since: Instant, limit: Option<Duration>, stage: TimeoutStage) -> ErrorKind {
    let age = since.elapsed();
    ErrorKind::Timeout(Box::new(TimeoutReport {
        timeout: limit.unwrap_or(age),
        age,
        stage,
        problem: None,
        queued: 0,
        in_flight: usize::from(stage == TimeoutStage::Sent),
        in_flight_bytes: 0,
        queued_bytes: 0,
        unparsed_bytes: 0,
        last_read: None,
        runtime_lag: Duration::ZERO,
    }))
}

#[cfg(test)]
mod tests {
    use pilotlight_testkit::Server;

    use super::*;
    use crate::command::UNKNOWN;
    use crate::core::Core;

    fn core() -> (Server, Core) {
        let server = Server::start().unwrap();
        let core = Core::new(
            Config::standalone(NodeAddress::tcp("127.0.0.1", server.port())),
            &crate::node::LaneOptions::default(),
        );
        (server, core)
    }

    async fn lease(core: &Core) -> Lease {
        core.pool().lease(&core.lane_of(&UNKNOWN, None).unwrap(), Some(Duration::from_secs(5))).await.unwrap()
    }

    fn idle(pool: &Pool) -> usize {
        pool.node_pools.lock().values().map(|node_pool| node_pool.idle.lock().len()).sum()
    }

    #[tokio::test]
    async fn what_is_idle_for_long_is_closed() {
        let (_server, core) = core();
        let pool = core.pool();
        let both = (lease(&core).await, lease(&core).await);
        assert_eq!((idle(pool), *pool.leased.borrow()), (0, 2));
        drop(both);
        assert_eq!((idle(pool), *pool.leased.borrow()), (2, 0));
        assert!(pool.reaper.lock().is_some());
        let now = Instant::now();
        assert!(pool.discard_old(now));
        assert!(!pool.discard_old(now + MAX_IDLE));
        assert!(pool.reaper.lock().is_none() && pool.node_pools.lock().is_empty());
    }

    #[tokio::test]
    async fn a_spoilt_or_closed_one_is_not_lent_again() {
        let (server, core) = core();
        let mut spoilt = lease(&core).await;
        spoilt.spoil();
        drop(spoilt);
        assert_eq!(idle(core.pool()), 0);
        drop(lease(&core).await);
        server.client_kill_all().unwrap();
        drop(lease(&core).await);
        assert_eq!((idle(core.pool()), core.pool().stats().connects), (1, 3));
        core.pool().close();
        assert_eq!(idle(core.pool()), 0);
    }
}
