//! One connection of a scripted server.

use super::commands::Commands;
use super::observed::{Answer, Observed, ReceivedCommand, ScriptError};
use super::steps::{Expected, Script, Step};
use super::transport::Transport;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

type Respond = dyn Fn(Vec<Bytes>) -> Answer + Send + Sync;

#[derive(Clone)]
pub(super) enum Player {
    Script(Arc<Script>),
    Closure(Arc<Respond>),
}

/// Plays until the script closes the connection, or the client does.
pub(super) async fn connection(
    stream: Box<dyn Transport>,
    player: Player,
    number: usize,
    observed: Arc<Observed>,
    patience: Duration,
) {
    let mut connection =
        Connection { stream, number, input: Commands::default(), waiting: VecDeque::new(), observed, patience };
    match player {
        Player::Closure(respond) => connection.respond(&*respond).await,
        Player::Script(script) => {
            if let Some(steps) = script.steps(number) {
                let is_repeated = number >= script.connections.len();
                connection.play(steps, is_repeated).await;
            }
        }
    }
}

struct Connection {
    stream: Box<dyn Transport>,
    number: usize,
    input: Commands,
    /// Read while no step wanted them.
    waiting: VecDeque<Vec<Bytes>>,
    observed: Arc<Observed>,
    patience: Duration,
}

/// Why there is no command.
enum Missing {
    /// The client closed the connection, or it broke.
    End(String),
    /// The client sent something else than commands.
    Bad(String),
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        Self::End(format!("the connection's end ({error})"))
    }
}

impl Connection {
    async fn respond(&mut self, respond: &Respond) {
        while let Ok(words) = self.next_for_script(None).await {
            let mut answer = respond(words);
            while let Answer::After(pause, then) = answer {
                tokio::time::sleep(pause).await;
                answer = *then;
            }
            let (bytes, closes) = match answer {
                Answer::Send(bytes) => (bytes, false),
                Answer::SendAndClose(bytes) => (bytes, true),
                Answer::Reset | Answer::After(..) => return self.stream.reset_on_drop(),
            };
            if self.stream.write_all(&bytes).await.is_err() {
                return;
            }
            if closes {
                return self.close().await;
            }
        }
    }

    async fn play(&mut self, steps: &[Step], is_repeated: bool) {
        for (index, step) in steps.iter().enumerate() {
            match self.play_step(step).await {
                Ok(()) => {}
                Err((expected, got)) => {
                    let failure = ScriptError::Unexpected { connection: self.number, step: index, expected, got };
                    self.observed.progress.send_modify(|progress| {
                        progress.failure.get_or_insert(failure);
                    });
                    return;
                }
            }
        }
        self.observed.progress.send_modify(|progress| progress.played += usize::from(!is_repeated));
        let is_over = matches!(steps.last(), Some(Step::Close | Step::Reset));
        // Further commands are recorded, and not answered but for the handshake's.
        while !is_over && self.next_for_script(None).await.is_ok() {}
    }

    /// `Err`: what the step wanted, and what came.
    async fn play_step(&mut self, step: &Step) -> Result<(), (String, String)> {
        match step {
            Step::Expect(expected) => self.expect(expected).await.map_err(|got| (expected.to_string(), got))?,
            Step::Send { bytes, chunk_bytes } => {
                // A client that has gone is found out by the next expectation; a script may talk to nobody.
                let _ = self.send_chunks(bytes, *chunk_bytes).await;
            }
            Step::Raise(signal) => signal.raise(),
            Step::PauseUntil(signal) => signal.wait().await,
            Step::ServeUntil(signal) => {
                let signal = signal.clone();
                self.serve_until(signal.wait()).await;
            }
            Step::HalfClose => drop(self.stream.shutdown().await),
            Step::Close => self.close().await,
            Step::Reset => self.stream.reset_on_drop(),
        }
        Ok(())
    }

    async fn expect(&mut self, expected: &Expected) -> Result<(), String> {
        match timeout(self.patience, self.next_for_script(Some(expected))).await {
            Ok(Ok(words)) if expected.matches(&words) => Ok(()),
            Ok(Ok(words)) => Err(format!("{words:?}")),
            Ok(Err(Missing::End(what) | Missing::Bad(what))) => Err(what),
            Err(_) => Err(format!("nothing within {:?}", self.patience)),
        }
    }

    async fn send_chunks(&mut self, bytes: &[u8], chunk_bytes: usize) -> io::Result<()> {
        let mut chunks = bytes.chunks(chunk_bytes).peekable();
        while let Some(chunk) = chunks.next() {
            self.stream.write_all(chunk).await?;
            self.stream.flush().await?;
            if chunks.peek().is_some() {
                match self.stream.chunk_gap() {
                    Duration::ZERO => tokio::task::yield_now().await,
                    gap => tokio::time::sleep(gap).await,
                }
            }
        }
        Ok(())
    }

    async fn serve_until(&mut self, signal: impl Future<Output = ()>) {
        tokio::pin!(signal);
        loop {
            tokio::select! {
                () = &mut signal => return,
                read = self.read_command() => match read {
                    Ok(words) => match self.answer_of_handshake(&words) {
                        Some(answer) => drop(self.stream.write_all(&answer).await),
                        None => self.waiting.push_back(words),
                    },
                    Err(_) => return signal.await,
                },
            }
        }
    }

    /// The next command that the handshake does not answer, or that is what the script waits for.
    async fn next_for_script(&mut self, expected: Option<&Expected>) -> Result<Vec<Bytes>, Missing> {
        loop {
            let words = match self.waiting.pop_front() {
                Some(words) => words,
                None => self.read_command().await?,
            };
            // "Any command" leaves handshakes to the handshake.
            let is_wanted =
                expected.is_some_and(|expected| !matches!(expected, Expected::Any) && expected.matches(&words));
            match self.answer_of_handshake(&words).filter(|_| !is_wanted) {
                Some(answer) => self.stream.write_all(&answer).await?,
                None => return Ok(words),
            }
        }
    }

    fn answer_of_handshake(&self, words: &[Bytes]) -> Option<Bytes> {
        self.observed.handshake.lock().answer(self.number, words)
    }

    /// Cancel safe: what was read stays in the buffer.
    async fn read_command(&mut self) -> Result<Vec<Bytes>, Missing> {
        loop {
            match self.input.next() {
                Ok(Some(words)) => {
                    self.record(&words);
                    return Ok(words);
                }
                Ok(None) => {}
                Err(bad) => return Err(Missing::Bad(format!("no command: {}", bad.0))),
            }
            if self.stream.read_buf(&mut self.input.buffer).await? == 0 {
                let inside = if self.input.is_empty() { "" } else { " inside of a command" };
                return Err(Missing::End(format!("the connection's end{inside}")));
            }
        }
    }

    fn record(&self, words: &[Bytes]) {
        let mut commands = self.observed.commands.lock();
        commands.push(ReceivedCommand { connection: self.number, words: words.to_vec() });
        let received = commands.len();
        drop(commands);
        self.observed.progress.send_modify(|progress| progress.received = progress.received.max(received));
    }

    async fn close(&mut self) {
        let _ = self.stream.shutdown().await;
        // The kernel answers unread bytes at a close with RST, and that may overtake what was sent.
        while let Ok(Ok(1..)) = timeout(Duration::ZERO, self.stream.read_buf(&mut self.input.buffer)).await {}
    }
}
