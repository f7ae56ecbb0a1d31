//! The thread that has the local authority sign for hosts, and sign again in time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use pilotlight_authority::{Authority, AuthorityError, Issued, is_permitted};
use pilotlight_tls::{Certificate, CertificateStore, Source};

/// How often it is looked whether a certificate should be renewed: machines sleep, and their clocks are set.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// How long a reload waits for certificates of new hosts.
const SIGNING_TIME: Duration = Duration::from_secs(3);
/// Most hosts that the local authority signs for.
pub(crate) const MAX_HOSTS: usize = 1024;

/// A running thread; dropping it ends the thread.
pub(crate) struct InternalThread {
    hosts: Option<mpsc::Sender<Follow>>,
    thread: Option<JoinHandle<()>>,
}

/// Other hosts, and who waits for their certificates.
struct Follow {
    hosts: BTreeSet<String>,
    signed: mpsc::SyncSender<()>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum InternalError {
    /// The local authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// The thread could not be made.
    #[error("the thread of the local authority could not be started: {0}")]
    Thread(#[from] io::Error),
}

/// The hosts and their certificates.
struct Signer {
    folder: PathBuf,
    store: Arc<CertificateStore>,
    signed: BTreeMap<String, (Certificate, SystemTime)>,
}

impl InternalThread {
    /// Signs for these hosts before it returns, and for others later. Without hosts no authority is made.
    pub(crate) fn start(
        folder: PathBuf,
        store: &Arc<CertificateStore>,
        hosts: &BTreeSet<String>,
    ) -> Result<Self, InternalError> {
        let mut signer = Signer { folder, store: Arc::clone(store), signed: BTreeMap::new() };
        signer.follow(hosts, SystemTime::now())?;
        let (sender, receiver) = mpsc::channel::<Follow>();
        let (mut hosts, thread) = (hosts.clone(), std::thread::Builder::new().name("local-authority".into()));
        let thread = thread.spawn(move || {
            loop {
                let waiting = match receiver.recv_timeout(LOOK_EVERY) {
                    Ok(new) => {
                        hosts = new.hosts;
                        Some(new.signed)
                    }
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return,
                };
                if let Err(e) = signer.follow(&hosts, SystemTime::now()) {
                    tracing::error!("{e}");
                }
                if let Some(signed) = waiting {
                    let _ = signed.send(()); // nobody waits any more
                }
            }
        })?;
        Ok(Self { hosts: Some(sender), thread: Some(thread) })
    }

    /// These are the hosts from now on. Waits until they are signed for, so that clients of a new address are accepted,
    /// for [`SIGNING_TIME`] at most.
    pub(crate) fn follow(&self, hosts: BTreeSet<String>) {
        let (signed, is_signed) = mpsc::sync_channel(1);
        if let Some(sender) = &self.hosts
            && sender.send(Follow { hosts, signed }).is_ok()
            && let Err(RecvTimeoutError::Timeout) = is_signed.recv_timeout(SIGNING_TIME)
        {
            tracing::warn!("the local authority takes long to sign; clients of new hosts are refused until then");
        }
    }
}

impl Signer {
    fn follow(&mut self, hosts: &BTreeSet<String>, now: SystemTime) -> Result<(), AuthorityError> {
        let before = self.signed.len();
        self.signed.retain(|host, _| hosts.contains(host));
        let is_due = |host: &&String| self.signed.get(*host).is_none_or(|(_, renew_at)| *renew_at <= now);
        let due: Vec<&String> = hosts.iter().filter(|host| is_permitted(host)).filter(is_due).take(MAX_HOSTS).collect();
        if due.is_empty() && before == self.signed.len() {
            return Ok(());
        }
        if !due.is_empty() {
            let authority = Authority::open(&self.folder, now)?;
            for host in due {
                let Issued { chain, key, renew_at } = authority.issue(host, now)?;
                match Certificate::from_pem(chain.as_bytes(), key.as_bytes(), "the local authority") {
                    Ok(certificate) => drop(self.signed.insert(host.clone(), (certificate, renew_at))),
                    Err(e) => tracing::error!(host, "the local authority's certificate cannot be used: {e}"),
                }
            }
        }
        self.store
            .replace(Source::Internal, self.signed.values().map(|(certificate, _)| certificate.clone()).collect());
        Ok(())
    }
}

impl Drop for InternalThread {
    fn drop(&mut self) {
        self.hosts = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the local authority panicked; this is a bug of Pilotlight");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|host| (*host).to_owned()).collect()
    }

    #[test]
    fn hosts_have_certificates_that_are_replaced_in_time() {
        let (dir, store, now) = (tempfile::tempdir().unwrap(), CertificateStore::new(), SystemTime::now());
        let folder = dir.path().join("authority");
        let mut signer = Signer { folder: folder.clone(), store: Arc::clone(&store), signed: BTreeMap::new() };
        signer.follow(&hosts(&[]), now).unwrap();
        assert!(!folder.exists(), "nobody needs it");
        signer.follow(&hosts(&["a.localhost", "b.test", "example.org"]), now).unwrap();
        assert!(store.has("a.localhost") && store.has("b.test") && !store.has("example.org"));
        let serial = |host: &str| {
            let found = store.list().into_iter().find(|info| info.certificate.names().iter().any(|name| name == host));
            found.unwrap().certificate.serial().to_owned()
        };
        let (day, first) = (Duration::from_secs(86_400), serial("a.localhost"));
        signer.follow(&hosts(&["a.localhost"]), now + day).unwrap();
        assert!(!store.has("b.test"));
        assert_eq!(serial("a.localhost"), first);
        signer.follow(&hosts(&["a.localhost"]), now + day * 5).unwrap();
        assert_ne!(serial("a.localhost"), first);
    }
}
