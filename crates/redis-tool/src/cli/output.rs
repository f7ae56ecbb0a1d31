//! Where replies go.

use std::io::{self, IsTerminal, Write};

use pilotlight_resp::{Frame, Value};

use super::format::{Format, Style};

/// Whether a reply ends the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    No,
    /// An error, and `-e`.
    ByError,
}

/// The standard output, and how replies are written to it.
#[derive(Debug)]
pub(super) struct Output {
    style: Style,
    exits_on_error: bool,
    is_terminal: bool,
    has_colors: bool,
    shows_pushes: bool,
}

impl Output {
    pub(super) fn new(style: Style, exits_on_error: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let has_colors = is_terminal && is_wanted && is_able;
        Self { style, exits_on_error, is_terminal, has_colors, shows_pushes: is_terminal }
    }

    pub(super) fn format(&self) -> Format {
        self.style.format
    }

    pub(super) fn set_format(&mut self, format: Format) {
        self.style.format = format;
    }

    /// Whether an error ends the work (`-e`).
    pub(super) fn exits_on_error(&self) -> bool {
        self.exits_on_error
    }

    pub(super) fn style(&self) -> &Style {
        &self.style
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Whether what comes unasked is printed: on a terminal, unless somebody says otherwise.
    pub(super) fn shows_pushes(&self) -> bool {
        self.shows_pushes
    }

    pub(super) fn set_shows_pushes(&mut self, shows_pushes: bool) {
        self.shows_pushes = shows_pushes;
    }

    /// Whether colours are wanted and can be shown.
    pub(super) fn has_colors(&self) -> bool {
        self.has_colors
    }

    /// Prints a reply; says whether it ends the work (`-e`).
    pub(super) fn reply(&mut self, value: &Value, words: &[Vec<u8>]) -> io::Result<bool> {
        if let Value::Error(text) = value
            && self.exits_on_error
        {
            eprintln!("{}", String::from_utf8_lossy(text));
            return Ok(true);
        }
        self.bytes(&self.style.reply(value, words))?;
        Ok(false)
    }

    /// Prints what came unasked.
    pub(super) fn push(&mut self, push: &[Value]) -> io::Result<()> {
        self.bytes(&push_text(&self.style, push))
    }

    /// Prints a line.
    pub(super) fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        self.bytes(format!("{}\n", text.as_ref()).as_bytes())
    }

    /// Prints, at once.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// Shows a line that the next one replaces, on the terminal only.
    pub(super) fn progress(&self, text: &str) {
        if self.is_terminal && io::stderr().is_terminal() {
            eprint!("\r\x1b[K{text}");
        }
    }

    /// Removes the line of [`Self::progress`].
    pub(super) fn end_of_progress(&self) {
        self.progress("");
    }
}

/// A frame as a value; pushes are arrays, as they are with RESP2.
pub(super) fn value_of(frame: Frame) -> Value {
    match frame {
        Frame::Reply(value) => value,
        Frame::Push(items) => Value::Push(items),
    }
}

/// What came unasked as text: invalidations in a line, anything else as a reply.
pub(super) fn push_text(style: &Style, push: &[Value]) -> Vec<u8> {
    if let (Format::Human, [Value::Bulk(kind), Value::Array(keys)]) = (style.format, push)
        && &kind[..] == b"invalidate"
    {
        let key = |key: &Value| match key {
            Value::Bulk(key) => format!("'{}'", String::from_utf8_lossy(key)),
            other => format!("{other:?}"),
        };
        let keys: Vec<_> = keys.iter().map(key).collect();
        return format!("-> invalidate: {}\n", keys.join(", ")).into_bytes();
    }
    style.reply(&Value::Push(push.to_vec()), &[])
}
