//! One exchange on a connection of its own, whichever protocol is spoken: the request goes out as the client and the
//! service let it, the head of the response is awaited, and what a failure means is told.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use pilotlight_exchange::retry::Reuse;

use super::first_byte::{Awaited, Awaiting};
use super::interims::Interims;
use super::one_try::{Kept, Try};
use super::server::Server;
use super::sockets::{Connection, Counted, Pool, READ_SIZE, connect, no_place, no_wait, number, place};
use super::{BodyLeft, Delivery, Failed, SendError, ServiceResponse, UpstreamError, closed};
use crate::outbound::Outbound;
use crate::pump::{Pump, PumpError};
use crate::request_body::{BodyError, RequestBody};

/// What differs between protocols.
pub(super) trait Exchange: Awaited<Pool = Pool> + Sized {
    /// What goes out, and what comes back.
    fn turn(&mut self) -> &mut Turn;

    /// The response, whose body may still be coming.
    fn into_response(
        self,
        pool: &Rc<Pool>,
        head: Self::Head,
        one: &mut Try<'_>,
        outbound: &Outbound,
    ) -> Result<ServiceResponse, UpstreamError>;
}

/// A connection, and the request on its way.
pub(super) struct Turn {
    pub(super) connection: Connection,
    pub(super) pump: Pump,
    /// Set when the service closed its reading side; it may still answer.
    pub(super) write_failed: bool,
    pub(super) any_byte: bool,
    pub(super) interims: Interims,
    /// Whether the service closed the connection in order: it has read the request then, and may have ended by it.
    pub(super) read_to_the_end: bool,
}

impl Turn {
    pub(super) fn new(connection: Connection, pump: Pump) -> Self {
        Self {
            connection,
            pump,
            write_failed: false,
            any_byte: false,
            interims: Interims::default(),
            read_to_the_end: false,
        }
    }

    /// Moves the request on. A service that stops reading may still answer, so its error is kept for later.
    pub(super) fn poll_pump(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        self.settle();
        if self.write_failed || self.has_sent() {
            return Ok(());
        }
        match self.pump.poll(&mut self.connection.socket, cx) {
            Poll::Ready(Err(PumpError::Body(e))) => Err(e),
            Poll::Ready(Err(PumpError::Socket)) => {
                self.write_failed = true;
                Ok(())
            }
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// Whether the request is written whole.
    pub(super) fn has_sent(&self) -> bool {
        self.pump.is_done() && self.connection.socket.unsent() == 0
    }

    /// Learns what became of what was put in the batch.
    fn settle(&mut self) {
        if !self.write_failed && self.pump.settle(&mut self.connection.socket).is_err() {
            self.write_failed = true;
        }
    }

    /// The same before the end of the turn.
    pub(super) fn settle_now(&mut self) {
        self.connection.socket.send_now();
        self.settle();
    }

    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>> {
        let Connection { socket, read, .. } = &mut self.connection;
        if read.capacity() - read.len() < READ_SIZE / 4 {
            read.reserve(READ_SIZE);
        }
        socket.poll_read_buf(cx, read)
    }

    /// The service closed the connection, or broke it, before the head of its response was whole.
    pub(super) fn ended(&mut self, service: &str, how: std::io::Result<()>) -> SendError {
        self.settle_now();
        let Err(e) = how else {
            self.read_to_the_end = true;
            let begun = self.pump.has_begun() || self.any_byte;
            let delivery = if self.write_failed && !begun { Delivery::No } else { Delivery::Maybe };
            return closed(service, "closed the connection", delivery).into();
        };
        // On a Unix socket a reset means that it was closed with the request unread.
        let unread = self.connection.socket.is_unix()
            && e.kind() == std::io::ErrorKind::ConnectionReset
            && !self.any_byte
            && self.pump.is_head_only();
        let delivery = if unread { Delivery::No } else { Delivery::Maybe };
        closed(service, &format!("broke the connection ({e})"), delivery).into()
    }

    /// Keeps the connection for the next exchange if both sides are done with this one, and there are not `most`
    /// already.
    pub(super) fn recycle(mut self, pool: &Pool, most: usize) {
        self.settle_now();
        if self.has_sent() && !self.write_failed && self.connection.read.is_empty() {
            pool.give_back(self.connection, most);
        }
    }
}

/// Sends a request and waits for the head of the response. `external`: a server of somebody else's.
///
/// # Cancel safety
/// Dropping it closes the connection, which tells a service that the client has gone.
pub(super) async fn send<E: Exchange>(
    pool: &Rc<Pool>,
    external: Option<&Server<'_>>,
    one: &mut Try<'_>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    kept: Kept,
    begin: impl FnOnce(Connection, Option<Box<RequestBody>>) -> E,
) -> Result<ServiceResponse, Failed> {
    let instance = one.lease.as_ref().map(|lease| Arc::clone(lease.instance()));
    let number = number(instance.as_deref(), external);
    let Some(place) = place(instance.as_deref(), external) else {
        return Err(no_place(pool, body));
    };
    let Some(first_byte) = &*one.first_byte else { return Err(no_wait(pool, body)) };
    // After one that was closed, the others may be as well: they are of the same age.
    let (connection, reuse) = match (kept == Kept::MayBeUsed).then(|| pool.take(number)).flatten() {
        Some(connection) => (connection, Reuse::Kept),
        None => {
            first_byte.service_turn();
            let connected = Box::pin(first_byte.within(connect(pool, place, external, number))).await;
            match connected.unwrap_or_else(|| Err(first_byte.over(&pool.service).into())) {
                Ok(connection) => (connection, Reuse::New),
                Err(error) => return Err(Failed { error, body: BodyLeft::Whole(body), reuse: Reuse::New }),
            }
        }
    };
    let mut exchange = begin(connection, body);
    let counted = Counted::new(&pool.waiting);
    let from = Awaiting { pool: &**pool, service: &pool.service, instance: instance.as_deref(), outbound };
    let answer = first_byte.head(&mut exchange, &from);
    // A try that failed goes on to use up its time: the next one has what is left of it.
    let answer = answer.await.inspect(|_| first_byte.came());
    exchange.turn().settle_now(); // an answer may come before the end of the turn in which its request was put out
    let alone = counted.is_alone();
    drop(counted);
    match answer {
        Ok(head) => exchange.into_response(pool, head, one, outbound).map_err(|error| Failed {
            error: error.into(),
            body: BodyLeft::Spent,
            reuse,
        }),
        Err(mut error) => {
            let turn = exchange.turn();
            if let SendError::Upstream(UpstreamError::Closed { delivery: delivery @ Delivery::Maybe, .. }) = &mut error
                && turn.read_to_the_end
                && alone
                && reuse == Reuse::New
            {
                *delivery = Delivery::Suspect; // sent again, it might end the next instance, too
            }
            Err(Failed { error, body: turn.pump.reclaim(), reuse })
        }
    }
}
