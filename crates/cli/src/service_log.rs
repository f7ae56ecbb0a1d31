//! What a run says on the standard error: its own events, and the lines that services print.

use std::fmt;
use std::io::{self, IsTerminal};

use crate::standard_error::StandardError;
use pilotlight_dev::{Colours, Columns};
use pilotlight_gateway::LogBook;
use pilotlight_printable::printable;
use pilotlight_supervisor::LogLine;
use tokio::sync::mpsc;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Environment variable with the levels of events, of all or of a part of the program: `info`, `debug`,
/// `warn,pilotlight_gateway=trace`.
const LEVELS: &str = "PILOTLIGHT_LOG";
/// The client of Redis tells of every attempt to connect; what comes of them for the cache, the cache says once.
pub(crate) const DEFAULT_LEVELS: &str = "info,pilotlight_redis=error";

/// How lines of services are printed.
#[derive(Clone, Debug)]
pub(crate) enum Layout {
    /// With the number of the instance.
    Numbered(Colours),
    /// In columns, as wide as the terminal.
    Columns(Columns),
}

impl Layout {
    pub(crate) fn numbered() -> Self {
        Self::Numbered(if io::stderr().is_terminal() { Colours::On } else { Colours::Off })
    }

    fn printed(&self, line: &LogLine) -> String {
        match self {
            Self::Numbered(colours) => printed(line, *colours == Colours::On),
            Self::Columns(columns) => {
                let width = terminal_width();
                let mark = if line.cut { " … (cut)" } else { "" };
                let mut whole = String::new();
                if line.dropped > 0 {
                    whole = columns.error(&format!("{} lines of {} dropped", line.dropped, line.service), width);
                }
                whole.push_str(&columns.line(&line.service, &format!("{}{mark}", line.text), width));
                whole
            }
        }
    }
}

/// Places of a line, if the standard error is a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    Some(usize::from(size.ws_col)).filter(|width| *width > 0)
}

/// Prints events of these levels, or what the environment asks for.
pub(crate) fn start_tracing(stderr: &StandardError, levels: &str) {
    let asked = std::env::var(LEVELS).ok().filter(|asked| !asked.is_empty()).unwrap_or_else(|| levels.to_owned());
    let filter = asked.parse().unwrap_or_else(|e| {
        stderr.say(&format!("pilotlight: {LEVELS}={asked:?} is ignored, because it has no levels like `debug`: {e}"));
        levels.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO))
    });
    let events = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(stderr.clone())
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .fmt_fields(fields())
        .finish()
        .with(filter);
    if let Err(e) = events.try_init() {
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
pub(crate) fn print_lines(
    mut lines: mpsc::Receiver<LogLine>,
    logs: LogBook,
    stderr: StandardError,
    layout: Layout,
) -> io::Result<()> {
    let print = move || {
        while let Some(line) = lines.blocking_recv() {
            stderr.print(&layout.printed(&line));
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
