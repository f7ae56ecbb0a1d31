//! Which replies will be large: those to reads whose last reply was.
//!
//! What a command sends is known before; of replies only their past is. The table is small and forgets: a wrong guess
//! costs a large reply among small ones, or a small one among large ones.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::{Command, Flags};
use crate::reply::Value;

/// How many reads are remembered at most: 32 KiB.
const PLACES: usize = 4096;

/// Counted for each element of a reply beside its bytes.
const ELEMENT_BYTES: usize = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct LargeReplies {
    min_bytes: usize,
    hasher: RandomState,
    /// Hashes of commands by themselves, modulo; 0: none.
    places: Box<[AtomicU64]>,
}

impl LargeReplies {
    pub(crate) fn new(min_bytes: usize) -> Self {
        let places = std::iter::repeat_with(AtomicU64::default).take(PLACES).collect();
        Self { min_bytes, hasher: RandomState::new(), places }
    }

    /// Whether the last reply to this command was large.
    pub(crate) fn expects(&self, command: &Command<'_>) -> bool {
        self.hash(command).is_some_and(|hash| self.place(hash).load(Ordering::Relaxed) == hash)
    }

    /// Remembers whether the reply was large.
    pub(crate) fn note(&self, command: &Command<'_>, reply: &Value) {
        let Some(hash) = self.hash(command) else { return };
        let place = self.place(hash);
        let was_large = place.load(Ordering::Relaxed) == hash;
        match (size(reply, self.min_bytes) >= self.min_bytes, was_large) {
            (true, false) => place.store(hash, Ordering::Relaxed),
            (false, true) => place.store(0, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Of what it reads; not of how much of it. `None`: it is no read of a key.
    fn hash(&self, command: &Command<'_>) -> Option<u64> {
        if !command.spec().flags.has(Flags::READONLY) {
            return None;
        }
        let key = command.arguments().get(command.key_positions().next()?)?;
        Some(self.hasher.hash_one((command.name(), &*key.to_bytes())).max(1))
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.places[hash as usize % PLACES]
    }
}

/// Bytes of a reply, counted up to `enough`.
fn size(value: &Value, enough: usize) -> usize {
    let each = |values: &mut dyn Iterator<Item = &Value>| {
        let mut bytes = 0;
        while bytes < enough
            && let Some(value) = values.next()
        {
            bytes += ELEMENT_BYTES + size(value, enough - bytes);
        }
        bytes
    };
    match value {
        Value::Bulk(bytes) | Value::Simple(bytes) | Value::Error(bytes) | Value::BigNumber(bytes) => bytes.len(),
        Value::Verbatim { text, .. } => text.len(),
        Value::Array(values) | Value::Set(values) | Value::Push(values) => each(&mut values.iter()),
        Value::Map(pairs) => each(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
        Value::Attributed(it) => size(&it.value, enough),
        Value::Null | Value::Integer(_) | Value::Boolean(_) | Value::Double(_) | Value::Skipped(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::commands::spec;

    fn bulk(bytes: usize) -> Value {
        Value::Bulk(Bytes::from(vec![0; bytes]))
    }

    #[test]
    fn the_last_reply_to_the_same_read_counts() {
        let large = LargeReplies::new(100);
        let (get, other) = (Command::new(&spec::GET).arg("k"), Command::new(&spec::GET).arg("other"));
        let strlen = Command::new(&spec::STRLEN).arg("k");
        assert!(!large.expects(&get));
        large.note(&get, &bulk(100));
        assert!(large.expects(&get) && !large.expects(&other) && !large.expects(&strlen));
        large.note(&get, &bulk(99));
        assert!(!large.expects(&get));
    }

    #[test]
    fn what_writes_or_has_no_key_is_not_remembered() {
        let large = LargeReplies::new(100);
        for command in [Command::new(&spec::GETDEL).arg("k"), Command::new(&spec::DBSIZE), Command::raw("NEW.ONE")] {
            large.note(&command, &bulk(100));
            assert!(!large.expects(&command), "{command:?}");
        }
    }

    #[test]
    fn a_reply_of_many_parts_is_counted_until_it_is_enough() {
        let parts = |count| Value::Array(vec![bulk(4); count]);
        assert_eq!((size(&parts(3), 1000), size(&parts(1000), 100)), (60, 100));
        assert_eq!(size(&Value::Map(vec![(bulk(1), parts(1))]), 1000), 16 + 1 + 16 + 20);
    }
}
