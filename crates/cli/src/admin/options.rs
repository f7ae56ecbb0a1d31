//! What a command asks of a running gateway, and of which.

use std::path::PathBuf;

/// How a gateway was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// Not at all: it is that of the configuration file of this folder.
    Here,
    /// By its configuration file.
    Config(PathBuf),
    /// By its admin socket.
    Socket(PathBuf),
    /// That of this folder, else the only one that runs.
    Any,
}

/// What a command does to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It looks.
    Reads,
    /// It changes something, and says in which gateway.
    Changes,
}

/// What becomes of escape sequences and other hidden characters in output of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// They are shown, and drive no terminal.
    Visible,
    /// They go out as they came.
    Raw,
}

/// How long to look at a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// Once.
    Once,
    /// Until the command is ended.
    On,
}

/// How wide a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// As the terminal is: columns that matter less are left out.
    Terminal,
    /// All columns, whole.
    Wide,
}

/// How `status` looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Whether it goes on.
    pub(super) watch: Watch,
    /// What it shows.
    pub(super) extent: Extent,
}

/// What a service is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A new instance in the place of the one there is.
    Restart,
    /// No instance, until one is asked for.
    Stop,
    /// An instance, if there is none.
    Start,
}

impl Action {
    /// Its name, in the interface and for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Restart => "restart",
            Self::Stop => "stop",
            Self::Start => "start",
        }
    }
}
