//! What the machine has: stores of certificates, and the programs that change them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian keeps what an administrator adds, and Red Hat.
const DEBIAN_FOLDER: &str = "/usr/local/share/ca-certificates";
const RED_HAT_FOLDER: &str = "/etc/pki/ca-trust/source/anchors";
/// Bundles of the system's roots, the first that is there.
const BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Where Firefox keeps its profiles, below the home.
const FIREFOX: [&str; 4] = [
    ".mozilla/firefox",
    "snap/firefox/common/.mozilla/firefox",
    ".var/app/org.mozilla.firefox/.mozilla/firefox",
    "Library/Application Support/Firefox/Profiles",
];

/// What the machine has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The user's home.
    pub home: PathBuf,
    /// Whether the system's stores may be changed.
    pub is_root: bool,
    /// How the system's store is changed.
    pub system: System,
    /// The bundle of the system's roots.
    pub bundle: Option<PathBuf>,
    /// NSS's `certutil`.
    pub certutil: Option<PathBuf>,
    /// Profiles of Firefox with a store.
    pub firefox: Vec<PathBuf>,
    /// Whether Chromium's store is there.
    pub has_chromium: bool,
    /// Java's `keytool`.
    pub keytool: Option<PathBuf>,
}

/// How the system's store is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// A file in a folder, then a program that builds the bundle.
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What a file in it ends with.
        extension: &'static str,
        /// The program with its arguments for a file that came.
        added: Vec<OsString>,
        /// And for one that went.
        removed: Vec<OsString>,
    },
    /// p11-kit's `trust`.
    P11Kit(PathBuf),
    /// macOS's `security`.
    Keychain(PathBuf),
    /// None that is known.
    Unknown,
}

impl Machine {
    /// Looks. `home` is the user's; `path` where programs are.
    #[must_use]
    pub fn look(home: &Path, path: &std::ffi::OsStr) -> Self {
        let folders: Vec<PathBuf> =
            std::env::split_paths(path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from)).collect();
        let program = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
        Self {
            home: home.to_owned(),
            is_root: rustix::process::geteuid().is_root(),
            system: system(program),
            bundle: BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file()),
            certutil: program("certutil").filter(|_| !cfg!(windows)),
            firefox: FIREFOX.iter().flat_map(|folder| profiles(&home.join(folder))).collect(),
            has_chromium: home.join(".pki/nssdb/cert9.db").is_file(),
            keytool: program("keytool"),
        }
    }
}

fn system(program: impl Fn(&str) -> Option<PathBuf>) -> System {
    let command = |program: PathBuf, arguments: &[&str]| -> Vec<OsString> {
        std::iter::once(program.into_os_string()).chain(arguments.iter().map(OsString::from)).collect()
    };
    if cfg!(target_os = "macos") {
        return program("security").map_or(System::Unknown, System::Keychain);
    }
    if let Some(update) = program("update-ca-certificates") {
        return System::Folder {
            folder: DEBIAN_FOLDER.into(),
            extension: "crt",
            added: command(update.clone(), &[]),
            removed: command(update, &["--fresh"]),
        };
    }
    if let Some(update) = program("update-ca-trust").filter(|_| Path::new(RED_HAT_FOLDER).is_dir()) {
        return System::Folder {
            folder: RED_HAT_FOLDER.into(),
            extension: "pem",
            added: command(update.clone(), &["extract"]),
            removed: command(update, &["extract"]),
        };
    }
    program("trust").map_or(System::Unknown, System::P11Kit)
}

/// The folders of profiles that have a store, in alphabetical order.
fn profiles(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> = all.filter(|path| path.join("cert9.db").is_file()).collect();
    all.sort();
    all
}
