//! What is asked.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Appends the next request; `false`: there are no more.
pub type Next = dyn FnMut(&mut Vec<u8>) -> bool;

/// What is asked.
pub enum Requests {
    /// The same again and again.
    Same {
        /// Its bytes.
        request: Vec<u8>,
        /// What the first answer on each connection has to say with status 200, and any later one that has another
        /// length or status.
        body: Option<Vec<u8>>,
    },
    /// What this says.
    Each(Box<Next>),
    /// These by turns, on each connection from the first one on.
    Turns(Vec<Vec<u8>>),
}

impl From<Box<Next>> for Requests {
    fn from(next: Box<Next>) -> Self {
        Self::Each(next)
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same { .. } => "Same",
            Self::Each(_) => "Each",
            Self::Turns(_) => "Turns",
        })
    }
}

/// A GET as a browser's connection would repeat it, without what does not matter here.
#[must_use]
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

/// These again and again, each load from where the last one with `asked` has ended; `left` of them, or without end.
/// Every time all of them were asked for, another order begins: what somebody keeps of the time before is met now and
/// then, not all at once.
pub(crate) fn in_turn(requests: Vec<Vec<u8>>, asked: Arc<AtomicUsize>, mut left: Option<u32>) -> Requests {
    let mut order = (0, 1);
    Requests::Each(Box::new(move |out| {
        let more = left != Some(0);
        if more {
            let number = asked.load(Ordering::Relaxed);
            let all = requests.len();
            if order.0 != number / all {
                order = (number / all, step(number / all, all));
            }
            out.extend_from_slice(&requests[number % all * order.1 % all]);
            asked.store(number + 1, Ordering::Relaxed);
            left = left.map(|left| left - 1);
        }
        more
    }))
}

/// How far it is from one to the next when all have had their turn so often: by no divisor, so that each has one.
fn step(time: usize, all: usize) -> usize {
    let mut step = (time * STEP + 1) % all;
    while all > 1 && !is_coprime(step, all) {
        step = (step + 1) % all;
    }
    step
}

/// Far from what was next to it the time before.
const STEP: usize = 7919;

fn is_coprime(one: usize, other: usize) -> bool {
    if other == 0 { one == 1 } else { is_coprime(other, one % other) }
}

/// Requests as they are taken.
pub(super) struct Source {
    requests: Requests,
    /// Of constant requests as many as are ever taken at once; else room for what is taken.
    bytes: Vec<u8>,
    /// Whose turn is next on each connection.
    turns: Vec<usize>,
    ended: bool,
}

impl Source {
    /// At most `most` will be taken at once.
    pub(super) fn new(requests: Requests, most: usize) -> Self {
        let bytes = match &requests {
            Requests::Same { request, .. } => request.repeat(most),
            Requests::Each(_) | Requests::Turns(_) => Vec::new(),
        };
        Self { requests, bytes, turns: Vec::new(), ended: false }
    }

    /// Whether there are no more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// What has to be answered.
    pub(super) fn body(&self) -> Option<&[u8]> {
        match &self.requests {
            Requests::Same { body, .. } => body.as_deref(),
            Requests::Each(_) | Requests::Turns(_) => None,
        }
    }

    /// The next `count` of a connection, or as many as there are.
    pub(super) fn take(&mut self, connection: usize, count: usize) -> (usize, &[u8]) {
        match &mut self.requests {
            Requests::Same { request, .. } => (count, &self.bytes[..count * request.len()]),
            Requests::Each(next) => {
                self.bytes.clear();
                let mut taken = 0;
                while taken < count && !self.ended {
                    self.ended = !next(&mut self.bytes);
                    taken += usize::from(!self.ended);
                }
                (taken, &self.bytes)
            }
            Requests::Turns(requests) => {
                self.bytes.clear();
                self.turns.resize(self.turns.len().max(connection + 1), 0);
                for _ in 0..count {
                    self.bytes.extend_from_slice(&requests[self.turns[connection]]);
                    self.turns[connection] = (self.turns[connection] + 1) % requests.len();
                }
                (count, &self.bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn turns_are_those_of_each_connection() {
        let mut source = Source::new(Requests::Turns(vec![b"a".into(), b"b".into()]), 1);
        assert_eq!(source.take(0, 1), (1, b"a".as_slice()));
        assert_eq!(source.take(3, 1), (1, b"a".as_slice()), "another connection begins with the first");
        assert_eq!(source.take(0, 3), (3, b"bab".as_slice()));
        assert!(!source.has_ended());
    }

    #[test]
    fn each_load_goes_on_where_the_last_one_ended() {
        let (all, asked) = (["a", "b", "c"].map(|one| one.as_bytes().to_vec()), Arc::default());
        let mut source = Source::new(in_turn(all.to_vec(), Arc::clone(&asked), Some(2)), 1);
        assert_eq!(source.take(0, 5), (2, b"ab".as_slice()));
        assert!(source.has_ended());
        assert_eq!(Source::new(in_turn(all.to_vec(), asked, None), 1).take(0, 2), (2, b"ca".as_slice()));
    }

    #[test]
    fn every_time_has_all_in_another_order() {
        let all = 20_000;
        let orders: BTreeSet<Vec<usize>> =
            (0..5).map(|time| (0..all).map(|number| number * step(time, all) % all).collect()).collect();
        assert_eq!(orders.len(), 5);
        assert!(orders.iter().all(|order| order.iter().collect::<BTreeSet<_>>().len() == all));
        assert_eq!([step(0, 1), step(7, 1), step(3, 2)], [0, 0, 1]);
    }
}
