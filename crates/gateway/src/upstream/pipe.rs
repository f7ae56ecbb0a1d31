//! Pipe/1 to the services of one worker: which connection carries a request, and what becomes of its answer.
//!
//! A request that is complete and fits one frame goes on the *shared* connection; any other on an *own* connection,
//! asked for with MORE when none is idle. The answer comes back where the request went, or on an *answer* connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pilotlight_exchange::retry::Reuse;
use pilotlight_pipe::control::{Drain, More, MoreKind};
use pilotlight_pipe::frame::flags;
use pilotlight_pipe::head::{HeadError, decode_info, decode_response};
use pilotlight_pipe::hello::{ConnectionKind, Hello};
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::session::{AnswerPart, Part, ProtocolError};
use pilotlight_supervisor::{Instance, Lease, Service, SharedLink};
use tokio::net::UnixStream;
use tokio::sync::Notify;

use super::first_byte::FirstByte;
use super::one_try::Try;
use super::{Answer, BodyLeft, Delivery, Failed, SendError, UpstreamError};
use crate::net::Socket;
use crate::outbound::Outbound;
use crate::request_body::RequestBody;
use crate::spawn::Spawner;

mod body;
mod frames;
mod reply;
mod shared;
mod stream;

pub(crate) use body::PipeBody;
use reply::Reply;
use shared::{BeginError, Outcome, Shared};
use stream::{Stream, StreamError};

/// How long a service may take to dial an own connection before it is asked again.
const OWN_PATIENCE: Duration = Duration::from_secs(2);

/// One worker's connections to one service.
pub(crate) struct Link {
    service: Arc<Service>,
    worker: u32,
    workers: u16,
    spawner: Spawner,
    /// Of every instance that has a connection here: the current one, and those that are still ending.
    peers: RefCell<Vec<Rc<Peer>>>,
    changed: Notify,
}

