//! One running copy of a service, as workers see it.

use crate::error::{Exit, StartError};
use crate::notice::Notice;
use crate::padded::Padded;
use crate::service_id::ServiceId;
use crate::start_times::StartTimes;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};
use std::time::Instant;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

/// One running copy of a service.
#[derive(Debug)]
pub struct Instance {
    state: Padded<AtomicU8>,
    /// As the supervisor and the guardian count: one number for each process that the guardian starts.
    pub(crate) id: u64,
    pub(crate) epoch: Instant,
    service: ServiceId,
    number: u64,
    endpoint: OnceLock<Endpoint>,
    /// Where it is instead.
    moved: OnceLock<Endpoint>,
    answered: AtomicBool,
    drain_announced: AtomicBool,
    idle_noticed: AtomicBool,
    idle_wanted: AtomicBool,
    start_times: OnceLock<StartTimes>,
    used_noticed: AtomicBool,
    stuck: AtomicBool,
    health: OnceLock<Result<u16, String>>,
    init_error: OnceLock<Vec<String>>,
    ended: OnceLock<Ended>,
    ended_notify: Notify,
    notices: UnboundedSender<Notice>,
}

/// Where an instance is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Over the connections that it dials ([`WorkerEvent::Connected`](crate::WorkerEvent::Connected)).
    Pipe,
    /// Over connections to this address.
    Http(Address),
    /// It asks the Runtime API of AWS Lambda, which is served to it there.
    RuntimeApi(SocketAddr),
}

/// Until it is known.
static NOWHERE: Endpoint = Endpoint::Http(Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)));

/// Where an instance listens. It is never that of another instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix stream socket.
    Unix(PathBuf),
    /// A TCP socket of this machine, or of a container on it.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// How an instance ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How its process ended; `None` while it is still being killed.
    pub exit: Option<Exit>,
    /// Set if it ended before its first answer: what callers that were waiting for it are told.
    pub start_error: Option<StartError>,
}

/// The state of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum InstanceState {
    /// It takes no exchanges yet.
    Starting,
    /// It takes exchanges.
    Ready,
    /// It has nothing to do and is stopped in its tracks (`freeze_after`); the next exchange thaws it.
    Frozen,
    /// It takes no new exchanges; open ones may end.
    Draining,
    /// Its process has ended.
    Ended,
}

impl InstanceState {
    /// Its name, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Frozen => "frozen",
            Self::Draining => "draining",
            Self::Ended => "ended",
        }
    }
}

/// What an instance is told apart by.
#[derive(Clone, Copy)]
pub(crate) struct Which {
    pub(crate) service: ServiceId,
    /// Among all instances, and all else that the guardian starts.
    pub(crate) id: u64,
    /// Among the service's instances.
    pub(crate) number: u64,
}

impl Instance {
    /// Without an endpoint where it is spoken to is known only when it is ready.
    pub(crate) fn new(
        which: Which,
        endpoint: Option<Endpoint>,
        epoch: Instant,
        notices: UnboundedSender<Notice>,
    ) -> Self {
        let Which { service, id, number } = which;
        Self {
            state: Padded(AtomicU8::new(InstanceState::Starting as u8)),
            id,
            epoch,
            service,
            number,
            endpoint: endpoint.map(OnceLock::from).unwrap_or_default(),
            moved: OnceLock::new(),
            answered: AtomicBool::new(false),
            drain_announced: AtomicBool::new(false),
            idle_noticed: AtomicBool::new(false),
            idle_wanted: AtomicBool::new(false),
            start_times: OnceLock::new(),
            used_noticed: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            health: OnceLock::new(),
            init_error: OnceLock::new(),
            ended: OnceLock::new(),
            ended_notify: Notify::new(),
            notices,
        }
    }

    /// The service it is a copy of.
    #[must_use]
    pub fn service(&self) -> ServiceId {
        self.service
    }

