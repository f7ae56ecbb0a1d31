//! The prompt. The editor waits for lines on a thread of its own, and shows the prompt before there is a connection;
//! here, commands run and what comes unasked is shown while a line is typed.

mod editor;
mod help;
mod shared;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pilotlight_redis::config::ProtocolChoice;
use pilotlight_redis::{Command, Commands, Config};
use pilotlight_resp::Value;
use tokio::task::JoinHandle;

use super::command_rules::{confirmations, is_endless, refusal, repetition};
use super::commands::Table;
use super::confirm::{self, Danger};
use super::everywhere;
use super::format::Format;
use super::output::{Output, push_text, value_of};
use super::profile::Profile;
use super::session::{Connection, Failure, Meanwhile, Session, Transaction};
use crate::advice;
use crate::wire::Wire;
use crate::words::split_bytes;
use editor::{Editor, Event};
use shared::Shared;

/// A reply that took longer is followed by its time.
const SLOW: Duration = Duration::from_millis(500);
/// How long the server is given to describe its commands.
const DOCS_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_PROMPT: &str = "{server}{db}{tx}> ";

/// See the module.
struct Shell<'p> {
    session: Session,
    output: Output,
    editor: Editor,
    shared: Arc<Mutex<Shared>>,
    profile: &'p Profile,
    /// Asks the server about its commands.
    docs: Option<JoinHandle<()>>,
    /// A connection was tried, and there was none.
    is_down: bool,
    timeout: Duration,
    /// The user has said which.
    keeps_protocol: bool,
    /// RESP3 was chosen for the format alone.
    speaks_for_format: bool,
}

/// Whether the prompt goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    End,
}

/// Runs until `exit` or the end of the input.
pub(super) async fn run(
    session: Session,
    output: Output,
    profile: &Profile,
    timeout: Duration,
    keeps_protocol: bool,
) -> anyhow::Result<ExitCode> {
    let shared = Shared { client: session.client().clone(), table: Table::built_in() };
    let shared = Arc::new(Mutex::new(shared));
    let editor = Editor::start(Arc::clone(&shared), output.has_colors())?;
    let mut shell = Shell {
        session,
        output,
        editor,
        shared,
        profile,
        docs: None,
        is_down: false,
        timeout,
        keeps_protocol,
        speaks_for_format: false,
    };
    shell.preferences();
    shell.speak().await;
    let done = shell.run().await;
    if let Some(docs) = shell.docs.take() {
        docs.abort();
    }
    done.map(|()| ExitCode::SUCCESS)
}

