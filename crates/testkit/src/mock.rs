//! A server that answers by expectations, in whatever order the commands come.

mod reply;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::DuplexStream;
use tokio::sync::watch;

use crate::script::{Answer, Handshake, ReceivedCommand, ScriptedServer, ScriptedServerBuilder};
pub use reply::MockReply;

/// How long [`MockServer::verify`] waits for what did not come yet.
const PATIENCE: Duration = Duration::from_secs(5);
/// Commands that nobody expected are kept up to this number; all are counted.
const MAX_UNEXPECTED: usize = 100;

/// A server in the test's process that speaks the protocol, answers handshakes by itself (`HELLO`, `AUTH`, `CLIENT …`,
/// `SELECT`, `READONLY`, `PING`; `ECHO`, unless it is expected), and other commands as the test expects them. A command
/// that is not expected is answered with an error, and [`verify`](Self::verify) tells of it.
///
/// ```
/// use pilotlight_redis::{Client, Commands};
/// use pilotlight_testkit::MockServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = MockServer::start().await?;
/// server.expect(["GET", "user:1"]).reply("Ada");
/// server.expect(["INCR", "visits"]).times(2).reply(7);
/// server.expect_name("SET").error("OOM command not allowed");
///
/// let client = Client::connect(&server.url()).await?;
/// assert_eq!(client.get("user:1").await?.as_deref(), Some(&b"Ada"[..]));
/// assert_eq!(client.incr("visits").await?, 7);
/// assert!(client.set("k", "v").await.is_err());
/// client.incr("visits").await?;
/// server.verify().await?;
/// # Ok(()) }
/// ```
///
/// It holds no data. Where what a command does matters, a real server is the better one: [`Server`](crate::Server)
/// starts one; [`FaultProxy`](crate::FaultProxy) stands between it and the client; a [`Script`](crate::Script) says
/// each byte.
#[derive(Debug)]
pub struct MockServer {
    server: ScriptedServer,
    state: Arc<State>,
}

/// What a [`MockServer`] is started with: by default on TCP, with the [default handshake](Handshake::default).
#[derive(Debug)]
#[must_use]
pub struct MockServerBuilder(ScriptedServerBuilder);

/// An expectation before it says what is answered.
#[derive(Debug)]
#[must_use = "it is an expectation only with an answer: `.reply(…)`"]
pub struct Expect<'s> {
    server: &'s MockServer,
    command: Expected,
    times: Option<usize>,
    delay: Duration,
}

/// What was expected and did not come, or came and was not expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected, and did not come: [{}]; came {unexpected_count} times, and not expected: [{}]", .missing.join(", "), .unexpected.join(", "))]
pub struct MockError {
    /// Expectations that are not met.
    pub missing: Vec<String>,
    /// Commands that nobody expected, at most 100 of them.
    pub unexpected: Vec<String>,
    /// How many these were.
    pub unexpected_count: usize,
}

#[derive(Debug, Default)]
struct State {
    /// In the order in which they were made.
    expectations: Mutex<VecDeque<Expectation>>,
    unexpected: Mutex<(usize, VecDeque<String>)>,
    /// Changes when a command came.
    progress: watch::Sender<usize>,
}

#[derive(Debug)]
struct Expectation {
    command: Expected,
    /// How often it is to come; `None`: as often as it likes.
    left: Option<usize>,
    answer: Answer,
}

#[derive(Debug, Clone)]
enum Expected {
    Name(String),
    Words(Vec<Bytes>),
}

impl MockServerBuilder {
    /// Listens on a Unix socket in a temporary folder.
    pub fn unix(self) -> Self {
        Self(self.0.unix())
    }

    /// Listens nowhere; [`MockServer::dial`] makes connections. No byte passes the kernel, so paused time works.
    pub fn memory(self) -> Self {
        Self(self.0.memory())
    }

    /// What is answered without an expectation.
    pub fn handshake(self, handshake: Handshake) -> Self {
        Self(self.0.handshake(handshake))
    }

    /// Starts it.
    ///
    /// # Errors
    /// If it cannot listen.
    ///
    /// # Cancel safety
    /// A server that was not returned is gone.
    pub async fn start(self) -> io::Result<MockServer> {
        let state = Arc::new(State::default());
        let answering = Arc::clone(&state);
        let server = self.0.respond(move |words| answering.answer(&words)).await?;
        Ok(MockServer { server, state })
    }
}

impl MockServer {
    /// A server on a free TCP port of the loopback interface.
    ///
    /// # Errors
    /// If it cannot listen.
    ///
    /// # Cancel safety
    /// A server that was not returned is gone.
    pub async fn start() -> io::Result<Self> {
        Self::builder().start().await
    }

    /// A server to be configured first.
    pub fn builder() -> MockServerBuilder {
        MockServerBuilder(ScriptedServer::builder())
    }

    /// As [`ScriptedServer::url`].
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// As [`ScriptedServer::dial`].
    ///
    /// # Errors
    /// If this server is not in memory.
    pub fn dial(&self) -> io::Result<DuplexStream> {
        self.server.dial()
    }

