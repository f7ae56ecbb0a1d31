//! Where the configuration of a run comes from: its file, or what `pilotlight dev` makes of a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{self, Config, Loaded, Ports, Report};
use crate::dev::Project;

/// Where it comes from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// This file.
    File(PathBuf),
    /// A folder that is developed in.
    Development(Arc<Project>),
}

impl Origin {
    /// The file; for a folder without one, where it would be.
    pub(crate) fn file(&self) -> &Path {
        match self {
            Self::File(file) => file,
            Self::Development(project) => &project.file,
        }
    }

    /// The folder that is developed in.
    pub(crate) fn project(&self) -> Option<&Arc<Project>> {
        match self {
            Self::File(_) => None,
            Self::Development(project) => Some(project),
        }
    }

    /// Reads it as it is now, for `user`; see [`config::load_for`].
    pub(crate) fn load_for<R>(&self, ports: Ports, user: impl FnOnce(Result<Loaded, Report>) -> R) -> R {
        match self {
            Self::File(file) => config::load_for(file, ports, user),
            Self::Development(project) => user(project.load(ports)),
        }
    }

    /// What the text says, which was read before.
    pub(crate) fn reread(&self, text: &str) -> Result<Config, Report> {
        let mut config = config::reread(text, self.file())?;
        if let Self::Development(project) = self {
            project.adapt(&mut config);
        }
        Ok(config)
    }
}
