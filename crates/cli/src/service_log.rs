//! The lines that services print, and where they go.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use pilotlight_dev::{Colours, Columns};
use pilotlight_gateway::LogBook;
use pilotlight_logs::{Field, Names, Outlet, Record, Severity, Shape, rfc3339};
use pilotlight_printable::printable;
use pilotlight_supervisor::{LogLine, Output};
use serde_json::json;
use tokio::sync::mpsc;

use crate::config::LogFormat;
use crate::log_end::{LogEnd, Look, now_ms};

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
                let mut whole = String::new();
                if line.dropped > 0 {
                    whole = columns.error(&format!("{} lines of {} dropped", line.dropped, line.service), width);
                }
                whole.push_str(&columns.line(&line.service, &format!("{}{}", line.text, mark(line)), width));
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

/// Where lines of services go, and how they look there.
#[derive(Clone, Debug)]
pub(crate) struct Printer {
    pub(crate) end: LogEnd,
    /// On the standard error.
    pub(crate) layout: Layout,
}

impl Printer {
    fn print(&self, line: &LogLine) {
        match &self.end {
            LogEnd::StandardError(stderr, Look::Text) => stderr.print(&self.layout.printed(line)),
            LogEnd::StandardError(stderr, Look::Prefixed) => {
                let text = printed(line, false);
                text.lines().for_each(|text| stderr.print(&format!("<{}>{text}\n", Severity::Info as u8)));
            }
            LogEnd::StandardError(stderr, Look::Json) => stderr.print(&json_line(line)),
            LogEnd::Outlet { outlet, shape: Some(shape), format } => {
                if line.dropped > 0 {
                    let text = format!("{} lines dropped", line.dropped);
                    message(outlet, shape, line, Severity::Warning, &text);
                }
                let text = match format {
                    LogFormat::Text => format!("{}{}", line.text, mark(line)),
                    LogFormat::Json => json_line(line).trim_end().to_owned(),
                };
                message(outlet, shape, line, Severity::Info, &text);
            }
            LogEnd::Outlet { outlet, shape: None, format } => outlet.push(|out| match format {
                LogFormat::Json => out.extend_from_slice(json_line(line).as_bytes()),
                LogFormat::Text => {
                    for text in printed(line, false).lines() {
                        rfc3339(out, now_ms());
                        out.push(b' ');
                        out.extend_from_slice(text.as_bytes());
                        out.push(b'\n');
                    }
                }
            }),
        }
    }
}

fn message(outlet: &Outlet, shape: &Shape, line: &LogLine, severity: Severity, text: &str) {
    let instance = line.instance.to_string();
    let field = |name, value| Field { name, value: Cow::Borrowed(value) };
    let fields = [
        field("service", line.service.as_bytes()),
        field("instance", instance.as_bytes()),
        field("output", output(line).as_bytes()),
    ];
    let record = Record {
        at_ms: now_ms(),
        severity,
        identifier: &line.service,
        process: line.instance,
        message: text.as_bytes(),
        fields: &fields,
        names: Names::Own,
    };
    outlet.push(|out| shape.encode(out, &record));
}

fn json_line(line: &LogLine) -> String {
    let mut time = Vec::new();
    rfc3339(&mut time, now_ms());
    let mut value = json!({
        "time": String::from_utf8_lossy(&time),
        "service": &*line.service,
        "instance": line.instance,
        "output": output(line),
        "message": line.text,
    });
    if line.cut {
        value["cut"] = true.into();
    }
    if line.dropped > 0 {
        value["dropped"] = line.dropped.into();
    }
    pilotlight_printable::json(format!("{value}\n"))
}

fn output(line: &LogLine) -> &'static str {
    match line.output {
        Output::Stdout => "stdout",
        Output::Stderr => "stderr",
    }
}

fn mark(line: &LogLine) -> &'static str {
    if line.cut { " … (cut)" } else { "" }
}

/// Prints services' lines, and keeps them for those who ask, on a thread of its own, so that neither services nor the
/// supervisor wait for it: what it cannot take in time is dropped and counted.
pub(crate) fn print_lines(mut lines: mpsc::Receiver<LogLine>, logs: LogBook, printer: Printer) -> io::Result<()> {
    let print = move || {
        while let Some(line) = lines.blocking_recv() {
            printer.print(&line);
            logs.push(line);
        }
    };
    std::thread::Builder::new().name("service-log".into()).spawn(print)?;
    Ok(())
}

fn printed(line: &LogLine, colour: bool) -> String {
    let LogLine { service, instance, text, dropped, .. } = line;
    let (on, off) = if colour { ("\x1b[36m", "\x1b[0m") } else { ("", "") };
    let instance = if *instance == 0 { "zygote".to_owned() } else { instance.to_string() };
    let mut whole = String::with_capacity(text.len() + 64);
    if *dropped > 0 {
        whole.push_str(&format!("{on}{service}#{instance} |{off} … {dropped} lines dropped\n"));
    }
    let (mark, text) = (mark(line), printable(text));
    whole.push_str(&format!("{on}{service}#{instance} |{off} {text}{mark}\n"));
    whole
}
