//! A connection while it is lent: exchanges, one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::body::{NodePool, Phase, Pool};
use super::bounds::{bounded, overdue};
use super::link::{Head, Link};
use crate::engine::lane::Lane;
use crate::engine::sink::Sink;
use crate::engine::submission::SubmissionError;
use crate::error::table::{Remedy, judge_own};
use crate::error::{ErrorKind, Ran, ServerError, TimeoutStage};
use crate::out::Out;
use crate::reply::Value;

/// One connection, lent.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(super) pool: Arc<Pool>,
    pub(super) node_pool: Arc<NodePool>,
    pub(super) lane: Arc<Lane>,
    pub(super) node: Arc<str>,
    /// `None`: it was lost, or is in the hands of an exchange.
    pub(super) link: Option<Link>,
    /// It is not to be lent again.
    pub(super) is_spoilt: bool,
    /// It is to be reset before it is lent again.
    pub(super) is_changed: bool,
    /// New credentials are not for it now.
    pub(super) holds_renewal: bool,
    /// A client that is closed does not wait for it.
    pub(super) is_endless: bool,
    pub(super) _permit: OwnedSemaphorePermit,
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
        self.link.is_some()
    }

    /// The connection is closed after its use, not lent again.
    pub(crate) fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    /// Something is switched on that `RESET` undoes.
    pub(crate) fn change(&mut self) {
        self.is_changed = true;
    }

    /// What it does has no end of its own: a client that is closed need not wait for it.
    pub(crate) fn set_endless(&mut self) {
        self.is_endless = true;
        self.pool.leased.send_modify(|count| *count -= 1);
    }

    /// From now on new credentials are not made known on it, or are: within a `MULTI` they would be queued, and its
    /// user may have chosen others.
    pub(crate) fn hold_renewal(&mut self, is_held: bool) {
        self.holds_renewal = is_held;
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
    ) -> Result<Vec<Value>, SubmissionError> {
        let Some(mut link) = self.link.take() else {
            let kind = ErrorKind::Connection("this connection was lost, or given up in the middle of a command".into());
            return Err(SubmissionError { kind, ran: Ran::NotSent, replies: Vec::new(), sent_bytes: 0 });
        };
        let since = Instant::now();
        let mut is_written = false;
        let work = async {
            if !self.holds_renewal {
                link.renew().await?;
            }
            link.send(out.contiguous(Default::default()).unwrap_or_default()).await?;
            is_written = true;
            link.receive(replies).await
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
                self.link = Some(link);
                return Ok(values);
            }
            Some(Some(Err(kind))) => kind,
            Some(None) => overdue(since, timeout, TimeoutStage::Sent),
            None => ErrorKind::Closed,
        };
        let (ran, sent_bytes) = if is_written { (Ran::MaybeExecuted, out.len()) } else { (Ran::NotSent, 0) };
        Err(SubmissionError { kind, ran, replies: Vec::new(), sent_bytes })
    }

    /// Sends what is encoded, passes over `skip` replies, and hands over the next one, as [`Pool::run_into`] says.
    /// `timeout` is for its beginning, `patience` for each piece of it.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(super) async fn copy(
        &mut self,
        out: &Out,
        skip: u32,
        timeout: Option<Duration>,
        patience: Option<Duration>,
        sink: &mut Sink<'_>,
    ) -> Result<Value, SubmissionError> {
        // The first connection is there, as nothing else was done with it.
        let lost = || ErrorKind::Connection("this connection was lost".into());
        let failed = |kind, ran| SubmissionError { kind, ran, replies: Vec::new(), sent_bytes: 0 };
        let mut link = self.link.take().ok_or_else(|| failed(lost(), Ran::NotSent))?;
        let (since, mut is_written) = (Instant::now(), false);
        let mut phase = self.pool.phase.subscribe();
        let mut cut = std::pin::pin!(phase.wait_for(|&phase| phase == Phase::Cut));
        let begin = async {
            link.send(out.contiguous(Default::default()).unwrap_or_default()).await?;
            is_written = true;
            link.receive(skip).await?;
            link.receive_head().await
        };
        let begun = tokio::select! {
            biased;
            begun = bounded(timeout, begin) => begun.unwrap_or_else(|| Err(overdue(since, timeout, TimeoutStage::Sent))),
            _ = &mut cut => Err(ErrorKind::Closed),
        };
        let ran = if is_written { Ran::MaybeExecuted } else { Ran::NotSent };
        let size = match begun.map_err(|kind| failed(kind, ran))? {
            Head::Other(value) => {
                self.note(std::slice::from_ref(&value));
                self.link = Some(link);
                return Ok(value);
            }
            Head::Size(size) => size,
        };
        sink.begun = Some(size);
        let copied = tokio::select! {
            biased;
            copied = link.receive_body(size, sink, patience) => {
                copied.map_err(|kind| kind.unwrap_or_else(|| overdue(since, patience, TimeoutStage::Sent)))
            }
            _ = &mut cut => Err(ErrorKind::Closed),
        };
        copied.map_err(|kind| failed(kind, Ran::Executed))?;
        self.link = Some(link);
        Ok(Value::Null)
    }

    /// Waits for a value that comes unasked.
    ///
    /// # Cancel safety
    /// Nothing is lost: the next call goes on.
    pub(crate) async fn receive_unasked(&mut self) -> Result<Value, ErrorKind> {
        let Some(link) = &mut self.link else { return Err(ErrorKind::Connection("this connection was lost".into())) };
        let mut phase = self.pool.phase.subscribe();
        tokio::select! {
            received = link.receive_one() => received,
            _ = phase.wait_for(|&phase| phase != Phase::Open) => Err(ErrorKind::Closed),
        }
    }

    /// A server that is not what it was, or wants other credentials: this connection and those like it are of no more
    /// use.
    fn note(&mut self, values: &[Value]) {
        let is_bad = |value: &Value| match value {
            Value::Error(text) => {
                let remedy = judge_own(&ServerError::parse(text)).remedy;
                matches!(remedy, Remedy::Reconnect | Remedy::ReconnectOnce)
            }
            _ => false,
        };
        if values.iter().any(is_bad) && !self.lane.has_just_looked(Instant::now()) {
            self.is_spoilt = true;
            self.node_pool.idle.lock().clear();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(link) = self.link.take()
            && !self.is_spoilt
            && (!self.is_changed || link.can_reset())
        {
            self.pool.put(&self.node_pool, link, self.is_changed);
        }
        if !self.is_endless {
            self.pool.leased.send_modify(|count| *count -= 1);
        }
    }
}
