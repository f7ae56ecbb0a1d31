//! Certificates, keys and authorities in files, and how a change of them is seen.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::certificate::Certificate;
use crate::error::{CertificateError, FileError};
use crate::limits::MAX_FILE_BYTES;

/// Where a certificate and its key are, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, its intermediates behind it.
    pub certificate: PathBuf,
    /// The private key; may be the same file.
    pub key: PathBuf,
}

impl CertificateFiles {
    /// Reads both.
    ///
    /// # Errors
    /// One of them cannot be read or used, or the key may be read by others.
    pub fn load(&self) -> Result<Certificate, FileError> {
        let chain = read(&self.certificate, Readers::Anybody)?;
        let key = read(&self.key, Readers::Owner)?;
        let origin = self.certificate.display().to_string();
        Certificate::from_pem(&chain, &key, origin).map_err(|cause| self.error(cause))
    }

    /// Which of the two is to be looked at.
    fn error(&self, cause: CertificateError) -> FileError {
        let path = match &cause {
            CertificateError::KeyMismatch => {
                return FileError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() };
            }
            CertificateError::NoKey
            | CertificateError::SecondKey { .. }
            | CertificateError::EncryptedKey { .. }
            | CertificateError::BadKey { .. } => &self.key,
            _ => &self.certificate,
        };
        FileError::Content { path: path.clone(), cause }
    }
}

/// Who may be able to read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    Anybody,
    /// And the group that root has given it to, as Debian's `ssl-cert` is.
    Owner,
}

/// The whole file.
pub(crate) fn read(path: &Path, readers: Readers) -> Result<Vec<u8>, FileError> {
    let failed = |cause: io::Error| FileError::Read { path: path.to_owned(), cause };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")));
    }
    if readers == Readers::Owner && is_exposed(&metadata) {
        return Err(FileError::Exposed { path: path.to_owned(), mode: metadata.mode() & 0o7777 });
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
    match text.len() as u64 > MAX_FILE_BYTES {
        true => Err(FileError::TooLarge { path: path.to_owned() }),
        false => Ok(text),
    }
}

/// The rule that PostgreSQL has: mode 0600, or 0640 of a file that belongs to root.
fn is_exposed(metadata: &Metadata) -> bool {
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    metadata.mode() & forbidden != 0
}

/// By what a change of a file is seen; `None` of one that is not there. A file that is replaced has another inode, one
/// that is written to another time or size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamp(Option<(u64, u64, u64, Option<SystemTime>)>);

impl Stamp {
    pub(crate) fn of(path: &Path) -> Self {
        let metadata = std::fs::metadata(path).ok();
        Self(metadata.map(|m| (m.dev(), m.ino(), m.size(), m.modified().ok())))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use rcgen::{CertificateParams, KeyPair};
    use tempfile::TempDir;

    use super::*;

    fn pair(folder: &TempDir) -> CertificateFiles {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
        let files = CertificateFiles { certificate: folder.path().join("a.pem"), key: folder.path().join("a.key") };
        fs::write(&files.certificate, certificate.pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        mode(&files.key, 0o600);
        files
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_pair_is_read() {
        let folder = TempDir::new().unwrap();
        let files = pair(&folder);
        assert_eq!(files.load().unwrap().names(), ["a.example"]);
        // Both in one file, as HAProxy has them.
        let both = [fs::read(&files.certificate).unwrap(), fs::read(&files.key).unwrap()].concat();
        fs::write(&files.key, both).unwrap();
        let one = CertificateFiles { certificate: files.key.clone(), key: files.key };
        assert_eq!(one.load().unwrap().names(), ["a.example"]);
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let folder = TempDir::new().unwrap();
        let files = pair(&folder);
        for bad in [0o644, 0o604, 0o660, 0o602] {
            mode(&files.key, bad);
            match files.load() {
                Err(FileError::Exposed { path, mode }) => assert_eq!((path, mode), (files.key.clone(), bad)),
                other => panic!("{bad:o}: {other:?}"),
            }
        }
        mode(&files.key, 0o400);
        files.load().unwrap();
        mode(&files.key, 0o640);
        // Which of the two depends on who runs the test.
        assert_eq!(files.load().is_ok(), fs::metadata(&files.key).unwrap().uid() == 0);
    }

    #[test]
    fn every_mistake_names_its_file() {
        let folder = TempDir::new().unwrap();
        let (files, other) = (pair(&folder), tempfile::TempDir::new().unwrap());
        let other = pair(&other);
        let text = |certificate: &Path, key: &Path| {
            let files = CertificateFiles { certificate: certificate.to_owned(), key: key.to_owned() };
            let error = files.load().unwrap_err();
            assert!(!error.remedy().is_empty());
            (error.to_string(), error.path().unwrap().to_owned())
        };
        let (said, path) = text(&files.certificate, &other.key);
        assert!(said.contains("does not belong"), "{said}");
        assert_eq!(path, other.key);
        let missing = folder.path().join("missing");
        let (said, path) = text(&missing, &files.key);
        assert!(said.contains("No such file"), "{said}");
        assert_eq!(path, missing);
        assert_eq!(text(folder.path(), &files.key).1, folder.path());
        let (said, path) = text(&files.certificate, &files.certificate);
        assert!(said.contains("other users may read"), "{said}");
        mode(&files.certificate, 0o600);
        assert_eq!(path, files.certificate);
        let (said, path) = text(&files.certificate, &files.certificate);
        assert!(said.ends_with("there is no private key in it"), "{said}");
        assert_eq!(path, files.certificate);
        let large = folder.path().join("large");
        fs::write(&large, vec![b'a'; MAX_FILE_BYTES as usize + 1]).unwrap();
        assert!(text(&large, &files.key).0.contains("more than"));
    }

    #[test]
    fn a_file_that_is_replaced_or_written_has_another_stamp() {
        let folder = TempDir::new().unwrap();
        let (path, new) = (folder.path().join("a"), folder.path().join("b"));
        let none = Stamp::of(&path);
        fs::write(&path, "one").unwrap();
        let first = Stamp::of(&path);
        assert_ne!(none, first);
        assert_eq!(Stamp::of(&path), first);
        fs::write(&new, "one").unwrap();
        fs::rename(&new, &path).unwrap();
        let second = Stamp::of(&path);
        assert_ne!(first, second);
        fs::write(&path, "longer").unwrap();
        assert_ne!(Stamp::of(&path), second);
    }
}
