//! A certificate chain with its key, and what the certificate says about itself. Pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate};

/// Most bytes of a stored pair: a chain of ten certificates has 30 KiB.
pub const MAX_PAIR: usize = 256 << 10;

/// What is written before a stored pair, with the directory that it comes from (explanatory text, RFC 7468 §5.2).
const ISSUED_BY: &str = "issued-by: ";
/// A certificate chain and its private key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, then those between it and the root.
    pub chain: String,
    /// Its private key.
    pub key: String,
    /// The ACME directory that it comes from, if that is known.
    pub issued_by: Option<String>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("issued_by", &self.issued_by).finish_non_exhaustive()
    }
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The names that it is for, wildcards included, in lower case.
    pub names: Vec<String>,
    /// From when on it is valid.
    pub not_before: SystemTime,
    /// Until when.
    pub not_after: SystemTime,
    /// What renewal information is asked for by, if it names its issuer's key.
    pub renewal_id: Option<RenewalId>,
    /// The SHA-256 of the certificate.
    pub fingerprint: [u8; 32],
}

/// The parts of a certificate's ARI identifier (RFC 9773 §4.1), as they stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalId {
    /// keyIdentifier of its authority key identifier.
    pub authority_key: Vec<u8>,
    /// Its serial number.
    pub serial: Vec<u8>,
}

/// Why something is no certificate with its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// No `CERTIFICATE` block.
    #[error("there is no certificate in it: a PEM file with a CERTIFICATE block is expected")]
    NoCertificate,
    /// No private key block, or one that is encrypted.
    #[error("there is no private key in it: a PEM file with an unencrypted PRIVATE KEY block is expected")]
    NoKey,
    /// It is not X.509.
    #[error("the certificate cannot be read: it is not an X.509 certificate in DER")]
    Malformed,
    /// The key is another one's.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// It has no names.
    #[error("the certificate is for no DNS name: it has no subjectAltName")]
    NoNames,
}

impl Pair {
    /// From files: the chain in one, the key in the same or another.
    ///
    /// # Errors
    /// One of the two is missing or cannot be used, or they do not belong together.
    pub fn from_pem(chain: &str, key: &str) -> Result<Self, CertificateError> {
        let of_line = |line: &str| line.strip_prefix(ISSUED_BY).map(str::to_owned);
        let issued_by = chain.lines().take_while(|line| !line.starts_with("-----")).find_map(of_line);
        let blocks = |text: &str, wanted: &dyn Fn(&str) -> bool| -> String { blocks(text, wanted).concat() };
        let pair = Self {
            chain: blocks(chain, &|label| label == "CERTIFICATE"),
            key: blocks(key, &|label| label.ends_with("PRIVATE KEY") && !label.starts_with("ENCRYPTED")),
            issued_by,
        };
        if pair.chain.is_empty() {
            return Err(CertificateError::NoCertificate);
        }
        pair.check_key()?;
        Ok(pair)
    }

    /// From what [`to_stored`](Self::to_stored) made.
    ///
    /// # Errors
    /// It is none.
    pub fn from_stored(stored: &[u8]) -> Result<Self, CertificateError> {
        let text = std::str::from_utf8(stored).map_err(|_| CertificateError::NoCertificate)?;
        Self::from_pem(text, text)
    }

    /// Chain and key as one text, so that they are replaced together.
    #[must_use]
    pub fn to_stored(&self) -> Vec<u8> {
        let issued_by = self.issued_by.as_ref().map(|directory| format!("{ISSUED_BY}{directory}\n"));
        [issued_by.as_deref().unwrap_or_default(), &self.chain, &self.key].concat().into_bytes()
    }

    /// The chain in DER, the certificate first.
    ///
    /// # Errors
    /// There is none.
    pub fn chain_der(&self) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.chain.as_bytes()).collect();
        chain.ok().filter(|chain| !chain.is_empty()).ok_or(CertificateError::NoCertificate)
    }

    /// The key in DER.
    ///
    /// # Errors
    /// There is none.
    pub fn key_der(&self) -> Result<PrivateKeyDer<'static>, CertificateError> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|_| CertificateError::NoKey)
    }

    /// What the certificate says.
    ///
    /// # Errors
    /// It is not X.509.
    pub fn facts(&self) -> Result<Facts, CertificateError> {
        let chain = self.chain_der()?;
        let leaf = chain.first().ok_or(CertificateError::NoCertificate)?;
        facts(leaf).ok_or(CertificateError::Malformed)
    }

    fn check_key(&self) -> Result<(), CertificateError> {
        let provider = rustls::crypto::ring::default_provider();
        let key = provider.key_provider.load_private_key(self.key_der()?).map_err(|_| CertificateError::NoKey)?;
        match rustls::sign::CertifiedKey::new(self.chain_der()?, key).keys_match() {
            Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch)) => {
                Err(CertificateError::KeyMismatch)
            }
            Err(rustls::Error::InvalidCertificate(_)) => Err(CertificateError::Malformed),
            _ => Ok(()),
        }
    }
}

