//! Certificates by source and by name. Whoever has some puts them in; a handshake takes what is there when its client's
//! hello has come, and holds nothing of the store.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustls::SignatureScheme;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::certificate::Certificate;
use crate::protocol::Protocol;

/// Most challenges at once.
pub const MAX_CHALLENGES: usize = 4096;

/// Who has put certificates in. Of certificates for one name, those of an earlier source go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The files of `[tls]`.
    Files,
    /// Certificate authorities.
    Acme,
    /// The local authority.
    Internal,
}

/// All certificates of a gateway.
#[derive(Debug)]
pub struct CertificateStore {
    index: ArcSwap<Index>,
    /// What the index is made of.
    sources: Mutex<BTreeMap<Source, Vec<Certificate>>>,
    /// Looked at by authorities alone.
    challenges: Mutex<FxHashMap<String, Arc<CertifiedKey>>>,
}

/// What is to be known of a certificate in use.
#[derive(Debug, Clone)]
pub struct CertificateInfo {
    /// Who has put it in.
    pub source: Source,
    /// Its names, dates, and where it is from.
    pub certificate: Certificate,
}

/// What a client gets that asks for a host.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Why these.
    pub by: ChosenBy,
    /// In the order in which they are preferred. Empty: the handshake fails.
    pub certificates: Vec<CertificateInfo>,
}

/// Why a client gets a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// It names the host.
    Name,
    /// It has a wildcard that the host matches.
    Wildcard,
    /// None is for the host: it is the first.
    Default,
}

/// More than [`MAX_CHALLENGES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are {MAX_CHALLENGES} challenges already")]
pub struct TooManyChallenges;

/// A challenge that is answered until this is dropped.
#[derive(Debug)]
#[must_use = "when it is dropped, the challenge is answered no longer"]
pub struct Challenge {
    store: Arc<CertificateStore>,
    name: String,
    key: Arc<CertifiedKey>,
}

/// What a handshake looks at.
#[derive(Debug, Default)]
struct Index {
    all: Vec<CertificateInfo>,
    exact: FxHashMap<String, Vec<CertificateInfo>>,
    /// `*.example.org` by `example.org`.
    wildcard: FxHashMap<String, Vec<CertificateInfo>>,
    /// For clients that name nothing that is known.
    default: Vec<CertificateInfo>,
}

impl CertificateStore {
    /// An empty one: no client can be answered.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { index: ArcSwap::default(), sources: Mutex::default(), challenges: Mutex::default() })
    }

    /// From the next handshake on, these are the certificates of that source. Connections go on as they are.
    pub fn replace(&self, source: Source, certificates: Vec<Certificate>) {
        let mut sources = self.sources.lock(); // held until the index is stored: one writer at a time
        sources.insert(source, certificates);
        self.index.store(Arc::new(Index::of(&sources)));
    }

    /// Answers TLS-ALPN-01 (RFC 8737 §3) for `name` with `key` until what is returned is dropped. Only clients that
    /// offer nothing but `acme-tls/1` see it. A later one for the same name takes the place of the earlier.
    ///
    /// # Errors
    /// There are [`MAX_CHALLENGES`] already.
    pub fn challenge(self: &Arc<Self>, name: &str, key: Arc<CertifiedKey>) -> Result<Challenge, TooManyChallenges> {
        let name = name.to_ascii_lowercase();
        let mut challenges = self.challenges.lock();
        if challenges.len() >= MAX_CHALLENGES && !challenges.contains_key(&name) {
            return Err(TooManyChallenges);
        }
        challenges.insert(name.clone(), Arc::clone(&key));
        Ok(Challenge { store: Arc::clone(self), name, key })
    }

    /// Whether a client that asks for this host gets a certificate of that name.
    #[must_use]
    pub fn has(&self, host: &str) -> bool {
        self.index.load().find(&host.to_ascii_lowercase()).is_some()
    }

    /// What a client gets that asks for this host: the first whose algorithm it takes.
    #[must_use]
    pub fn chosen(&self, host: &str) -> Chosen {
        let index = self.index.load();
        let host = host.to_ascii_lowercase();
        let (by, found) = match index.find(&host) {
            Some(found) if index.exact.contains_key(host.trim_end_matches('.')) => (ChosenBy::Name, found),
            Some(found) => (ChosenBy::Wildcard, found),
            None => (ChosenBy::Default, &*index.default),
        };
        Chosen { by, certificates: found.to_vec() }
    }

    /// No certificate at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.load().all.is_empty()
    }

    /// Every certificate, by source, in the order in which it was put in.
    #[must_use]
    pub fn list(&self) -> Vec<CertificateInfo> {
        self.index.load().all.clone()
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let index = self.index.load();
        let found = name.and_then(|name| index.find(name)).unwrap_or(&index.default);
        let key = |info: &CertificateInfo| Arc::clone(info.certificate.certified_key());
        let fits = found.iter().map(key).find(|key| key.key.choose_scheme(schemes).is_some());
        // If none fits, rustls says so to the client.
        fits.or_else(|| found.first().map(key))
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // RFC 8737 §3: only whoever asks for this protocol alone gets the challenge's certificate.
        let is_challenge = hello.alpn().is_some_and(|mut offered| {
            offered.next() == Some(Protocol::AcmeChallenge.name()) && offered.next().is_none()
        });
        if is_challenge {
            return self.challenges.lock().get(hello.server_name()?).map(Arc::clone);
        }
        self.choose(hello.server_name(), hello.signature_schemes())
    }
}

