//! A CA and certificates for a server and a client, as files.

use crate::error::Error;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A certificate authority of its own, a server's certificate and a client's, all in PEM files that are removed with
/// this.
///
/// Another one is a stranger: neither trusts what the other signed.
#[derive(Debug)]
pub struct Certificates {
    dir: TempDir,
    ca_pem: String,
    client_pem: String,
    client_key_pem: String,
}

impl Certificates {
    /// For `localhost`, `127.0.0.1` and `::1`.
    ///
    /// # Errors
    /// If they cannot be made or written.
    pub fn generate() -> Result<Self, Error> {
        Self::generate_for(&LOOPBACK_NAMES)
    }

    /// For these names and addresses of the server.
    ///
    /// # Errors
    /// If they cannot be made or written.
    pub fn generate_for(server_names: &[&str]) -> Result<Self, Error> {
        let dir = tempfile::Builder::new().prefix("pilotlight-tls-").tempdir().map_err(Error::io("making a folder"))?;
        let (issuer, ca_pem) = make_ca()?;
        let (server_pem, server_key_pem) = make_leaf(&issuer, "testkit server", server_names)?;
        let (client_pem, client_key_pem) = make_leaf(&issuer, "testkit client", &[])?;
        let this = Self { dir, ca_pem, client_pem, client_key_pem };
        for (path, pem) in [
            (this.ca_path(), &this.ca_pem),
            (this.server_path(), &server_pem),
            (this.server_key_path(), &server_key_pem),
            (this.client_path(), &this.client_pem),
            (this.client_key_path(), &this.client_key_pem),
        ] {
            fs::write(path, pem).map_err(Error::io("writing a certificate"))?;
        }
        Ok(this)
    }

    /// The CA that a client has to trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A client's certificate, for servers that ask for one; its common name is `testkit client`.
    pub fn client_pem(&self) -> &str {
        &self.client_pem
    }

    /// The private key of [`client_pem`](Self::client_pem) (PKCS #8).
    pub fn client_key_pem(&self) -> &str {
        &self.client_key_pem
    }

    /// The file of [`ca_pem`](Self::ca_pem).
    pub fn ca_path(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// The file of [`client_pem`](Self::client_pem).
    pub fn client_path(&self) -> PathBuf {
        self.file("client.pem")
    }

    /// The file of [`client_key_pem`](Self::client_key_pem).
    pub fn client_key_path(&self) -> PathBuf {
        self.file("client.key")
    }

    /// The server's certificate.
    pub fn server_path(&self) -> PathBuf {
        self.file("server.pem")
    }

    /// The server's private key (PKCS #8).
    pub fn server_key_path(&self) -> PathBuf {
        self.file("server.key")
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::join(self.dir.path(), name)
    }
}

fn make_ca() -> Result<(Issuer<'static, KeyPair>, String), Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "testkit authority");
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem();
    Ok((Issuer::new(params, key), pem))
}

/// A certificate and its key. Nodes of a cluster are clients of each other, so it is good for both sides.
fn make_leaf(issuer: &Issuer<'_, KeyPair>, name: &str, subject_names: &[&str]) -> Result<(String, String), Error> {
    let mut params = CertificateParams::new(subject_names.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}
