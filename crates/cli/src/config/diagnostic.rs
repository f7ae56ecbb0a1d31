//! What is wrong with a file, as data.

use std::ops::Range;

/// A range of bytes in the file's text.
pub type Span = Range<usize>;

/// Whether a finding stops the gateway from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably does not say what was meant.
    Warning,
}

impl Severity {
    /// The word used in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// The kind of a finding, for programs that read `pilotlight check --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The file cannot be read at all.
    File,
    /// Not TOML.
    Syntax,
    /// A key that Pilotlight does not know in this section.
    UnknownKey,
    /// A value of another type than the key takes.
    WrongType,
    /// A value of the right type that says nothing meaningful.
    BadValue,
    /// A value beyond the key's limits.
    OutOfRange,
    /// A key that must be there is not.
    MissingKey,
    /// Two keys that contradict each other.
    Conflict,
    /// The same thing is said twice.
    Duplicate,
    /// A route to a service that the file does not have.
    UnknownService,
    /// Something that no request can reach.
    Unused,
    /// A key that changes nothing where it stands.
    NoEffect,
    /// A key that has been replaced by another; it still counts.
    Deprecated,
    /// Allowed, but dangerous.
    Unsafe,
    /// A program, script or folder that the machine does not have, or may not use.
    Missing,
    /// An address that cannot be listened on now.
    Listen,
}

impl Code {
    /// Every code, in the order of the documentation.
    pub const ALL: [Code; 16] = [
        Code::File,
        Code::Syntax,
        Code::UnknownKey,
        Code::WrongType,
        Code::BadValue,
        Code::OutOfRange,
        Code::MissingKey,
        Code::Conflict,
        Code::Duplicate,
        Code::UnknownService,
        Code::Unused,
        Code::NoEffect,
        Code::Deprecated,
        Code::Unsafe,
        Code::Missing,
        Code::Listen,
    ];

    /// The stable name used in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::File => "file",
            Code::Syntax => "syntax",
            Code::UnknownKey => "unknown-key",
            Code::WrongType => "wrong-type",
            Code::BadValue => "bad-value",
            Code::OutOfRange => "out-of-range",
            Code::MissingKey => "missing-key",
            Code::Conflict => "conflict",
            Code::Duplicate => "duplicate",
            Code::UnknownService => "unknown-service",
            Code::Unused => "unused",
            Code::NoEffect => "no-effect",
            Code::Deprecated => "deprecated",
            Code::Unsafe => "unsafe",
            Code::Missing => "missing",
            Code::Listen => "listen",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it stops the gateway from starting.
    pub severity: Severity,
    /// Its kind.
    pub code: Code,
    /// Where it is; none if it concerns the file as a whole.
    pub span: Option<Span>,
    /// What is wrong, and why.
    pub message: String,
    /// What to write or do instead.
    pub help: Option<String>,
    /// Another place that takes part in it, with what is there.
    pub related: Option<(Span, &'static str)>,
}

impl Diagnostic {
    pub(super) fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, Some(span), message.into())
    }

    pub(super) fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, Some(span), message.into())
    }

    pub(super) fn whole_file(severity: Severity, code: Code, message: impl Into<String>) -> Self {
        Self::new(severity, code, None, message.into())
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    pub(super) fn related(mut self, span: Span, what: &'static str) -> Self {
        self.related = Some((span, what));
        self
    }

    fn new(severity: Severity, code: Code, span: Option<Span>, message: String) -> Self {
        Diagnostic { severity, code, span, message, help: None, related: None }
    }
}
