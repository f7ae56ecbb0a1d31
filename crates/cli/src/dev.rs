//! What `pilotlight dev` has beside an ordinary run: the project of a folder, and what follows its files.

mod keys;
mod project;
mod report;
mod session;

use std::io::{self, IsTerminal};

use pilotlight_dev::{Colours, Columns};

use crate::config::Config;
use crate::service_log::Layout;

pub(crate) use project::{Project, Wanted};
pub(crate) use session::{Parts, Session};

/// Events that are printed: what a developer is told of services comes from the session.
pub(crate) const LEVELS: &str = "error,pilotlight_supervisor=off,pilotlight_gateway::exchange=off";

/// How lines of the services are shown.
pub(crate) fn layout(config: &Config) -> Layout {
    let names = config.services.iter().filter(|service| service.spec().is_some());
    Layout::Columns(Columns::new(names.map(|service| service.name().to_owned()).collect(), colours()))
}

/// <https://no-color.org>
fn colours() -> Colours {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    if io::stderr().is_terminal() && !is_plain { Colours::On } else { Colours::Off }
}
