//! The dynamic table of a decoder (RFC 7541 §2.3.2, §4).

use std::collections::VecDeque;

use super::error::HpackError;
use super::static_table::STATIC_TABLE;
use crate::class::{NameClass, ValueClass};

/// What an entry counts for beside its name and value (§4.1).
pub(crate) const ENTRY_OVERHEAD: usize = 32;
/// The size that the other side may use: the default of SETTINGS_HEADER_TABLE_SIZE (RFC 9113 §6.5.2), as no other one
/// is announced.
pub(crate) const MAX_SIZE: usize = 4096;

/// A field of a table, with what was found out about it when it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'t> {
    pub(crate) name: &'t [u8],
    pub(crate) value: &'t [u8],
    pub(crate) name_class: NameClass,
    pub(crate) value_class: ValueClass,
}

#[derive(Debug)]
struct Kept {
    /// The name, then the value.
    text: Box<[u8]>,
    name_length: usize,
    name_class: NameClass,
    value_class: ValueClass,
}

impl Kept {
    fn size(&self) -> usize {
        self.text.len() + ENTRY_OVERHEAD
    }
}

/// Fields that came before, the latest first.
#[derive(Debug)]
pub(crate) struct DynamicTable {
    entries: VecDeque<Kept>,
    size: usize,
    max_size: usize,
}

impl DynamicTable {
    pub(crate) fn new() -> Self {
        Self { entries: VecDeque::new(), size: 0, max_size: MAX_SIZE }
    }

    /// A field by its index (§2.3.3).
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Result<Entry<'_>, HpackError> {
        let place = index.checked_sub(1).ok_or(HpackError::Index)?;
        if let Some((name, value)) = STATIC_TABLE.get(place) {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            return Ok(Entry { name, value, name_class: NameClass::of_static(index), value_class: ValueClass::Plain });
        }
        let kept = self.entries.get(place - STATIC_TABLE.len()).ok_or(HpackError::Index)?;
        let (name, value) = kept.text.split_at(kept.name_length);
        Ok(Entry { name, value, name_class: kept.name_class, value_class: kept.value_class })
    }

    /// Puts a field in front; others leave to make room (§4.4).
    pub(crate) fn insert(&mut self, field: Entry<'_>) {
        let size = field.name.len() + field.value.len() + ENTRY_OVERHEAD;
        self.evict(self.max_size.saturating_sub(size));
        if size <= self.max_size {
            let Entry { name, value, name_class, value_class } = field;
            let kept = Kept { text: [name, value].concat().into(), name_length: name.len(), name_class, value_class };
            self.size += size;
            self.entries.push_front(kept);
        }
    }

    /// The other side uses no more than this (§4.3).
    pub(crate) fn resize(&mut self, max_size: usize) -> Result<(), HpackError> {
        if max_size > MAX_SIZE {
            return Err(HpackError::TableSize);
        }
        self.max_size = max_size;
        self.evict(max_size);
        Ok(())
    }

    fn evict(&mut self, size: usize) {
        while self.size > size {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.size -= oldest.size();
        }
    }

    #[cfg(test)]
    pub(crate) fn listed(&self) -> (usize, Vec<(String, String)>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let entries = self.entries.iter().map(|kept| {
            let (name, value) = kept.text.split_at(kept.name_length);
            (text(name), text(value))
        });
        (self.size, entries.collect())
    }
}
