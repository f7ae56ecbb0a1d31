//! A gateway in another program, which tells it its configuration. Everything else is an ordinary run: the text is read
//! and checked as a file is, and followed as a reload follows a file.

use std::process::ExitCode;
use std::sync::Arc;

pub use pilotlight_gateway::NotDone;

use crate::hidden;
use crate::origin::Origin;
use crate::run::{self, Ended};
pub use crate::told::{Following, Told};

/// Runs until SIGINT or SIGTERM.
///
/// # Errors
/// The system refuses something that the configuration asks for.
pub fn run(told: &Arc<Told>) -> anyhow::Result<Ended> {
    run::run_from(&Origin::Told(Arc::clone(told)))
}

/// What a program that has a gateway in it must call before anything else: the gateway starts the same program again,
/// as the guardian of its services.
#[must_use]
pub fn started_as_part() -> Option<ExitCode> {
    hidden::started()
}