    /// Expects exactly this command (its name in any case), once. Where several expectations fit a command, the one
    /// that was made first and is not used up is taken: so a command gets different answers one after the other.
    pub fn expect<W: AsRef<[u8]>>(&self, words: impl IntoIterator<Item = W>) -> Expect<'_> {
        let words = words.into_iter().map(|word| Bytes::copy_from_slice(word.as_ref())).collect();
        self.expecting(Expected::Words(words))
    }

    /// Expects a command with this name (in any case) and any arguments, once.
    pub fn expect_name(&self, name: &str) -> Expect<'_> {
        self.expecting(Expected::Name(name.to_owned()))
    }

    fn expecting(&self, command: Expected) -> Expect<'_> {
        Expect { server: self, command, times: Some(1), delay: Duration::ZERO }
    }

    /// All commands so far, with the handshakes.
    #[must_use]
    pub fn commands(&self) -> Vec<ReceivedCommand> {
        self.server.commands()
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// Whether everything came that was expected, and nothing else. Waits up to 5 seconds for what is missing.
    ///
    /// # Errors
    /// What is missing, and what was not expected.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn verify(&self) -> Result<(), MockError> {
        let mut progress = self.state.progress.subscribe();
        let complete = progress.wait_for(|_| self.state.missing().is_empty());
        let _ = tokio::time::timeout(PATIENCE, complete).await;
        let missing = self.state.missing();
        let (unexpected_count, unexpected) = self.state.unexpected.lock().clone();
        if missing.is_empty() && unexpected_count == 0 {
            return Ok(());
        }
        Err(MockError { missing, unexpected: unexpected.into(), unexpected_count })
    }
}

impl Expect<'_> {
    /// So often, instead of once.
    pub fn times(self, count: usize) -> Self {
        Self { times: Some(count), ..self }
    }

    /// As often as it comes, also never.
    pub fn any_times(self) -> Self {
        Self { times: None, ..self }
    }

    /// The answer comes after this time, and the connection's further ones behind it.
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Answers with a value: a text is a bulk string, a number an integer, `None` null, a list an array.
    pub fn reply(self, reply: impl Into<MockReply>) {
        let mut bytes = Vec::new();
        reply.into().encode(&mut bytes);
        self.raw(bytes);
    }

    /// Answers with `+OK`.
    pub fn ok(self) {
        self.raw("+OK\r\n");
    }

    /// Answers with an error: a code, a blank, a text.
    pub fn error(self, text: &str) {
        self.reply(MockReply::Error(text.to_owned()));
    }

    /// Answers with these bytes; with none, never.
    pub fn raw(self, bytes: impl Into<Vec<u8>>) {
        self.answer(Answer::Send(bytes.into()));
    }

    /// Never answers.
    pub fn silence(self) {
        self.raw([]);
    }

    /// Closes the connection in order, without an answer.
    pub fn disconnect(self) {
        self.answer(Answer::SendAndClose(Vec::new()));
    }

    /// Closes the connection by RST.
    pub fn reset(self) {
        self.answer(Answer::Reset);
    }

    fn answer(self, answer: Answer) {
        let Self { server, command, times, delay } = self;
        let answer = if delay.is_zero() { answer } else { Answer::After(delay, Box::new(answer)) };
        server.state.expectations.lock().push_back(Expectation { command, left: times, answer });
    }
}

impl State {
    fn answer(&self, words: &[Bytes]) -> Answer {
        let mut expectations = self.expectations.lock();
        let fitting = expectations.iter_mut().find(|it| it.left != Some(0) && it.command.matches(words));
        let answer = match fitting {
            Some(expectation) => {
                expectation.left = expectation.left.map(|left| left - 1);
                expectation.answer.clone()
            }
            None => echo(words).unwrap_or_else(|| self.refuse(words)),
        };
        drop(expectations);
        self.progress.send_modify(|count| *count += 1);
        answer
    }

    fn refuse(&self, words: &[Bytes]) -> Answer {
        let text = text(words);
        let mut bytes = Vec::new();
        MockReply::Error(format!("ERR the mock does not expect {text}")).encode(&mut bytes);
        let mut unexpected = self.unexpected.lock();
        unexpected.0 += 1;
        if unexpected.1.len() < MAX_UNEXPECTED {
            unexpected.1.push_back(text);
        }
        Answer::Send(bytes)
    }

    fn missing(&self) -> Vec<String> {
        let expectations = self.expectations.lock();
        let missing = expectations.iter().filter_map(|it| match it.left {
            None | Some(0) => None,
            Some(1) => Some(it.command.to_string()),
            Some(left) => Some(format!("{} ({left} times)", it.command)),
        });
        missing.collect()
    }
}

impl Expected {
    fn matches(&self, words: &[Bytes]) -> bool {
        let Some(name) = words.first() else { return false };
        match self {
            Self::Name(expected) => name.eq_ignore_ascii_case(expected.as_bytes()),
            Self::Words(expected) => {
                expected.len() == words.len()
                    && expected.first().is_some_and(|expected| expected.eq_ignore_ascii_case(name))
                    && expected[1..] == words[1..]
            }
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name} …"),
            Self::Words(words) => f.write_str(&text(words)),
        }
    }
}

/// `ECHO`, by which clients look whether the server is there.
fn echo(words: &[Bytes]) -> Option<Answer> {
    let [name, word] = words else { return None };
    if !name.eq_ignore_ascii_case(b"ECHO") {
        return None;
    }
    let mut bytes = Vec::new();
    MockReply::Bulk(word.clone()).encode(&mut bytes);
    Some(Answer::Send(bytes))
}

fn text(words: &[Bytes]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
    words.join(" ")
}
