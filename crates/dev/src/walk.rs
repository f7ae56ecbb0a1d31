//! The folders of a project that are watched.

use std::path::{Path, PathBuf};

use crate::ignore::Ignore;

/// Most folders that are watched. The kernel keeps about a kilobyte for each.
pub const MAX_FOLDERS: usize = 8192;

/// What is below a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Below {
    /// It and those below it, none of them ignored; symbolic links are not followed.
    pub(crate) folders: Vec<PathBuf>,
    /// A file that counts, if there is one.
    pub(crate) file: Option<PathBuf>,
    /// There are more folders than were asked for.
    pub(crate) has_more: bool,
}

/// Looks below `folder`, which is `root` or below it, for at most `max` folders. What cannot be read is left out.
pub(crate) fn walk(root: &Path, folder: &Path, ignore: &Ignore, max: usize) -> Below {
    let mut below = Below::default();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        if below.folders.len() == max {
            below.has_more = true;
            break;
        }
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let relative = path.strip_prefix(root).unwrap_or(&path);
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    if !ignore.ignores_folder(relative) && !is_environment(&path) {
                        open.push(path);
                    }
                }
                Ok(_) if below.file.is_none() && !ignore.ignores_file(relative) => below.file = Some(path),
                Ok(_) | Err(_) => {}
            }
        }
        below.folders.push(folder);
    }
    below
}

/// A virtual environment of Python, whatever its name.
pub(crate) fn is_environment(folder: &Path) -> bool {
    folder.join("pyvenv.cfg").exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_counts_is_walked() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["src/deep", "node_modules/x", ".git", "myenv/lib", "empty"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("myenv/pyvenv.cfg"), "").unwrap();
        fs::write(root.path().join("src/deep/a.py"), "").unwrap();
        std::os::unix::fs::symlink("/", root.path().join("everything")).unwrap();
        let below = walk(root.path(), root.path(), &Ignore::default(), MAX_FOLDERS);
        let mut names: Vec<_> =
            below.folders.iter().map(|path| path.strip_prefix(root.path()).unwrap().to_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!((names, below.has_more), (vec!["", "empty", "src", "src/deep"], false));
        assert!(walk(root.path(), root.path(), &Ignore::default(), 2).has_more);
        let empty = walk(root.path(), &root.path().join("empty"), &Ignore::default(), 2);
        assert_eq!((empty.folders.len(), empty.file), (1, None));
    }
}
