//! What a script is made of.

use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// What a [`ScriptedServer`](crate::ScriptedServer) does, connection by connection, step by step.
///
/// A command that no step waits for, and that the handshake does not answer, waits for its step; after the last step
/// commands are recorded and not answered. An open connection stays open until the client closes it, unless a step
/// closes it.
///
/// ```
/// use pilotlight_testkit::Script;
///
/// let script = Script::new()
///     .expect(["GET", "k"])
///     .send_each_byte("$1\r\nv\r\n")
///     .expect_any()
///     .send("$1")
///     .close()
///     .next_connection()
///     .expect_any()
///     .send("_\r\n");
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Script {
    pub(super) connections: Vec<Vec<Step>>,
    pub(super) repeats_last: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Expect(Expected),
    Send { bytes: Bytes, chunk_bytes: usize },
    Raise(Signal),
    PauseUntil(Signal),
    ServeUntil(Signal),
    HalfClose,
    Close,
    Reset,
}

#[derive(Debug, Clone)]
pub(super) enum Expected {
    Any,
    Name(String),
    Words(Vec<Bytes>),
}

impl Default for Script {
    fn default() -> Self {
        Self { connections: vec![Vec::new()], repeats_last: false }
    }
}

impl Script {
    /// A script whose steps are for the first connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits for exactly this command (its name in any case). If a handshake command is expected, the script has to
    /// answer it.
    pub fn expect<W: AsRef<[u8]>>(self, words: impl IntoIterator<Item = W>) -> Self {
        let words = words.into_iter().map(|word| Bytes::copy_from_slice(word.as_ref())).collect();
        self.step(Step::Expect(Expected::Words(words)))
    }

    /// Waits for a command with this name (in any case) and any arguments.
    pub fn expect_name(self, name: &str) -> Self {
        self.step(Step::Expect(Expected::Name(name.to_owned())))
    }

    /// Waits for any command that the handshake does not answer.
    pub fn expect_any(self) -> Self {
        self.step(Step::Expect(Expected::Any))
    }

    /// Sends bytes at once.
    pub fn send(self, bytes: impl AsRef<[u8]>) -> Self {
        self.send_chunked(bytes, usize::MAX)
    }

    /// Sends bytes in chunks of this size, with a millisecond between them (none in memory) so that the client reads
    /// them one by one.
    pub fn send_chunked(self, bytes: impl AsRef<[u8]>, chunk_bytes: usize) -> Self {
        let bytes = Bytes::copy_from_slice(bytes.as_ref());
        self.step(Step::Send { bytes, chunk_bytes: chunk_bytes.max(1) })
    }

    /// Sends bytes one by one.
    pub fn send_each_byte(self, bytes: impl AsRef<[u8]>) -> Self {
        self.send_chunked(bytes, 1)
    }

    /// Tells the test, or another connection, that the script is here.
    pub fn raise(self, signal: &Signal) -> Self {
        self.step(Step::Raise(signal.clone()))
    }

    /// Does nothing, neither reads nor answers, until the signal is raised.
    pub fn pause_until(self, signal: &Signal) -> Self {
        self.step(Step::PauseUntil(signal.clone()))
    }

    /// Answers handshakes, and leaves other commands for later steps, until the signal is raised.
    pub fn serve_until(self, signal: &Signal) -> Self {
        self.step(Step::ServeUntil(signal.clone()))
    }

    /// Sends the end of the stream and keeps reading.
    pub fn half_close(self) -> Self {
        self.step(Step::HalfClose)
    }

    /// Closes the connection in order: what was sent arrives.
    pub fn close(self) -> Self {
        self.step(Step::Close)
    }

    /// Closes the connection by RST. (A Unix socket or memory has none: it is closed at once.)
    pub fn reset(self) -> Self {
        self.step(Step::Reset)
    }

    /// Further steps are for the next connection that is accepted, which may be before the last one is over.
    pub fn next_connection(mut self) -> Self {
        self.connections.push(Vec::new());
        self
    }

    /// Connections beyond those of the script are played as the last one; otherwise they are closed at once.
    pub fn repeat_last(mut self) -> Self {
        self.repeats_last = true;
        self
    }

    fn step(mut self, step: Step) -> Self {
        if let Some(steps) = self.connections.last_mut() {
            steps.push(step);
        }
        self
    }

    pub(super) fn steps(&self, connection: usize) -> Option<&[Step]> {
        let beyond = self.connections.last().filter(|_| self.repeats_last);
        self.connections.get(connection).or(beyond).map(Vec::as_slice)
    }
}

impl Expected {
    pub(super) fn matches(&self, words: &[Bytes]) -> bool {
        match self {
            Self::Any => true,
            Self::Name(name) => words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes())),
            Self::Words(expected) => {
                let names = (expected.first(), words.first());
                matches!(names, (Some(a), Some(b)) if a.eq_ignore_ascii_case(b)) && expected[1..] == words[1..]
            }
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => out.write_str("any command"),
            Self::Name(name) => out.write_str(name),
            Self::Words(words) => write!(out, "{words:?}"),
        }
    }
}

/// Something that happens once, between a script and its test or between two connections. Copies are the same signal.
#[derive(Debug, Clone, Default)]
pub struct Signal(Arc<watch::Sender<bool>>);

impl Signal {
    /// Not raised yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// It stays raised.
    pub fn raise(&self) {
        self.0.send_replace(true);
    }

    /// Returns at once if it was raised before.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait(&self) {
        // The sender is ours, so this cannot fail.
        let _ = self.0.subscribe().wait_for(|raised| *raised).await;
    }
}
