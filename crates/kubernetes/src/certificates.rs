//! Files of certificates: the only state of this program outside of the API server, in a folder of its own that goes
//! with it.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::translate::Translation;

/// Writes those that are not there. Names change with what is in them, so a file is never changed.
///
/// # Errors
/// One cannot be written.
pub fn write(folder: &Path, translation: &Translation) -> io::Result<()> {
    for (name, secret) in &translation.files {
        for (ending, content) in [("crt", &secret.certificate), ("key", &secret.key)] {
            let path = folder.join(format!("{name}.{ending}"));
            if path.exists() {
                continue;
            }
            // Whole, or not there.
            let new = folder.join(format!("{name}.{ending}.new"));
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(content)?;
            fs::rename(new, path)?;
        }
    }
    Ok(())
}

/// Removes those that nobody reads any more.
///
/// # Errors
/// The folder cannot be read.
pub fn tidy(folder: &Path, translation: &Translation) -> io::Result<()> {
    let wanted: BTreeSet<String> =
        translation.files.keys().flat_map(|name| [format!("{name}.crt"), format!("{name}.key")]).collect();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_one = [".crt", ".key", ".new"].iter().any(|ending| name.ends_with(ending));
        if is_one && !wanted.contains(&name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;

    use super::*;
    use crate::snapshot::TlsSecret;

    #[test]
    fn only_what_is_wanted_is_there_and_only_for_the_owner() {
        let folder = tempfile::tempdir().unwrap();
        let secret = Arc::new(TlsSecret { certificate: b"c".to_vec(), key: b"k".to_vec(), problem: None });
        let mut translation = Translation::default();
        translation.files.insert("a_b_1".to_owned(), secret);
        write(folder.path(), &translation).unwrap();
        let key = folder.path().join("a_b_1.key");
        assert_eq!(fs::read(&key).unwrap(), b"k");
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(folder.path().join("idle.sock"), "").unwrap();
        tidy(folder.path(), &Translation::default()).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["idle.sock"]);
    }
}
