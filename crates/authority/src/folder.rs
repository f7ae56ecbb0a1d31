//! A folder of the user's own, and files in it that are replaced as a whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Bits of a mode that let others in.
const OTHERS: u32 = 0o077;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The environment does not say where it is.
    #[error(
        "it is not known where this user's data is: neither HOME nor XDG_DATA_HOME is an absolute path; set one of them"
    )]
    Unknown,
    /// The system refuses something.
    #[error("{}: {cause}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// Others may enter it.
    #[error(
        "{} may be entered by other users (mode {mode:o}), and a private key is in it: chmod 700 {}",
        path.display(),
        path.display()
    )]
    Open {
        /// Which.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
}

/// Where Pilotlight keeps what belongs to this user: `$XDG_DATA_HOME/pilotlight`, else `~/.local/share/pilotlight` (on
/// macOS `~/Library/Application Support/Pilotlight`). `variable` reads the environment.
///
/// # Errors
/// The environment names no home.
pub fn data_folder(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<PathBuf, FolderError> {
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(data) = folder("XDG_DATA_HOME") {
        return Ok(data.join("pilotlight"));
    }
    let below =
        if cfg!(target_os = "macos") { "Library/Application Support/Pilotlight" } else { ".local/share/pilotlight" };
    folder("HOME").map(|home| home.join(below)).ok_or(FolderError::Unknown)
}

pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> FolderError {
    let path = path.to_owned();
    move |cause| FolderError::Io { path: path.clone(), cause }
}

/// Makes it for its owner alone, if it is not there.
pub(crate) fn open(path: &Path) -> Result<(), FolderError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))?;
    let mode = fs::metadata(path).map_err(failed(path))?.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(FolderError::Open { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Whoever reads the file sees all of the old or all of the new, even after a power cut.
pub(crate) fn replace(path: &Path, mode: u32, bytes: &[u8]) -> Result<(), FolderError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let written = || {
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(io::Error::other)?;
        let beside = folder.join(format!(".{:016x}", u64::from_ne_bytes(number)));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
        let done = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, path));
        if done.is_err() {
            let _ = fs::remove_file(&beside); // it may have its name already
        }
        done.and_then(|()| File::open(folder)?.sync_all())
    };
    written().map_err(failed(path))
}
