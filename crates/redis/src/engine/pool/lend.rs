//! How a connection is lent, for a submission or for longer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::body::{NodePool, Phase, Pool, Waiter};
use super::bounds::{bounded, overdue};
use super::lease::Lease;
use super::link::Link;
use crate::config::Config;
use crate::engine::lane::Lane;
use crate::engine::sink::Sink;
use crate::engine::submission::{Kind, Outcome, Submission, SubmissionError};
use crate::error::{ErrorKind, Ran, TimeoutStage};
use crate::out::Out;
use crate::reply::Value;
use crate::stats::Totals;

impl Pool {
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
            is_changed: false,
            holds_renewal: false,
            is_endless: false,
            _permit: permit,
        };
        let remaining = || patience.map(|patience| patience.saturating_sub(since.elapsed()));
        let link = match bounded(remaining(), lease.node_pool.take(lane)).await.flatten() {
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
        lease.node = link.address.to_string().into();
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
}

#[cfg(test)]
mod tests {
    use pilotlight_testkit::Server;

    use super::super::body::MAX_IDLE;
    use super::*;
    use crate::address::NodeAddress;
    use crate::command::UNKNOWN;
    use crate::engine::core::Core;

    fn core() -> (Server, Core) {
        let server = Server::start().unwrap();
        let core = Core::new(
            Config::standalone(NodeAddress::tcp("127.0.0.1", server.port())),
            &crate::engine::lane_options::LaneOptions::default(),
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
