//! An archive that somebody deploys: whatever it is, nothing is written beside its folder, through a link or otherwise,
//! and there is nothing in the folder but files, folders and links.

use pilotlight_releases::{Limits, unpack};
use std::fs;
use std::path::Path;

const LIMITS: Limits = Limits { entries: 64, bytes: 1 << 20 };

/// Unpacks it into a folder that has an own one around it, with a file that no archive may change.
pub(crate) fn check(data: &[u8]) {
    let around = tempfile::tempdir().unwrap();
    let (release, own) = (around.path().join("releases/release"), around.path().join("own"));
    fs::create_dir_all(&release).unwrap();
    fs::write(&own, "own").unwrap();
    let unpacked = unpack(data, &release, LIMITS);
    assert_eq!(names(around.path()), ["own", "releases"], "something is beside the folder");
    assert_eq!(names(&around.path().join("releases")), ["release"], "something is beside the folder");
    assert_eq!(fs::read(&own).unwrap(), b"own", "a file outside of the folder was changed");
    let (mut found, mut folders) = (0, vec![release]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{} is something else", path.display());
            found += usize::from(!kind.is_dir());
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    if let Ok(unpacked) = unpacked {
        assert!(found <= unpacked.entries && unpacked.bytes <= LIMITS.bytes, "{found} entries, {unpacked:?}");
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
