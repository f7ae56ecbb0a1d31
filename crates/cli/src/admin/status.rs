//! `pilotlight status`: what runs, as a table, once or again and again.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use clap::Args;

use super::arguments::Running;
use super::client::{self, Client, Failure};
use super::options::{Effect, Extent, Look, Watch};
use super::report::{Report, json_text};
use super::{columns, schedules, table};
use crate::config::commands::Outcome;

/// How often `status --watch` looks.
const WATCH_PAUSE: Duration = Duration::from_secs(1);

/// For the help of the command.
pub const STATUS_EXAMPLES: &str = "Examples:
  pilotlight status               a table of all services
  pilotlight status --watch       the same, kept up to date
  pilotlight status users         one service: instances, where the time goes, its last error
  pilotlight status --json        for programs";

/// What is shown, and how.
#[derive(Args, Debug)]
pub struct StatusArguments {
    /// One service, with more about it
    service: Option<String>,
    /// Go on, once a second
    #[arg(long, short)]
    watch: bool,
    /// All columns, however narrow the terminal
    #[arg(long)]
    wide: bool,
    #[command(flatten)]
    gateway: Running,
}

/// `pilotlight status`.
///
/// # Errors
/// Only if the output cannot be written.
pub fn status(arguments: StatusArguments) -> io::Result<Outcome> {
    let StatusArguments { service, watch, wide, gateway } = arguments;
    let look = Look {
        watch: if watch { Watch::On } else { Watch::Once },
        extent: if wide { Extent::Wide } else { Extent::Terminal },
    };
    gateway.run(Effect::Reads, |client, report, out| show(client, service.as_deref(), look, report, out))
}

fn show(
    client: &Client,
    service: Option<&str>,
    Look { watch, extent }: Look,
    report: Report,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let target = service.map_or("/status".to_owned(), |name| format!("/services/{}", client::encoded(name)));
    let style = columns::Style::of_stdout();
    loop {
        let width = if extent == Extent::Wide { columns::Width::Any } else { columns::Width::of_stdout() };
        let answer = client.get(&target)?;
        let text = match (report, service) {
            (Report::Json, _) => format!("{}\n", json_text(&answer)),
            (Report::Text, None) => table::gateway(&answer, style, width) + &schedules::below(&answer, style),
            (Report::Text, Some(_)) => table::service(&answer, style, width),
        };
        if watch == Watch::On && io::stdout().is_terminal() && report == Report::Text {
            // Home, the new picture over the old one, then what is left of that.
            let lines = text.lines().map(|line| format!("{line}\x1b[K\n")).collect::<String>();
            write!(out, "\x1b[H{lines}\x1b[J")?;
        } else {
            write!(out, "{text}")?;
        }
        out.flush()?;
        if watch == Watch::Once {
            return Ok(Outcome::Done);
        }
        std::thread::sleep(WATCH_PAUSE);
    }
}
