//! `--verbose`: the events of the client, a line each on the standard error.

use std::io::{self, IsTerminal, Write};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt;

/// Whose events are told: connections, redirects, repetitions; not the spans of commands.
const TOLD: [&str; 2] = ["pilotlight_redis", "pilotlight_redis_tool"];

/// Tells until the guard is dropped, of what happens on this thread.
pub(super) fn start() -> DefaultGuard {
    let told = Targets::new().with_targets(TOLD.map(|target| (target, LevelFilter::DEBUG)));
    let events = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(lines).with_target(false);
    events.with_ansi(false).with_level(false).without_time().finish().with(told).set_default()
}

fn lines() -> Lines {
    Lines { is_terminal: io::stderr().is_terminal() }
}

/// The standard error. The editor of the prompt has the terminal as it comes, byte by byte: a line begins at its left
/// end and returns there.
struct Lines {
    is_terminal: bool,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = io::stderr().lock();
        if self.is_terminal {
            let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            out.write_all(b"\r\x1b[K")?;
            out.write_all(line)?;
            out.write_all(b"\r\n")?;
        } else {
            out.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
