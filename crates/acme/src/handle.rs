//! What others hold of the owner of certificates: orders go in, answers and what is known come out.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};

use crate::agenda::NameState;
use crate::certificate::{CertificateError, Pair};
use crate::challenge::Answers;
use crate::demand::{Demanded, Demands, MAX_PENDING};
use crate::name::{Name, Reach};
use crate::options::OnDemand;
use crate::storage::StorageError;

/// Sends commands to the owner. Cheap to clone.
#[derive(Clone)]
pub struct Acme {
    commands: mpsc::UnboundedSender<Command>,
    on_demand: Option<Arc<Waiting>>,
    answers: Answers,
    status: Arc<Mutex<Arc<Status>>>,
}

/// What is known of all names.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// In alphabetical order.
    pub names: Vec<NameState>,
    /// The directories, in their order.
    pub authorities: Vec<String>,
    /// Where certificates are kept.
    pub storage: String,
    /// Orders that brought a certificate.
    pub obtained: u64,
    /// Orders that did not.
    pub failed: u64,
    /// What became of names that clients asked for; `None`: they get no certificates.
    pub on_demand: Option<OnDemandStatus>,
}

/// What became of names that clients asked for and that no route names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDemandStatus {
    /// What is configured.
    pub settings: OnDemand,
    /// Names of which the storage had a certificate.
    pub stored: u64,
    /// Names that may have one: an order was placed, or could not be yet.
    pub permitted: u64,
    /// Names that may have none.
    pub refused: u64,
    /// Names for which `on_demand.ask` or the storage gave no answer.
    pub unanswered: u64,
    /// Names beyond the limit.
    pub limited: u64,
}

impl OnDemandStatus {
    pub(crate) fn new(settings: OnDemand) -> Self {
        Self { settings, stored: 0, permitted: 0, refused: 0, unanswered: 0, limited: 0 }
    }
}

/// Clients that wait for certificates of names that they have asked for.
pub(crate) struct Waiting {
    demands: Mutex<Demands<watch::Receiver<()>>>,
    owner: mpsc::Sender<Asked>,
    reach: Reach,
}

impl Waiting {
    /// Ends the lookup of a name, which is refused for a time or has a certificate (`None`). Clients that wait wake
    /// when its [`Asked`] is dropped.
    pub(crate) fn settle(&self, name: &Name, refused: Option<Duration>) {
        self.demands().settle(name, refused, Instant::now());
    }

    fn demands(&self) -> std::sync::MutexGuard<'_, Demands<watch::Receiver<()>>> {
        self.demands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that a client has asked for. Clients that wait for it wake when this is dropped.
pub(crate) struct Asked {
    pub(crate) name: Name,
    pub(crate) told: watch::Sender<()>,
}

/// A certificate that is perhaps being had.
#[derive(Debug)]
pub struct OnItsWay(watch::Receiver<()>);

impl OnItsWay {
    /// Waits until it is known whether there is one. If there is, it is in use then.
    ///
    /// # Cancel safety
    /// Safe: it is had all the same.
    pub async fn settled(mut self) {
        while self.0.changed().await.is_ok() {} // an error: it is settled
    }
}

/// Why a certificate was not taken, or not renewed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No route has the name.
    #[error("no route has the host {0}, so it has no certificate by ACME")]
    UnknownName(String),
    /// It is for none of the names.
    #[error("the certificate is for {0}; no route has one of these hosts")]
    OtherNames(String),
    /// It is no pair.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// It cannot be kept.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The gateway stops.
    #[error("the gateway is stopping")]
    Stopping,
}

/// What an owner listens to, and where it says what it knows.
pub(crate) struct Orders {
    pub(crate) commands: mpsc::UnboundedReceiver<Command>,
    pub(crate) asked: Option<mpsc::Receiver<Asked>>,
    pub(crate) waiting: Option<Arc<Waiting>>,
    pub(crate) status: Arc<Mutex<Arc<Status>>>,
}

/// Reports the result of an order to its caller.
pub(crate) type Reply = oneshot::Sender<Result<Vec<Name>, CommandError>>;

