//! Why a certificate could not be had.

use std::time::SystemTime;

use crate::backoff::Failure;
use crate::certificate::CertificateError;
use crate::storage::StorageError;

/// Why an order brought no certificate.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The authority's answer is an error, or there is none.
    #[error("{authority}: {cause}")]
    Authority {
        /// The host of its directory.
        authority: String,
        /// What was answered.
        cause: instant_acme::Error,
        /// When it said to come again.
        retry_after: Option<SystemTime>,
    },
    /// A validation failed.
    #[error("{authority} could not validate the name by {challenge}: {reason}")]
    Invalid {
        /// The host of its directory.
        authority: String,
        /// By which challenge.
        challenge: &'static str,
        /// What it says.
        reason: String,
    },
    /// None of its challenges is offered here.
    #[error(
        "{authority} offers no challenge that can be answered here ({offered}); HTTP-01 needs a listener for plain HTTP that the authority reaches on port 80, TLS-ALPN-01 one for TLS that it reaches on port 443"
    )]
    NoChallenge {
        /// The host of its directory.
        authority: String,
        /// What it offers.
        offered: String,
    },
    /// The whole took too long.
    #[error("{authority}: the order was not finished within {seconds} s")]
    Timeout {
        /// The host of its directory.
        authority: String,
        /// So long.
        seconds: u64,
    },
    /// The account's key cannot be read.
    #[error("the key for external account binding cannot be used: {0}")]
    ExternalAccount(String),
    /// What was given out is no certificate for the name.
    #[error("{authority} has given out what cannot be used: {cause}")]
    Unusable {
        /// The host of its directory.
        authority: String,
        /// What is wrong with it.
        cause: CertificateError,
    },
    /// A key or a request could not be made.
    #[error("a key could not be made: {0}")]
    Key(#[from] rcgen::Error),
    /// What must be kept cannot be.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// The types of problems that say what to do (RFC 8555 §6.7).
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";
const SERVER_INTERNAL: &str = "urn:ietf:params:acme:error:serverInternal";
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

impl OrderError {
    /// What helps.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::Authority { cause: instant_acme::Error::Api(problem), retry_after, .. } => {
                match problem.r#type.as_deref() {
                    Some(RATE_LIMITED) => Failure::Limited { retry_after: *retry_after },
                    Some(BAD_NONCE) => Failure::Transient,
                    Some(SERVER_INTERNAL) => Failure::Unreachable { retry_after: *retry_after },
                    _ if problem.status.is_some_and(|status| status >= 500) => {
                        Failure::Unreachable { retry_after: *retry_after }
                    }
                    _ => Failure::Refused,
                }
            }
            Self::Authority { retry_after, .. } => Failure::Unreachable { retry_after: *retry_after },
            Self::Timeout { .. } => Failure::Unreachable { retry_after: None },
            Self::Invalid { .. } | Self::NoChallenge { .. } | Self::Unusable { .. } => Failure::Refused,
            Self::ExternalAccount(_) | Self::Key(_) | Self::Storage(_) => Failure::Own,
        }
    }

    /// Whether the authority does not know the account any more.
    pub(crate) fn is_unknown_account(&self) -> bool {
        matches!(self, Self::Authority { cause: instant_acme::Error::Api(problem), .. }
            if problem.r#type.as_deref() == Some(NO_ACCOUNT))
    }
}
