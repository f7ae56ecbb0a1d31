//! A certificate chain with its key, and what is to be known of it without looking into it again.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, SignatureAlgorithm};
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::error::CertificateError;
use crate::pem;

/// A chain with its key. Cheap to clone.
#[derive(Clone)]
pub struct Certificate(Arc<Inner>);

struct Inner {
    key: Arc<CertifiedKey>,
    names: Vec<String>,
    not_before: SystemTime,
    not_after: SystemTime,
    serial: String,
    issuer: String,
    origin: String,
}

/// What a key signs with, the preferred first: a signature by ECDSA costs a server a tenth of one by RSA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Ed25519 or ECDSA.
    Ecdsa,
    /// RSA.
    Rsa,
}

/// What is odd about a certificate that can be used all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remark {
    /// Its time is over.
    Expired {
        /// Since so long.
        since: Duration,
    },
    /// Its time has not come.
    NotYetValid {
        /// It comes in so long.
        valid_in: Duration,
    },
    /// It names no host and no address, so clients refuse it (RFC 9525 §2).
    NoNames,
}

impl Certificate {
    /// Of PEM texts: the certificate first, its intermediates behind it; one private key. `origin` says in messages and
    /// in `status` where it is from.
    ///
    /// # Errors
    /// One of them is damaged, or they do not belong together.
    pub fn from_pem(chain: &[u8], key: &[u8], origin: impl Into<String>) -> Result<Self, CertificateError> {
        Self::from_der(pem::chain(chain)?, pem::key(key)?, origin)
    }

    /// The same, decoded.
    ///
    /// # Errors
    /// One of them is damaged, or they do not belong together.
    pub fn from_der(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        origin: impl Into<String>,
    ) -> Result<Self, CertificateError> {
        let count = chain.len();
        let mut leaf = None;
        for (index, der) in chain.iter().enumerate() {
            let read =
                Read::of(der).map_err(|what| CertificateError::BadCertificate { number: index + 1, count, what })?;
            leaf.get_or_insert(read);
        }
        let Read { names, not_before, not_after, serial, issuer } = leaf.ok_or(CertificateError::NoCertificate)?;
        let key = certified(chain, key)?;
        let origin = origin.into();
        Ok(Self(Arc::new(Inner { key: Arc::new(key), names, not_before, not_after, serial, issuer, origin })))
    }

    /// What rustls signs with.
    #[must_use]
    pub fn certified_key(&self) -> &Arc<CertifiedKey> {
        &self.0.key
    }

    /// Hosts, in lower case, `*.example.org` among them, and addresses, in the certificate's order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0.names
    }

    /// From then on it is valid.
    #[must_use]
    pub fn not_before(&self) -> SystemTime {
        self.0.not_before
    }

    /// Until then it is valid.
    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.0.not_after
    }

    /// Its serial number, in hexadecimal.
    #[must_use]
    pub fn serial(&self) -> &str {
        &self.0.serial
    }

    /// Who issued it, as a distinguished name.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.0.issuer
    }

    /// Where it is from: a file, an authority.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    /// What its key signs with.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.0.key.key.algorithm() {
            SignatureAlgorithm::RSA => Algorithm::Rsa,
            _ => Algorithm::Ecdsa,
        }
    }

    /// What is odd about it at that time.
    #[must_use]
    pub fn remark(&self, now: SystemTime) -> Option<Remark> {
        if let Ok(since) = now.duration_since(self.0.not_after) {
            return Some(Remark::Expired { since });
        }
        match self.0.not_before.duration_since(now) {
            Ok(valid_in) if !valid_in.is_zero() => Some(Remark::NotYetValid { valid_in }),
            _ => self.0.names.is_empty().then_some(Remark::NoNames),
        }
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificate")
            .field("names", &self.0.names)
            .field("origin", &self.0.origin)
            .finish_non_exhaustive()
    }
}

/// Until when a certificate is valid; its first moment if that cannot be read.
pub(crate) fn not_after(der: &CertificateDer<'_>) -> SystemTime {
    Read::of(der).map_or(SystemTime::UNIX_EPOCH, |read| read.not_after)
}

/// A key with its chain, to which it belongs.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, CertificateError> {
    let key = default_provider().key_provider.load_private_key(key);
    let key = key.map_err(|e| CertificateError::BadKey { what: what(&e) })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            let belongs = |der: &CertificateDer<'static>| {
                CertifiedKey::new(vec![der.clone()], Arc::clone(&certified.key)).keys_match().is_ok()
            };
            Err(match certified.cert.iter().position(belongs) {
                Some(index) => CertificateError::WrongOrder { number: index + 1 },
                None => CertificateError::KeyMismatch,
            })
        }
        Err(e) => Err(CertificateError::BadCertificate { number: 1, count: certified.cert.len(), what: what(&e) }),
    }
}

fn what(error: &Error) -> String {
    match error {
        Error::General(what) => what.clone(),
        other => other.to_string(),
    }
}