/// The PEM blocks whose label is wanted, each with its last line end.
fn blocks(text: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines().map(str::trim_end) {
        let label = |marker| line.strip_prefix(marker).and_then(|rest: &str| rest.strip_suffix("-----"));
        if label("-----BEGIN ").is_some_and(&wanted) {
            block = Some(String::new());
        }
        if let Some(block) = &mut block {
            block.push_str(line);
            block.push('\n');
        }
        if label("-----END ").is_some() {
            found.extend(block.take());
        }
    }
    found
}

fn facts(certificate: &[u8]) -> Option<Facts> {
    let (_, read) = X509Certificate::from_der(certificate).ok()?;
    let at = |seconds: i64| UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?));
    let (mut names, mut authority_key) = (Vec::new(), None);
    for extension in read.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(all) => {
                names.extend(all.general_names.iter().filter_map(|name| match name {
                    GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
                    _ => None,
                }));
            }
            ParsedExtension::AuthorityKeyIdentifier(of) => {
                authority_key = of.key_identifier.as_ref().map(|key| key.0.to_vec());
            }
            _ => {}
        }
    }
    let serial = read.tbs_certificate.raw_serial().to_vec();
    let mut fingerprint = [0; 32];
    fingerprint.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
    Some(Facts {
        names,
        not_before: at(read.validity().not_before.timestamp())?,
        not_after: at(read.validity().not_after.timestamp())?,
        renewal_id: authority_key.map(|authority_key| RenewalId { authority_key, serial }),
        fingerprint,
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// A pair that signs itself, valid between two times in seconds since 1970.
    fn self_signed(names: &[&str], validity: std::ops::Range<u64>) -> Pair {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.not_before = (UNIX_EPOCH + Duration::from_secs(validity.start)).into();
        params.not_after = (UNIX_EPOCH + Duration::from_secs(validity.end)).into();
        params.use_authority_key_identifier_extension = true;
        let certificate = params.self_signed(&key).unwrap();
        Pair { chain: certificate.pem(), key: key.serialize_pem(), issued_by: None }
    }

    #[test]
    fn what_a_certificate_says() {
        // 2023-11-14T22:13:20Z and 2096-10-02T07:06:40Z: the second is a GeneralizedTime.
        let pair = self_signed(&["a.example.org", "*.Example.org"], 1_700_000_000..4_000_000_000);
        let facts = pair.facts().unwrap();
        assert_eq!(facts.names, ["a.example.org", "*.example.org"]);
        assert_eq!(facts.not_before, UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        assert_eq!(facts.not_after, UNIX_EPOCH + Duration::from_secs(4_000_000_000));
        let id = facts.renewal_id.expect("it names its issuer's key");
        assert_eq!(id.authority_key.len(), 20);
        assert!(!id.serial.is_empty());
    }

    #[test]
    fn stored_and_read_again() {
        let mut pair = self_signed(&["a.example.org"], 1_700_000_000..1_800_000_000);
        assert_eq!(Pair::from_stored(&pair.to_stored()), Ok(pair.clone()));
        pair.issued_by = Some("https://ca.example/directory".to_owned());
        assert_eq!(Pair::from_stored(&pair.to_stored()), Ok(pair));
    }

    #[test]
    fn what_is_no_pair() {
        let (one, other) = (self_signed(&["a.org"], 1..2), self_signed(&["a.org"], 1..2));
        assert_eq!(Pair::from_pem(&one.chain, &other.key), Err(CertificateError::KeyMismatch));
        assert_eq!(Pair::from_pem(&one.key, &one.key), Err(CertificateError::NoCertificate));
        assert_eq!(Pair::from_pem(&one.chain, &one.chain), Err(CertificateError::NoKey));
        assert_eq!(Pair::from_stored(&[0xff]), Err(CertificateError::NoCertificate));
        let cut = one.chain.replacen('M', "A", 1);
        assert!(Pair::from_pem(&cut, &one.key).is_err());
    }
}