impl Drop for Challenge {
    fn drop(&mut self) {
        let mut challenges = self.store.challenges.lock();
        if challenges.get(&self.name).is_some_and(|key| Arc::ptr_eq(key, &self.key)) {
            challenges.remove(&self.name);
        }
    }
}

impl Index {
    fn of(sources: &BTreeMap<Source, Vec<Certificate>>) -> Self {
        let infos = sources.iter().flat_map(|(source, all)| {
            all.iter().map(|certificate| CertificateInfo { source: *source, certificate: certificate.clone() })
        });
        let mut index = Self { all: infos.collect(), ..Self::default() };
        for info in &index.all {
            for name in info.certificate.names() {
                let (of, name) = match name.strip_prefix("*.") {
                    Some(parent) => (&mut index.wildcard, parent),
                    None => (&mut index.exact, name.as_str()),
                };
                of.entry(name.to_owned()).or_default().push(info.clone());
            }
        }
        // Of one source and algorithm the one that lasts longest, else the one that was put in first.
        let rank =
            |info: &CertificateInfo| (info.source, info.certificate.algorithm(), Reverse(info.certificate.not_after()));
        index.exact.values_mut().chain(index.wildcard.values_mut()).for_each(|found| found.sort_by_key(rank));
        if let Some(first) = index.all.first() {
            let same = first.certificate.names().first().and_then(|name| index.named(name));
            index.default = same.map_or_else(|| vec![first.clone()], <[CertificateInfo]>::to_vec);
        }
        index
    }

    /// Those of a host: exact names go before wildcards, which stand for one label (RFC 9525 §6.3).
    fn find(&self, host: &str) -> Option<&[CertificateInfo]> {
        let host = host.trim_end_matches('.');
        let exact = self.exact.get(host);
        let found = exact.or_else(|| host.split_once('.').and_then(|(_, parent)| self.wildcard.get(parent)));
        found.map(Vec::as_slice)
    }

    /// Those of a certificate's name.
    fn named(&self, name: &str) -> Option<&[CertificateInfo]> {
        let found = match name.strip_prefix("*.") {
            Some(parent) => self.wildcard.get(parent),
            None => self.exact.get(name),
        };
        found.map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256};

    use super::*;

