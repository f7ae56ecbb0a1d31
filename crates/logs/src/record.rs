//! One line of a log, before it is decided where it goes.

use std::borrow::Cow;

/// How bad it is (RFC 5424 §6.2.1, table 2); the journal has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something failed.
    Error = 3,
    /// Something will fail, or could be better.
    Warning = 4,
    /// What an operator wants to know.
    Info = 6,
    /// For those who look for a mistake.
    Debug = 7,
}

/// The beginning of names that are neither the journal's nor common to several kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// `PILOTLIGHT_`: events, and output of services.
    Own,
    /// `HTTP_`: lines of the access log.
    Http,
}

/// A value with its name, in lower case.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it says; any bytes.
    pub value: Cow<'a, [u8]>,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// How bad it is.
    pub severity: Severity,
    /// Which program says it: `SYSLOG_IDENTIFIER`, APP-NAME.
    pub identifier: &'a str,
    /// What stands for its process in syslog: PROCID.
    pub process: u64,
    /// For people.
    pub message: &'a [u8],
    /// For programs.
    pub fields: &'a [Field<'a>],
    /// How the fields are called in the journal.
    pub names: Names,
}

impl Severity {
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

impl Names {
    /// The name that a field has in the journal: what several kinds of lines have is called the same in all of them.
    pub(crate) fn journal(self, name: &str) -> Cow<'static, str> {
        match name {
            "trace_id" => return Cow::Borrowed("TRACE_ID"),
            "request_id" => return Cow::Borrowed("REQUEST_ID"),
            _ => {}
        }
        let prefix = match (self, name) {
            (Self::Http, "service" | "route" | "cache") | (Self::Own, _) => "PILOTLIGHT_",
            (Self::Http, _) => "HTTP_",
        };
        let mut whole = String::with_capacity(prefix.len() + name.len());
        whole.push_str(prefix);
        whole.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }));
        Cow::Owned(whole)
    }
}
