//! What is wrong with a certificate, a key or their files: fact and place as the text, what to do as the remedy.

use std::io;
use std::path::PathBuf;

use crate::limits::{MAX_CHAIN, MAX_FILE_BYTES};

/// Why a text is not a certificate with its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// No section `CERTIFICATE`.
    #[error("there is no certificate in it")]
    NoCertificate,
    /// More than [`MAX_CHAIN`].
    #[error("there are more than {} certificates in it", MAX_CHAIN)]
    TooManyCertificates,
    /// No private key of any kind.
    #[error("there is no private key in it")]
    NoKey,
    /// More than one private key.
    #[error("line {line}: there is a second private key")]
    SecondKey {
        /// Where the second begins.
        line: usize,
    },
    /// The key can only be read with a passphrase.
    #[error("line {line}: the private key is encrypted")]
    EncryptedKey {
        /// Where it begins.
        line: usize,
    },
    /// A section is cut off, or not base64.
    #[error("line {line}: {what}")]
    Pem {
        /// Where the section begins.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// What a section contains is no certificate.
    #[error("certificate {number} of {count} is damaged: {what}")]
    BadCertificate {
        /// From 1.
        number: usize,
        /// In the chain.
        count: usize,
        /// What the decoder says.
        what: String,
    },
    /// What a section contains is no key that can be used.
    #[error("the private key cannot be used: {what}")]
    BadKey {
        /// What the decoder says.
        what: String,
    },
    /// The key is another one's.
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    /// The key is that of a later certificate of the chain.
    #[error("the private key belongs to certificate {number} of the chain, not to the first")]
    WrongOrder {
        /// From 1.
        number: usize,
    },
    /// An authority that nothing can be checked against.
    #[error("certificate {number} cannot be an authority: {what}")]
    BadAuthority {
        /// From 1.
        number: usize,
        /// What the decoder says.
        what: String,
    },
}

impl CertificateError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoCertificate => {
                "give a PEM file with the certificate first and its intermediate certificates behind it"
            }
            Self::TooManyCertificates => {
                "a chain is the certificate and its intermediates; a bundle of authorities is not one"
            }
            Self::NoKey => "give the PEM file with BEGIN PRIVATE KEY, BEGIN EC PRIVATE KEY or BEGIN RSA PRIVATE KEY",
            Self::SecondKey { .. } => "keep the one that belongs to the certificate",
            Self::EncryptedKey { .. } => {
                "nobody is there to type a passphrase: `openssl pkey -in KEY -out PLAIN` takes it off; keep PLAIN at mode 0600"
            }
            Self::Pem { .. } => "the file may be cut off or edited; copy it again",
            Self::BadCertificate { .. } => "check it with `openssl x509 -noout -text -in FILE`",
            Self::BadKey { .. } => "use a key of ECDSA P-256 or P-384, Ed25519, or RSA with 2048 to 8192 bits",
            Self::KeyMismatch => {
                "`openssl x509 -noout -pubkey -in CERTIFICATE` and `openssl pkey -pubout -in KEY` have to print the same"
            }
            Self::WrongOrder { .. } => "put the certificate of the key first, its issuers behind it",
            Self::BadAuthority { .. } => "give the certificate of the authority that issues those of the clients",
        }
    }
}

/// Why files cannot be used. Every text names the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is not there, or may not be read.
    #[error("{} cannot be read: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// Larger than [`MAX_FILE_BYTES`].
    #[error("{} has more than {} bytes", path.display(), MAX_FILE_BYTES)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Others than its owner may read the key.
    #[error("{}: other users may read this private key (mode {mode:04o})", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// What is in it is wrong.
    #[error("{}: {cause}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: CertificateError,
    },
    /// Each is right, but not together.
    #[error("the private key in {} does not belong to the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// There are no authorities to check servers by.
    #[error("certificates of servers cannot be checked: {cause}")]
    Authorities {
        /// What is missing.
        cause: String,
    },
    /// rustls refuses what was checked; a mistake of ours.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

impl FileError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Read { .. } => "check the path, and that the user of the gateway may read the file".to_owned(),
            Self::TooLarge { .. } => {
                "a certificate with its chain has a few kilobytes; is this the right file?".to_owned()
            }
            Self::Exposed { path, .. } => format!(
                "`chmod 600 {}`; a group may read it only if the file belongs to root (mode 0640)",
                path.display()
            ),
            Self::Content { cause, .. } => cause.remedy().to_owned(),
            Self::Mismatch { .. } => CertificateError::KeyMismatch.remedy().to_owned(),
            Self::Authorities { .. } => "name the authority of the servers in `ca`".to_owned(),
            Self::Setup(_) => "this is a bug of Pilotlight".to_owned(),
        }
    }

    /// The file that is to be looked at.
    #[must_use]
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Self::Read { path, .. }
            | Self::TooLarge { path }
            | Self::Exposed { path, .. }
            | Self::Content { path, .. } => Some(path),
            Self::Mismatch { key, .. } => Some(key),
            Self::Authorities { .. } | Self::Setup(_) => None,
        }
    }
}
