//! What went wrong, counted by kind, with an example of each.

use std::collections::BTreeMap;
use std::fmt;

use pilotlight_redis::{Error, ErrorKind, ServerError};
use serde_json::{Value as Json, json};

use crate::advice;

/// Kinds that are told apart; further ones are counted together.
const MAX_KINDS: usize = 32;
const MAX_EXAMPLE_CHARS: usize = 160;
const FURTHER: &str = "other";

/// Faults by kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    total: u64,
    kinds: BTreeMap<String, Kind>,
}

#[derive(Debug, Clone, Default)]
struct Kind {
    count: u64,
    example: String,
}

impl Faults {
    /// An error of the client, or that it passed on.
    pub(crate) fn add_error(&mut self, error: &Error, count: u64) {
        match error.server() {
            Some(server) => self.add_server(server, count),
            None => self.add(name(error.kind()), count, || advice::text(error)),
        }
    }

    /// An error reply.
    pub(crate) fn add_server(&mut self, error: &ServerError, count: u64) {
        self.add(error.code(), count, || error.to_string());
    }

    pub(crate) fn add(&mut self, kind: &str, count: u64, example: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        self.total += count;
        let kind = if self.kinds.len() < MAX_KINDS || self.kinds.contains_key(kind) { kind } else { FURTHER };
        if let Some(known) = self.kinds.get_mut(kind) {
            known.count += count;
            return;
        }
        // Servers repeat arguments, and a terminal obeys control characters.
        let shown = |character: char| if character.is_control() { '\u{fffd}' } else { character };
        let example = example().chars().take(MAX_EXAMPLE_CHARS).map(shown).collect();
        self.kinds.insert(kind.to_owned(), Kind { count, example });
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (name, kind) in other.kinds {
            self.add(&name, kind.count, || kind.example);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn json(&self) -> Json {
        let kinds = self
            .kinds
            .iter()
            .map(|(kind, Kind { count, example })| json!({ "kind": kind, "count": count, "example": example }));
        kinds.collect()
    }
}

/// A line for each kind.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, kind) in &self.kinds {
            writeln!(f, "  {} × {name}: {}", super::text::grouped(kind.count), kind.example)?;
        }
        if self.kinds.contains_key("MOVED") {
            writeln!(f, "  (the server is a node of a cluster: add -c, or use redis+cluster:// in a URL)")?;
        }
        Ok(())
    }
}

fn name(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Misuse(_) => "misuse",
        ErrorKind::Server(_) => "server",
        ErrorKind::Reply(_) => "wrong reply",
        ErrorKind::Protocol(_) => "protocol",
        ErrorKind::Connect(_) | ErrorKind::Rejected(_) => "no connection",
        ErrorKind::Connection(_) => "connection lost",
        ErrorKind::Timeout(_) => "timeout",
        ErrorKind::Overloaded { .. } | ErrorKind::Crowded { .. } => "overloaded",
        ErrorKind::Cluster(_) => "no node",
        ErrorKind::Closed => "closed",
        _ => FURTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_bounded_and_none_is_lost() {
        let mut faults = Faults::default();
        for number in 0..100 {
            faults.add(&format!("K{number}"), 2, || "x".repeat(1000));
        }
        let mut sum = Faults::default();
        sum.merge(faults.clone());
        sum.merge(faults);
        assert_eq!(sum.total(), 400);
        assert!(sum.kinds.len() <= MAX_KINDS + 1);
        faults = Faults::default();
        faults.add("ERR", 1, || "\u{1b}[31m".to_owned());
        assert_eq!(faults.to_string(), "  1 × ERR: \u{fffd}[31m\n");
        assert!(sum.kinds.values().all(|kind| kind.example.len() <= MAX_EXAMPLE_CHARS));
        assert_eq!(sum.kinds.values().map(|kind| kind.count).sum::<u64>(), 400);
    }
}
