//! The line editor, on a thread of its own: history, completion, hints, colours.

use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc as blocking};
use std::time::{Duration, Instant};

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, CompletionType, Context, ExternalPrinter, Helper};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::shared::Shared;
use crate::cli::hints;
use crate::cli::profile::folder;
use crate::cli::secrets::has_secret;
use crate::spec::command;
use crate::words::{Word, split, split_unfinished, typed};

/// Lines that are kept.
const MAX_HISTORY: usize = 10_000;
/// Where they are, in the folder of the user's data; `REDISCLI_HISTFILE` names another file.
const HISTORY: &str = "pilotlight/redis-history";
/// Keys that are offered.
const MAX_KEYS: usize = 100;
/// How long keys are looked for.
const KEYS_WITHIN: Duration = Duration::from_millis(250);
/// Keys that one page of that search looks at.
const KEYS_PAGE: u64 = 1000;
/// What the prompt does by itself.
const OWN_COMMANDS: [&str; 6] = ["help", "clear", "exit", "quit", "connect", "on"];

/// What the user did.
#[derive(Debug)]
pub(super) enum Event {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D.
    End,
    Failed(String),
}

/// The editor as the prompt sees it.
pub(super) struct Editor {
    requests: blocking::Sender<Request>,
    events: mpsc::UnboundedReceiver<Event>,
    printer: Box<dyn FnMut(String) + Send>,
    has_hints: Arc<AtomicBool>,
}

struct Request {
    prompt: String,
    /// The answer to a question is no part of the history.
    is_question: bool,
}

