//! Connections that are not shared: lent to one user at a time, kept for the next one while they are as good as new.
//!
//! Invariant: a connection is put back only between two commands and with nothing switched on that another user would notice. An exchange takes the
//! connection out of its lease, so that a future that is dropped in the middle closes it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;

use crate::config::{Config, NodeAddress};
use crate::error::{ErrorKind, Ran, ServerError, TimeoutReport, TimeoutStage};
use crate::net::connect::Connection;
use crate::net::exchange;
use crate::net::lane::{Carriage, Failure, Kind, Lane, Outcome};
use crate::net::out::Out;
use crate::proto::retry::{Remedy, row};
use crate::proto::topology::Role;
use crate::reply::Value;

/// Unused connections are closed after this time.
const MAX_IDLE: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    max_per_node: usize,
    shelves: Mutex<HashMap<(NodeAddress, Role), Arc<Shelf>>>,
    leased: watch::Sender<usize>,
    phase: watch::Sender<Phase>,
    /// Closes what is not used any more; `None` while there is nothing to close.
    reaper: Mutex<Option<AbortHandle>>,
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
struct Shelf {
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// One connection, lent.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Arc<Pool>,
    shelf: Arc<Shelf>,
    lane: Arc<Lane>,
    node: Arc<str>,
    /// `None`: it was lost, or is in the hands of an exchange.
    connection: Option<Connection>,
    /// It is not to be lent again.
    is_spoilt: bool,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(crate) fn new(max_per_node: usize) -> Arc<Self> {
        Arc::new(Self {
            max_per_node,
            shelves: Mutex::default(),
            leased: watch::Sender::new(0),
            phase: watch::Sender::new(Phase::Open),
            reaper: Mutex::default(),
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
    ) -> Result<Lease, Failure> {
        let not_sent = |kind| Failure { kind, ran: Ran::NotSent, replies: Vec::new(), sent_bytes: 0 };
        if *self.phase.borrow() != Phase::Open {
            return Err(not_sent(ErrorKind::Closed));
        }
        let since = Instant::now();
        let shelf = self.shelf(lane);
        let acquired = bounded(patience, Arc::clone(&shelf.permits).acquire_owned()).await;
        let permit = match acquired {
            Some(Ok(permit)) => permit,
            Some(Err(_)) => return Err(not_sent(ErrorKind::Closed)),
            None => return Err(not_sent(overdue(since, patience, TimeoutStage::Pool))),
        };
        self.leased.send_modify(|count| *count += 1);
        let mut lease = Lease {
            pool: Arc::clone(self),
            shelf,
            lane: Arc::clone(lane),
            node: lane.node(),
            connection: None,
            is_spoilt: false,
            _permit: permit,
        };
        lease.connection = lease.shelf.take();
        if lease.connection.is_none() {
            let remaining = patience.map(|patience| patience.saturating_sub(since.elapsed()));
            lease.connection = Some(match bounded(remaining, lane.dial_another()).await {
                Some(Ok(connection)) => connection,
                Some(Err(error)) => return Err(not_sent(ErrorKind::Connect(error.text))),
                None => return Err(not_sent(overdue(since, patience, TimeoutStage::Connecting))),
            });
        }
        if let Some(connection) = &lease.connection {
            lease.node = connection.address.to_string().into();
        }
        Ok(lease)
    }

    /// Borrows a connection for one carriage. Finding one takes no longer than any command may take, however long the carriage may.
    pub(crate) async fn carry(
        self: &Arc<Self>,
        lane: &Arc<Lane>,
        carriage: Carriage,
        config: &Config,
        encode: impl FnOnce(&mut Out),
    ) -> Outcome {
        let since = Instant::now();
        let exchanged = async {
            let mut lease = self.lease(lane, carriage.timeout.or(config.command_timeout)).await?;
            let mut out = Out::contiguous_only();
            encode(&mut out);
            let remaining = carriage.timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
            lease.exchange(&out, carriage.replies, remaining).await
        };
        match exchanged.await {
            Ok(mut values) => {
                values.drain(..carriage.skip as usize);
                match carriage.kind {
                    Kind::One => Outcome::One(values.pop().unwrap_or(Value::Null)),
                    Kind::Many => Outcome::Many(values),
                }
            }
            Err(failure) => Outcome::Failed(Box::new(failure)),
        }
    }

    fn shelf(&self, lane: &Lane) -> Arc<Shelf> {
        let mut shelves = self.shelves.lock();
        let shelf = shelves.entry((lane.address(), lane.role())).or_insert_with(|| {
            let permits = Arc::new(Semaphore::new(self.max_per_node.clamp(1, Semaphore::MAX_PERMITS)));
            Arc::new(Shelf { permits, idle: Mutex::default() })
        });
        Arc::clone(shelf)
    }

    /// No new leases; those that there are may end.
    pub(crate) fn close(&self) {
        self.phase.send_modify(|phase| *phase = (*phase).max(Phase::Closing));
        if let Some(reaper) = self.reaper.lock().take() {
            reaper.abort();
        }
        self.shelves.lock().clear();
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

    fn put(self: &Arc<Self>, shelf: &Shelf, connection: Connection) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let phase = self.phase.borrow();
        if *phase != Phase::Open {
            return;
        }
        shelf.idle.lock().push(Idle { connection, since: Instant::now() });
        self.reaper.lock().get_or_insert_with(|| runtime.spawn(reap(Arc::downgrade(self))).abort_handle());
    }

    /// Closes what has been idle for long. False: nothing is idle any more.
    fn discard_old(&self, now: Instant) -> bool {
        let mut reaper = self.reaper.lock();
        let mut shelves = self.shelves.lock();
        let mut is_any_left = false;
        shelves.retain(|_, shelf| {
            let mut idle = shelf.idle.lock();
            idle.retain(|idle| now.saturating_duration_since(idle.since) < MAX_IDLE);
            is_any_left |= !idle.is_empty();
            // A shelf whose connections are all gone goes, too: nodes come and go.
            !idle.is_empty() || shelf.permits.available_permits() < self.max_per_node
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

impl Shelf {
    /// The connection that was used last, if it is still there.
    fn take(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.lock().pop()?.connection;
            if connection.read_buffer.is_empty() && connection.transport.is_quiet() {
                return Some(connection);
            }
        }
    }
}

impl Lease {
    /// The node, as `host:port`.
    pub(crate) fn node(&self) -> &Arc<str> {
        &self.node
    }

    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    /// Whether the connection is there.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// The connection is closed after its use, not lent again.
    pub(crate) fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    /// Sends what is encoded and reads so many replies. Errors of the server are replies.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection: if the server was waiting it stops.
    pub(crate) async fn exchange(
        &mut self,
        out: &Out,
        replies: u32,
        timeout: Option<Duration>,
    ) -> Result<Vec<Value>, Failure> {
        let Some(mut connection) = self.connection.take() else {
            let kind = ErrorKind::Connection("this connection was lost, or given up in the middle of a command".into());
            return Err(Failure { kind, ran: Ran::NotSent, replies: Vec::new(), sent_bytes: 0 });
        };
        let since = Instant::now();
        let mut is_written = false;
        let work = async {
            exchange::send(&mut connection, out.contiguous(Default::default()).unwrap_or_default()).await?;
            is_written = true;
            let mut values = Vec::with_capacity(replies as usize);
            for _ in 0..replies {
                values.push(exchange::receive(&mut connection).await?);
            }
            Ok::<_, std::io::Error>(values)
        };
        let mut phase = self.pool.phase.subscribe();
        let worked = tokio::select! {
            biased;
            worked = bounded(timeout, work) => Some(worked),
            _ = phase.wait_for(|&phase| phase == Phase::Cut) => None,
        };
        let kind = match worked {
            Some(Some(Ok(values))) => {
                self.note(&values);
                self.connection = Some(connection);
                return Ok(values);
            }
            Some(Some(Err(error))) if error.kind() == std::io::ErrorKind::InvalidData => {
                ErrorKind::Protocol(error.to_string().into())
            }
            Some(Some(Err(error))) => ErrorKind::Connection(error.to_string().into()),
            Some(None) => overdue(since, timeout, TimeoutStage::Sent),
            None => ErrorKind::Closed,
        };
        let (ran, sent_bytes) = if is_written { (Ran::MaybeExecuted, out.len()) } else { (Ran::NotSent, 0) };
        Err(Failure { kind, ran, replies: Vec::new(), sent_bytes })
    }

    /// A server that is not what it was, or wants other credentials: this connection and those like it are of no more use.
    fn note(&mut self, values: &[Value]) {
        let is_bad = |value: &Value| match value {
            Value::Error(text) => {
                let remedy = row(ServerError::parse(text).code()).remedy;
                matches!(remedy, Remedy::Reconnect | Remedy::ReconnectOnce)
            }
            _ => false,
        };
        if values.iter().any(is_bad) {
            self.is_spoilt = true;
            self.shelf.idle.lock().clear();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !self.is_spoilt
        {
            self.pool.put(&self.shelf, connection);
        }
        self.pool.leased.send_modify(|count| *count -= 1);
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
            &crate::node::Outfit::default(),
        );
        (server, core)
    }

    async fn lease(core: &Core) -> Lease {
        core.pool().lease(&core.lane_of(&UNKNOWN, None).unwrap(), Some(Duration::from_secs(5))).await.unwrap()
    }

    fn idle(pool: &Pool) -> usize {
        pool.shelves.lock().values().map(|shelf| shelf.idle.lock().len()).sum()
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
        assert!(pool.reaper.lock().is_none() && pool.shelves.lock().is_empty());
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
        assert!(core.pool().shelves.lock().values().all(|shelf| shelf.take().is_none()));
        drop(lease(&core).await);
        core.pool().close();
        assert_eq!(idle(core.pool()), 0);
    }
}
