//! Certificates that come while the gateway runs, in the store that handshakes take them from.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pilotlight_acme::{Certificates, Name, Pair, Shown};
use pilotlight_tls::{Certificate, CertificateError, CertificateStore, Source};
use rustls::crypto::ring::default_provider;
use rustls::sign::CertifiedKey;

/// Those of ACME, by name.
pub(crate) struct AcmeCertificates {
    store: Arc<CertificateStore>,
    shown: Mutex<BTreeMap<Name, Certificate>>,
}

impl AcmeCertificates {
    pub(crate) fn new(store: &Arc<CertificateStore>) -> Self {
        Self { store: Arc::clone(store), shown: Mutex::default() }
    }
}

impl Certificates for AcmeCertificates {
    fn change(&self, installed: &[(Name, Pair)], withdrawn: &[Name]) -> Vec<(Name, String)> {
        let mut shown = self.shown.lock();
        let mut refused = Vec::new();
        for (name, pair) in installed {
            match read(pair) {
                Ok(certificate) => drop(shown.insert(name.clone(), certificate)),
                Err(e) => refused.push((name.clone(), e.to_string())),
            }
        }
        withdrawn.iter().for_each(|name| drop(shown.remove(name)));
        self.store.replace(Source::Acme, shown.values().cloned().collect());
        refused
    }

    fn challenge(&self, name: &Name, pair: &Pair) -> Shown {
        let challenge =
            of_challenge(pair).and_then(|key| self.store.challenge(name.as_str(), key).map_err(|e| e.to_string()));
        match challenge {
            Ok(challenge) => Box::new(challenge),
            Err(e) => {
                // The authority says that it saw none.
                tracing::error!(%name, "a challenge cannot be answered: {e}");
                Box::new(())
            }
        }
    }
}

fn read(pair: &Pair) -> Result<Certificate, CertificateError> {
    let origin = pair.issued_by.as_deref().unwrap_or("imported");
    Certificate::from_pem(pair.chain.as_bytes(), pair.key.as_bytes(), origin)
}

/// Not read as other certificates are: their critical extension (RFC 8737 §3) is one that no client knows.
fn of_challenge(pair: &Pair) -> Result<Arc<CertifiedKey>, String> {
    let chain = pair.chain_der().map_err(|e| e.to_string())?;
    let key = pair.key_der().map_err(|e| e.to_string())?;
    let key = default_provider().key_provider.load_private_key(key).map_err(|e| e.to_string())?;
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

/// Whether a host has a certificate in the files of the configuration.
pub(crate) fn has_file(store: &CertificateStore, host: &str) -> bool {
    let is_for = |pattern: &String| match pattern.strip_prefix("*.") {
        // RFC 9525 §6.3: a wildcard stands for one label.
        Some(parent) => pattern == host || host.split_once('.').is_some_and(|(_, rest)| rest == parent),
        None => pattern == host,
    };
    let files = store.list().into_iter().filter(|info| info.source == Source::Files);
    files.into_iter().any(|info| info.certificate.names().iter().any(is_for))
}
