//! The sources of certificates while the gateway runs: authorities by ACME, and the local one.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use pilotlight_acme::{Acme, AcmeSettings, Answer, Driver, Name, OnItsWay, PATH, Reach, StartError, names_of};
use pilotlight_authority::{FolderError, is_permitted};
use pilotlight_tls::CertificateStore;

use crate::certificates::{AcmeCertificates, has_file};
use crate::head::Head;
use crate::internal::{InternalError, InternalThread};
use crate::options::{IssuerOptions, ListenAddr, RouteSpec, Serving};
use crate::routes::host_of;

/// How long the storage may take to give out what it has before clients are accepted.
const STORED_TIME: Duration = Duration::from_secs(3);

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// What the configuration says of ACME cannot be.
    #[error(transparent)]
    Acme(#[from] StartError),
    /// The local authority.
    #[error(transparent)]
    Local(#[from] InternalError),
    /// There is no folder for the local authority.
    #[error("the key of the local authority cannot be kept: {0}")]
    NoFolder(#[source] FolderError),
    /// A thread or its event loop could not be made.
    #[error("the thread that gets certificates could not be started: {0}")]
    Thread(#[from] io::Error),
}

/// Those that run; dropping it ends them.
pub(crate) struct Issuers {
    acme: Option<AcmeThread>,
    local_folder: Option<PathBuf>,
    /// Begun with the first host.
    signing: Mutex<Option<InternalThread>>,
    store: Arc<CertificateStore>,
}

impl Issuers {
    /// Begins to get certificates for the hosts of these routes, if TLS is spoken at one of the addresses. Those of the
    /// local authority are there when it returns.
    pub(crate) fn start(
        options: IssuerOptions,
        store: &Arc<CertificateStore>,
        listen: &[ListenAddr],
        serving: &Serving,
    ) -> Result<Self, IssuerError> {
        let IssuerOptions { acme, local_folder } = options;
        let acme = acme.as_ref().map(|acme| AcmeThread::start(acme, store)).transpose()?;
        let issuers = Self { acme, local_folder, signing: Mutex::default(), store: Arc::clone(store) };
        issuers.sign_locally(listen, serving)?;
        issuers.follow_acme(&serving.routes);
        // After an upgrade clients come at once.
        if let Some(acme) = &issuers.acme {
            acme.handle.wait_until_read(STORED_TIME);
        }
        Ok(issuers)
    }

    /// These are the addresses and the routes from now on.
    pub(crate) fn follow(&self, listen: &[ListenAddr], serving: &Serving) {
        self.follow_acme(&serving.routes);
        if let Err(e) = self.sign_locally(listen, serving) {
            tracing::error!("hosts have no certificate: {e}");
        }
    }

    fn sign_locally(&self, listen: &[ListenAddr], serving: &Serving) -> Result<(), IssuerError> {
        let has_tls = listen.iter().any(|address| matches!(address, ListenAddr::Tls(_)));
        let hosts =
            if has_tls { hosts_of(&serving.routes, &serving.local_hosts, &self.store) } else { BTreeSet::new() };
        let mut signing = self.signing.lock();
        match &*signing {
            Some(thread) => thread.follow(hosts),
            None if hosts.is_empty() => {}
            None => {
                let folder = self.local_folder.clone().ok_or(IssuerError::NoFolder(FolderError::Unknown))?;
                *signing = Some(InternalThread::start(folder, &self.store, &hosts)?);
            }
        }
        Ok(())
    }

    fn follow_acme(&self, routes: &[RouteSpec]) {
        let Some(acme) = &self.acme else { return };
        let public = routes.iter().filter(|route| !route.is_signed_locally()).filter_map(|route| route.host.as_deref());
        acme.handle.route(names_of(public.filter(|host| !has_file(&self.store, host)), acme.reach));
    }

    /// Certificates by ACME, if there are any.
    pub(crate) fn acme(&self) -> Option<&Acme> {
        self.acme.as_ref().map(|acme| &acme.handle)
    }

    /// The same, and the names that the authorities give certificates for.
    pub(crate) fn acme_with_reach(&self) -> Option<(&Acme, Reach)> {
        self.acme.as_ref().map(|acme| (&acme.handle, acme.reach))
    }

    /// Whether clients may ask for hosts that no route names.
    pub(crate) fn is_on_demand(&self) -> bool {
        self.acme.as_ref().is_some_and(|acme| acme.handle.is_on_demand())
    }

    /// The certificate of a host that has none, if it may be had. `is_demanded` says whether a route takes the host
    /// without naming it.
    pub(crate) fn demand(&self, host: &str, is_demanded: impl FnOnce() -> bool) -> Option<OnItsWay> {
        let acme = self.acme.as_ref()?;
        if self.store.has(host) || !is_demanded() {
            return None;
        }
        acme.handle.demand(host)
    }

    /// The answer to a validation by HTTP-01 (RFC 8555 §8.3) of a host that gets its certificate here. `is_demanded`
    /// says whether a route takes the host without naming it: another gateway may be getting its certificate. `None`:
    /// the request is another one.
    pub(crate) fn validation(&self, head: &Head, is_demanded: impl FnOnce(&str) -> bool) -> Option<Answer> {
        let acme = self.acme.as_ref()?;
        let token = head.path().strip_prefix(PATH)?;
        let host = host_of(head.authority()).to_ascii_lowercase();
        let names = &acme.handle.status().names;
        let is_known = names.binary_search_by(|state| state.name.as_str().cmp(&host)).is_ok();
        let is_on_demand = || acme.handle.is_on_demand() && Name::of_host(&host, acme.reach).is_ok();
        let is_ours = is_known || is_on_demand() && is_demanded(&host);
        is_ours.then(|| acme.handle.answers().find(token))
    }
}

/// The hosts that the local authority signs for: there is no certificate for them in a file.
fn hosts_of(routes: &[RouteSpec], own: &BTreeSet<String>, store: &CertificateStore) -> BTreeSet<String> {
    let hosts = routes.iter().filter(|route| route.is_signed_locally()).filter_map(|route| route.host.clone());
    hosts.chain(own.iter().cloned()).filter(|host| is_permitted(host) && !has_file(store, host)).collect()
}

/// The thread on which certificates are had by ACME.
struct AcmeThread {
    handle: Acme,
    reach: Reach,
    thread: Option<JoinHandle<()>>,
}

impl AcmeThread {
    fn start(settings: &AcmeSettings, store: &Arc<CertificateStore>) -> Result<Self, IssuerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (handle, driver) = {
            let _context = runtime.enter();
            Driver::new(settings, Arc::new(AcmeCertificates::new(store)))?
        };
        let run = move || runtime.block_on(driver.run());
        let thread = std::thread::Builder::new().name("acme".into()).spawn(run)?;
        Ok(Self { handle, reach: settings.reach(), thread: Some(thread) })
    }
}

impl Drop for AcmeThread {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that gets certificates panicked; this is a bug of Pilotlight");
        }
    }
}
