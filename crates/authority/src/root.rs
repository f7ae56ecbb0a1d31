//! The root certificate, made once, and what it signs.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CidrSubnet, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose, NameConstraints,
};
use ring::digest;
use x509_parser::pem::Pem;

use crate::folder::{self, FolderError, failed};
use crate::names::{PERMITTED, is_permitted};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long a certificate for a host is valid. It is renewed after two thirds of it.
pub const LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Clocks of this machine's containers and guests may be behind.
const BEFORE: Duration = Duration::from_secs(3600);
/// How long the root is valid. A new one has to be trusted anew by hand.
const ROOT_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;

/// The local authority of one user.
pub struct Authority {
    path: PathBuf,
    certificate: String,
    not_after: SystemTime,
    issuer: Issuer<'static, KeyPair>,
    id: String,
}

/// A certificate with its key, as PEM.
#[derive(Clone)]
pub struct Issued {
    /// The certificate. Its issuer is the root.
    pub chain: String,
    /// Its private key.
    pub key: String,
    /// When it should be replaced.
    pub renew_at: SystemTime,
}

/// Why there is no local authority, or no certificate from it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// Its folder.
    #[error("the local authority: {0}")]
    Folder(#[from] FolderError),
    /// Others may read its key.
    #[error("the local authority: other users may read {} (mode {mode:o}): chmod 600 {}", path.display(), path.display())]
    OpenKey {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// What is in its folder is none.
    #[error("the local authority in {}: {what}; `pilotlight untrust`, then remove the folder for a new one", path.display())]
    Damaged {
        /// The folder.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A key or a certificate cannot be made.
    #[error("the local authority cannot sign: {0}")]
    Sign(#[from] rcgen::Error),
    /// It does not sign for this host.
    #[error("the local authority gives no certificate for {host}: its names end in {}", PERMITTED.join(", "))]
    NotPermitted {
        /// Which.
        host: String,
    },
}

impl Authority {
    /// The authority in a folder; a new one if there is none, or if it is over.
    ///
    /// # Errors
    /// The folder cannot be used, others may read the key, or it is damaged.
    pub fn open(path: &Path, now: SystemTime) -> Result<Self, AuthorityError> {
        folder::open(path)?;
        // One at a time makes it.
        let lock = path.join("lock");
        let lock_file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let lock_file = lock_file.map_err(failed(&lock))?;
        rustix::fs::flock(&lock_file, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|e| failed(&lock)(e.into()))?;
        if let Some(authority) = Self::read(path)?
            && authority.not_after > now + LIFETIME
        {
            return Ok(authority);
        }
        Self::make(path, now)?;
        let lost = || AuthorityError::Damaged { path: path.to_owned(), what: "it is gone".to_owned() };
        Self::read(path)?.ok_or_else(lost)
    }

    /// The authority in a folder, if there is one.
    ///
    /// # Errors
    /// Others may read the key, or it is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, AuthorityError> {
        let (certificate_path, key_path) = (path.join("root.pem"), path.join("root.key"));
        let certificate = match fs::read_to_string(&certificate_path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(&certificate_path)(e).into()),
        };
        let mode = fs::metadata(&key_path).map_err(failed(&key_path))?.mode() & 0o7777;
        if mode & OTHERS != 0 {
            return Err(AuthorityError::OpenKey { path: key_path, mode });
        }
        let damaged = |what: &str| AuthorityError::Damaged { path: path.to_owned(), what: what.to_owned() };
        let key = fs::read_to_string(&key_path).map_err(failed(&key_path))?;
        let key = KeyPair::from_pem(&key).map_err(|_| damaged("root.key is no private key"))?;
        let (not_after, public_key) = about(&certificate).ok_or_else(|| damaged("root.pem is no certificate"))?;
        if public_key != key.public_key_raw() {
            return Err(damaged("root.key is not the key of root.pem"));
        }
        let id = id(&key);
        let issuer = Issuer::new(params(&id), key);
        Ok(Some(Self { path: path.to_owned(), certificate, not_after, issuer, id }))
    }

    fn make(path: &Path, now: SystemTime) -> Result<(), AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = params(&id(&key));
        (params.not_before, params.not_after) = ((now - BEFORE).into(), (now + ROOT_LIFETIME).into());
        let certificate = params.self_signed(&key)?;
        // The certificate last: with it there is one.
        let old = path.join("root.pem");
        match fs::remove_file(&old) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(&old)(e).into()),
            _ => {}
        }
        folder::replace(&path.join("root.key"), 0o600, key.serialize_pem().as_bytes())?;
        folder::replace(&path.join("root.pem"), 0o644, certificate.pem().as_bytes())?;
        Ok(())
    }

    /// A new certificate with a new key for a host, in lower case, a wildcard included.
    ///
    /// # Errors
    /// The host is none that it signs for.
    pub fn issue(&self, host: &str, now: SystemTime) -> Result<Issued, AuthorityError> {
        if !is_permitted(host) {
            return Err(AuthorityError::NotPermitted { host: host.to_owned() });
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name = named(host);
        let not_after = (now + LIFETIME).min(self.not_after);
        (params.not_before, params.not_after) = ((now - BEFORE).into(), not_after.into());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let chain = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { chain, key: key.serialize_pem(), renew_at: now + LIFETIME * 2 / 3 })
    }

    /// The root, as PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Where the root is, for programs that are given it.
    #[must_use]
    pub fn certificate_file(&self) -> PathBuf {
        self.path.join("root.pem")
    }

    /// Where it is kept.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// Eight hexadecimal digits, by which stores know it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Until when the root is valid.
    #[must_use]
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }
}

