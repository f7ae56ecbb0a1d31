//! What a run says on the standard error: its own events, and the lines that services print.

use std::fmt;
use std::io::{self, IsTerminal};

use crate::standard_error::StandardError;
use pilotlight_gateway::LogBook;
use pilotlight_printable::printable;
use pilotlight_supervisor::LogLine;
use tokio::sync::mpsc;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Environment variable with the levels of events, as `RUST_LOG` elsewhere: `info`, `debug`,
/// `pilotlight_gateway=trace`.
const LEVELS: &str = "PILOTLIGHT_LOG";
/// The client of Redis tells of every attempt to connect; what comes of them for the cache, the cache says once.
const DEFAULT_LEVELS: &str = "info,pilotlight_redis=error";

/// Prints events of [`DEFAULT_LEVELS`], or what the environment asks for.
pub(crate) fn start_tracing(stderr: &StandardError) {
    let filter = EnvFilter::try_from_env(LEVELS).unwrap_or_else(|_| EnvFilter::new(DEFAULT_LEVELS));
    let events = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr.clone())
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .fmt_fields(fields())
        .try_init();
    if let Err(e) = events {
        stderr.say(&format!("pilotlight: events are not printed: {e}"));
    }
}

/// The message, then `name=value`. Whatever others wrote stands in one of them, so all of it is made printable here, in
/// one line.
fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    let field = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| match field.name() {
        "message" => writer.write_str(&printable(&format!("{value:?}"))),
        name if writer.has_ansi_escapes() => {
            write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{}", printable(&format!("{value:?}")))
        }
        name => write!(writer, "{name}={}", printable(&format!("{value:?}"))),
    };
    debug_fn(field).delimited(" ")
}

/// Prints services' lines, and keeps them for those who ask, on a thread of its own, so that neither services nor the
/// supervisor wait for it: what it cannot take in time is dropped and counted.
pub(crate) fn print_lines(mut lines: mpsc::Receiver<LogLine>, logs: LogBook, stderr: StandardError) -> io::Result<()> {
    let print = move || {
        let colour = io::stderr().is_terminal();
        while let Some(line) = lines.blocking_recv() {
            stderr.print(&printed(&line, colour));
            logs.push(line);
        }
    };
    std::thread::Builder::new().name("service-log".into()).spawn(print)?;
    Ok(())
}

fn printed(line: &LogLine, colour: bool) -> String {
    let LogLine { service, instance, text, cut, dropped, .. } = line;
    let (on, off) = if colour { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    let instance = if *instance == 0 { "zygote".to_owned() } else { instance.to_string() };
    let mut whole = String::with_capacity(text.len() + 64);
    if *dropped > 0 {
        whole.push_str(&format!("{on}{service}#{instance} |{off} … {dropped} lines dropped\n"));
    }
    let mark = if *cut { " … (cut)" } else { "" };
    let text = printable(text);
    whole.push_str(&format!("{on}{service}#{instance} |{off} {text}{mark}\n"));
    whole
}
