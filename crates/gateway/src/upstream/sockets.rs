//! Connections to a service that carry one exchange at a time: kept by each worker between exchanges.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pilotlight_exchange::retry::Reuse;
use pilotlight_http1::FieldTable;
use pilotlight_send_batch::Batch;
use pilotlight_supervisor::{Endpoint, Instance, Service};

use super::secure;
use super::server::Server;
use super::{BodyLeft, CameTo, Failed, SendError, UpstreamError};
use crate::client_socket::ServerSocket;
use crate::net::Destination;
use crate::request_body::RequestBody;

/// Connections kept open to one service by one worker.
pub(super) const MAX_IDLE: usize = 256;
/// How long a connection is kept without use: below the 5 s after which Node's server closes its side, so that a
/// request is rarely sent into a closing connection.
const MAX_IDLE_TIME: Duration = Duration::from_secs(4);
pub(super) const READ_SIZE: usize = 16 * 1024;

/// One worker's kept connections to one service.
pub(crate) struct Pool {
    pub(crate) service: String,
    /// Whose settings those wait by that meet a full backlog; none: it is somebody else's service.
    queue: Option<Arc<Service>>,
    /// That of the worker.
    batch: Batch,
    idle: RefCell<Vec<(Connection, Instant)>>,
    /// Exchanges whose response has not begun.
    pub(super) waiting: Waiting,
    /// Where the fields of the response are that is being parsed.
    pub(super) fields: RefCell<FieldTable>,
}

/// A connection between two exchanges.
pub(super) struct Connection {
    pub(super) socket: ServerSocket,
    pub(super) read: BytesMut,
    /// The instance it leads to, or the server of somebody else's.
    pub(super) instance: u64,
    /// It was announced as one client's, so no other request goes on it.
    pub(super) is_of_one: bool,
}

impl Pool {
    pub(crate) fn new(service: String, queue: Option<Arc<Service>>, batch: Batch) -> Rc<Self> {
        Rc::new(Self {
            service,
            queue,
            batch,
            idle: RefCell::default(),
            waiting: Waiting::default(),
            fields: RefCell::default(),
        })
    }

    /// The service, if Pilotlight starts it.
    pub(super) fn service(&self) -> Option<&Arc<Service>> {
        self.queue.as_ref()
    }

    /// Whether it keeps no connection.
    pub(crate) fn is_unused(&self) -> bool {
        self.idle.borrow().is_empty()
    }

    /// The most recently used connection that is still open.
    pub(super) fn take(&self, instance: u64) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        // With one instance that is the last; a service may have several.
        while let Some(index) = idle.iter().rposition(|(connection, _)| connection.instance == instance) {
            let (mut connection, since) = idle.remove(index);
            if since.elapsed() > MAX_IDLE_TIME {
                continue;
            }
            // Bytes or an end that came in between make the connection unusable.
            if connection.socket.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection, if there are fewer than `most`.
    #[inline(always)] // so that the connection is moved once
    pub(super) fn give_back(&self, connection: Connection, most: usize) {
        let mut idle = self.idle.borrow_mut();
        if !connection.is_of_one && idle.len() < most.min(MAX_IDLE) {
            idle.push((connection, Instant::now()));
        }
    }

    /// Closes what has not been used for long. Those to servers that have gone are among them: nobody uses them.
    pub(crate) fn close_idle(&self) {
        self.idle.borrow_mut().retain(|(_, since)| since.elapsed() <= MAX_IDLE_TIME);
    }
}

/// Where it listens; `None` for what speaks no HTTP.
pub(super) fn place<'a>(instance: Option<&'a Instance>, external: Option<&'a Server<'a>>) -> Option<Destination<'a>> {
    match (instance.map(|instance| (instance, instance.endpoint())), external) {
        (Some((instance, Endpoint::Http(address))), _) => Some(Destination::Instance(instance, address)),
        (_, Some(server)) => Some(Destination::External(server.addr, server.connect_timeout)),
        (Some((_, Endpoint::Pipe | Endpoint::RuntimeApi(_))) | None, None) => None,
    }
}

/// What the kept connections to it have in common.
pub(super) fn number(instance: Option<&Instance>, external: Option<&Server<'_>>) -> u64 {
    instance.map_or_else(|| external.map_or(0, |server| server.number), Instance::number)
}

/// Not reachable: the upstream's kind is the transport.
pub(super) fn no_place(pool: &Pool, body: Option<Box<RequestBody>>) -> Failed {
    let cause = "it speaks the pipe".to_owned();
    let (service, place) = (pool.service.clone(), "the pipe".to_owned());
    let error = UpstreamError::Connect { service, place, cause, came: CameTo::Server };
    Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New }
}

/// Not reachable: every try has a wait.
pub(super) fn no_wait(pool: &Pool, body: Option<Box<RequestBody>>) -> Failed {
    let error = UpstreamError::Protocol { service: pool.service.clone(), what: "was not waited for".to_owned() };
    Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New }
}

/// How many exchanges of a pool wait for their response.
#[derive(Default)]
pub(super) struct Waiting {
    count: Cell<usize>,
    /// How often one began while another one waited.
    joined: Cell<u64>,
}

/// One of them.
pub(super) struct Counted<'a> {
    of: &'a Waiting,
    began_alone: bool,
    joined_before: u64,
}

impl<'a> Counted<'a> {
    pub(super) fn new(of: &'a Waiting) -> Self {
        let began_alone = of.count.get() == 0;
        of.count.set(of.count.get() + 1);
        of.joined.set(of.joined.get() + u64::from(!began_alone));
        Self { of, began_alone, joined_before: of.joined.get() }
    }

    /// Whether no other one has waited beside it, not even one whose end was noticed just before.
    pub(super) fn is_alone(&self) -> bool {
        self.began_alone && self.of.joined.get() == self.joined_before
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.of.count.set(self.of.count.get() - 1);
    }
}

pub(super) async fn connect(
    pool: &Pool,
    place: Destination<'_>,
    server: Option<&Server<'_>>,
    instance: u64,
) -> Result<Connection, SendError> {
    let socket = secure::connect(place, server, &pool.service, pool.queue.as_ref()).await?;
    let socket = socket.in_batch(&pool.batch);
    let is_of_one = server.is_some_and(|server| server.announced.is_some());
    Ok(Connection { socket, read: BytesMut::with_capacity(READ_SIZE), instance, is_of_one })
}