pub(crate) enum Command {
    Route(BTreeSet<Name>),
    Renew(String, Reply),
    Import(Pair, Reply),
    TellWhenRead(std::sync::mpsc::Sender<()>),
    Stop,
}

impl Acme {
    /// A handle without an owner, and what the owner listens to.
    pub(crate) fn new(answers: Answers, reach: Reach, status: Status) -> (Self, Orders) {
        let (commands, ordered) = mpsc::unbounded_channel(); // one for each reload and each order of a person
        let waiting = status.on_demand.as_ref().map(|_| {
            let (owner, asked) = mpsc::channel(MAX_PENDING);
            (Arc::new(Waiting { demands: Mutex::new(Demands::new()), owner, reach }), asked)
        });
        let (waiting, asked) = waiting.unzip();
        let status = Arc::new(Mutex::new(Arc::new(status)));
        let orders = Orders { commands: ordered, asked, waiting: waiting.clone(), status: Arc::clone(&status) };
        (Self { commands, on_demand: waiting, answers, status }, orders)
    }

    /// These are the names of routes from now on.
    pub fn route(&self, names: BTreeSet<Name>) {
        let _ = self.commands.send(Command::Route(names)); // it is stopping
    }

    /// Waits until the storage was asked for the certificates of all names, but no longer than this: what is there is
    /// shown then. Not within a runtime.
    pub fn wait_until_read(&self, limit: Duration) {
        let (read, was_read) = std::sync::mpsc::channel();
        let _ = self.commands.send(Command::TellWhenRead(read)); // it is stopping
        let _ = was_read.recv_timeout(limit); // nothing is sent: the sender is dropped
    }

    /// A client asks for a host that has no certificate. `None`: it gets none now, and there is nothing to wait for.
    #[must_use]
    pub fn demand(&self, host: &str) -> Option<OnItsWay> {
        let waiting = self.on_demand.as_ref()?;
        let name = Name::of_host(host, waiting.reach).ok()?;
        let mut told = None;
        let begin = || {
            let (sender, receiver) = watch::channel(());
            told = Some(sender);
            receiver
        };
        let demanded = waiting.demands().demand(&name, Instant::now(), begin);
        match (demanded, told) {
            (Demanded::First(receiver), Some(told)) => {
                if waiting.owner.try_send(Asked { name: name.clone(), told }).is_err() {
                    waiting.settle(&name, None); // it is stopping
                    return None;
                }
                Some(OnItsWay(receiver))
            }
            (Demanded::First(receiver) | Demanded::Another(receiver), _) => Some(OnItsWay(receiver)),
            (Demanded::Refused, _) => None,
        }
    }

    /// Whether clients may ask for names that no route names.
    #[must_use]
    pub fn is_on_demand(&self) -> bool {
        self.on_demand.is_some()
    }

    /// Gets a new certificate for a name now, or for all with an empty one. When it answers, the order is on its way.
    ///
    /// # Errors
    /// There is no such name.
    ///
    /// # Cancel safety
    /// The order is placed all the same.
    pub async fn renew(&self, host: &str) -> Result<Vec<Name>, CommandError> {
        let (reply, answer) = oneshot::channel();
        self.told(Command::Renew(host.to_owned(), reply), answer).await
    }

    /// Takes a certificate that a person brings, for those of its names that routes have.
    ///
    /// # Errors
    /// It is none, for none of the names, or cannot be kept.
    ///
    /// # Cancel safety
    /// It is taken all the same.
    pub async fn import(&self, pair: Pair) -> Result<Vec<Name>, CommandError> {
        let (reply, answer) = oneshot::channel();
        self.told(Command::Import(pair, reply), answer).await
    }

    async fn told(
        &self,
        command: Command,
        answer: oneshot::Receiver<Result<Vec<Name>, CommandError>>,
    ) -> Result<Vec<Name>, CommandError> {
        self.commands.send(command).map_err(|_| CommandError::Stopping)?;
        answer.await.map_err(|_| CommandError::Stopping)?
    }

    /// Ends the owner.
    pub fn stop(&self) {
        let _ = self.commands.send(Command::Stop); // it has ended
    }

    /// What HTTP-01 is answered with.
    #[must_use]
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// What is known now.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
