//! What the configuration says of a stdio service.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Settings of a service with `transport = "stdio"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StdioOptions {
    /// What the program speaks.
    pub mode: Mode,
    /// Processes at once: sessions, and those that answer requests without one. Default 16.
    pub max_processes: usize,
    /// Bytes of one message in either direction. Default 16 MiB.
    pub max_line: usize,
    /// Bytes of messages that a session keeps to send them again to a client whose connection was cut. Default 1 MiB.
    pub replay_buffer: usize,
    /// Origins (`https://app.example`) from which browsers may use it, besides those of this machine.
    pub origins: Vec<String>,
}

impl StdioOptions {
    /// Values of `max_processes`.
    pub const MAX_PROCESSES: RangeInclusive<usize> = 1..=1024;
    /// Values of `max_line`.
    pub const MAX_LINE: RangeInclusive<usize> = 1024..=256 << 20;
    /// Values of `replay_buffer`.
    pub const REPLAY_BUFFER: RangeInclusive<usize> = 0..=256 << 20;
    /// Most origins.
    pub const MAX_ORIGINS: usize = 64;
}

impl Default for StdioOptions {
    fn default() -> Self {
        Self { mode: Mode::Mcp, max_processes: 16, max_line: 16 << 20, replay_buffer: 1 << 20, origins: Vec::new() }
    }
}

/// What the program speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The Model Context Protocol; clients use its Streamable HTTP.
    #[default]
    Mcp,
    /// A line for a line.
    Lines,
}

impl Mode {
    /// All of them, the default first.
    pub const ALL: [Self; 2] = [Self::Mcp, Self::Lines];

    /// As the configuration has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mcp => "mcp",
            Self::Lines => "lines",
        }
    }
}

/// Times of the service that count for its processes as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// A process that has had nothing to do for so long is ended; `None`: never.
    pub idle: Option<Duration>,
    /// How long a program may take for its first answer.
    pub start: Duration,
    /// How long a program may take to end, from the end of its input to SIGKILL.
    pub stop: Duration,
}

/// What the adapter is told in its first argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) options: StdioOptions,
    pub(crate) timeouts: Timeouts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_an_argument_and_back() {
        let timeouts = Timeouts { idle: None, start: Duration::from_secs(10), stop: Duration::from_millis(1500) };
        let options = StdioOptions { mode: Mode::Lines, origins: vec!["https://a".to_owned()], ..<_>::default() };
        let settings = Settings { options, timeouts };
        let text = serde_json::to_string(&settings).unwrap();
        assert!(text.contains(r#""mode":"lines""#), "{text}");
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    }
}
