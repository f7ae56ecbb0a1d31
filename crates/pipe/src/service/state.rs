//! The instance: its connections, and when it ends (P-31 … P-33).

use super::outcome::Handler;
use super::wire::Wire;
use super::{ServeError, Service, own, shared};
use crate::control::{More, MoreKind};
use crate::hello::ConnectionKind;
use crate::reset::Reset;
use crate::session::ProtocolError;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Sleep, sleep};

/// After SIGTERM: how long the gateway may take to answer the service's DRAIN with its own.
const LEAVE_WAIT: Duration = Duration::from_secs(1);
/// Shared connections of one instance; MORE is not followed beyond.
const MAX_SHARED: u16 = 64;

/// How far the instance is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Serving,
    /// SIGTERM: DRAIN is sent, the gateway's is awaited, requests that cross it are refused.
    Leaving,
    /// The gateway knows: what is open is finished, then connections close.
    Drained,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// By the service, which was done with it.
    Closed,
    /// By the gateway.
    Eof,
}

pub(super) type Ended = Result<End, ServeError>;

/// What all connections of the instance share.
pub(super) struct State {
    pub(super) service: Service,
    pub(super) handler: Handler,
    stage: watch::Sender<Stage>,
    connections: RefCell<JoinSet<(ConnectionKind, Ended)>>,
    shared: Cell<u16>,
    own: Cell<u16>,
}

impl State {
    pub(super) fn new(service: Service, handler: Handler) -> Rc<Self> {
        Rc::new(Self {
            service,
            handler,
            stage: watch::Sender::new(Stage::Serving),
            connections: RefCell::new(JoinSet::new()),
            shared: Cell::new(0),
            own: Cell::new(0),
        })
    }

    pub(super) async fn run(self: Rc<Self>) -> Result<(), ServeError> {
        let tasks = LocalSet::new();
        let result = tasks.run_until(self.supervise()).await;
        // Connections hold the state that holds them.
        self.connections.borrow_mut().abort_all();
        result
    }

    pub(super) fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    pub(super) fn now(&self) -> Stage {
        *self.stage.borrow()
    }

    /// DRAIN came (P-31).
    pub(super) fn drained(&self) {
        self.stage.send_replace(Stage::Drained);
    }

    /// MORE came (P-23). What is above the limits is not dialled.
    pub(super) fn more(self: &Rc<Self>, more: More) {
        if self.now() != Stage::Serving {
            return;
        }
        let (open, limit) = match more.kind {
            MoreKind::Own => (&self.own, self.service.max_own),
            MoreKind::Shared => (&self.shared, MAX_SHARED),
        };
        for _ in 0..more.count.min(limit.saturating_sub(open.get())) {
            self.open(more.kind, Some(more.worker));
        }
    }

    fn open(self: &Rc<Self>, kind: MoreKind, worker: Option<u32>) {
        let state = Rc::clone(self);
        let mut connections = self.connections.borrow_mut();
        match kind {
            MoreKind::Own => {
                self.own.set(self.own.get() + 1);
                connections.spawn_local(async move { (ConnectionKind::Own, own::run(&state, worker).await) });
            }
            MoreKind::Shared => {
                self.shared.set(self.shared.get() + 1);
                connections.spawn_local(async move { (ConnectionKind::Shared, shared::run(&state, worker).await) });
            }
        }
    }

    async fn supervise(self: &Rc<Self>) -> Result<(), ServeError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signal)?;
        self.open(MoreKind::Shared, None); // P-2
        let mut leaving = std::pin::pin!(None::<Sleep>);
        loop {
            tokio::select! {
                ended = poll_fn(|cx| self.connections.borrow_mut().poll_join_next(cx)) => match ended {
                    None => return Ok(()),
                    Some(Err(panicked)) => return Err(ServeError::Io(io::Error::other(panicked))),
                    Some(Ok((kind, ended))) => if let Some(result) = self.ended(kind, ended) {
                        return result;
                    }
                },
                _ = terminate.recv() => {
                    self.stage.send_if_modified(|stage| {
                        let serving = *stage == Stage::Serving;
                        if serving { *stage = Stage::Leaving; }
                        serving
                    });
                    leaving.set(Some(sleep(LEAVE_WAIT)));
                }
                () = poll_fn(|cx| match leaving.as_mut().as_pin_mut() {
                    Some(wait) => wait.poll(cx),
                    None => std::task::Poll::Pending,
                }) => {
                    leaving.set(None);
                    self.drained();
                }
            }
        }
    }

    /// Whether the end of this connection is the end of the instance.
    fn ended(&self, kind: ConnectionKind, ended: Ended) -> Option<Result<(), ServeError>> {
        let open = if kind == ConnectionKind::Shared { &self.shared } else { &self.own };
        open.set(open.get() - 1);
        let last_shared = kind == ConnectionKind::Shared && open.get() == 0;
        match ended {
            // What is left finishes, then the set of connections is empty.
            Ok(End::Closed) => None,
            // P-33
            Ok(End::Eof) => last_shared.then_some(Ok(())),
            Err(error) if last_shared => Some(Err(error)),
            Err(error) => {
                // P-5: standard error is a log.
                eprintln!("pilotlight-pipe: a connection of kind {} ended: {error}", kind.name());
                None
            }
        }
    }
}

/// P-10, and what the gateway says by it: ends a connection after an error.
pub(super) async fn give_up(wire: Wire, error: ServeError) -> Ended {
    if let ServeError::Protocol(error) = &error {
        wire.refuse(&error.to_reset()).await;
    }
    Err(error)
}

/// RESET on exchange 0 came.
pub(super) fn refused(payload: &[u8]) -> ServeError {
    match Reset::parse(payload) {
        Ok(reset) => ServeError::Refused { text: reset.text },
        Err(error) => ServeError::Protocol(ProtocolError::Reset(error)),
    }
}
