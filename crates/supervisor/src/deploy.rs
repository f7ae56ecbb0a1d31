//! A release of a service that is tried: what is given, and what came of it.

use crate::error::Exit;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A release that is to be tried, and to become the current one.
pub struct Trial {
    /// Its name.
    pub release: Arc<str>,
    /// Its folder, in the place of the settings' `dir`.
    pub dir: PathBuf,
    /// Makes it the current one. Called once an instance of it has answered its health request, on a thread that may
    /// block, before that instance gets any other request. If it fails, the release is not used.
    pub switch: Box<dyn FnOnce() -> io::Result<()> + Send>,
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("release", &self.release).field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// A release that has become the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The number of its first instance.
    pub instance: u64,
    /// The status of the answer to its health request.
    pub status: u16,
    /// From the start of the instance until it got requests.
    pub took: Duration,
}

/// Why a release is not used. The instances that there were go on.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub struct DeployError {
    /// What happened, as a sentence fragment.
    pub reason: String,
    /// How the process of its instance ended, if it did.
    pub exit: Option<Exit>,
    /// The last lines of its output, at most [`REPORT_LINES`](crate::limits::REPORT_LINES).
    pub output_tail: Arc<[String]>,
    /// Whether it is the release that is to blame.
    pub blame: Blame,
}

/// Whether a release was found to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Its instance did not start, or was not healthy.
    Release,
    /// It was not tried to the end.
    Circumstances,
}

impl DeployError {
    pub(crate) fn not_tried(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), exit: None, output_tail: Arc::default(), blame: Blame::Circumstances }
    }
}
