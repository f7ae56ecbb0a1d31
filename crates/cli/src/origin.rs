//! Where the configuration of a run comes from: its file, what `pilotlight dev` makes of a folder, or a program that is
//! told of it by others and tells the gateway.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{self, Config, Loaded, Ports, Report};
use crate::dev::{self, Project};
use crate::labelled::{self, Found};
use crate::own_log;
use crate::told::Told;

/// Where it comes from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// This file, and what labels of containers declare, if it asks for that.
    File(PathBuf, Found),
    /// A folder that is developed in.
    Development(Arc<Project>),
    /// The program that this gateway is part of.
    Told(Arc<Told>),
}

impl Origin {
    /// This file.
    pub(crate) fn file_at(file: &Path) -> Self {
        Self::File(file.to_owned(), Found::default())
    }

    /// What labels of containers declare.
    pub(crate) fn found(&self) -> Option<&Found> {
        match self {
            Self::File(_, found) => Some(found),
            Self::Development(_) | Self::Told(_) => None,
        }
    }

    /// The file; where there is none, where it would be.
    pub(crate) fn file(&self) -> &Path {
        match self {
            Self::File(file, _) => file,
            Self::Development(project) => &project.file,
            Self::Told(told) => told.file(),
        }
    }

    /// Events that are printed, unless the environment says which.
    pub(crate) fn levels(&self) -> &str {
        match self {
            Self::File(..) => own_log::DEFAULT_LEVELS,
            Self::Development(_) => dev::LEVELS,
            Self::Told(told) => told.levels(),
        }
    }

    /// The folder that is developed in.
    pub(crate) fn project(&self) -> Option<&Arc<Project>> {
        match self {
            Self::File(..) | Self::Told(_) => None,
            Self::Development(project) => Some(project),
        }
    }

    /// Reads it as it is now, for `user`; see [`config::load_for`].
    pub(crate) fn load_for<R>(&self, ports: Ports, user: impl FnOnce(Result<Loaded, Report>) -> R) -> R {
        match self {
            Self::File(file, found) => labelled::load_for(file, found, ports, user),
            Self::Development(project) => user(project.load(ports)),
            Self::Told(told) => user(told.load(ports)),
        }
    }

    /// What the text says, which was read before.
    pub(crate) fn reread(&self, text: &str) -> Result<Config, Report> {
        if let Self::Told(told) = self {
            return told.reread(text);
        }
        let mut config = config::reread(text, self.file())?;
        if let Self::Development(project) = self {
            project.adapt(&mut config);
        }
        Ok(config)
    }
}