/// What is read of a certificate.
struct Read {
    names: Vec<String>,
    not_before: SystemTime,
    not_after: SystemTime,
    serial: String,
    issuer: String,
}

impl Read {
    fn of(der: &CertificateDer<'_>) -> Result<Self, String> {
        let (rest, certificate) = X509Certificate::from_der(der).map_err(|e| e.to_string())?;
        if !rest.is_empty() {
            return Err(format!("{} bytes too many", rest.len()));
        }
        let names = certificate.subject_alternative_name().map_err(|e| e.to_string())?;
        let names = names.iter().flat_map(|extension| &extension.value.general_names).filter_map(name).collect();
        let validity = certificate.validity();
        let serial = certificate.raw_serial().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // to a String, which cannot fail
            text
        });
        Ok(Self {
            names,
            not_before: time(validity.not_before.timestamp()),
            not_after: time(validity.not_after.timestamp()),
            serial,
            issuer: certificate.issuer().to_string(),
        })
    }
}

/// A host or an address (RFC 5280 §4.2.1.6).
fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(host) => Some(host.trim_end_matches('.').to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

/// Certificates may name years before 1970 and after 9999; what the clock cannot say is its first moment or far away.
fn time(seconds: i64) -> SystemTime {
    const FAR: Duration = Duration::from_secs(253_402_300_799); // the end of 9999, RFC 5280 §4.1.2.5
    let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(FAR);
    SystemTime::UNIX_EPOCH + seconds
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, PKCS_RSA_SHA256};

    use super::*;

    fn made(names: &[&str]) -> (String, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        (CertificateParams::new(names).unwrap().self_signed(&key).unwrap().pem(), key)
    }

    #[test]
    fn names_and_times_are_read() {
        let (pem, key) = made(&["A.example.ORG", "*.b.example.org", "127.0.0.1", "::1"]);
        let read = Certificate::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes(), "here").unwrap();
        assert_eq!(read.names(), ["a.example.org", "*.b.example.org", "127.0.0.1", "::1"]);
        assert_eq!((read.origin(), read.algorithm()), ("here", Algorithm::Ecdsa));
        assert!(!read.serial().is_empty() && read.issuer().contains("rcgen"), "{} {}", read.serial(), read.issuer());
        // rcgen's defaults: 1975 to 4096.
        assert_eq!(read.remark(SystemTime::now()), None);
        let late = read.not_after() + Duration::from_secs(5);
        assert_eq!(read.remark(late), Some(Remark::Expired { since: Duration::from_secs(5) }));
        let early = read.not_before() - Duration::from_secs(5);
        assert_eq!(read.remark(early), Some(Remark::NotYetValid { valid_in: Duration::from_secs(5) }));
        let (pem, key) = made(&[]);
        let nobody = Certificate::from_pem(pem.as_bytes(), key.serialize_pem().as_bytes(), "").unwrap();
        assert_eq!(nobody.remark(SystemTime::now()), Some(Remark::NoNames));
    }

    #[test]
    fn every_usual_kind_of_key_is_taken() {
        let ed25519 = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let pem = CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&ed25519).unwrap().pem();
        let read = Certificate::from_pem(pem.as_bytes(), ed25519.serialize_pem().as_bytes(), "").unwrap();
        assert_eq!(read.algorithm(), Algorithm::Ecdsa);
        let rsa = KeyPair::from_pem_and_sign_algo(include_str!("../tests/rsa.key"), &PKCS_RSA_SHA256).unwrap();
        let pem = CertificateParams::new(vec!["a".to_owned()]).unwrap().self_signed(&rsa).unwrap().pem();
        let read = Certificate::from_pem(pem.as_bytes(), rsa.serialize_pem().as_bytes(), "").unwrap();
        assert_eq!(read.algorithm(), Algorithm::Rsa);
    }

    #[test]
    fn a_key_has_to_belong_to_the_first_certificate() {
        let ((one, one_key), (two, two_key)) = (made(&["one"]), made(&["two"]));
        let read = |chain: &str, key: &KeyPair| {
            Certificate::from_pem(chain.as_bytes(), key.serialize_pem().as_bytes(), "").map(drop)
        };
        assert_eq!(read(&one, &one_key), Ok(()));
        assert_eq!(read(&format!("{one}{two}"), &one_key), Ok(()));
        assert_eq!(read(&one, &two_key), Err(CertificateError::KeyMismatch));
        assert_eq!(read(&format!("{one}{two}"), &two_key), Err(CertificateError::WrongOrder { number: 2 }));
    }

    #[test]
    fn what_is_no_certificate_is_named_by_its_number() {
        let (one, key) = made(&["one"]);
        let damaged = format!("{one}-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n");
        match Certificate::from_pem(damaged.as_bytes(), key.serialize_pem().as_bytes(), "") {
            Err(CertificateError::BadCertificate { number: 2, count: 2, .. }) => {}
            other => panic!("{other:?}"),
        }
        let bad_key = "-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----\n";
        match Certificate::from_pem(one.as_bytes(), bad_key.as_bytes(), "") {
            Err(CertificateError::BadKey { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}
