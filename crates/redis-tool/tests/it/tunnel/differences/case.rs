//! Cases: a line each. Steps are divided by ` ; `, what is in square brackets in front is about the whole case.
//!
//! | step | |
//! |---|---|
//! | `GET k` | a command on connection `a`, and one reply; words as in redis-cli, with `"\x00"` |
//! | `b: GET k` | the same on another connection, by one letter |
//! | `=2`, `b: =` | two more replies are read; one |
//! | `~ BLPOP k 0` | no reply is waited for |
//! | `!2 "PING\r\nPING\r\n"` | these bytes, and two replies |
//! | `closed` | the other side has closed the connection |
//! | `blocked 1` | one client waits at the servers |
//! | `pieces 3` | commands are written in pieces of three bytes from now on |
//! | `id b` | the number of that client, for `<id:b>` |
//!
//! `<id:b>`, `<addr:b>` (its own address), `<big:1000>` (so many bytes) are replaced within words.
//!
//! | in brackets | |
//! |---|---|
//! | `numbers` | any integer is as good as another, also one in a string |
//! | `counts` | so is a reply that is nothing but an integer |
//! | `texts` | so is any string that is longer than two bytes |
//! | `sorted` | the elements of a reply may come in any order |
//! | `once` | the case says `HELLO` itself, or cannot be played with both protocols |
//! | `single` | not in a cluster |
//! | `as-cluster` | a smart tunnel to a cluster is to answer as a node of one |
//! | `smart=NAME`, `smart-one=NAME`, `smart-cluster=NAME`, `pinned=NAME` | it differs there, as the list of the tool says under that name; with `?` it may |

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// One case.
#[derive(Debug)]
pub(super) struct Case {
    place: String,
    text: String,
    pub(super) steps: Vec<Step>,
    flags: Vec<String>,
    differences: BTreeMap<String, String>,
}

/// One step, on one connection.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) peer: char,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    /// Words, and how many replies.
    Command(Vec<Vec<u8>>, usize),
    Raw(Vec<u8>, usize),
    Read(usize),
    Closed,
    Blocked(usize),
    Pieces(usize),
    Id(char),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Resp2,
    Resp3,
    /// The case says it.
    Own,
}

/// Through what it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Smart,
    Pinned,
    SmartCluster,
    PinnedCluster,
}

impl Target {
    pub(super) const ALL: [Self; 4] = [Self::Smart, Self::Pinned, Self::SmartCluster, Self::PinnedCluster];

    pub(super) fn mode(self) -> &'static str {
        match self {
            Self::Smart | Self::SmartCluster => "smart",
            Self::Pinned | Self::PinnedCluster => "pinned",
        }
    }

    /// The flags that tell of a difference.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Smart => &["smart", "smart-one"],
            Self::SmartCluster => &["smart", "smart-cluster"],
            Self::Pinned | Self::PinnedCluster => &["pinned"],
        }
    }
}

impl Case {
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }

    pub(super) fn protocols(&self) -> &'static [Protocol] {
        if self.has("once") { &[Protocol::Own] } else { &[Protocol::Resp2, Protocol::Resp3] }
    }

    pub(super) fn is_for_clusters(&self) -> bool {
        !self.has("single")
    }

    pub(super) fn is_as_in_a_cluster(&self) -> bool {
        self.has("as-cluster")
    }

    /// The name of the difference that is to be seen there, and whether it always is.
    pub(super) fn difference(&self, target: Target) -> Option<(&str, bool)> {
        let name = target.flags().iter().find_map(|flag| self.differences.get(*flag))?;
        Some(name.strip_suffix('?').map_or((name.as_str(), true), |name| (name, false)))
    }

    pub(super) fn differences(&self) -> impl Iterator<Item = &str> {
        self.differences.values().map(|name| name.trim_end_matches('?'))
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// The cases of a file.
pub(super) fn read(path: &Path) -> Vec<Case> {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(at, line)| parse(format!("{name}:{}", at + 1), line)).collect()
}

fn parse(place: String, line: &str) -> Case {
    let (flags, steps) = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((flags, steps)) => (flags, steps),
        None => ("", line),
    };
    let (named, plain): (Vec<&str>, Vec<&str>) = flags.split_whitespace().partition(|flag| flag.contains('='));
    let named = named.iter().map(|flag| flag.split_once('=').unwrap());
    Case {
        place,
        text: line.to_owned(),
        steps: steps.split(" ; ").map(step).collect(),
        flags: plain.iter().map(|flag| (*flag).to_owned()).collect(),
        differences: named.map(|(flag, name)| (flag.to_owned(), name.to_owned())).collect(),
    }
}

fn step(text: &str) -> Step {
    let text = text.trim();
    let (peer, text) = match text.split_once(": ") {
        Some((peer, rest)) if peer.len() == 1 => (peer.chars().next().unwrap(), rest),
        _ => ('a', text),
    };
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let count = |text: &str, none: usize| if text.is_empty() { none } else { text.parse().unwrap() };
    let action = match (first.chars().next(), first) {
        (Some('='), _) => Action::Read(count(&first[1..], 1)),
        (Some('!'), _) => Action::Raw(words(rest).remove(0), count(&first[1..], 0)),
        (_, "~") => Action::Command(words(rest), 0),
        (_, "closed") => Action::Closed,
        (_, "blocked") => Action::Blocked(rest.parse().unwrap()),
        (_, "pieces") => Action::Pieces(rest.parse().unwrap()),
        (_, "id") => Action::Id(rest.chars().next().unwrap()),
        _ => Action::Command(words(text), 1),
    };
    Step { peer, action }
}

/// Words between blanks; in double quotes with escapes.
fn words(text: &str) -> Vec<Vec<u8>> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<Vec<u8>>, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            b' ' if !is_quoted => words.extend(word.take()),
            b'\\' if is_quoted => {
                let escaped = match bytes.next().unwrap() {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'x' => {
                        let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                        u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                    }
                    other => other,
                };
                word.get_or_insert_default().push(escaped);
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}
