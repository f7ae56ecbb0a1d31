//! Where the folder with the sockets of a gateway is made, and looked for by commands.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use pilotlight_gateway::keep_private;
use pilotlight_supervisor::{make_private_folder, make_runtime_dir};

/// The folder of root's gateways.
const OF_ROOT: &str = "/run/pilotlight";

/// Whom the folder has to let pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// Processes of this user.
    ThisUser,
    /// Services of other users as well.
    OtherUsers,
}

/// A fresh folder of this process alone, in the first of [`parents`] that will do.
///
/// # Errors
/// None will.
pub(crate) fn make(whom: For) -> anyhow::Result<PathBuf> {
    let mut tried = Vec::new();
    for parent in parents() {
        let own = if parent == Path::new(OF_ROOT) { make_private_folder(&parent) } else { Ok(()) };
        match own.and_then(|()| make_runtime_dir(&parent)) {
            Ok(made) if whom == For::ThisUser || everybody_may_pass(&parent) => {
                keep_private([made.clone()]);
                return Ok(made);
            }
            Ok(made) => {
                let _ = std::fs::remove_dir(&made); // nobody has used it
                tried.push(format!(
                    "{}: others may not pass it, and services have users of their own",
                    parent.display()
                ));
            }
            Err(error) => tried.push(format!("{}: {error}", parent.display())),
        }
        if let Some(why) = tried.last() {
            tracing::debug!("no runtime folder in {why}");
        }
    }
    Err(anyhow!("no folder for sockets can be made; tried\n  {}", tried.join("\n  ")))
}

/// In which folders runtime folders are made, the best first: that of the service manager, root's, the user's, that for
/// temporary files.
pub(crate) fn parents() -> Vec<PathBuf> {
    let of_root = Some(PathBuf::from(OF_ROOT)).filter(|_| rustix::process::geteuid().is_root());
    // A relative one would be in whatever folder a command was run in, which may be served.
    let is_good = |dir: &PathBuf| dir.is_absolute() && dir.is_dir();
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(is_good);
    let temporary = Some(std::env::temp_dir()).filter(|dir| dir.is_absolute()).unwrap_or_else(|| "/tmp".into());
    let mut all: Vec<PathBuf> = Vec::new();
    for dir in given().into_iter().chain(of_root).chain(user).chain([temporary]) {
        if !all.contains(&dir) {
            all.push(dir);
        }
    }
    all
}

/// That of the service manager, if it has made one for this process.
pub(crate) fn given() -> Option<PathBuf> {
    let given = std::env::var_os("RUNTIME_DIRECTORY")?; // systemd; several are separated by colons
    let first = given.as_bytes().split(|byte| *byte == b':').next()?;
    Some(PathBuf::from(OsStr::from_bytes(first))).filter(|dir| dir.is_absolute())
}

fn everybody_may_pass(dir: &Path) -> bool {
    dir.ancestors().all(|dir| dir.metadata().is_ok_and(|found| found.permissions().mode() & 0o001 != 0))
}