impl Editor {
    /// Starts the thread. To be called on the runtime, which is asked for keys.
    pub(super) fn start(shared: Arc<Mutex<Shared>>, has_colors: bool) -> anyhow::Result<Self> {
        let has_hints = Arc::new(AtomicBool::new(true));
        let helper = Assistant { shared, runtime: Handle::current(), has_colors, has_hints: Arc::clone(&has_hints) };
        let (requests, asked) = blocking::channel::<Request>();
        // At most one line is on its way, as each is asked for.
        let (answers, events) = mpsc::unbounded_channel();
        let (ready, made) = blocking::channel();
        std::thread::Builder::new().name("editor".to_owned()).spawn(move || {
            let config = rustyline::Config::builder()
                .completion_type(CompletionType::List)
                .color_mode(if has_colors { ColorMode::Enabled } else { ColorMode::Disabled })
                .history_ignore_space(true)
                .max_history_size(MAX_HISTORY)
                .map(rustyline::config::Builder::build);
            match config.and_then(rustyline::Editor::<Assistant, FileHistory>::with_config) {
                Ok(mut editor) => {
                    editor.set_helper(Some(helper));
                    // Nobody can be told that the terminal is gone.
                    let print: Box<dyn FnMut(String) + Send> = match editor.create_external_printer() {
                        Ok(mut printer) => Box::new(move |text| drop(printer.print(text))),
                        // The terminal cannot move its cursor, or the output goes elsewhere.
                        Err(_) => Box::new(|text| drop(std::io::stdout().write_all(text.as_bytes()))),
                    };
                    let _ = ready.send(Ok(print));
                    edit(&mut editor, &asked, &answers);
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
        let printer = made.recv()??;
        Ok(Self { requests, events, printer, has_hints })
    }

    /// Asks for a line.
    pub(super) fn ask(&self, prompt: String) {
        // If the thread is gone, the next event says so.
        let _ = self.requests.send(Request { prompt, is_question: false });
    }

    /// Asks a question.
    pub(super) fn ask_once(&self, prompt: String) {
        let _ = self.requests.send(Request { prompt, is_question: true });
    }

    /// What the user did.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn event(&mut self) -> Event {
        self.events.recv().await.unwrap_or(Event::End)
    }

    /// Prints above the line that is being typed.
    pub(super) fn print(&mut self, text: &str) {
        (self.printer)(text.to_owned());
    }

    pub(super) fn set_hints(&self, is_on: bool) {
        self.has_hints.store(is_on, Ordering::Relaxed);
    }
}

fn edit(
    editor: &mut rustyline::Editor<Assistant, FileHistory>,
    asked: &blocking::Receiver<Request>,
    answers: &mpsc::UnboundedSender<Event>,
) {
    let history = history_file();
    if let Some(file) = &history {
        // There is none yet, or it is another program's: then it is begun anew.
        let _ = editor.load_history(file);
    }
    while let Ok(request) = asked.recv() {
        let event = match editor.readline(&request.prompt) {
            Ok(line) => {
                if !request.is_question && !line.trim().is_empty() && !has_secret(&line) {
                    let is_new = editor.add_history_entry(&line).unwrap_or(false);
                    if let (true, Some(file)) = (is_new, &history) {
                        // What cannot be written is kept until the end only.
                        let _ = editor.append_history(file);
                    }
                }
                Event::Line(line)
            }
            Err(ReadlineError::Interrupted) => Event::Interrupted,
            Err(ReadlineError::Eof) => Event::End,
            Err(error) => Event::Failed(error.to_string()),
        };
        if answers.send(event).is_err() {
            return;
        }
    }
}

/// The file of the history, its folder made; `None`: none is kept.
fn history_file() -> Option<PathBuf> {
    if let Some(file) = std::env::var_os("REDISCLI_HISTFILE").filter(|file| !file.is_empty()) {
        return (file != "/dev/null").then(|| file.into());
    }
    let file = folder("XDG_DATA_HOME", ".local/share")?.join(HISTORY);
    std::fs::create_dir_all(file.parent()?).ok()?;
    Some(file)
}

/// What helps while a line is typed.
struct Assistant {
    shared: Arc<Mutex<Shared>>,
    runtime: Handle,
    has_colors: bool,
    has_hints: Arc<AtomicBool>,
}

impl Helper for Assistant {}

impl Validator for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let words = split_unfinished(&line[..pos]);
        let Some(last) = words.last() else { return Ok((pos, Vec::new())) };
        let is_help = words.len() > 1 && words[0].bytes.eq_ignore_ascii_case(b"help");
        let words_of_command = hints::after_prefix(&words);
        let candidates = self.candidates(words_of_command, is_help);
        Ok((last.start, candidates))
    }
}

impl Assistant {
    fn candidates(&self, words: &[Word], is_help: bool) -> Vec<Pair> {
        let Some((last, before)) = words.split_last() else { return Vec::new() };
        let typed_so_far = String::from_utf8_lossy(&last.bytes).into_owned();
        let is_lower = !typed_so_far.is_empty() && !typed_so_far.chars().any(|letter| letter.is_ascii_uppercase());
        let as_typed = |name: &str| if is_lower { name.to_lowercase() } else { name.to_uppercase() };
        let fits = |name: &str| {
            name.len() >= typed_so_far.len()
                && name.as_bytes()[..typed_so_far.len()].eq_ignore_ascii_case(typed_so_far.as_bytes())
        };
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<String> = Vec::new();
        let bytes: Vec<&[u8]> = before.iter().map(|word| &*word.bytes).collect();
        if before.is_empty() {
            names.extend(
                shared.table.iter().map(|(name, _)| name).filter(|name| !name.contains(' ')).map(str::to_owned),
            );
            names.extend(OWN_COMMANDS.map(str::to_owned));
            if is_help {
                names.extend(shared.table.groups().into_iter().map(|group| format!("@{group}")));
            }
        } else if let [name] = bytes.as_slice() {
            let name = String::from_utf8_lossy(name).into_owned();
            names.extend(shared.table.subcommands(&name).into_iter().map(str::to_owned));
        }
        if names.is_empty()
            && let Some((_, entry, name_words)) = shared.table.find(&bytes)
        {
            names.extend(hints::tokens(&entry.syntax, &bytes[name_words..]));
        }
        let client = shared.client.clone();
        drop(shared);
        names.retain(|name| fits(name));
        names.sort();
        names.dedup();
        let name = |name: &String| Pair { display: as_typed(name), replacement: format!("{} ", as_typed(name)) };
        let mut pairs: Vec<Pair> = names.iter().map(name).collect();
        if is_key(words) {
            pairs.extend(self.keys(client, last.bytes.clone()));
        }
        pairs
    }

