//! What a dashboard shows of everything at once, and what of it somebody does not know yet who has seen it before.
//!
//! Each of those who watch has a position, as readers of output have: nothing waits for one that reads slowly, and the
//! next time it gets what has changed since, once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustc_hash::FxHashMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::metrics::Verdict;
use crate::metrics::recent::{RecentTimes, SparseTimes};
use crate::metrics::sums::Counts;

/// Bytes of a row and of the rest, for a buffer that need not grow.
const ROW_BYTES: usize = 320;
const HEAD_BYTES: usize = 4096;

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
    /// Times of each service that has answered, in the table or not any more.
    pub(super) timed: FxHashMap<Box<str>, Timed>,
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

/// Times of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Timed {
    /// What was counted when they were read; another count: there are others by now.
    pub(super) counted: Counted,
    pub(super) times: SparseTimes,
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
}

/// What is counted of a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) requests: u64,
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) hits: u64,
    pub(super) spent_ns: u64,
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
    /// Whether it shares a budget with others.
    pub(super) is_grouped: bool,
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
    /// What a watcher does not know yet who has seen a look, as an event of the stream.
    pub(super) fn since(&self, seen: u64) -> String {
        let is_full = seen < self.listed;
        let seen = if is_full { 0 } else { seen };
        let event = Event {
            full: is_full,
            at: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64,
            gateway: &self.whole.told,
            services: Changed { rows: &self.rows, seen },
            certificates: (self.certificates.0 > seen).then_some(&self.certificates.1),
        };
        let changed = self.rows.iter().filter(|row| row.changed > seen).count();
        let mut text = Vec::with_capacity(changed * ROW_BYTES + HEAD_BYTES);
        text.extend_from_slice(b"data: ");
        // It takes everything. JSON has no line feed, so one line of data is enough.
        let _ = serde_json::to_writer(&mut text, &event);
        text.extend_from_slice(b"\n\n");
        String::from_utf8(text).unwrap_or_default() // JSON is UTF-8
    }
}

#[derive(Serialize)]
struct Event<'a> {
    full: bool,
    at: u64,
    gateway: &'a Value,
    #[serde(serialize_with = "Changed::serialize")]
    services: Changed<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificates: Option<&'a Value>,
}

/// The rows that have changed after a look.
struct Changed<'a> {
    rows: &'a [Row],
    seen: u64,
}

impl Changed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().filter(|row| row.changed > self.seen).map(Row::told))
    }
}

/// A row as it is told: without a tree of values, as a thousand may change within a second.
#[derive(Serialize)]
struct ToldRow<'a> {
    name: &'a str,
    kind: &'static str,
    state: &'static str,
    circuit: Option<&'static str>,
    instances: usize,
    ending: usize,
    requests: u64,
    requests_per_second: f64,
    in_flight: u64,
    cache_hits: u64,
    queue: Option<usize>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
    memory_bytes: Option<u64>,
    failures: u32,
    error: Option<&'a str>,
}

impl Row {
    fn told(&self) -> ToldRow<'_> {
        let facts = &self.facts;
        ToldRow {
            name: &self.name,
            kind: facts.kind,
            state: facts.state,
            circuit: facts.circuit,
            instances: facts.serving,
            ending: facts.ending,
            requests: facts.requests,
            requests_per_second: facts.per_second,
            in_flight: facts.in_flight,
            cache_hits: facts.hits,
            queue: facts.queue,
            p50_ms: facts.p50_ns.map(crate::timing::milliseconds),
            p99_ms: facts.p99_ns.map(crate::timing::milliseconds),
            memory_bytes: facts.memory_bytes,
            failures: facts.failures,
            error: facts.error.as_deref(),
        }
    }
}

impl Counted {
    pub(super) fn of(counts: &Counts) -> Self {
        Self {
            requests: counts.requests(),
            begun: counts.begun,
            ended: counts.ended,
            hits: counts.verdicts[Verdict::Hit as usize],
            spent_ns: counts.layers_ns.iter().sum(),
        }
    }

    /// Of what has been added since.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            begun: self.begun - earlier.begun,
            ended: self.ended - earlier.ended,
            hits: self.hits - earlier.hits,
            spent_ns: self.spent_ns - earlier.spent_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            let data = event.strip_prefix("data: ").and_then(|event| event.strip_suffix("\n\n")).unwrap();
            let event: Value = serde_json::from_str(data).unwrap();
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
