//! A folder as an archive.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Names that no release has: what version control keeps for itself.
const LEFT_OUT: [&str; 3] = [".git", ".hg", ".svn"];

/// Writes a folder as an archive (tar), without what version control keeps in it and without `except`. Links are
/// written as links.
///
/// # Errors
/// Something cannot be read or written; which file it is.
pub fn pack(folder: &Path, except: Option<&Path>, out: impl Write) -> io::Result<()> {
    let except = except.and_then(|path| path.canonicalize().ok());
    let mut archive = tar::Builder::new(out);
    archive.follow_symlinks(false);
    add(&mut archive, &folder.canonicalize()?, Path::new(""), except.as_deref())?;
    archive.into_inner()?.flush()
}

/// Writes what `fill` writes, compressed with zstd. If that fails, what was written cannot be taken for whole.
///
/// # Errors
/// That of `fill`, or what is compressed cannot be written.
pub fn compressed<E: From<io::Error>>(
    out: impl Write,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut encoder = zstd::stream::write::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    fill(&mut encoder)?;
    Ok(encoder.finish()?.flush()?)
}

fn add(archive: &mut tar::Builder<impl Write>, root: &Path, within: &Path, except: Option<&Path>) -> io::Result<()> {
    let folder = root.join(within);
    let mut names: Vec<_> = fs::read_dir(&folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>())
        .map_err(|error| named(&folder, &error))?;
    names.sort_unstable();
    for name in names {
        let path: PathBuf = folder.join(&name);
        let is_left_out = LEFT_OUT.iter().any(|left_out| name == *left_out) || except == Some(path.as_path());
        if is_left_out {
            continue;
        }
        let (within, kind) = (within.join(&name), fs::symlink_metadata(&path)?.file_type());
        archive.append_path_with_name(&path, &within).map_err(|error| named(&path, &error))?;
        if kind.is_dir() {
            add(archive, root, &within, except)?;
        }
    }
    Ok(())
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