    const ECDSA: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256];
    const RSA: &[SignatureScheme] = &[SignatureScheme::RSA_PSS_SHA256];
    const BOTH: &[SignatureScheme] = &[SignatureScheme::RSA_PSS_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256];

    fn of_key(names: &[&str], key: &KeyPair, origin: &str) -> Certificate {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let pem = CertificateParams::new(names).unwrap().self_signed(key).unwrap().pem();
        Certificate::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes(), origin).unwrap()
    }

    fn ecdsa(names: &[&str], origin: &str) -> Certificate {
        of_key(names, &KeyPair::generate().unwrap(), origin)
    }

    fn rsa(names: &[&str], origin: &str) -> Certificate {
        let key = include_str!("../tests/rsa.key");
        of_key(names, &KeyPair::from_pem_and_sign_algo(key, &PKCS_RSA_SHA256).unwrap(), origin)
    }

    /// Where the certificate is from that a client gets.
    #[track_caller]
    fn check(store: &CertificateStore, name: Option<&str>, schemes: &[SignatureScheme], expected: Option<&str>) {
        let chosen = store.choose(name, schemes);
        let of = |key: &Arc<CertifiedKey>| {
            let all = store.list();
            let found = all.iter().find(|info| Arc::ptr_eq(info.certificate.certified_key(), key));
            found.unwrap().certificate.origin().to_owned()
        };
        assert_eq!(chosen.as_ref().map(of).as_deref(), expected, "{name:?}");
    }

    #[test]
    fn exact_names_go_before_wildcards_which_are_one_label() {
        let store = CertificateStore::new();
        check(&store, Some("a.example"), BOTH, None);
        store.replace(
            Source::Files,
            vec![ecdsa(&["first.example"], "first"), ecdsa(&["*.example.org"], "star"), ecdsa(&["a.example.org"], "a")],
        );
        check(&store, Some("a.example.org"), BOTH, Some("a"));
        check(&store, Some("b.example.org"), BOTH, Some("star"));
        check(&store, Some("b.example.org."), BOTH, Some("star"));
        // Nothing is for these: the default.
        for name in ["x.b.example.org", "example.org", "other.example", "", "."] {
            check(&store, Some(name), BOTH, Some("first"));
            assert!(!store.has(name), "{name}");
        }
        check(&store, None, BOTH, Some("first"));
        assert!(store.has("A.Example.org") && store.has("b.example.org"));
        let chosen = |host: &str| {
            let Chosen { by, certificates } = store.chosen(host);
            (by, certificates[0].certificate.origin().to_owned())
        };
        assert_eq!(chosen("A.example.org."), (ChosenBy::Name, "a".to_owned()));
        assert_eq!(chosen("b.example.org"), (ChosenBy::Wildcard, "star".to_owned()));
        assert_eq!(chosen("other.example"), (ChosenBy::Default, "first".to_owned()));
    }

    #[test]
    fn of_several_the_client_s_signatures_choose_and_ecdsa_is_preferred() {
        let store = CertificateStore::new();
        store.replace(Source::Files, vec![rsa(&["a.example"], "rsa"), ecdsa(&["a.example"], "ecdsa")]);
        check(&store, Some("a.example"), BOTH, Some("ecdsa"));
        check(&store, Some("a.example"), ECDSA, Some("ecdsa"));
        check(&store, Some("a.example"), RSA, Some("rsa"));
        check(&store, Some("a.example"), &[SignatureScheme::ED25519], Some("ecdsa"));
        check(&store, None, RSA, Some("rsa"));
    }

    #[test]
    fn an_exact_rsa_certificate_goes_before_a_wildcard_of_ecdsa() {
        let store = CertificateStore::new();
        store.replace(Source::Files, vec![ecdsa(&["*.example"], "star"), rsa(&["a.example"], "rsa")]);
        check(&store, Some("a.example"), BOTH, Some("rsa"));
    }

    #[test]
    fn files_go_before_authorities_and_what_is_replaced_is_gone() {
        let store = CertificateStore::new();
        store.replace(Source::Acme, vec![ecdsa(&["a.example", "b.example"], "acme")]);
        check(&store, None, BOTH, Some("acme"));
        store.replace(Source::Files, vec![rsa(&["a.example"], "file")]);
        check(&store, Some("a.example"), BOTH, Some("file"));
        check(&store, Some("b.example"), BOTH, Some("acme"));
        check(&store, None, BOTH, Some("file"));
        store.replace(Source::Acme, vec![ecdsa(&["b.example"], "new")]);
        check(&store, Some("b.example"), BOTH, Some("new"));
        store.replace(Source::Files, Vec::new());
        check(&store, Some("a.example"), BOTH, Some("new"));
        assert_eq!(store.list().len(), 1);
        store.replace(Source::Acme, Vec::new());
        assert!(store.is_empty());
    }

    #[test]
    fn a_challenge_lasts_as_long_as_what_stands_for_it() {
        let store = CertificateStore::new();
        let key = Arc::clone(ecdsa(&["a.example"], "").certified_key());
        let has = |name: &str| store.challenges.lock().contains_key(name);
        let challenge = store.challenge("A.example", Arc::clone(&key)).unwrap();
        assert!(has("a.example"));
        store.replace(Source::Acme, Vec::new());
        assert!(has("a.example"));
        let later = store.challenge("a.example", Arc::new(CertifiedKey::clone(&key))).unwrap();
        drop(challenge);
        assert!(has("a.example"));
        drop(later);
        assert!(!has("a.example"));
        let all: Vec<Challenge> =
            (0..MAX_CHALLENGES).map(|n| store.challenge(&n.to_string(), Arc::clone(&key)).unwrap()).collect();
        assert_eq!(store.challenge("one", Arc::clone(&key)).map(drop), Err(TooManyChallenges));
        drop(all);
        assert!(store.challenge("one", key).is_ok());
    }
}