    /// Its number, counted from 1 for each service.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where it is spoken to. Before it is ready this may be an address at which nobody is.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.moved.get().or_else(|| self.endpoint.get()).unwrap_or(&NOWHERE)
    }

    /// The first call counts.
    pub(crate) fn set_endpoint(&self, endpoint: Endpoint) {
        let _ = self.endpoint.set(endpoint);
    }

    /// It listens there, and not where it was told to. To be called before anybody is sent there.
    pub(crate) fn move_to(&self, address: SocketAddr) {
        let _ = self.moved.set(Endpoint::Http(Address::Tcp(address)));
    }

    /// Where it listens, if that is not where it was told to.
    pub(crate) fn moved_to(&self) -> Option<SocketAddr> {
        match self.moved.get()? {
            Endpoint::Http(Address::Tcp(address)) => Some(*address),
            _ => None,
        }
    }

    /// When it reached the steps of its start; none before it is ready.
    #[must_use]
    pub fn start_times(&self) -> Option<StartTimes> {
        self.start_times.get().copied()
    }

    /// Whether it is to get no new exchanges (it is being stopped, or has ended).
    #[must_use]
    pub fn drain_requested(&self) -> bool {
        self.state.0.load(SeqCst) >= InstanceState::Draining as u8
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn ended_now(&self) -> Option<Ended> {
        self.ended.get().cloned()
    }

    /// Waits for its end. For an instance that is killed because its start failed this returns at the failure, not at
    /// the exit of the process.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ended(&self) -> Ended {
        loop {
            let mut notified = std::pin::pin!(self.ended_notify.notified());
            notified.as_mut().enable(); // before the look, so that an end between the two is not missed
            if let Some(ended) = self.ended.get() {
                return ended.clone();
            }
            notified.await;
        }
    }

    /// HTTP: the first bytes of an answer came, so the start is over.
    pub fn mark_answered(&self) {
        if !self.answered() && !self.answered.swap(true, SeqCst) {
            self.notice(Notice::Answered { instance: self.id });
        }
    }

    /// Whether [`mark_answered`](Self::mark_answered) was called: until then a caller watches [`ended`](Self::ended).
    #[must_use]
    pub fn answered(&self) -> bool {
        self.answered.load(SeqCst)
    }

    /// Pipe: the service sent DRAIN (P-32). When this returns, no new exchange is given to it any more; when its open
    /// ones are done every worker gets [`WorkerEvent::Drain`](crate::WorkerEvent::Drain).
    pub fn announce_drain(&self) {
        if !self.drain_announced.swap(true, SeqCst) {
            self.close_if_ready();
            self.notice(Notice::ServiceDrains { instance: self.id });
        }
    }

    /// A request got no answer in [`Service::max_request_time`](crate::Service::max_request_time): the instance gets no
    /// new ones, and is ended when those that are open are done, or their time is over. When this returns, none is
    /// given to it any more.
    pub fn report_stuck(&self) {
        if !self.stuck.swap(true, SeqCst) {
            self.close_if_ready();
            self.notice(Notice::Stuck { instance: self.id });
        }
    }

    /// Runtime API: its first call for an invocation came, so the start is over.
    pub fn report_ready(&self) {
        self.notice(Notice::RuntimeReady { instance: self.id });
    }

    /// Runtime API: it says that it could not be initialised; the lines say why. The first call counts.
    pub fn report_init_error(&self, lines: Vec<String>) {
        if self.init_error.set(lines).is_ok() {
            self.notice(Notice::InitFailed { instance: self.id });
        }
    }

    /// What it said of its initialisation.
    pub(crate) fn init_error(&self) -> &[String] {
        self.init_error.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// What came of its health request: the status of a good answer, or what is wrong. The first call counts.
    pub fn report_health(&self, verdict: Result<u16, String>) {
        if self.health.set(verdict).is_ok() {
            self.notice(Notice::Examined { instance: self.id });
        }
    }

    /// What came of its health request.
    pub(crate) fn health(&self) -> Option<&Result<u16, String>> {
        self.health.get()
    }

    /// Closes a ready instance to new exchanges. In every other state it takes none.
    fn close_if_ready(&self) {
        let (ready, draining) = (InstanceState::Ready as u8, InstanceState::Draining as u8);
        let _ = self.state.0.compare_exchange(ready, draining, SeqCst, SeqCst);
    }

    /// Takes exchanges again, unless it was reported as stuck or has announced that it drains.
    pub(crate) fn reopen(&self) {
        self.set_state(InstanceState::Ready);
        if self.stuck.load(SeqCst) || self.drain_announced.load(SeqCst) {
            self.set_state(InstanceState::Draining);
        }
    }

    /// Whether the service has sent DRAIN. The next [`Service::ready`](crate::Service::ready) leads to another
    /// instance.
    #[must_use]
    pub fn drain_announced(&self) -> bool {
        self.drain_announced.load(SeqCst)
    }

    pub(crate) fn set_state(&self, state: InstanceState) {
        self.state.0.store(state as u8, SeqCst);
    }

    pub(crate) fn is(&self, state: InstanceState) -> bool {
        self.state.0.load(SeqCst) == state as u8
    }

    /// The first call counts.
    pub(crate) fn set_start_times(&self, times: StartTimes) {
        let _ = self.start_times.set(times);
    }

    /// The first call counts.
    pub(crate) fn set_ended(&self, ended: Ended) {
        if self.ended.set(ended).is_ok() {
            self.ended_notify.notify_waiters();
        }
    }

    pub(crate) fn notice_idle(&self) {
        if !self.idle_noticed.swap(true, SeqCst) {
            self.notice(Notice::Idle { instance: self.id });
        }
    }

    /// Somebody waits for it to be idle.
    pub(crate) fn set_idle_wanted(&self, is_wanted: bool) {
        self.idle_wanted.store(is_wanted, SeqCst);
    }

    pub(crate) fn is_idle_wanted(&self) -> bool {
        self.idle_wanted.load(SeqCst)
    }

    pub(crate) fn notice_used(&self) {
        if !self.used_noticed.swap(true, SeqCst) {
            self.notice(Notice::Used { instance: self.id });
        }
    }

    /// The supervisor has taken the notice.
    pub(crate) fn take_used_notice(&self) {
        self.used_noticed.store(false, SeqCst);
    }

    /// The supervisor has taken the notice; the next idle moment sends another one.
    pub(crate) fn take_idle_notice(&self) {
        self.idle_noticed.store(false, SeqCst);
    }

    pub(crate) fn notice(&self, notice: Notice) {
        // A closed queue is a supervisor that has stopped: there is nobody left to act on the notice.
        let _ = self.notices.send(notice);
    }
}
