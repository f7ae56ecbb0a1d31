//! Kept replies by command, weighed in bytes, evicted by S3-FIFO.

use std::hash::RandomState;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use smallvec::SmallVec;

use super::coverage::Mark;
use crate::command::Command;
use crate::engine::lane::Lane;
use crate::proto::slot::Slot;
use crate::reply::Value;

/// Memory of a reply besides its command and its bytes: the store's slot, index and ghost entries.
const ENTRY_OVERHEAD_BYTES: usize = 192;
/// A guess, for the store's table of recently evicted keys.
const AVERAGE_ENTRY_BYTES: u64 = 512;
/// A shard is worth having from this size on, in bytes.
const MIN_SHARD_BYTES: u64 = 4 << 20;
const MAX_SHARDS: u64 = 16;

/// A command as a key: its name and arguments, unambiguous. On the stack for nearly all.
pub(super) type Name = SmallVec<[u8; 128]>;

/// A reply with what it takes to be used again.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) mark: Mark,
    /// The lane that will tell when the key changes, and its connection that promised to.
    pub(super) lane: Arc<Lane>,
    pub(super) connection: u64,
    pub(super) slot: Slot,
    pub(super) fresh_until: Instant,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Store {
    entries: Entries,
}

type Key = Box<[u8]>;
type Entries = Cache<Key, Entry, Weigh, RandomState, DefaultLifecycle<Key, Entry>>;

#[derive(Debug, Clone)]
struct Weigh;

impl Weighter<Key, Entry> for Weigh {
    fn weight(&self, name: &Key, entry: &Entry) -> u64 {
        (ENTRY_OVERHEAD_BYTES + size_of::<Entry>() + name.len() + heap_bytes(&entry.value)) as u64
    }
}

impl Store {
    /// `None`: there cannot be a store of that size.
    pub(super) fn new(max_bytes: u64) -> Option<Self> {
        let shards = 1_u64 << (max_bytes / MIN_SHARD_BYTES).clamp(1, MAX_SHARDS).ilog2();
        let options = OptionsBuilder::new()
            .shards(shards as usize)
            // Rounded down to whole shares, as the store would round up.
            .weight_capacity(max_bytes - max_bytes % shards)
            .estimated_items_capacity(usize::try_from(max_bytes / AVERAGE_ENTRY_BYTES).unwrap_or(usize::MAX))
            .build()
            .ok()?;
        Some(Self { entries: Cache::with_options(options, Weigh, RandomState::new(), DefaultLifecycle::default()) })
    }

    #[inline]
    pub(super) fn get(&self, name: &Name) -> Option<Entry> {
        self.entries.get(&name[..])
    }

    /// Keeps a reply, unless it is larger than the store.
    pub(super) fn put(&self, name: &Name, entry: Entry) {
        self.entries.insert(name[..].into(), entry);
    }

    pub(super) fn clear(&self) {
        self.entries.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.entries.weight()
    }
}

/// The name under which the replies to `command` are kept.
#[inline]
pub(super) fn name(command: &Command<'_>) -> Name {
    let mut name = Name::from_slice(command.name().as_bytes());
    for arg in command.arguments() {
        let bytes = arg.to_bytes();
        name.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        name.extend_from_slice(&bytes);
    }
    name
}

/// The same value in memory of its own: slices of a read buffer would keep the whole of it.
pub(super) fn detached(value: &Value) -> Value {
    let copy = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
    let all = |values: &[Value]| values.iter().map(detached).collect();
    let pairs = |pairs: &[(Value, Value)]| pairs.iter().map(|(key, value)| (detached(key), detached(value))).collect();
    match value {
        Value::Null => Value::Null,
        Value::Integer(number) => Value::Integer(*number),
        Value::Boolean(truth) => Value::Boolean(*truth),
        Value::Double(number) => Value::Double(*number),
        Value::BigNumber(bytes) => Value::BigNumber(copy(bytes)),
        Value::Simple(bytes) => Value::Simple(copy(bytes)),
        Value::Bulk(bytes) => Value::Bulk(copy(bytes)),
        Value::Verbatim { format, text } => Value::Verbatim { format: *format, text: copy(text) },
        Value::Error(bytes) => Value::Error(copy(bytes)),
        Value::Array(values) => Value::Array(all(values)),
        Value::Set(values) => Value::Set(all(values)),
        Value::Push(values) => Value::Push(all(values)),
        Value::Map(entries) => Value::Map(pairs(entries)),
        // What is said about a value is not kept.
        Value::Attributed(attributed) => detached(&attributed.value),
        Value::Skipped(limit) => Value::Skipped(*limit),
    }
}

/// Memory of a value beyond its own size.
fn heap_bytes(value: &Value) -> usize {
    /// What a shared byte string costs besides its bytes.
    const BYTES_OVERHEAD: usize = 48;
    let all = |values: &[Value]| values.iter().map(|value| size_of::<Value>() + heap_bytes(value)).sum();
    match value {
        Value::Null | Value::Integer(_) | Value::Boolean(_) | Value::Double(_) | Value::Skipped(_) => 0,
        Value::BigNumber(bytes) | Value::Simple(bytes) | Value::Bulk(bytes) | Value::Error(bytes) => {
            BYTES_OVERHEAD + bytes.len()
        }
        Value::Verbatim { text, .. } => BYTES_OVERHEAD + text.len(),
        Value::Array(values) | Value::Set(values) | Value::Push(values) => all(values),
        Value::Map(pairs) => {
            pairs.iter().map(|(key, value)| 2 * size_of::<Value>() + heap_bytes(key) + heap_bytes(value)).sum()
        }
        Value::Attributed(attributed) => heap_bytes(&attributed.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::spec;

    #[test]
    fn names_are_unambiguous() {
        let get = |key: &'static str| name(&Command::new(&spec::GET).arg(key));
        assert_eq!(get("a"), get("a"));
        assert_ne!(get("a"), get("b"));
        let range = |key: &'static str, field: &'static str| name(&Command::new(&spec::HGET).arg(key).arg(field));
        assert_ne!(range("ab", "c"), range("a", "bc"));
        assert_ne!(range("", "x"), name(&Command::new(&spec::HGET).arg("x")));
        assert_ne!(get("a"), name(&Command::new(&spec::TYPE).arg("a")));
        // A number is what is sent for it.
        assert_eq!(get("17"), name(&Command::new(&spec::GET).arg(17)));
    }

    #[test]
    fn a_kept_value_has_its_own_memory() {
        let buffer = Bytes::from(vec![b'x'; 1000]);
        let value = Value::Array(vec![
            Value::Bulk(buffer.slice(10..20)),
            Value::Map(vec![(Value::Integer(1), Value::Simple(buffer.slice(..3)))]),
        ]);
        let kept = detached(&value);
        assert_eq!(kept, value);
        drop(value);
        assert!(buffer.is_unique());
        assert!(heap_bytes(&kept) > 13);
    }
}
