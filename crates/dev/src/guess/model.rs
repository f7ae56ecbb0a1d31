//! What is guessed of a project, and what all kinds of projects look at it with.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pilotlight_printable::bytes_without_mark;

/// Bytes of a file of the project that are looked at.
const MAX_READ: u64 = 256 * 1024;

/// What was guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// The kind of project, for people: `Flask application`.
    pub kind: String,
    /// What was seen that says so.
    pub because: String,
    /// What the developer might want to know.
    pub notes: Vec<String>,
    /// What it serves.
    pub serves: Serves,
}

/// What a project serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serves {
    /// The files of this folder, from the project's.
    Files(String),
    /// What processes answer: requests go to the first.
    Processes(Vec<Process>),
}

/// A process of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// A name for a service of the configuration.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment on top of the developer's.
    pub env: Vec<(String, String)>,
    /// How it is reached.
    pub over: Over,
    /// Python modules that a parent of all instances has imported.
    pub preload: Vec<String>,
    /// Seconds that a start may take.
    pub start_timeout_s: u32,
    /// What is done when files change.
    pub follows: Follows,
}

/// How a process is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// It dials in, by an SDK.
    Pipe,
    /// By HTTP on a Unix socket that it inherits.
    Unix,
    /// By HTTP on a TCP socket that it inherits.
    Tcp,
    /// By HTTP on the port in `PORT`.
    Port,
}

/// What is done when files change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// It is replaced.
    Restart,
    /// Nothing: it sees them itself.
    Itself,
}

/// Why nothing was guessed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoGuess {
    /// Nothing in the folder is known.
    #[error(
        "nothing in this folder says what to run: no pilotlight.toml, Procfile, package.json, deno.json, Python application, config.ru, Cargo.toml, go.mod, pom.xml, build.gradle, *.csproj, PHP or index.html"
    )]
    Nothing,
    /// The kind is known, but not how to start it.
    #[error("{kind}: {why}")]
    Unclear {
        /// The kind of project.
        kind: &'static str,
        /// What is missing.
        why: String,
    },
}

pub(super) type Look = Option<Result<Guess, NoGuess>>;

impl Guess {
    pub(super) fn of(kind: impl Into<String>, because: impl Into<String>, process: Process) -> Self {
        Self { kind: kind.into(), because: because.into(), notes: Vec::new(), serves: Serves::Processes(vec![process]) }
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

impl Process {
    /// The one that requests go to.
    pub(super) fn web(command: Vec<String>, over: Over) -> Self {
        Self {
            name: "web".into(),
            command,
            env: Vec::new(),
            over,
            preload: Vec::new(),
            start_timeout_s: 30,
            follows: Follows::Restart,
        }
    }

    /// A line for a shell, which knows `$PORT`. The shell makes way for the program where it can.
    pub(super) fn shell(line: &str, over: Over) -> Self {
        Self::web(vec!["sh".into(), "-c".into(), shell_line(line)], over)
    }

    pub(super) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

/// With `exec` in front, unless it is more than one command: signals are to reach the program alone.
pub(super) fn shell_line(line: &str) -> String {
    let line = line.trim();
    let is_simple = !line.contains(['&', '|', ';', '<', '>', '`', '\n', '(']) && !line.starts_with("exec ");
    let begins_with_variable = line.split(' ').next().is_some_and(|word| word.contains('='));
    match (is_simple, begins_with_variable) {
        (true, true) => format!("exec env {line}"),
        (true, false) => format!("exec {line}"),
        (false, _) => line.to_owned(),
    }
}

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The beginning of a file as text; `None` if there is none.
pub(super) fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_READ).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(bytes_without_mark(&bytes)).into_owned())
}

/// How a program is reached, by its source; `None`: nothing in it says so.
pub(super) fn over(source: &str) -> Option<Over> {
    let has = |words: &[&str]| words.iter().any(|word| source.contains(word));
    if has(&[
        "pilotlight.serve(",
        "import pilotlight",
        "from pilotlight",
        "'pilotlight'",
        "\"pilotlight\"",
        "pilotlight_pipe",
        "sdk/node",
    ]) {
        Some(Over::Pipe)
    } else if has(&["LISTEN_FDS", "listenfd", "fd: 3", "fileno=3", "os.NewFile(3"]) {
        Some(Over::Unix)
    } else {
        None
    }
}
