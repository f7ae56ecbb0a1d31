//! What a handler can know of its exchange besides the request.

use crate::control::{Log, LogLevel};
use crate::head::DecodedRequest;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Log lines that may wait to be sent on one connection; those above are dropped.
pub const MAX_LOG_LINES: usize = 256;

/// An extension of every request: `request.extensions().get::<Exchange>()`. Clones are the same exchange.
///
/// ```
/// # mod gateway { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/gateway.rs")); }
/// use http::{Request, Response};
/// use pilotlight_pipe::control::LogLevel;
/// use pilotlight_pipe::{Exchange, Incoming};
///
/// async fn who(request: Request<Incoming>) -> Response<String> {
///     let Some(exchange) = request.extensions().get::<Exchange>() else {
///         return Response::new(String::new());
///     };
///     exchange.log(LogLevel::Info, "somebody asks");
///     Response::new(format!("{} asks for {}\n", exchange.peer(), exchange.target()))
/// }
/// # let gateway = gateway::Gateway::start(who);
/// # let mut shared = gateway.shared();
/// # shared.get(1, "/who?me");
/// # let frames = [shared.frame(), shared.frame()]; // in any order
/// # let answer = frames.iter().find(|(header, _)| header.is_end()).expect("a response").1.clone();
/// # let (_, _, body) = pilotlight_pipe::head::decode_response(answer).expect("a head");
/// # assert_eq!(&body[..], b"127.0.0.1:1 asks for /who?me\n");
/// # assert!(frames.iter().any(|(header, _)| header.kind == pilotlight_pipe::frame::FrameType::LOG));
/// ```
#[derive(Clone)]
pub struct Exchange(Arc<Inner>);

struct Inner {
    id: u16,
    /// Without its fields, which are the request's.
    head: DecodedRequest,
    deadline: Option<Instant>,
    cancelled: AtomicBool,
    cancel: Notify,
    log: mpsc::Sender<(Exchange, Log)>,
}

impl Exchange {
    pub(super) fn new(id: u16, head: DecodedRequest, log: mpsc::Sender<(Exchange, Log)>) -> Self {
        let allowed = (head.deadline_ms > 0).then(|| Duration::from_millis(u64::from(head.deadline_ms)));
        let deadline = allowed.map(|allowed| Instant::now() + allowed);
        Self(Arc::new(Inner { id, head, deadline, cancelled: AtomicBool::new(false), cancel: Notify::new(), log }))
    }

    /// When the gateway gives up, if it has been told to (P-28).
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.0.deadline
    }

    /// The time in milliseconds that the exchange had when it was sent, if it is limited.
    #[must_use]
    pub fn deadline_ms(&self) -> Option<u32> {
        self.0.deadline.map(|_| self.0.head.deadline_ms)
    }

    /// The request id, the same in the gateway's log.
    #[must_use]
    pub fn request_id(&self) -> &str {
        self.0.head.request_id()
    }

    /// `address:port` of the client, or empty.
    #[must_use]
    pub fn peer(&self) -> &str {
        self.0.head.peer()
    }

    /// The host that the client asked for.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.0.head.authority()
    }

    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.0.head.scheme()
    }

    /// Path and query, exactly as the client sent them.
    #[must_use]
    pub fn target(&self) -> &str {
        self.0.head.target()
    }

    /// Whether nobody wants the answer any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Waits until nobody wants the answer any more: for work that goes on elsewhere than in the handler's future,
    /// which is dropped then.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn cancelled(&self) {
        let mut notified = std::pin::pin!(self.0.cancel.notified());
        // Registered before looking, so that a cancel between the two is not missed.
        notified.as_mut().enable();
        if !self.is_cancelled() {
            notified.await;
        }
    }

    /// Sends a log line of this exchange to the gateway (P-36). `false` if it was dropped because [`MAX_LOG_LINES`] are
    /// waiting already, or the connection has ended.
    pub fn log(&self, level: LogLevel, text: impl Into<String>) -> bool {
        self.0.log.try_send((self.clone(), Log { level, text: text.into() })).is_ok()
    }

    pub(super) fn id(&self) -> u16 {
        self.0.id
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.cancel.notify_waiters();
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exchange({}, {})", self.0.id, self.request_id())
    }
}
