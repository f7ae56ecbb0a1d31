//! The gateway's own events, and how they look where they go.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal};

use pilotlight_logs::{Field as LogField, Names, Record, Severity, rfc3339};
use pilotlight_printable::printable;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogFormat;
use crate::log_end::{LogEnd, Look, now_ms};
use crate::standard_error::StandardError;

/// Environment variable with the levels of events, of all or of a part of the program: `info`, `debug`,
/// `warn,pilotlight_gateway=trace`.
const LEVELS: &str = "PILOTLIGHT_LOG";
/// The client of Redis tells of every attempt to connect; what comes of them for the cache, the cache says once.
pub(crate) const DEFAULT_LEVELS: &str = "info,pilotlight_redis=error";
/// Who says it, to the journal and to syslog.
const IDENTIFIER: &str = "pilotlight";

/// Writes events of these levels, or what the environment asks for.
pub(crate) fn start(end: &LogEnd, stderr: &StandardError, levels: &str) {
    let asked = std::env::var(LEVELS).ok().filter(|asked| !asked.is_empty()).unwrap_or_else(|| levels.to_owned());
    let filter: Targets = asked.parse().unwrap_or_else(|e| {
        stderr
            .print(&format!("pilotlight: {LEVELS}={asked:?} is ignored, because it has no levels like `debug`: {e}\n"));
        levels.parse().unwrap_or_else(|_| Targets::new().with_default(Level::INFO))
    });
    let started = match end {
        LogEnd::StandardError(_, Look::Text) => people(stderr).with(filter).try_init(),
        end => registry().with(filter).with(Events(end.clone())).try_init(),
    };
    if let Err(e) = started {
        stderr.print(&format!("pilotlight: events are not printed: {e}\n"));
    }
}

/// For people at the standard error.
fn people(stderr: &StandardError) -> impl Subscriber + for<'a> registry::LookupSpan<'a> + Send + Sync + 'static {
    tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_writer(stderr.clone())
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .fmt_fields(fields())
        .finish()
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

/// Events on their way to anything but people at the standard error.
struct Events(LogEnd);

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        match &self.0 {
            LogEnd::StandardError(stderr, Look::Json) => {
                stderr.print(&format!("{}\n", said.json(now_ms(), level, target)));
            }
            LogEnd::StandardError(stderr, Look::Prefixed | Look::Text) => {
                stderr.print(&format!("<{}>{}\n", severity(level) as u8, said.text()));
            }
            LogEnd::Outlet { outlet, shape: None, format: LogFormat::Json } => {
                let line = said.json(now_ms(), level, target);
                outlet.push(|out| out.extend_from_slice(format!("{line}\n").as_bytes()));
            }
            LogEnd::Outlet { outlet, shape: None, format: LogFormat::Text } => outlet.push(|out| {
                rfc3339(out, now_ms());
                out.extend_from_slice(format!(" {level:>5} {}\n", said.text()).as_bytes());
            }),
            LogEnd::Outlet { outlet, shape: Some(shape), format } => {
                let at_ms = now_ms();
                let message = match format {
                    LogFormat::Text => said.text(),
                    LogFormat::Json => said.json(at_ms, level, target),
                };
                let fields = said.messages_fields(target);
                let record = Record {
                    at_ms,
                    severity: severity(level),
                    identifier: IDENTIFIER,
                    process: u64::from(std::process::id()),
                    message: message.as_bytes(),
                    fields: &fields,
                    names: Names::Own,
                };
                outlet.push(|out| shape.encode(out, &record));
            }
        }
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        Level::INFO => Severity::Info,
        _ => Severity::Debug,
    }
}

/// What an event says.
#[derive(Default)]
struct Said {
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Said {
    /// One line: the message, then `name=value`.
    fn text(&self) -> String {
        let mut whole = self.message.clone();
        for (name, value) in &self.fields {
            let _ = write!(whole, " {name}={}", plain(value)); // a String takes everything
        }
        printable(&whole).into_owned()
    }

    /// One object. What it has of its own no field replaces.
    fn json(&self, at_ms: u64, level: Level, target: &str) -> String {
        let mut time = Vec::new();
        rfc3339(&mut time, at_ms);
        let own = [
            ("time", String::from_utf8_lossy(&time).into()),
            ("level", Value::from(level.as_str())),
            ("target", target.into()),
            ("message", self.message.as_str().into()),
        ];
        let fields = self.fields.iter().filter(|(name, _)| own.iter().all(|(taken, _)| taken != name)).cloned();
        // By hand, as a map of JSON has no order.
        let mut whole = String::from("{");
        for (index, (name, value)) in own.iter().cloned().chain(fields).enumerate() {
            let _ = write!(whole, "{}{}:{value}", if index > 0 { "," } else { "" }, Value::from(name));
        }
        whole.push('}');
        pilotlight_printable::json(whole)
    }

    fn messages_fields<'a>(&'a self, target: &'a str) -> Vec<LogField<'a>> {
        let field = |(name, value): &(&'static str, Value)| LogField {
            name,
            value: Cow::Owned(plain(value).into_owned().into_bytes()),
        };
        let target = LogField { name: "target", value: Cow::Borrowed(target.as_bytes()) };
        self.fields.iter().map(field).chain([target]).collect()
    }
}

fn plain(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

impl Said {
    fn note(&mut self, field: &Field, value: Value) {
        self.fields.push((field.name(), value));
    }
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.note(field, format!("{value:?}").into());
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = value.to_owned();
        } else {
            self.note(field, value.into());
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.note(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.note(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.note(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.note(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Said {
        let fields = vec![
            ("service", Value::from("users")),
            ("instance", Value::from(3)),
            ("trace_id", Value::from("0af7")),
            ("level", Value::from("forged")),
            ("output", Value::from("a\n\u{1b}[2J\u{202e}")),
        ];
        Said { message: "stopped".to_owned(), fields }
    }

    #[test]
    fn an_event_as_text_is_one_line() {
        let expected = "stopped service=users instance=3 trace_id=0af7 level=forged output=a\\n\\x1b[2J\\u{202e}";
        assert_eq!(said().text(), expected);
    }

    #[test]
    fn an_event_as_json() {
        assert_eq!(
            said().json(951_782_400_007, Level::WARN, "pilotlight_supervisor::owner"),
            "{\"time\":\"2000-02-29T00:00:00.007Z\",\"level\":\"WARN\",\"target\":\"pilotlight_supervisor::owner\",\
             \"message\":\"stopped\",\"service\":\"users\",\"instance\":3,\"trace_id\":\"0af7\",\
             \"output\":\"a\\n\\u001b[2J\\u202e\"}"
        );
    }
}