    /// Keys that begin so.
    fn keys(&self, client: pilotlight_redis::Client, start: Vec<u8>) -> Vec<Pair> {
        let (sender, found) = blocking::channel();
        let search = self.runtime.spawn(async move {
            let mut scan = client.scan().pattern(pattern(&start)).count(KEYS_PAGE).patience(KEYS_WITHIN);
            while let Some(Ok(keys)) = scan.next().await {
                if sender.send(keys).is_err() {
                    return;
                }
            }
        });
        let (mut keys, deadline) = (Vec::new(), Instant::now() + KEYS_WITHIN);
        while keys.len() < MAX_KEYS
            && let Ok(page) = found.recv_timeout(deadline.saturating_duration_since(Instant::now()))
        {
            keys.extend(page);
        }
        search.abort();
        keys.sort();
        keys.dedup();
        keys.truncate(MAX_KEYS);
        let pair = |key: bytes::Bytes| {
            let text = typed(&key);
            Pair { replacement: format!("{text} "), display: text }
        };
        keys.into_iter().map(pair).collect()
    }
}

/// Whether the last word is where a key belongs, be it the command's last one or not.
fn is_key(words: &[Word]) -> bool {
    let mut bytes: Vec<Vec<u8>> = words.iter().map(|word| word.bytes.clone()).collect();
    let length = bytes.len();
    let is_key = |words: &[Vec<u8>]| {
        let command = command(words);
        let name_words = usize::from(command.spec().words);
        name_words > 0 && command.key_positions().any(|position| position + name_words + 1 == length)
    };
    is_key(&bytes) || {
        bytes.push(b"0".to_vec());
        is_key(&bytes)
    }
}

/// The glob pattern of all that begins so.
fn pattern(start: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(start.len() + 1);
    for byte in start {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^') {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, pos: usize, _: &Context<'_>) -> Option<String> {
        if pos < line.len() || !self.has_hints.load(Ordering::Relaxed) {
            return None;
        }
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        hints::hint(&shared.table, line)
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.has_colors {
            return Cow::Borrowed(line);
        }
        let Ok(words) = split(line.as_bytes()) else { return Cow::Borrowed(line) };
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let of_command = hints::after_prefix(&words);
        let bytes: Vec<&[u8]> = of_command.iter().map(|word| &*word.bytes).collect();
        let name_words = shared.table.find(&bytes).map_or(0, |(_, _, name_words)| name_words);
        let first = words.len() - of_command.len();
        Cow::Owned(colored(line, &words, first..first + name_words))
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        if self.has_colors { Cow::Owned(format!("\x1b[2m{hint}\x1b[0m")) } else { Cow::Borrowed(hint) }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.has_colors && kind != CmdKind::MoveCursor
    }
}

/// The line with its command bold and what is quoted green.
fn colored(line: &str, words: &[Word], name: std::ops::Range<usize>) -> String {
    let mut out = String::with_capacity(line.len() + 16);
    let mut at = 0;
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).map_or(line.len(), |next| next.start);
        let text = &line[word.start..next];
        let end = word.start + text.trim_end().len();
        let color = match () {
            () if name.contains(&index) => "1;36",
            () if text.contains(['"', '\'']) => "32",
            () => "",
        };
        out.push_str(&line[at..word.start]);
        if color.is_empty() {
            out.push_str(&line[word.start..end]);
        } else {
            out.push_str(&format!("\x1b[{color}m{}\x1b[0m", &line[word.start..end]));
        }
        at = end;
    }
    out.push_str(&line[at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_may_be_a_key() {
        let of = |line: &str| is_key(&split_unfinished(line));
        for line in ["get ", "get a", "mget a b", "object encoding x", "xread streams ", "set a", "blpop a b"] {
            assert!(of(line), "{line}");
        }
        for line in ["get", "set a b", "config get ", "ping ", "eval x 0 ", "foo a", ""] {
            assert!(!of(line), "{line}");
        }
        assert_eq!(pattern(b"a*[b]"), b"a\\*\\[b\\]*");
    }

    #[test]
    fn colours_do_not_change_the_text() {
        let line = "  config set save \"a b\" ";
        let words = split(line.as_bytes()).unwrap();
        let text = colored(line, &words, 0..2);
        assert_eq!(text, "  \x1b[1;36mconfig\x1b[0m \x1b[1;36mset\x1b[0m save \x1b[32m\"a b\"\x1b[0m ");
    }
}
