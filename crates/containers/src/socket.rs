//! Where the engine's socket is.

use std::path::{Path, PathBuf};

/// The engine's socket, by what the environment says and by what is there: `DOCKER_HOST` (`unix://…`), then
/// `/run/docker.sock` (Docker), `/run/podman/podman.sock` (Podman, root's), and those of an engine without root below
/// `XDG_RUNTIME_DIR`. If none is there, the first: its absence is what is reported then.
#[must_use]
pub fn find(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    let all = candidates(variable);
    let there = all.iter().find(|path| path.exists()).or(all.first());
    there.cloned().unwrap_or_else(|| PathBuf::from(DOCKER))
}

const DOCKER: &str = "/run/docker.sock";
const PODMAN: &str = "/run/podman/podman.sock";

fn candidates(variable: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    if let Some(path) = variable("DOCKER_HOST").as_deref().and_then(|host| host.strip_prefix("unix://")) {
        return vec![PathBuf::from(path)]; // it was set on purpose, so no other is tried
    }
    let mut all = vec![PathBuf::from(DOCKER), PathBuf::from("/var/run/docker.sock"), PathBuf::from(PODMAN)];
    if let Some(dir) = variable("XDG_RUNTIME_DIR") {
        let dir = Path::new(&dir);
        all.extend([dir.join("podman/podman.sock"), dir.join("docker.sock")]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_comes_first() {
        let says = |name: &str| (name == "DOCKER_HOST").then(|| "unix:///tmp/engine.sock".to_owned());
        assert_eq!(find(says), Path::new("/tmp/engine.sock"));
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("podman/podman.sock");
        std::fs::create_dir(folder.path().join("podman")).unwrap();
        std::fs::write(&own, "").unwrap();
        let dir = folder.path().to_str().unwrap().to_owned();
        let all = candidates(|name| (name == "XDG_RUNTIME_DIR").then(|| dir.clone()));
        assert_eq!(all[0], Path::new("/run/docker.sock"));
        assert!(all.contains(&own));
    }
}