/// The connections to one instance.
pub(crate) struct Peer {
    pub(crate) service: String,
    pub(crate) shared: Rc<Shared>,
    pub(crate) spawner: Spawner,
    worker: u32,
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
            Ok(stream) => Socket::Unix(stream),
            Err(e) => return tracing::error!(service = %self.service.name(), "a connection cannot be watched: {e}"),
        };
        let known = self.peer_of(instance);
        match (hello.kind, known) {
            (ConnectionKind::Shared, known) => {
                let shared = Shared::new(self.service.name().to_string(), Arc::clone(instance), hello.exchanges);
                let peer = known.is_none_or(|p| p.shared.is_ended()).then(|| self.peer(Rc::clone(&shared), hello));
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
                        peer.own_changed.notify_waiters(); // nobody dials for those that wait
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

    fn peer(&self, shared: Rc<Shared>, hello: &Hello) -> Rc<Peer> {
        Rc::new(Peer {
            service: self.service.name().to_string(),
            shared,
            spawner: self.spawner.clone(),
            worker: self.worker,
            max_own: if hello.max_own == 0 { 0 } else { (hello.max_own / self.workers).max(1) },
            own_open: Cell::new(0),
            own_asked: Cell::new(0),
            own_asked_at: Cell::new(Instant::now()),
            own_waiting: Cell::new(0),
            keeps_own: hello.max_own >= self.workers,
            own_idle: RefCell::default(),
            own_changed: Notify::new(),
        })
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
            peer.own_changed.notify_waiters();
            peer.own_idle.borrow_mut().clear();
        }
        self.changed.notify_waiters();
    }

    /// Forgets an instance that has ended.
    pub(crate) fn gone(&self, instance: &Instance) {
        self.forget(instance);
        self.changed.notify_waiters();
    }

    fn peer_of(&self, instance: &Instance) -> Option<Rc<Peer>> {
        self.peers.borrow().iter().find(|p| p.shared.instance.number() == instance.number()).cloned()
    }

    fn forget(&self, instance: &Instance) {
        self.peers.borrow_mut().retain(|p| p.shared.instance.number() != instance.number());
    }

    /// This worker's connections to the instance; asks for the first one if there is none.
    async fn reach(&self, lease: &Lease) -> Result<Rc<Peer>, UpstreamError> {
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

impl Peer {
    /// An own connection that was asked for has come.
    fn own_arrived(&self, socket: Socket, read: BytesMut) {
        self.own_asked.set(self.own_asked.get().saturating_sub(1));
        if self.own_open.get() >= self.max_own {
            return; // more than it said that it would hold open: closed
        }
        self.own_open.set(self.own_open.get() + 1);
        self.own_idle.borrow_mut().push((socket, read));
        self.own_changed.notify_one();
    }

    /// An own connection is at rest.
    fn own_is_idle(&self, socket: Socket, read: BytesMut) {
        if !self.keeps_own {
            return self.own_is_closed(); // dropped here; another worker may have the place
        }
        self.own_idle.borrow_mut().push((socket, read));
        self.own_changed.notify_one();
    }

    /// An own connection is closed.
    fn own_is_closed(&self) {
        self.own_open.set(self.own_open.get().saturating_sub(1));
        self.own_changed.notify_one();
    }

    /// An own connection at rest, asked for if there is none. `queue.max` bounds how many exchanges wait for one beside
    /// those for which a connection can come.
    ///
    /// # Cancel safety
    /// Safe: a connection that comes too late is the next exchange's.
    async fn own(&self, service: &Service) -> Result<(Socket, BytesMut), SendError> {
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
            let _ = tokio::time::timeout(OWN_PATIENCE, self.own_changed.notified()).await;
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
        if self.own_asked_at.get().elapsed() >= OWN_PATIENCE {
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
struct OwnWaiter<'a>(&'a Peer);

impl<'a> OwnWaiter<'a> {
    fn new(peer: &'a Peer) -> Self {
        peer.own_waiting.set(peer.own_waiting.get() + 1);
        Self(peer)
    }
}

impl Drop for OwnWaiter<'_> {
    fn drop(&mut self) {
        self.0.own_waiting.set(self.0.own_waiting.get() - 1);
    }
}

/// Sends a request and waits for the head of the answer.
///
/// # Cancel safety
/// Dropping it cancels the exchange: the service gets RESET(CANCELLED).
pub(crate) async fn send(
    link: &Link,
    one: &mut Try<'_>,
    outbound: &Outbound,
    mut body: Option<Box<RequestBody>>,
) -> Result<Answer, Failed> {
    let service = link.service.name();
    let (Some(lease), Some(first_byte)) = (&*one.lease, &*one.first_byte) else {
        // Not reachable: a place is taken first.
        let error = closed(service, "was not waited for", Delivery::No);
        return Err(Failed { error: error.into(), body: BodyLeft::Whole(body), reuse: Reuse::New });
    };
    first_byte.service_turn();
    let sent = first_byte.within(async {
        let peer = link.reach(lease).await?;
        let whole = match &body {
            None => Some(&[][..]),
            Some(body) => body.held().map(|held| &held[..]),
        };
        let whole = whole.and_then(|whole| frames::request_frame(outbound, flags::END, whole));
        match whole {
            Some(frame) if peer.shared.takes_exchanges() => send_shared(link, &peer, frame, outbound, first_byte).await,
            _ => send_own(link, &peer, outbound, body.take(), first_byte).await,
        }
    });
    let Some(sent) = sent.await else {
        return Err(Failed { error: first_byte.over(service).into(), body: BodyLeft::Spent, reuse: Reuse::New });
    };
    match sent {
        Ok(reply) => Ok(reply.into_answer(service, one)),
        Err(Unsent { error, body: left }) => {
            let body = match (left, body) {
                (Some(left), _) => left,
                (None, body) => BodyLeft::Whole(body.map(|mut body| {
                    body.rewind();
                    body
                })),
            };
            Err(Failed { error, body, reuse: Reuse::New })
        }
    }
}

struct Unsent {
    error: SendError,
    /// `None`: the caller still has it.
    body: Option<BodyLeft>,
}

impl From<UpstreamError> for Unsent {
    fn from(error: UpstreamError) -> Self {
        Self { error: error.into(), body: None }
    }
}

async fn send_shared(
    link: &Link,
    peer: &Rc<Peer>,
    mut frame: BytesMut,
    outbound: &Outbound,
    first_byte: &FirstByte,
) -> Result<Reply, Unsent> {
    let service = &peer.service;
    let mut waiting = match peer.shared.begin(&link.service, &mut frame, first_byte).await {
        Ok(waiting) => waiting,
        Err(BeginError::Queue(error)) => return Err(Unsent { error: SendError::Start(error), body: None }),
        Err(BeginError::Ended(why)) => return Err(closed(service, &why, Delivery::No).into()),
    };
    let outcome = poll_fn(|cx| match waiting.poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
        Poll::Pending => first_byte.poll_over(cx).map(|()| None),
    })
    .await;
    match outcome {
        Some(Outcome::Response(payload)) => match decode_response(payload) {
            Ok((status, mut headers, body)) => {
                let length = frames::body_length(&outbound.head.method, status, &mut headers)
                    .map_err(|e| unusable(service, e))?;
                if length.is_some_and(|length| length != body.len() as u64) {
                    return Err(wrong_length(service).into());
                }
                Ok(Reply { status, headers, first: body, rest: None, left: None })
            }
            Err(e) => Err(bad_head(peer, e).into()),
        },
        Some(Outcome::Reset(reset)) => Err(frames::reset_error(service, reset).into()),
        Some(Outcome::Answer(stream)) => {
            // The request was sent whole, so the caller still has its body.
            let head = read_head(peer, stream, outbound, first_byte).await;
            head.map_err(|(error, _)| Unsent { error, body: None })
        }
        Some(Outcome::Lost(why, delivery)) => Err(closed(service, &why, delivery).into()),
        None => {
            waiting.cancel(ResetCode::Deadline); // P-28
            Err(first_byte.over(service).into())
        }
    }
}

async fn send_own(
    link: &Link,
    peer: &Rc<Peer>,
    outbound: &Outbound,
    body: Option<Box<RequestBody>>,
    first_byte: &FirstByte,
) -> Result<Reply, Unsent> {
    let end = if body.is_some() { flags::NONE } else { flags::END };
    let Some(mut frame) = frames::request_frame(outbound, end, b"") else {
        let what =
            "cannot be told of this request: its fields do not fit a frame of 65,536 bytes; lower limits.header_size";
        let error = UpstreamError::Protocol { service: peer.service.clone(), what: what.to_owned() };
        return Err(Unsent { error: error.into(), body: Some(BodyLeft::Whole(body)) });
    };
    let (socket, read) = match peer.own(&link.service).await {
        Ok(own) => own,
        Err(error) => return Err(Unsent { error, body: Some(BodyLeft::Whole(body)) }),
    };
    let Some(exchange) = peer.shared.begin_own() else {
        peer.own_is_idle(socket, read);
        let error = UpstreamError::Protocol { service: peer.service.clone(), what: "has no exchange id left".into() };
        return Err(Unsent { error: error.into(), body: Some(BodyLeft::Whole(body)) });
    };
    frames::complete(&mut frame, exchange, first_byte.left());
    let stream = Box::new(Stream::own(socket, read, Rc::clone(peer), exchange, frame, body));
    read_head(peer, stream, outbound, first_byte).await.map_err(|(error, left)| Unsent { error, body: Some(left) })
}

/// Waits for RESPONSE on a stream.
async fn read_head(
    peer: &Rc<Peer>,
    stream: Box<Stream>,
    outbound: &Outbound,
    first_byte: &FirstByte,
) -> Result<Reply, (SendError, BodyLeft)> {
    let service = &peer.service;
    let mut stream = CancelOnDrop(Some(stream));
    loop {
        let part = poll_fn(|cx| match stream.poll_part(cx) {
            Poll::Ready(part) => Poll::Ready(Some(part)),
            Poll::Pending => {
                stream.turn(first_byte);
                first_byte.poll_over(cx).map(|()| None)
            }
        })
        .await;
        let (part, payload) = match part {
            None => {
                stream.cancel(ResetCode::Deadline);
                return Err((first_byte.over_for(service), BodyLeft::Spent));
            }
            Some(Ok(Some(part))) => part,
            Some(Ok(None)) => return Err((closed(service, "cancelled", Delivery::Maybe).into(), BodyLeft::Spent)),
            Some(Err(error)) => return Err(stream.failed(service, error)),
        };
        match part {
            AnswerPart::Info => match decode_info(payload) {
                Ok((status, headers)) => {
                    if let Some(client) = &outbound.interim {
                        client.send_interim(status, &headers);
                    }
                }
                Err(e) => {
                    let error = ProtocolError::from(e);
                    return Err(stream.failed(service, StreamError::Protocol(error)));
                }
            },
            AnswerPart::Response(part) => {
                let (status, mut headers, first) = match decode_response(payload) {
                    Ok(head) => head,
                    Err(e) => {
                        let error = ProtocolError::from(e);
                        return Err(stream.failed(service, StreamError::Protocol(error)));
                    }
                };
                let left = match frames::body_length(&outbound.head.method, status, &mut headers) {
                    Ok(left) => left,
                    Err(e) => {
                        stream.cancel(ResetCode::Cancelled);
                        return Err((unusable(service, e).into(), BodyLeft::Spent));
                    }
                };
                if part == Part::Last && left.is_some_and(|left| left != first.len() as u64) {
                    return Err(stream.refused(wrong_length(service)));
                }
                return Ok(stream.reply(Reply { status, headers, first, rest: None, left }, part));
            }
            AnswerPart::Reset => {
                let reset = Reset::parse(&payload).unwrap_or_else(|e| Reset::new(ResetCode::Internal, e.to_string()));
                return Err(stream.refused(frames::reset_error(service, reset)));
            }
            AnswerPart::Data(_) | AnswerPart::Trailers => {
                // Not reachable: the session lets nothing of the kind come before RESPONSE.
                return Err((closed(service, "sent a body without a head", Delivery::Maybe).into(), BodyLeft::Spent));
            }
        }
    }
}

/// A stream whose exchange is cancelled if nobody takes it.
struct CancelOnDrop(Option<Box<Stream>>);

impl CancelOnDrop {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<(AnswerPart, Bytes)>, StreamError>> {
        match &mut self.0 {
            Some(stream) => stream.poll_part(cx),
            None => Poll::Pending,
        }
    }

    /// Whose turn it is while the request's body is being sent.
    fn turn(&mut self, first_byte: &FirstByte) {
        if let Some(stream) = &mut self.0 {
            first_byte.turn(stream.waits_for_client(), stream.take_moved());
        }
    }

    fn cancel(&mut self, code: ResetCode) {
        if let Some(stream) = self.0.take() {
            stream.cancel(code);
        }
    }

    fn failed(&mut self, service: &str, error: StreamError) -> (SendError, BodyLeft) {
        let Some(mut stream) = self.0.take() else {
            return (closed(service, "is gone", Delivery::Maybe).into(), BodyLeft::Spent);
        };
        let left = stream.reclaim();
        match error {
            StreamError::Client(e) => {
                stream.cancel(ResetCode::Cancelled);
                (SendError::Client(e), BodyLeft::Spent)
            }
            StreamError::Closed(why, delivery) => (closed(service, &why, delivery).into(), left),
            StreamError::Protocol(e) => {
                let what = e.to_string();
                stream.fault(&e);
                (UpstreamError::Protocol { service: service.to_owned(), what }.into(), BodyLeft::Spent)
            }
        }
    }

    /// RESET is a final frame: the stream comes to rest, the body may be sent elsewhere if none of it has gone.
    fn refused(&mut self, error: UpstreamError) -> (SendError, BodyLeft) {
        let Some(mut stream) = self.0.take() else { return (error.into(), BodyLeft::Spent) };
        let left = stream.reclaim();
        stream.finish();
        (error.into(), left)
    }

    fn reply(mut self, head: Reply, part: Part) -> Reply {
        let mut rest = self.0.take();
        if part == Part::Last
            && let Some(stream) = rest.take()
        {
            stream.finish();
        }
        Reply { rest, ..head }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.cancel(ResetCode::Cancelled);
    }
}

fn closed(service: &str, what: &str, delivery: Delivery) -> UpstreamError {
    UpstreamError::Closed { service: service.to_owned(), what: what.to_owned(), delivery }
}

fn wrong_length(service: &str) -> UpstreamError {
    let what = "the answer's content-length is not the length of its body".to_owned();
    UpstreamError::Protocol { service: service.to_owned(), what }
}

fn unusable(service: &str, error: frames::BadHead) -> UpstreamError {
    UpstreamError::Protocol { service: service.to_owned(), what: error.to_string() }
}

fn bad_head(peer: &Peer, error: HeadError) -> UpstreamError {
    let what = error.to_string();
    peer.shared.fault(&ProtocolError::from(error));
    UpstreamError::Protocol { service: peer.service.clone(), what }
}
