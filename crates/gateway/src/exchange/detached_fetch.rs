//! A request to a service outlives its client while others wait for its response.
//!
//! The connection drops the exchange of a client that has gone. If that exchange leads a flight (others wait, or the
//! cache wants the response all the same), it becomes a task of the worker instead, until the head of the response is
//! here; from then on the answer is read by a task in any case ([`crate::read_ahead`]).
//!
//! Such a task holds nothing of the client's connection but its settings: the socket is closed when the connection ends
//! ([`crate::client::Client::hang_up`]). What only the cache waits for is bounded as connections are: clients that
//! connect, ask and leave do not pile it up.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pilotlight_cache::{Fill, Watch};
use pilotlight_exchange::{Company, Leaving};

use crate::client::outgoing::Outgoing;
use crate::options::Abandoned;
use crate::response::ResponseHead;
use crate::worker::Worker;

/// Whether an exchange is asking for others, too; shared by the exchange and whoever holds its future.
#[derive(Clone)]
pub(super) struct DetachedFetch {
    asks: Rc<RefCell<Option<Watch>>>,
    worker: Rc<Worker>,
}

impl DetachedFetch {
    pub(super) fn new(worker: &Rc<Worker>) -> Self {
        Self { asks: Rc::default(), worker: Rc::clone(worker) }
    }

    /// `fill`: that of the response for which the service is being asked, if others may have something of it.
    pub(super) fn follow(&self, fill: Option<&Fill>) {
        let mut asks = self.asks.borrow_mut();
        match fill {
            None => *asks = None,
            Some(fill) if asks.is_none() => *asks = Some(fill.watch()),
            Some(_) => {}
        }
    }

    fn goes_on(&self) -> bool {
        let setting = match self.worker.common.abandoned {
            Abandoned::Finish => pilotlight_exchange::Abandoned::Finish,
            Abandoned::Drop => pilotlight_exchange::Abandoned::Drop,
        };
        let asks = self.asks.borrow();
        let company = asks.as_ref().map(|watch| Company {
            is_shared: watch.is_shared(),
            is_awaited: watch.is_awaited(),
            has_room: self.worker.has_room_for_abandoned(),
        });
        company.is_some_and(|company| setting.leaving(company) == Leaving::Detach)
    }
}

pub(super) type Forwarded = Pin<Box<dyn Future<Output = (ResponseHead, Outgoing)>>>;

/// A response that is not here at once.
pub(crate) struct PendingResponse {
    /// `None` when it has ended.
    future: Option<Forwarded>,
    detached_fetch: DetachedFetch,
}

impl PendingResponse {
    pub(super) fn new(future: Forwarded, detached_fetch: DetachedFetch) -> Self {
        Self { future: Some(future), detached_fetch }
    }
}

impl Future for PendingResponse {
    type Output = (ResponseHead, Outgoing);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let answer = future.as_mut().poll(cx);
        if answer.is_ready() {
            self.future = None;
        }
        answer
    }
}

impl Drop for PendingResponse {
    fn drop(&mut self) {
        if let Some(future) = self.future.take()
            && self.detached_fetch.goes_on()
        {
            // Nobody reads the response: dropped, it goes on only for those who wait, or for the cache.
            let counted = self.detached_fetch.worker.abandon();
            self.detached_fetch.worker.spawner.spawn(async move {
                drop(future.await);
                drop(counted);
            });
        }
    }
}
