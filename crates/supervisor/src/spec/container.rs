//! The container that a service runs in.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The container that a service runs in, instead of a program that the guardian executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSpec {
    /// Which one.
    pub source: ContainerSource,
    /// Where the program in it listens; `None` for one that uses the pipe.
    pub port: Option<u16>,
    /// The network over which it is reached; for a new container the one that it is put into. Default: the engine's.
    pub network: Option<String>,
}

/// Which container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerSource {
    /// One that is made of an image for each instance, and removed when it ends.
    Image(Box<ImageSpec>),
    /// One that is there already. It is started and stopped, never removed.
    Labels {
        /// All of these (`name=value`).
        labels: Vec<String>,
        /// What to do if there is none, as a sentence fragment.
        advice: String,
    },
    /// The same, by its name.
    Name(String),
}

impl fmt::Display for ContainerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(image) => write!(f, "a container of the image {}", image.image),
            Self::Labels { labels, .. } => write!(f, "a container with the labels {}", labels.join(", ")),
            Self::Name(name) => write!(f, "the container {name}"),
        }
    }
}

/// How a container is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSpec {
    /// Its name, with a registry, a tag or a digest if need be.
    pub image: String,
    /// What its entrypoint gets, instead of the image's own words.
    pub command: Option<Vec<String>>,
    /// Instead of the image's own.
    pub entrypoint: Option<Vec<String>>,
    /// `/here:/there` or `/here:/there:ro`; the first may be the name of a volume.
    pub volumes: Vec<String>,
    /// When it is pulled.
    pub pull: Pull,
    /// `user` or `user:group`; the image's own if none.
    pub user: Option<String>,
    /// The folder in it; the image's own if none.
    pub workdir: Option<String>,
    /// Whether nothing in the image may be written to.
    pub read_only: bool,
    /// Whether a small first process reaps what the program leaves.
    pub init: bool,
}

impl ImageSpec {
    /// Values of `volumes`, in number.
    pub const MAX_VOLUMES: usize = 64;
    /// Values of `port`.
    pub const PORT: RangeInclusive<u16> = 1..=65535;

    /// With nothing but the image.
    #[must_use]
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            command: None,
            entrypoint: None,
            volumes: Vec::new(),
            pull: Pull::Missing,
            user: None,
            workdir: None,
            read_only: false,
            init: false,
        }
    }
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// If the engine has none of this name.
    Missing,
    /// Before each start.
    Always,
    /// Never: without it the start fails.
    Never,
}

/// The engine of containers.
#[derive(Clone, Debug)]
pub struct ContainerOptions {
    /// Its socket; where one is looked for by default.
    pub socket: Option<PathBuf>,
    /// What the gateway's own containers are found by; the same for a gateway that is started again.
    pub gateway: String,
    /// Whether this gateway takes over from one that still runs: then it removes nothing that it does not know.
    pub is_heir: bool,
}

impl Default for ContainerOptions {
    fn default() -> Self {
        Self { socket: None, gateway: "pilotlight".to_owned(), is_heir: false }
    }
}
