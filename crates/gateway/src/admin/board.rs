//! What a dashboard shows of everything at once, and what of it somebody does not know yet who has seen it before.
//!
//! Each of those who watch has a position, as readers of output have: nothing waits for one that reads slowly, and the
//! next time it gets what has changed since, once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::metrics::recent::RecentTimes;
use crate::metrics::sums::Counts;

/// What is shown, and who watches.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) watchers: AtomicUsize,
    pub(super) shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
pub(super) struct Shown {
    /// The number of the last look, from 1 on.
    pub(super) look: u64,
    pub(super) looked: Option<Instant>,
    /// The look at which the list of services became another.
    pub(super) listed: u64,
    pub(super) rows: Vec<Row>,
    pub(super) whole: Whole,
    /// How many marks there were.
    pub(super) marks: u64,
    pub(super) slow: Option<Instant>,
    /// Memory of process groups.
    pub(super) groups: HashMap<i32, u64>,
    pub(super) certificates: (u64, Value),
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: Box<str>,
    /// The look at which it became as it is.
    pub(super) changed: u64,
    pub(super) facts: Facts,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) kind: &'static str,
    pub(super) state: &'static str,
    pub(super) circuit: Option<&'static str>,
    pub(super) serving: usize,
    pub(super) ending: usize,
    pub(super) requests: u64,
    pub(super) per_second: f64,
    pub(super) in_flight: u64,
    pub(super) hits: u64,
    pub(super) queue: Option<usize>,
    /// Of the last minutes.
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) failures: u32,
    pub(super) error: Option<Box<str>>,
}

/// All requests together.
#[derive(Debug, Default)]
pub(super) struct Whole {
    pub(super) counts: Counts,
    pub(super) per_second: Option<f64>,
    pub(super) recent: RecentTimes,
    pub(super) told: Value,
}

impl Shown {
    /// What a watcher does not know yet who has seen a look.
    pub(super) fn since(&self, seen: u64) -> Value {
        let is_full = seen < self.listed;
        let seen = if is_full { 0 } else { seen };
        let rows = self.rows.iter().filter(|row| row.changed > seen).map(Row::json);
        let mut value = json!({
            "full": is_full,
            "at": SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            "gateway": self.whole.told,
            "services": rows.collect::<Vec<_>>(),
        });
        if self.certificates.0 > seen {
            value["certificates"] = self.certificates.1.clone();
        }
        value
    }
}

impl Row {
    fn json(&self) -> Value {
        let facts = &self.facts;
        json!({
            "name": &*self.name,
            "kind": facts.kind,
            "state": facts.state,
            "circuit": facts.circuit,
            "instances": facts.serving,
            "ending": facts.ending,
            "requests": facts.requests,
            "requests_per_second": facts.per_second,
            "in_flight": facts.in_flight,
            "cache_hits": facts.hits,
            "queue": facts.queue,
            "p50_ms": facts.p50_ns.map(crate::timing::milliseconds),
            "p99_ms": facts.p99_ns.map(crate::timing::milliseconds),
            "memory_bytes": facts.memory_bytes,
            "failures": facts.failures,
            "error": facts.error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(event: &Value) -> Vec<&str> {
        event["services"].as_array().unwrap().iter().map(|service| service["name"].as_str().unwrap()).collect()
    }

    #[test]
    fn who_watches_gets_what_he_does_not_know() {
        let row = |name: &str, changed| Row { name: name.into(), changed, facts: Facts::default() };
        let mut shown =
            Shown { look: 5, listed: 2, rows: vec![row("a", 2), row("b", 5), row("c", 4)], ..Shown::default() };
        shown.certificates = (3, json!("all"));
        let check = |shown: &Shown, seen, is_full: bool, expected: &[&str], certificates| {
            let event = shown.since(seen);
            assert_eq!((&event["full"], names(&event)), (&json!(is_full), expected.to_vec()));
            assert_eq!(event["certificates"].is_string(), certificates);
        };
        check(&shown, 0, true, &["a", "b", "c"], true);
        check(&shown, 1, true, &["a", "b", "c"], true);
        check(&shown, 2, false, &["b", "c"], true);
        check(&shown, 4, false, &["b"], false);
        check(&shown, 5, false, &[], false);
        shown.listed = 5;
        check(&shown, 4, true, &["a", "b", "c"], true);
    }
}
