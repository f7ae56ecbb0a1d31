//! The connections of a worker to one instance: the shared one, and own ones, which are asked for and kept.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pilotlight_pipe::control::{More, MoreKind};
use pilotlight_pipe::hello::{Hello, MINOR};
use pilotlight_supervisor::Service;
use tokio::sync::Notify;

use super::shared::SharedConnection;
use super::shared_state::AnswerStream;
use crate::net::Socket;
use crate::spawn::Spawner;
use crate::upstream::{Delivery, SendError, UpstreamError, closed};

/// How long a service may take to dial an own connection before it is asked again.
const OWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The connections to one instance.
pub(crate) struct Peer<A: AnswerStream> {
    pub(crate) service: String,
    pub(crate) shared: Rc<SharedConnection<A>>,
    pub(crate) spawner: Spawner,
    worker: u32,
    /// The minor version that the instance speaks (P-37).
    minor: u16,
    /// Own connections that this worker may have open.
    max_own: u16,
    own_open: Cell<u16>,
    own_asked: Cell<u16>,
    own_asked_at: Cell<Instant>,
    /// Exchanges that wait for an own connection.
    own_waiting: Cell<usize>,
    own_idle: RefCell<Vec<(Socket, BytesMut)>>,
    /// Whether own connections stay open between exchanges: not if there are fewer than workers that want one.
    keeps_own: bool,
    own_changed: Notify,
}

impl<A: AnswerStream> Peer<A> {
    /// `worker` is one of `workers`, which share what the service lets one instance hold open.
    pub(super) fn new(
        shared: Rc<SharedConnection<A>>,
        hello: &Hello,
        service: String,
        spawner: Spawner,
        worker: u32,
        workers: u16,
    ) -> Rc<Self> {
        Rc::new(Self {
            service,
            shared,
            spawner,
            worker,
            minor: hello.minor,
            max_own: if hello.max_own == 0 { 0 } else { (hello.max_own / workers).max(1) },
            own_open: Cell::new(0),
            own_asked: Cell::new(0),
            own_asked_at: Cell::new(Instant::now()),
            own_waiting: Cell::new(0),
            keeps_own: hello.max_own >= workers,
            own_idle: RefCell::default(),
            own_changed: Notify::new(),
        })
    }

    /// Whether an own connection of the instance may switch to another protocol.
    pub(super) fn may_switch(&self) -> bool {
        self.minor >= MINOR
    }

    /// The instance takes no further exchange: those that wait for an own connection look again.
    pub(super) fn wake_waiting(&self) {
        self.own_changed.notify_waiters();
    }

    /// Closes the own connections at rest.
    pub(super) fn close_idle(&self) {
        self.own_idle.borrow_mut().clear();
    }

    /// An own connection that was asked for has come.
    pub(super) fn own_arrived(&self, socket: Socket, read: BytesMut) {
        self.own_asked.set(self.own_asked.get().saturating_sub(1));
        if self.own_open.get() >= self.max_own {
            return; // more than it said that it would hold open: closed
        }
        self.own_open.set(self.own_open.get() + 1);
        self.own_idle.borrow_mut().push((socket, read));
        self.own_changed.notify_one();
    }

    /// An own connection is at rest.
    pub(super) fn own_is_idle(&self, socket: Socket, read: BytesMut) {
        if !self.keeps_own {
            return self.own_is_closed(); // dropped here; another worker may have the place
        }
        self.own_idle.borrow_mut().push((socket, read));
        self.own_changed.notify_one();
    }

    /// An own connection is closed.
    pub(super) fn own_is_closed(&self) {
        self.own_open.set(self.own_open.get().saturating_sub(1));
        self.own_changed.notify_one();
    }

    /// An own connection at rest, asked for if there is none. `queue.max` bounds how many exchanges wait for one beside
    /// those for which a connection can come.
    ///
    /// # Cancel safety
    /// Safe: a connection that comes too late is the next exchange's.
    pub(super) async fn own(&self, service: &Service) -> Result<(Socket, BytesMut), SendError> {
        if self.max_own == 0 {
            let what = "takes no own connections (max_own = 0), so it cannot take this request".to_owned();
            return Err(UpstreamError::Protocol { service: self.service.clone(), what }.into());
        }
        if let Some(own) = self.take_own()? {
            return Ok(own);
        }
        let to_come = usize::from(self.max_own.saturating_sub(self.own_open.get()));
        if self.own_waiting.get() < to_come {
            return self.own_to_come().await;
        }
        let waiting = service.wait().map_err(SendError::Start)?;
        let own = waiting.within("none of its own connections was free", self.own_to_come()).await;
        own.map_err(SendError::Start)?
    }

    /// Waits for an own connection.
    async fn own_to_come(&self) -> Result<(Socket, BytesMut), SendError> {
        let _counted = OwnWaiter::new(self);
        loop {
            self.ask_for_own();
            // The time over is no error: the service may have been unable to dial, and is asked again.
            let _ = tokio::time::timeout(OWN_TIMEOUT, self.own_changed.notified()).await;
            if let Some(own) = self.take_own()? {
                return Ok(own);
            }
        }
    }

    /// An own connection at rest, if there is one.
    fn take_own(&self) -> Result<Option<(Socket, BytesMut)>, SendError> {
        while let Some((socket, read)) = self.own_idle.borrow_mut().pop() {
            // P-23: the service may have closed it.
            if matches!(socket.try_read(&mut [0; 1]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock) {
                return Ok(Some((socket, read)));
            }
            self.own_open.set(self.own_open.get().saturating_sub(1));
        }
        if self.shared.is_ended() || self.shared.is_draining() {
            return Err(closed(&self.service, "ended", Delivery::No).into());
        }
        Ok(None)
    }

    /// Sends MORE if fewer connections are on their way than exchanges wait.
    fn ask_for_own(&self) {
        if self.own_asked_at.get().elapsed() >= OWN_TIMEOUT {
            self.own_asked.set(0); // those will not come any more
        }
        let asked = self.own_asked.get();
        if usize::from(asked) < self.own_waiting.get() && self.own_open.get().saturating_add(asked) < self.max_own {
            self.own_asked.set(asked + 1);
            self.own_asked_at.set(Instant::now());
            let more = More { kind: MoreKind::Own, count: 1, worker: self.worker };
            self.shared.control(|out| more.encode(out));
        }
    }
}

/// Counts an exchange that waits for an own connection.
struct OwnWaiter<'a, A: AnswerStream>(&'a Peer<A>);

impl<'a, A: AnswerStream> OwnWaiter<'a, A> {
    fn new(peer: &'a Peer<A>) -> Self {
        peer.own_waiting.set(peer.own_waiting.get() + 1);
        Self(peer)
    }
}

impl<A: AnswerStream> Drop for OwnWaiter<'_, A> {
    fn drop(&mut self) {
        self.0.own_waiting.set(self.0.own_waiting.get() - 1);
    }
}
