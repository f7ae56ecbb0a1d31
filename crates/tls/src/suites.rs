//! In which order cipher suites are preferred.
//!
//! The gateway chooses, not the client. AES-128 goes first: it costs less than AES-256, and nothing breaks either. But
//! a client that names ChaCha20 before AES has no instructions for AES, so it gets ChaCha20.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 as ECDSA_AES_128, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 as ECDSA_AES_256,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 as ECDSA_CHACHA,
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 as RSA_AES_128, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 as RSA_AES_256,
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 as RSA_CHACHA, TLS13_AES_128_GCM_SHA256 as AES_128,
    TLS13_AES_256_GCM_SHA384 as AES_256, TLS13_CHACHA20_POLY1305_SHA256 as CHACHA,
};
use rustls::crypto::ring::default_provider;
use rustls::{CipherSuite, SupportedCipherSuite};

const AES: [SupportedCipherSuite; 6] = [AES_128, AES_256, ECDSA_AES_128, RSA_AES_128, ECDSA_AES_256, RSA_AES_256];
const CHACHA20: [SupportedCipherSuite; 3] = [CHACHA, ECDSA_CHACHA, RSA_CHACHA];

/// What costs a client least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preference {
    Aes,
    ChaCha20,
}

impl Preference {
    /// That of a client which offers these suites, in its order. Those that the gateway does not have say nothing.
    pub(crate) fn of(offered: &[CipherSuite]) -> Self {
        let is_one_of = |ours: &[SupportedCipherSuite], one: &CipherSuite| ours.iter().any(|our| our.suite() == *one);
        let first = offered.iter().find(|suite| is_one_of(&AES, suite) || is_one_of(&CHACHA20, suite));
        match first.is_some_and(|suite| is_one_of(&CHACHA20, suite)) {
            true => Self::ChaCha20,
            false => Self::Aes,
        }
    }

    /// The gateway's suites in the order for such a client.
    pub(crate) fn provider(self) -> Arc<CryptoProvider> {
        let cipher_suites = match self {
            Self::Aes => [&AES[..], &CHACHA20].concat(),
            Self::ChaCha20 => [&CHACHA20[..], &AES].concat(),
        };
        Arc::new(CryptoProvider { cipher_suites, ..default_provider() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_of_the_provider_has_its_place() {
        let mut expected: Vec<_> = default_provider().cipher_suites.iter().map(|suite| suite.suite()).collect();
        expected.sort_by_key(|suite| u16::from(*suite));
        for preference in [Preference::Aes, Preference::ChaCha20] {
            let mut ours: Vec<_> = preference.provider().cipher_suites.iter().map(|suite| suite.suite()).collect();
            assert_eq!(Preference::of(&ours), preference);
            ours.sort_by_key(|suite| u16::from(*suite));
            assert_eq!(ours, expected);
        }
    }

    #[test]
    fn what_the_gateway_does_not_have_says_nothing() {
        let (grease, cbc) = (CipherSuite::Unknown(0x0a0a), CipherSuite::TLS_RSA_WITH_AES_128_CBC_SHA);
        assert_eq!(Preference::of(&[]), Preference::Aes);
        assert_eq!(Preference::of(&[grease, cbc]), Preference::Aes);
        assert_eq!(Preference::of(&[grease, cbc, CHACHA.suite(), AES_128.suite()]), Preference::ChaCha20);
        assert_eq!(Preference::of(&[grease, cbc, AES_256.suite(), CHACHA.suite()]), Preference::Aes);
    }
}
