//! Servers that are newer than the system's: what `scripts/redis-servers.sh` installs.

use std::path::Path;

use pilotlight_testkit::Server;

/// `None` where there is no program for the machine.
pub(super) fn start(program: &str) -> Option<Server> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/redis-servers");
    if folder.join("none-here").exists() {
        eprintln!("not here: {program} is for Linux on x86_64");
        return None;
    }
    let program = folder.join(program);
    assert!(program.exists(), "{} is missing: scripts/setup.sh installs it", program.display());
    Some(Server::builder().program(program).start().unwrap())
}
