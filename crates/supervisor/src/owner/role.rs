//! As what an instance is started, and from which folder.

use crate::deploy::Trial;
use crate::guardian::SpawnRequest;
use crate::spec::ServiceSpec;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The variable that tells an instance which release it is.
const RELEASE: &str = "PILOTLIGHT_RELEASE";

/// Where the files of a function are.
pub(super) const TASK_ROOT: &str = "LAMBDA_TASK_ROOT";

/// As what an instance is started.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role<'a> {
    /// One more.
    Member,
    /// It takes the place of this one.
    Successor(u64),
    /// Of a release that is tried.
    Candidate(&'a Trial),
}

impl Role<'_> {
    /// The instance that it replaces.
    pub(super) fn replaces(&self) -> Option<u64> {
        match self {
            Self::Successor(replaced) => Some(*replaced),
            Self::Member | Self::Candidate(_) => None,
        }
    }
}

/// The release that an instance is started from. What is started later may be another one, so the link to the current
/// one is followed once, here, and not by the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed {
    pub(super) release: Option<Arc<str>>,
    /// The link in the settings, and the folder that takes its place.
    dirs: Option<(PathBuf, PathBuf)>,
}

impl Placed {
    /// # Errors
    /// The service has releases, and none of them is the current one.
    pub(super) fn of(spec: &ServiceSpec, role: &Role<'_>) -> io::Result<Self> {
        let (Some(folder), Some(link)) = (&spec.releases, &spec.dir) else { return Ok(Self::default()) };
        if let Role::Candidate(trial) = role {
            return Ok(Self {
                release: Some(Arc::clone(&trial.release)),
                dirs: Some((link.clone(), trial.dir.clone())),
            });
        }
        let target = std::fs::read_link(link).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(
                error.kind(),
                format!(
                    "there is no release in {} yet; `pilotlight deploy FOLDER --service {}` makes one",
                    folder.display(),
                    spec.name
                ),
            ),
            _ => io::Error::new(
                error.kind(),
                format!("{} is not a link to a release ({error}); `pilotlight deploy` makes it", link.display()),
            ),
        })?;
        let release = target.file_name().map(|name| Arc::from(name.to_string_lossy()));
        let target = link.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
        Ok(Self { release, dirs: Some((link.clone(), target)) })
    }

    /// The request with this folder in the place of the link, which the program's path may lead through.
    pub(super) fn applied(&self, mut request: SpawnRequest) -> SpawnRequest {
        let Some((link, dir)) = &self.dirs else { return request };
        request.dir = Some(dir.as_os_str().to_owned());
        if let Some(program) = request.argv.first_mut() {
            *program = moved(program, link, dir);
        }
        let is_link = |value: &str| Path::new(value) == link;
        for (_, value) in request.env.iter_mut().filter(|(name, value)| name == TASK_ROOT && is_link(value)) {
            *value = dir.to_string_lossy().into_owned();
        }
        request.env.extend(self.release.iter().map(|release| (RELEASE.to_owned(), release.to_string())));
        request
    }
}

fn moved(program: &OsString, link: &Path, dir: &Path) -> OsString {
    match Path::new(program).strip_prefix(link) {
        Ok(within) => dir.join(within).into_os_string(),
        Err(_) => program.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Transport;

    #[test]
    fn a_program_of_the_release_comes_from_the_release() {
        let check = |program: &str, expected: &str| {
            let found = moved(&program.into(), Path::new("/srv/app/current"), Path::new("/srv/app/releases/2"));
            assert_eq!(found, OsString::from(expected));
        };
        check("/srv/app/current/bin/app", "/srv/app/releases/2/bin/app");
        check("/srv/app/current2/bin/app", "/srv/app/current2/bin/app");
        check("python3", "python3");
    }

    #[test]
    fn the_current_release_is_where_the_link_leads() {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = ServiceSpec::new("app", vec!["x".into()], Transport::Pipe);
        assert!(Placed::of(&spec, &Role::Member).unwrap().dirs.is_none());
        spec.releases = Some(folder.path().to_owned());
        spec.dir = Some(folder.path().join("current"));
        let missing = Placed::of(&spec, &Role::Member).unwrap_err().to_string();
        assert!(missing.contains("pilotlight deploy FOLDER --service app"), "{missing}");
        std::os::unix::fs::symlink("releases/one", folder.path().join("current")).unwrap();
        let placed = Placed::of(&spec, &Role::Successor(3)).unwrap();
        assert_eq!(placed.release.as_deref(), Some("one"));
        assert_eq!(placed.dirs.unwrap().1, folder.path().join("releases/one"));
    }
}
