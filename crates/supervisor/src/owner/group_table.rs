//! The groups, and what their services want.

use crate::policy::groups::Need;
use std::collections::BTreeMap;
use std::time::Instant;

/// The groups that there are or were; a group has as many services as the file says, and there are few.
#[derive(Debug, Default)]
pub(super) struct GroupTable(pub(super) Vec<GroupRecord>);

#[derive(Debug)]
pub(super) struct GroupRecord {
    pub(super) name: String,
    /// What its services want, by their numbers.
    pub(super) wants: BTreeMap<usize, Wish>,
    pub(super) over_since: Option<Instant>,
    /// When the group is looked at again.
    pub(super) look_at: Option<Instant>,
}

/// What a service wanted when it was reviewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) need: Need,
    pub(super) count: u32,
    /// Since when people want it to run, without a request.
    pub(super) asked: Option<Instant>,
}

impl GroupTable {
    /// The number of a group, which it keeps.
    pub(super) fn index(&mut self, name: &str) -> usize {
        if let Some(index) = self.0.iter().position(|group| group.name == name) {
            return index;
        }
        let record = GroupRecord { name: name.to_owned(), wants: BTreeMap::new(), over_since: None, look_at: None };
        self.0.push(record);
        self.0.len() - 1
    }
}
