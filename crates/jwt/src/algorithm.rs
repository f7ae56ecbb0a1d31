//! Algorithms of signatures (RFC 7518 §3, RFC 8037 §3.1): those with public keys, and no others.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, VerificationAlgorithm,
};

/// An algorithm of signatures. `none` and those with shared secrets (HS256 …) are no values of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// What an algorithm verifies with.
pub(crate) enum Verifier {
    Rsa(&'static RsaParameters),
    Point(&'static dyn VerificationAlgorithm),
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];
    pub(crate) const RSA: [Self; 6] = [Self::Rs256, Self::Rs384, Self::Rs512, Self::Ps256, Self::Ps384, Self::Ps512];

    /// As `alg` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// By its name, in these letters (RFC 7515 §4.1.1). `Ed25519` is another name of `EdDSA` on that curve
    /// (RFC 9864 §2.2).
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        if name == "Ed25519" {
            return Some(Self::EdDsa);
        }
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub(crate) fn verifier(self) -> Verifier {
        match self {
            Self::Rs256 => Verifier::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Verifier::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Verifier::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Verifier::Rsa(&RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Verifier::Rsa(&RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Verifier::Rsa(&RSA_PSS_2048_8192_SHA512),
            // RFC 7518 §3.4: R and S one after the other, of fixed length.
            Self::Es256 => Verifier::Point(&ECDSA_P256_SHA256_FIXED),
            Self::Es384 => Verifier::Point(&ECDSA_P384_SHA384_FIXED),
            Self::EdDsa => Verifier::Point(&ED25519),
        }
    }
}