/// When the certificate ends, and its public key.
fn about(certificate: &str) -> Option<(SystemTime, Vec<u8>)> {
    let pem = Pem::iter_from_buffer(certificate.as_bytes()).next()?.ok()?;
    let read = pem.parse_x509().ok()?;
    let seconds = u64::try_from(read.validity().not_after.timestamp()).ok()?;
    let key = read.public_key().subject_public_key.data.to_vec();
    Some((SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?, key))
}

fn id(key: &KeyPair) -> String {
    let digest = digest::digest(&digest::SHA256, key.public_key_raw());
    digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

/// Of the root, but for its time: all of it follows from its key.
fn params(id: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(&format!("Pilotlight local authority {id}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let loopback = [
        CidrSubnet::from_addr_prefix(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
        CidrSubnet::from_addr_prefix(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    ];
    let names = PERMITTED.iter().map(|last| GeneralSubtree::DnsName((*last).to_owned()));
    // RFC 5280 §4.2.1.10: a name "localhost" permits all that ends in it.
    let permitted_subtrees = names.chain(loopback.into_iter().map(GeneralSubtree::IpAddress)).collect();
    params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() });
    params
}

const _: () = assert!(LIFETIME.as_secs() >= 3 * DAY.as_secs());

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;

    /// Whether a client that trusts the root takes a certificate for a host.
    fn is_taken(root: &str, chain: &str, host: &str, now: SystemTime) -> Result<(), rustls::Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let leaf = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
        let at = UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap());
        let name = ServerName::try_from(host.to_owned()).unwrap();
        verifier.verify_server_cert(&leaf, &[], &name, &[], at).map(drop)
    }

    #[test]
    fn it_is_made_once_and_signs_for_some_days() {
        let (dir, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let path = dir.path().join("data/authority");
        let authority = Authority::open(&path, now).unwrap();
        let again = Authority::open(&path, now + DAY).unwrap();
        assert_eq!(again.certificate(), authority.certificate());
        let issued = again.issue("app.localhost", now).unwrap();
        assert_eq!(is_taken(authority.certificate(), &issued.chain, "app.localhost", now), Ok(()));
        assert!(is_taken(authority.certificate(), &issued.chain, "other.localhost", now).is_err());
        assert!(is_taken(authority.certificate(), &issued.chain, "app.localhost", now + DAY * 8).is_err());
        assert!(issued.renew_at < now + DAY * 5);
        let wild = again.issue("*.app.test", now).unwrap();
        assert_eq!(is_taken(authority.certificate(), &wild.chain, "x.app.test", now), Ok(()));
        assert!(matches!(again.issue("example.org", now), Err(AuthorityError::NotPermitted { .. })));
        // A new one before the old one could sign for too short a time.
        let later = Authority::open(&path, now + DAY * 3650).unwrap();
        assert_ne!(later.certificate(), authority.certificate());
    }

    #[test]
    fn its_key_is_its_owner_s_and_signs_for_no_site() {
        let (dir, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let path = dir.path().join("authority");
        let authority = Authority::open(&path, now).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(&path.join("root.key"))), (0o700, 0o600));
        // Whoever has the key makes what `issue` refuses.
        let key = KeyPair::generate().unwrap();
        let stolen = CertificateParams::new(vec!["example.org".to_owned()]).unwrap();
        let stolen = stolen.signed_by(&key, &authority.issuer).unwrap().pem();
        let refused = is_taken(authority.certificate(), &stolen, "example.org", now);
        assert!(matches!(refused, Err(rustls::Error::InvalidCertificate(_))), "{refused:?}");
        fs::set_permissions(path.join("root.key"), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Authority::read(&path), Err(AuthorityError::OpenKey { mode: 0o640, .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(Authority::open(&path, now), Err(AuthorityError::Folder(FolderError::Open { .. }))));
    }

    #[test]
    fn what_is_damaged_is_said() {
        let (dir, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        drop((Authority::open(&one, now).unwrap(), Authority::open(&other, now).unwrap()));
        fs::copy(other.join("root.key"), one.join("root.key")).unwrap();
        let said = Authority::open(&one, now).err().unwrap().to_string();
        assert!(said.contains("root.key is not the key of root.pem"), "{said}");
    }
}
