//! PEM (RFC 7468): certificates and keys with the lines at which they stand.

use rustls::pki_types::pem::{Error as PemError, PemObject as _, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use crate::error::CertificateError;
use crate::limits::MAX_CHAIN;

/// The certificates of a chain; at least one.
pub(crate) fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    certificates(text, MAX_CHAIN)
}

/// All certificates of a text; at least one, and no more than `max`.
pub(crate) fn certificates(text: &[u8], max: usize) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let mut found = Vec::new();
    for section in sections(text)? {
        if section.kind == SectionKind::Certificate {
            if found.len() == max {
                return Err(CertificateError::TooManyCertificates);
            }
            found.push(CertificateDer::from(section.der));
        }
    }
    if found.is_empty() { Err(CertificateError::NoCertificate) } else { Ok(found) }
}

/// The only private key of a text.
pub(crate) fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateError> {
    if let Some(line) = encrypted_at(text) {
        return Err(CertificateError::EncryptedKey { line });
    }
    let mut found = None;
    for section in sections(text)? {
        let key = match section.kind {
            SectionKind::PrivateKey => PrivatePkcs8KeyDer::from(section.der).into(),
            SectionKind::EcPrivateKey => PrivateSec1KeyDer::from(section.der).into(),
            SectionKind::RsaPrivateKey => PrivatePkcs1KeyDer::from(section.der).into(),
            _ => continue,
        };
        if found.replace(key).is_some() {
            return Err(CertificateError::SecondKey { line: section.line });
        }
    }
    found.ok_or(CertificateError::NoKey)
}

struct Section {
    kind: SectionKind,
    der: Vec<u8>,
    /// Where it begins, from 1.
    line: usize,
}

fn sections(text: &[u8]) -> Result<Vec<Section>, CertificateError> {
    let starts: Vec<usize> = starts(text).collect();
    let mut found = Vec::new();
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(text.len());
        let line = line_of(text, *start);
        match <(SectionKind, Vec<u8>)>::from_pem_slice(&text[*start..end]) {
            Ok((kind, der)) => found.push(Section { kind, der, line }),
            Err(PemError::NoItemsFound) => {} // of another kind: parameters of a curve, for example
            Err(error) => return Err(CertificateError::Pem { line, what: words(&error) }),
        }
    }
    Ok(found)
}

fn words(error: &PemError) -> String {
    match error {
        PemError::MissingSectionEnd { .. } => "the section that begins here has no END".to_owned(),
        PemError::IllegalSectionStart { .. } => "this BEGIN does not end in five dashes".to_owned(),
        PemError::Base64Decode(_) => "what stands in the section is not base64".to_owned(),
        other => other.to_string(),
    }
}

/// Where sections begin: at the start of a line.
fn starts(text: &[u8]) -> impl Iterator<Item = usize> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    let at_line = |at: usize| at == 0 || matches!(text[at - 1], b'\n' | b'\r');
    (0..text.len()).filter(move |at| text[*at..].starts_with(BEGIN) && at_line(*at))
}

/// The line of an encrypted key: of PKCS #8 (RFC 5958 §3), or of the older format (RFC 1421 §4.6.1.1).
fn encrypted_at(text: &[u8]) -> Option<usize> {
    let lines = text.split(|byte| *byte == b'\n');
    let is_encrypted = |line: &[u8]| {
        line.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || line.starts_with(b"Proc-Type: 4,ENCRYPTED")
    };
    lines.into_iter().position(is_encrypted).map(|index| index + 1)
}

fn line_of(text: &[u8], at: usize) -> usize {
    1 + text[..at].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAEC\n-----END PRIVATE KEY-----\n";

    #[track_caller]
    fn check_key(text: &str, expected: CertificateError) {
        assert_eq!(key(text.as_bytes()).map(drop), Err(expected), "{text}");
    }

    #[test]
    fn a_chain_is_every_certificate_in_order() {
        let text = format!("a comment\n{CERTIFICATE}{KEY}{}", CERTIFICATE.replace("AAEC", "AwQF"));
        let found = chain(text.as_bytes()).unwrap();
        assert_eq!(found.iter().map(|one| one.to_vec()).collect::<Vec<_>>(), [vec![0, 1, 2], vec![3, 4, 5]]);
    }

    #[test]
    fn a_text_without_a_certificate_is_refused() {
        for text in ["", "nothing", KEY] {
            assert_eq!(chain(text.as_bytes()), Err(CertificateError::NoCertificate), "{text}");
        }
        let many = CERTIFICATE.repeat(MAX_CHAIN + 1);
        assert_eq!(chain(many.as_bytes()), Err(CertificateError::TooManyCertificates));
    }

    #[test]
    fn a_damaged_section_is_named_by_its_line() {
        let cut = format!("{CERTIFICATE}\n-----BEGIN CERTIFICATE-----\nAAEC\n");
        let what = "the section that begins here has no END".to_owned();
        assert_eq!(chain(cut.as_bytes()), Err(CertificateError::Pem { line: 5, what }));
        let odd = CERTIFICATE.replace("AAEC", "A*EC");
        let what = "what stands in the section is not base64".to_owned();
        assert_eq!(chain(odd.as_bytes()), Err(CertificateError::Pem { line: 1, what }));
    }

    #[test]
    fn one_key_is_wanted() {
        assert!(key(format!("{CERTIFICATE}{KEY}").as_bytes()).is_ok());
        let parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
        assert!(key(format!("{parameters}{}", KEY.replace(" PRIVATE", " EC PRIVATE")).as_bytes()).is_ok());
        check_key(CERTIFICATE, CertificateError::NoKey);
        check_key(&format!("{KEY}\n{KEY}"), CertificateError::SecondKey { line: 5 });
        check_key(&KEY.replace("BEGIN ", "BEGIN ENCRYPTED "), CertificateError::EncryptedKey { line: 1 });
        let old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAEC\n-----END RSA PRIVATE KEY-----\n";
        check_key(old, CertificateError::EncryptedKey { line: 2 });
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "(-----(BEGIN|END) (CERTIFICATE|PRIVATE KEY)-----|[A-Za-z=\n]{0,9}|\\PC){0,12}") {
            let _ = (chain(text.as_bytes()), key(text.as_bytes()));
        }
    }
}