impl Shell<'_> {
    /// Settings that `redis-cli` keeps in a file: its lines that begin with a colon.
    fn preferences(&mut self) {
        let file = std::env::var_os("REDISCLI_RCFILE").map(PathBuf::from);
        let usual = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".redisclirc"));
        let Some(text) = file.or_else(usual).and_then(|file| std::fs::read_to_string(file).ok()) else { return };
        for line in text.lines().filter(|line| line.starts_with(':')) {
            let Ok(words) = split_bytes(line.as_bytes()) else { continue };
            // That a line cannot be printed is not worth an end.
            let _ = self.built_in(&words);
        }
    }

    async fn run(&mut self) -> anyhow::Result<()> {
        loop {
            self.editor.ask(self.prompt());
            let line = match self.next_event().await? {
                Event::Line(line) => line,
                // As in other prompts: it takes the line back, and does not end anything.
                Event::Interrupted => continue,
                Event::End => return Ok(()),
                Event::Failed(why) => anyhow::bail!("the terminal: {why}"),
            };
            if self.line(&line).await? == Next::End {
                return Ok(());
            }
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.client = self.session.client().clone();
        }
    }

    /// The next line. Meanwhile the connection is made, and what comes on it is shown.
    async fn next_event(&mut self) -> anyhow::Result<Event> {
        loop {
            let connection = if self.is_down { Connection::Kept } else { Connection::Wanted };
            let met = tokio::select! {
                biased;
                event = self.editor.event() => return Ok(event),
                met = self.session.meanwhile(connection) => met,
            };
            for warning in std::mem::take(&mut self.session.warnings) {
                self.editor.print(&format!("{warning}\n"));
            }
            match met {
                Meanwhile::Connected => self.learn(),
                Meanwhile::NotConnected(failure) => {
                    self.is_down = true;
                    self.editor.print(&format!("{failure}\n"));
                }
                Meanwhile::Pushed(_) if !self.output.shows_pushes() => {}
                Meanwhile::Pushed(push) => {
                    let text = push_text(self.output.style(), &push);
                    self.editor.print(&String::from_utf8_lossy(&text));
                }
                // It was idle: nothing was lost with it but what it had of state.
                Meanwhile::Disconnected => {
                    self.is_down = true;
                    self.editor.print("(the server has closed the connection; the next command connects anew)\n");
                }
            }
        }
    }

    /// Has the server describe its commands, once.
    fn learn(&mut self) {
        self.is_down = false;
        if self.docs.is_some() {
            return;
        }
        let (client, shared) = (self.session.client().clone(), Arc::clone(&self.shared));
        self.docs = Some(tokio::spawn(async move {
            // Servers before Redis 7 have no such command; the built-in table stays then.
            let docs = client.run::<Value>(Command::raw("COMMAND DOCS")).timeout(DOCS_TIMEOUT).await;
            if let Ok(docs) = docs {
                let mut table = Table::built_in();
                table.learn(&docs);
                shared.lock().unwrap_or_else(PoisonError::into_inner).table = table;
            }
        }));
    }

    fn prompt(&self) -> String {
        if self.is_down && !self.session.is_connected() {
            return "not connected> ".to_owned();
        }
        let database = self.session.database();
        let database = if database == 0 { String::new() } else { format!("[{database}]") };
        let transaction = match self.session.transaction() {
            Transaction::Queueing | Transaction::Waiting => "(TX)",
            Transaction::None | Transaction::Watching => "",
        };
        let template = self.profile.prompt.as_deref().unwrap_or(DEFAULT_PROMPT);
        let template = template.replace("{server}", &self.session.place());
        template.replace("{db}", &database).replace("{tx}", transaction)
    }

    async fn line(&mut self, line: &str) -> anyhow::Result<Next> {
        let words = match split_bytes(line.as_bytes()) {
            Ok(words) => words,
            Err(error) => {
                self.output.line(format!("Invalid argument(s): {error}"))?;
                return Ok(Next::GoOn);
            }
        };
        let (times, words) = repetition(&words);
        if words.is_empty() {
            return Ok(Next::GoOn);
        }
        if let Some(next) = self.built_in(words)? {
            self.speak().await;
            return Ok(next);
        }
        if !self.is_confirmed(words).await? {
            return Ok(Next::GoOn);
        }
        for _ in 0..times {
            if let Err(error) = self.issue(words).await {
                let Some(failure) = error.downcast_ref::<Failure>() else { return Err(error) };
                self.is_down |= failure.is_of_connecting();
                self.output.line(format!("{}{failure}", if self.is_down { "" } else { "(error) " }))?;
                return Ok(Next::GoOn);
            }
        }
        if self.session.has_contact() {
            self.learn();
        }
        Ok(Next::GoOn)
    }

    /// Has the server tell maps and types where the format needs them, and no longer where it does not, so that a
    /// reply looks as with the format's option.
    async fn speak(&mut self) {
        let needs_types = matches!(self.output.format(), Format::Json | Format::QuotedJson | Format::Table);
        let is_resp2 = self.session.config().protocol == ProtocolChoice::Resp2;
        let version = match (needs_types, is_resp2, self.speaks_for_format) {
            (true, true, false) => "3",
            (false, false, true) => "2",
            _ => return,
        };
        if self.keeps_protocol || self.session.transaction() != Transaction::None {
            return;
        }
        let hello = [b"HELLO".to_vec(), version.into()];
        // Servers before Redis 6 know one protocol, and the next command says why there is no connection.
        if self.session.run(&hello).await.is_ok() {
            self.speaks_for_format = needs_types;
        }
    }

    /// What the prompt does by itself.
    fn built_in(&mut self, words: &[Vec<u8>]) -> anyhow::Result<Option<Next>> {
        let word =
            |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).to_lowercase()).unwrap_or_default();
        match (word(0).as_str(), words.len()) {
            ("exit" | "quit", 1) => return Ok(Some(Next::End)),
            ("clear", 1) => self.output.bytes(b"\x1b[H\x1b[2J")?,
            ("help" | "?", _) => {
                let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
                let text = help::text(&shared.table, &words[1..], self.output.has_colors());
                drop(shared);
                self.output.bytes(text.as_bytes())?;
            }
            (":format", 2) => match word(1).as_str() {
                "human" => self.output.set_format(Format::Human),
                "raw" => self.output.set_format(Format::Raw),
                "csv" => self.output.set_format(Format::Csv),
                "json" => self.output.set_format(Format::Json),
                "quoted-json" => self.output.set_format(Format::QuotedJson),
                "table" => self.output.set_format(Format::Table),
                other => self.output.line(format!(":format {other}: human, raw, csv, json, quoted-json or table"))?,
            },
            (":set", 2) if word(1) == "hints" || word(1) == "nohints" => self.editor.set_hints(word(1) == "hints"),
            ("connect", 2 | 3) => self.connect(words)?,
            (name, _) if name.starts_with(':') => {
                self.output.line(format!("{name}: :format FORMAT, :set hints, :set nohints"))?;
            }
            _ => return Ok(None),
        }
        Ok(Some(Next::GoOn))
    }

    /// `connect URL`, `connect HOST PORT`: another server, with nothing of what was set for this one but time-outs.
    fn connect(&mut self, words: &[Vec<u8>]) -> anyhow::Result<()> {
        let text = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
        let url = if words.len() == 3 { format!("redis://{}:{}", text(1), text(2)) } else { text(1) };
        let parsed = Config::from_url(&url).map_err(|error| advice::of_url(&url, &error));
        let opened =
            parsed.and_then(|config| Session::new(self.session.like(config)).map_err(|error| error.to_string()));
        match opened {
            Ok(session) => {
                (self.session, self.is_down) = (session, false);
                if let Some(docs) = self.docs.take() {
                    docs.abort();
                }
            }
            Err(why) => self.output.line(format!("connect: {why}"))?,
        }
        Ok(())
    }

    /// Asks before what cannot be undone.
    async fn is_confirmed(&mut self, words: &[Vec<u8>]) -> anyhow::Result<bool> {
        let command = match everywhere::parse(words) {
            Ok(Some(everywhere)) => everywhere.words,
            _ => words,
        };
        let name = String::from_utf8_lossy(&command[0]).to_uppercase();
        let question = match confirm::danger(command) {
            None => return Ok(true),
            Some(Danger::Always(what)) => format!("{name} {what}. Do it? [y/N] "),
            Some(Danger::LooksAtAllKeys) => match self.key_count().await {
                Some(keys) if keys > confirm::MAX_KEYS_UNASKED => {
                    format!(
                        "{name} goes through {keys} keys while all other clients wait (--scan does not). Do it? [y/N] "
                    )
                }
                _ => return Ok(true),
            },
        };
        self.editor.ask_once(question);
        let is_confirmed = matches!(self.editor.event().await, Event::Line(answer) if confirm::is_yes(&answer));
        if !is_confirmed {
            self.output.line("(not sent)")?;
        }
        Ok(is_confirmed)
    }

    /// How many keys there are, if that is known soon and there is no transaction that the question would be queued in.
    async fn key_count(&mut self) -> Option<i64> {
        if self.session.transaction() != Transaction::None {
            return None;
        }
        let words = [b"DBSIZE".to_vec()];
        match tokio::time::timeout(self.timeout, self.session.run(&words)).await {
            Ok(Ok(Value::Integer(keys))) => Some(keys),
            _ => None,
        }
    }

    async fn issue(&mut self, words: &[Vec<u8>]) -> anyhow::Result<()> {
        if let Some(why) = refusal(words) {
            let name = String::from_utf8_lossy(&words[0]).into_owned();
            return Err(Failure::Client(format!("{name}: {why}")).into());
        }
        if is_endless(words) && self.session.transaction() == Transaction::None {
            let wire = self.session.listen(words, None).await?;
            return self.listen(wire).await;
        }
        if let Some(everywhere) = everywhere::parse(words)? {
            let running = everywhere::run(&mut self.session, &everywhere, &mut self.output);
            tokio::select! {
                done = running => return done.map(|_| ()),
                _ = tokio::signal::ctrl_c() => {}
            }
            return self.given_up();
        }
        let was_connected = self.session.is_connected();
        let in_transaction = self.session.transaction() == Transaction::Queueing;
        let start = Instant::now();
        let reply = tokio::select! {
            reply = self.session.run(words) => Some(reply),
            _ = tokio::signal::ctrl_c() => None,
        };
        for warning in std::mem::take(&mut self.session.warnings) {
            self.output.line(warning)?;
        }
        let is_confirmed = confirmations(words) > 0;
        for push in std::mem::take(&mut self.session.pushes) {
            // The end of subscriptions is a reply, several times over.
            if self.output.shows_pushes() || is_confirmed {
                self.output.push(&push)?;
            }
        }
        let Some(reply) = reply else { return self.given_up() };
        let reply = reply?;
        if in_transaction && !was_connected {
            self.output.line("(the transaction was lost with the connection)")?;
        }
        self.show(&reply, words)?;
        let elapsed = start.elapsed();
        if elapsed >= SLOW && self.output.format() == Format::Human {
            self.output.line(format!("({:.2}s)", elapsed.as_secs_f64()))?;
        }
        Ok(())
    }

    /// Ctrl-C: the command was given up in its middle.
    fn given_up(&mut self) -> anyhow::Result<()> {
        self.session.disconnect();
        self.output.line("\n(given up: its connection is closed; the command may have been executed)")?;
        Ok(())
    }

    /// Shows messages until Ctrl-C.
    async fn listen(&mut self, mut wire: Wire) -> anyhow::Result<()> {
        self.output.line("Reading messages... (press Ctrl-C to quit)")?;
        let mut messages: u64 = 0;
        loop {
            let frame = tokio::select! {
                frame = wire.frame() => frame,
                _ = tokio::signal::ctrl_c() => {
                    self.session.disconnect();
                    self.output.line(format!("\n({messages} replies and messages)"))?;
                    return Ok(());
                }
            };
            let value = match frame {
                Ok(frame) => value_of(frame),
                Err(error) => {
                    let why = format!("{error}; {messages} replies and messages came");
                    return Err(Failure::Client(why).into());
                }
            };
            messages += 1;
            self.output.reply(&value, &[])?;
            if matches!(value, Value::Error(_)) {
                self.session.put_back(wire);
                return Ok(());
            }
        }
    }

    fn show(&mut self, reply: &Value, words: &[Vec<u8>]) -> anyhow::Result<()> {
        let mut text = self.output.style().reply(reply, words);
        let color = match reply {
            Value::Error(_) => Some("31"),
            Value::Null => Some("2"),
            _ => None,
        };
        if let (Some(color), true) = (color, self.output.has_colors()) {
            let end = text.strip_suffix(b"\n").map_or(text.len(), <[u8]>::len);
            text.splice(end..end, *b"\x1b[0m");
            text.splice(0..0, format!("\x1b[{color}m").into_bytes());
        }
        match &self.profile.pager {
            Some(pager) if is_long(&text) => paged(pager, &text)?,
            _ => self.output.bytes(&text)?,
        }
        Ok(())
    }
}

impl Session {
    /// Another configuration with this session's protocol and limits.
    fn like(&self, mut config: Config) -> Config {
        let own = self.config();
        config.protocol = own.protocol;
        config.command_timeout = own.command_timeout;
        config.connect_timeout = own.connect_timeout;
        config.when_down = own.when_down;
        config.client_name = own.client_name.clone();
        config
    }
}

/// Whether a text is longer than the terminal is high.
fn is_long(text: &[u8]) -> bool {
    let rows = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| size.ws_row);
    rows > 0 && text.iter().filter(|byte| **byte == b'\n').count() > usize::from(rows)
}

/// Shows a text with the user's pager, and waits until it is left.
fn paged(pager: &str, text: &[u8]) -> anyhow::Result<()> {
    let mut child = Process::new("sh").arg("-c").arg(pager).stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // It may be left before it has read everything.
        let _ = input.write_all(text);
    }
    child.wait()?;
    Ok(())
}
