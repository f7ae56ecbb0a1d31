//! Options of servers of Python applications, each with what it is in Pilotlight: the tables of uWSGI and gunicorn are
//! read by the same code.

use crate::document::{Section, Value};
use crate::model::{Became, Draft};
use crate::python::Python;

/// What an option is in Pilotlight.
#[derive(Clone, Copy)]
pub(crate) enum To {
    /// A number of seconds, as a time of the service; 0 for none.
    ServiceTime(&'static str),
    /// The same in `[limits]`.
    LimitTime(&'static str),
    /// A number of the service.
    ServiceNumber(&'static str, u64, u64),
    /// Megabytes, as a size of the service.
    Megabytes(&'static str),
    /// Bytes in `[limits]`, within these.
    LimitBytes(&'static str, u64, u64),
    /// A number in `[limits]`, within these.
    LimitNumber(&'static str, u64, u64),
    /// A text of the service.
    ServiceText(&'static str),
    /// A limit of each process.
    ProcessLimit(&'static str),
    /// The same in megabytes.
    ProcessMegabytes(&'static str),
    /// Requests that wait.
    Queue,
    /// `NAME=value`.
    Variable,
    /// A folder that Python looks for modules in.
    PythonPath,
    /// An address that clients connect to.
    Listen,
    /// How many at once in an instance.
    Concurrency,
    /// How many instances.
    Instances,
    /// 1: one instance at least.
    Kept,
    /// Where the requests are logged.
    AccessLog,
    /// Nothing, for this reason.
    NotNeeded(&'static str),
    /// It is missing, for this reason.
    Missing(&'static str),
}

/// An option with its value, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) line: usize,
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
}

impl Given<'_> {
    fn number(self) -> Option<u64> {
        self.value.trim().parse().ok()
    }
}

/// Applies one option.
pub(crate) fn apply(to: To, given: Given<'_>, python: &mut Python, draft: &mut Draft) {
    let became = match to {
        To::NotNeeded(why) => Became::NotNeeded(why),
        To::Missing(why) => Became::NotMapped(why.to_owned()),
        _ => match mapped(to, given, python, draft) {
            Some(keys) => Became::Mapped(keys),
            None => Became::NotMapped(format!("{:?} is no value that is understood", short(given.value))),
        },
    };
    draft.note(given.line, given.name, became);
}

fn mapped(to: To, given: Given<'_>, python: &mut Python, draft: &mut Draft) -> Option<String> {
    let value = given.value.trim();
    let service = &mut python.service;
    Some(match to {
        To::ServiceTime(key) => {
            let time = seconds(given.number()?);
            service.text(key, time.unwrap_or_else(|| "none".to_owned()));
            key.to_owned()
        }
        To::ServiceNumber(key, min, max) => {
            match given.number()? {
                0 => service.text(key, "none"),
                number => service.set(key, Value::Number(number.clamp(min, max))),
            }
            key.to_owned()
        }
        To::Megabytes(key) => {
            service.text(key, format!("{}MiB", given.number()?.clamp(1, 1 << 20)));
            key.to_owned()
        }
        To::ServiceText(key) if !value.is_empty() => {
            service.text(key, value);
            key.to_owned()
        }
        To::ProcessLimit(key) => {
            process_limit(service, key, Value::Number(given.number()?.max(1)));
            format!("limits.{key}")
        }
        To::ProcessMegabytes(key) => {
            process_limit(service, key, Value::Text(format!("{}MiB", given.number()?.clamp(16, 1 << 30))));
            format!("limits.{key}")
        }
        To::Queue => {
            let max = Value::Number(given.number()?.clamp(1, 1_000_000));
            service.set("queue", Value::Table(vec![("max".to_owned(), max)]));
            "queue.max".to_owned()
        }
        To::Variable => {
            let (name, value) = value.split_once('=')?;
            service.entry("env", name.trim(), value.trim());
            format!("env.{}", short(name.trim()))
        }
        To::PythonPath => {
            python.paths.push(value.to_owned());
            "env.PYTHONPATH".to_owned()
        }
        To::Concurrency => {
            python.threads = Some(given.number()?.clamp(1, 100_000));
            "concurrency".to_owned()
        }
        To::Instances => {
            python.instances = Some(given.number()?.clamp(1, 256));
            "max_instances".to_owned()
        }
        To::Kept => {
            if given.number()? > 0 {
                service.set("min_instances", Value::Number(1));
            }
            "min_instances".to_owned()
        }
        other => return of_the_gateway(other, given, draft),
    })
}

fn of_the_gateway(to: To, given: Given<'_>, draft: &mut Draft) -> Option<String> {
    let value = given.value.trim();
    Some(match to {
        To::LimitTime(key) => {
            draft.limits.text(key, seconds(given.number()?.clamp(1, 3600))?);
            format!("limits.{key}")
        }
        To::LimitBytes(key, min, max) => {
            draft.limits.text(key, format!("{}B", given.number()?.clamp(min, max)));
            format!("limits.{key}")
        }
        To::LimitNumber(key, min, max) => {
            draft.limits.set(key, Value::Number(given.number()?.clamp(min, max)));
            format!("limits.{key}")
        }
        To::Listen => {
            let address = address(value)?;
            // There it is for both, here for IPv6.
            let both = address.strip_prefix("[::]:").map(|port| format!("0.0.0.0:{port}"));
            draft.listen(address);
            both.into_iter().for_each(|address| {
                draft.listen(address);
            });
            "listen".to_owned()
        }
        To::AccessLog => {
            let path = if value == "-" { "stdout" } else { value };
            draft.other("access_log").text("path", path);
            "access_log.path".to_owned()
        }
        _ => return None,
    })
}

fn process_limit(service: &mut Section, key: &str, value: Value) {
    let mut table = match service.get("limits") {
        Some(Value::Table(table)) => table.clone(),
        _ => Vec::new(),
    };
    table.retain(|(name, _)| name != key);
    table.push((key.to_owned(), value));
    service.set("limits", Value::Table(table));
}

/// A time; none for 0.
pub(crate) fn seconds(number: u64) -> Option<String> {
    (number > 0).then(|| format!("{number}s"))
}

/// `:8000`, `*:8000`, `0.0.0.0:8000`, `[::]:8000`, `unix:/path`, `/path` or `8000` as an address to listen on.
pub(crate) fn address(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches("http://").trim_end_matches('/');
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(format!("unix:{}", path.trim_start_matches("//")));
    }
    if text.starts_with('/') || text.ends_with(".sock") {
        return Some(format!("unix:{text}"));
    }
    if text.parse::<u16>().is_ok() {
        return Some(format!("0.0.0.0:{text}"));
    }
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    Some(match host {
        "" | "*" => format!("0.0.0.0:{port}"),
        host => format!("{host}:{port}"),
    })
}

/// The beginning of a text that somebody else wrote.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(60).collect()
}
