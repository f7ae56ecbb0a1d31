//! Where the gateway's own lines and those of services go in this process.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pilotlight_logs::{Destination, Out, Outlet, Severity, Shape};

use crate::config::{LogFormat, LogOptions, Operate};
use crate::standard_error::{Lines, Others, StandardError};

/// What the service manager sets for a program whose output is the journal's: device and inode of the stream.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// Where the lines of one log go.
#[derive(Clone, Debug)]
pub(crate) enum LogEnd {
    /// The standard error.
    StandardError(StandardError, Look),
    /// Anything else.
    Outlet {
        outlet: Outlet,
        /// Of messages; a log of lines has none.
        shape: Option<Shape>,
        format: LogFormat,
    },
}

/// How a line looks on the standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// For people.
    Text,
    /// For the journal at its other end, which notes the time itself: behind `<PRIORITY>`.
    ///
    /// Not by the native protocol: what a unit says about its output (`SyslogIdentifier=`, `LogNamespace=`,
    /// `StandardError=`) stays true, and a unit that may not see the journal's socket loses nothing.
    Prefixed,
    /// An object on one line.
    Json,
}

/// Both logs.
#[derive(Debug)]
pub(crate) struct Logs {
    pub(crate) own: LogEnd,
    pub(crate) services: LogEnd,
}

impl Logs {
    /// Opens what the configuration asks for.
    ///
    /// # Errors
    /// A file cannot be opened, nobody is at a socket, a thread is refused.
    pub(crate) fn open(operate: &Operate, stderr: &StandardError) -> anyhow::Result<Self> {
        let mut outlets = Vec::new();
        let told = stderr.clone();
        let tell = move |severity, text: &str| {
            // Where everybody looks if the log itself is what fails.
            told.print(&format!("pilotlight: {text}\n"));
            event(severity, text);
        };
        let own = open(&operate.log, stderr, "the gateway's log", tell, &mut outlets)?;
        let services = match &own {
            LogEnd::Outlet { outlet, shape, .. } if operate.log.shares_its_end(&operate.service_log) => {
                LogEnd::Outlet { outlet: outlet.clone(), shape: shape.clone(), format: operate.service_log.format }
            }
            _ => open(&operate.service_log, stderr, "the log of services", event, &mut outlets)?,
        };
        let lines = match own {
            LogEnd::StandardError(_, Look::Text) => Lines::Written,
            _ => Lines::Events,
        };
        stderr.share(Others { outlets, lines });
        Ok(Self { own, services })
    }
}

fn open(
    options: &LogOptions,
    stderr: &StandardError,
    what: &'static str,
    tell: impl Fn(Severity, &str) + Send + 'static,
    outlets: &mut Vec<Outlet>,
) -> anyhow::Result<LogEnd> {
    let LogOptions { destination, format, facility, syslog_format, max_size } = options;
    if *destination == Destination::Stderr {
        let look = match format {
            LogFormat::Json => Look::Json,
            LogFormat::Text if is_journal(&io::stderr()) => Look::Prefixed,
            LogFormat::Text => Look::Text,
        };
        return Ok(LogEnd::StandardError(stderr.clone(), look));
    }
    let failed = || format!("{what} cannot be written to {}", destination.name());
    let out = Out::open(destination, *max_size).with_context(failed)?;
    let outlet = Outlet::start(what, out, tell).with_context(failed)?;
    outlets.push(outlet.clone());
    Ok(LogEnd::Outlet { outlet, shape: Shape::of(destination, *facility, *syslog_format), format: *format })
}

fn event(severity: Severity, text: &str) {
    match severity {
        Severity::Error => tracing::error!("{text}"),
        Severity::Warning => tracing::warn!("{text}"),
        Severity::Info => tracing::info!("{text}"),
        Severity::Debug => tracing::debug!("{text}"),
    }
}

/// Whether a stream is the journal's: systemd.exec(5), `$JOURNAL_STREAM`.
fn is_journal(stream: &impl std::os::fd::AsFd) -> bool {
    let Ok(named) = std::env::var(JOURNAL_STREAM) else { return false };
    let Ok(file) = stream.as_fd().try_clone_to_owned().map(std::fs::File::from) else { return false };
    file.metadata().is_ok_and(|found| format!("{}:{}", found.dev(), found.ino()) == named)
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
