//! `pilotlight check` and `pilotlight init`: what they print and how they end.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::path::Path;

use super::listeners::Ports;
use super::load::{DEFAULT_FILE, load};
use super::render::Style;
use super::report::Report;
use crate::presence;

/// The file that `init` writes.
pub const STARTER: &str = include_str!("../starter.toml");

/// The JSON Schema of the file, for editors; a test makes it anew from what `check` goes by.
pub const JSON_SCHEMA: &str = include_str!("pilotlight.schema.json");

/// How a command ended; its value is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done = 0,
    /// The machine did not let us: a file could not be written.
    Failed = 1,
    /// The arguments or the configuration are wrong.
    Misconfigured = 2,
}

impl From<Outcome> for std::process::ExitCode {
    fn from(outcome: Outcome) -> Self {
        std::process::ExitCode::from(outcome as u8)
    }
}

/// How `check` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Findings for people on `err`, one line of success on `out`.
    Text(Style),
    /// One JSON object on `out`, whatever the outcome.
    Json,
}

/// Whether `init` may replace a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// An existing file is left alone.
    Keep,
    /// An existing file is replaced.
    Replace,
}

/// Colours if the standard error is a terminal and the user has not asked for none (<https://no-color.org>).
#[must_use]
pub fn style_for_stderr() -> Style {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    if io::stderr().is_terminal() && !plain { Style::Coloured } else { Style::Plain }
}

/// `pilotlight check`: reports everything that is wrong with a file.
///
/// # Errors
/// Only if `out` or `err` cannot be written to.
pub fn check(file: &Path, format: Format, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Outcome> {
    let own = std::path::absolute(file).ok().and_then(|file| presence::with_file(&file).0.first().map(|own| own.pid));
    let loaded = load(file, own.map_or(Ports::Warn, Ports::Beside));
    let (report, outcome): (&Report, Outcome) = match &loaded {
        Ok(loaded) => (&loaded.warnings, Outcome::Done),
        Err(report) => (report, Outcome::Misconfigured),
    };
    match format {
        Format::Json => writeln!(out, "{}", report.to_json())?,
        Format::Text(style) => {
            write!(err, "{}", report.render(style))?;
            err.flush()?;
            if let Ok(loaded) = &loaded {
                writeln!(out, "{}", loaded.summary())?;
            }
        }
    }
    out.flush()?;
    Ok(outcome)
}

/// `pilotlight schema`: prints the JSON Schema.
///
/// # Errors
/// Only if `out` cannot be written to.
pub fn schema(out: &mut dyn Write) -> io::Result<Outcome> {
    out.write_all(JSON_SCHEMA.as_bytes())?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// `pilotlight init`: writes the starter file and says what to do next.
///
/// # Errors
/// Only if `out` or `err` cannot be written to.
pub fn init(file: &Path, existing: Existing, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Outcome> {
    let name = file.display();
    match write_starter(file, existing) {
        Ok(()) => {
            let option = if file == Path::new(DEFAULT_FILE) { String::new() } else { format!(" --config {name}") };
            writeln!(out, "wrote {name}\n\nnext:")?;
            let steps = [
                (format!("pilotlight check{option}"), "reports every mistake in it"),
                (format!("pilotlight run{option}"), "starts the gateway"),
                ("curl http://127.0.0.1:8080/".to_owned(), "starts the service in it and shows its answer"),
            ];
            let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
            for (command, meaning) in steps {
                writeln!(out, "  {command:width$}   {meaning}")?;
            }
            out.flush()?;
            Ok(Outcome::Done)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            writeln!(err, "error: {name} exists already and was left as it is")?;
            writeln!(
                err,
                " = help: `pilotlight check` looks for mistakes in it; `pilotlight init --force` replaces it"
            )?;
            Ok(Outcome::Misconfigured)
        }
        Err(error) => {
            writeln!(err, "error: {name} cannot be written: {error}")?;
            writeln!(err, " = help: check that its folder exists and that this user may write to it")?;
            Ok(Outcome::Failed)
        }
    }
}

fn write_starter(file: &Path, existing: Existing) -> io::Result<()> {
    let mut options = OpenOptions::new();
    match existing {
        Existing::Keep => options.write(true).create_new(true),
        Existing::Replace => options.write(true).create(true).truncate(true),
    };
    let mut opened = options.open(file)?;
    opened.write_all(STARTER.as_bytes())
}
