//! What others hold of the owner of certificates: orders go in, answers and what is known come out.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::agenda::NameState;
use crate::certificate::{CertificateError, Pair};
use crate::challenge::Answers;
use crate::name::Name;
use crate::storage::StorageError;

/// Requests of clients for names that nobody knows; more are forgotten.
const MAX_DEMANDS: usize = 64;

/// What the owner is told. Cheap to clone.
#[derive(Clone)]
pub struct Acme {
    commands: mpsc::UnboundedSender<Command>,
    demands: Option<mpsc::Sender<String>>,
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
    pub(crate) demands: Option<mpsc::Receiver<String>>,
    pub(crate) status: Arc<Mutex<Arc<Status>>>,
}

/// Who ordered something is told what came of it.
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
    pub(crate) fn new(answers: Answers, takes_demands: bool, status: Status) -> (Self, Orders) {
        let (commands, ordered) = mpsc::unbounded_channel(); // one for each reload and each order of a person
        let (demands, demanded) = takes_demands.then(|| mpsc::channel(MAX_DEMANDS)).unzip();
        let status = Arc::new(Mutex::new(Arc::new(status)));
        let orders = Orders { commands: ordered, demands: demanded, status: Arc::clone(&status) };
        (Self { commands, demands, answers, status }, orders)
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

    /// A client asked for a name that has no certificate. Costs little: what is too much is forgotten.
    pub fn demand(&self, host: &str) {
        if let Some(demands) = &self.demands {
            let _ = demands.try_send(host.to_owned());
        }
    }

    /// Whether clients may ask for names that no route has.
    #[must_use]
    pub fn takes_demands(&self) -> bool {
        self.demands.is_some()
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
