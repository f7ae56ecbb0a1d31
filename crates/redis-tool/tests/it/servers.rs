//! Servers other than the installed one: the programs that `scripts/redis-servers.sh` installs.

use std::path::{Path, PathBuf};

/// Path of `redis-8` or `valkey-9`; `None` where there is no program for the machine.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/redis-servers");
    if folder.join("none-here").exists() {
        eprintln!("not here: {name} is for Linux on x86_64");
        return None;
    }
    let program = folder.join(name);
    assert!(program.exists(), "{} is missing: scripts/setup.sh installs it", program.display());
    Some(program)
}
