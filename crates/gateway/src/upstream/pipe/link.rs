//! One worker's connections to the instances of one service.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pilotlight_pipe::control::{Drain, More, MoreKind};
use pilotlight_pipe::hello::{ConnectionKind, Hello};
use pilotlight_supervisor::{Instance, Lease, Service, SharedLink};
use tokio::net::UnixStream;
use tokio::sync::Notify;

use super::peer::Peer;
use super::shared::SharedConnection;
use super::stream::Stream;
use crate::net::Socket;
use crate::spawn::Spawner;
use crate::upstream::{Delivery, UpstreamError, closed};

/// One worker's connections to one service.
pub(crate) struct Link {
    pub(super) service: Arc<Service>,
    worker: u32,
    workers: u16,
    spawner: Spawner,
    /// Of every instance that has a connection here: the current one, and those that are still ending.
    peers: RefCell<Vec<Rc<Peer<Stream>>>>,
    changed: Notify,
}

impl Link {
    pub(crate) fn new(service: Arc<Service>, worker: u32, workers: u16, spawner: Spawner) -> Rc<Self> {
        Rc::new(Self { service, worker, workers, spawner, peers: RefCell::default(), changed: Notify::new() })
    }

    /// Whether it has no connection to any instance.
    pub(crate) fn is_unused(&self) -> bool {
        self.peers.borrow().is_empty()
    }

    /// A connection of an instance, after HELLO and WELCOME.
    pub(crate) fn connected(
        self: &Rc<Self>,
        instance: &Arc<Instance>,
        hello: &Hello,
        stream: std::os::unix::net::UnixStream,
        read_ahead: Bytes,
        link: Option<SharedLink>,
    ) {
        let socket = match UnixStream::from_std(stream) {
            Ok(stream) => Socket::from(stream),
            Err(e) => return tracing::error!(service = %self.service.name(), "a connection cannot be watched: {e}"),
        };
        let known = self.peer_of(instance);
        match (hello.kind, known) {
            (ConnectionKind::Shared, known) => {
                let shared =
                    SharedConnection::new(self.service.name().to_string(), Arc::clone(instance), hello.exchanges);
                let peer = known.is_none_or(|p| p.shared.is_ended()).then(|| {
                    let (service, spawner) = (self.service.name().to_string(), self.spawner.clone());
                    Peer::new(Rc::clone(&shared), hello, service, spawner, self.worker, self.workers)
                });
                if let Some(peer) = &peer {
                    self.forget(instance);
                    self.peers.borrow_mut().push(Rc::clone(peer));
                    self.changed.notify_waiters();
                }
                let this = Rc::clone(self);
                self.spawner.spawn(async move {
                    let why = shared.drive(socket, read_ahead).await;
                    tracing::debug!(service = %this.service.name(), "a shared connection ended: the service {why}");
                    drop(link); // P-33: the supervisor counts them
                    if let Some(peer) = peer {
                        peer.wake_waiting(); // nobody dials for those that wait
                    }
                    this.changed.notify_waiters();
                });
            }
            (ConnectionKind::Own, Some(peer)) => peer.own_arrived(socket, BytesMut::from(&read_ahead[..])),
            (ConnectionKind::Answer, Some(peer)) => {
                let stream = Stream::answers(socket, BytesMut::from(&read_ahead[..]), peer);
                self.spawner.spawn(stream.wait_for_answers());
            }
            // Of an instance that has been replaced meanwhile: closing it tells the service.
            (ConnectionKind::Own | ConnectionKind::Answer, None) => {}
        }
    }

    /// Asks an instance for connections in the name of another worker.
    pub(crate) fn send_more(&self, instance: &Instance, kind: ConnectionKind, count: u16, for_worker: u32) {
        let kind = match kind {
            ConnectionKind::Own => MoreKind::Own,
            ConnectionKind::Shared | ConnectionKind::Answer => MoreKind::Shared,
        };
        if let Some(peer) = self.peer_of(instance) {
            peer.shared.control(|out| More { kind, count, worker: for_worker }.encode(out));
        }
    }

    /// Tells an instance to finish and exit (P-31).
    pub(crate) fn drain(&self, instance: &Instance, grace: Duration) {
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        if let Some(peer) = self.peer_of(instance) {
            peer.shared.drain(&Drain { grace_ms });
            peer.wake_waiting();
            peer.close_idle();
        }
        self.changed.notify_waiters();
    }

    /// Forgets an instance that has ended.
    pub(crate) fn gone(&self, instance: &Instance) {
        self.forget(instance);
        self.changed.notify_waiters();
    }

    fn peer_of(&self, instance: &Instance) -> Option<Rc<Peer<Stream>>> {
        self.peers.borrow().iter().find(|p| p.shared.instance.number() == instance.number()).cloned()
    }

    fn forget(&self, instance: &Instance) {
        self.peers.borrow_mut().retain(|p| p.shared.instance.number() != instance.number());
    }

    /// This worker's connections to the instance; asks for the first one if there is none.
    pub(super) async fn reach(&self, lease: &Lease) -> Result<Rc<Peer<Stream>>, UpstreamError> {
        let instance = lease.instance();
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable(); // before the look, so that a change between the two is not missed
            if let Some(peer) = self.peer_of(instance)
                && !peer.shared.is_ended()
            {
                return Ok(peer);
            }
            let has_ended = instance.ended_now().is_some();
            if has_ended || instance.drain_requested() {
                let what = if has_ended { "ended" } else { "was stopped" };
                return Err(closed(self.service.name(), what, Delivery::No));
            }
            lease.want_shared();
            changed.await;
        }
    }
}
