//! What a run says on the standard error: its own events, and the lines that services print.

use std::io::{self, IsTerminal, Write};

use pilotlight_gateway::LogBook;
use pilotlight_supervisor::LogLine;
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

/// Environment variable with the levels of events, as `RUST_LOG` elsewhere: `info`, `debug`, `pilotlight_gateway=trace`.
const LEVELS: &str = "PILOTLIGHT_LOG";

/// Prints events of `info` and above, or what the environment asks for.
pub(crate) fn start_tracing() {
    let filter = EnvFilter::try_from_env(LEVELS).unwrap_or_else(|_| EnvFilter::new("info"));
    let events = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .try_init();
    if let Err(e) = events {
        eprintln!("pilotlight: events are not printed: {e}");
    }
}

/// Lines that wait for a slow terminal; one more is dropped and counted.
const MAX_UNPRINTED: usize = 1024;

/// Keeps services' lines for those who ask for them, and prints them on a thread of its own: a slow terminal holds up neither
/// services nor the supervisor nor those who ask. What it cannot take in time is dropped and counted.
pub(crate) fn print_lines(mut lines: mpsc::Receiver<LogLine>, logs: LogBook) -> io::Result<()> {
    let (printer, to_print) = std::sync::mpsc::sync_channel::<LogLine>(MAX_UNPRINTED);
    let print = move || {
        let colour = io::stderr().is_terminal();
        while let Ok(line) = to_print.recv() {
            if print_line(&mut io::stderr().lock(), &line, colour).is_err() {
                return; // the standard error is closed: there is nowhere to print to
            }
        }
    };
    let keep = move || {
        let mut dropped = 0;
        while let Some(line) = lines.blocking_recv() {
            let printed = LogLine { dropped: line.dropped + dropped, ..line.clone() };
            dropped = match printer.try_send(printed) {
                Ok(()) => 0,
                Err(_) => dropped + line.dropped + 1,
            };
            logs.push(line);
        }
    };
    std::thread::Builder::new().name("print-log".into()).spawn(print)?;
    std::thread::Builder::new().name("service-log".into()).spawn(keep)?;
    Ok(())
}

fn print_line(out: &mut impl Write, line: &LogLine, colour: bool) -> io::Result<()> {
    let LogLine { service, instance, text, cut, dropped, .. } = line;
    let (on, off) = if colour { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    let mut whole = String::with_capacity(text.len() + 64);
    if *dropped > 0 {
        whole.push_str(&format!("{on}{service}#{instance} |{off} … {dropped} lines dropped\n"));
    }
    let mark = if *cut { " … (cut)" } else { "" };
    // A service's escape sequences could rewrite the terminal; only what prints goes out.
    let text: String = text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect();
    whole.push_str(&format!("{on}{service}#{instance} |{off} {text}{mark}\n"));
    out.write_all(whole.as_bytes())
}
