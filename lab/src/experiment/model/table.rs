//! What alternates in rounds and is compared with nothing, so that it has no control and no verdict: a table with
//! columns of its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Summary;

/// What was measured, in columns of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableResults {
    /// Unique in its experiment, groups included.
    pub id: String,
    /// For people.
    pub title: String,
    /// What was done in each round.
    pub workload: String,
    /// How many rounds.
    pub rounds: u32,
    /// In their order.
    pub columns: Vec<Column>,
    /// Who took part.
    pub rows: Vec<RowResults>,
}

/// What a number of a row is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Unique in its table.
    pub id: String,
    /// For people.
    pub title: String,
    /// `ms`; empty for what is counted.
    pub unit: String,
}

/// What was measured of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowResults {
    /// Unique in its table.
    pub id: String,
    /// For people.
    pub title: String,
    /// Why it was given up; then none of its rounds counts.
    pub failed: Option<String>,
    /// By column, of each round in their order. A row need not have all columns.
    pub rounds: Vec<BTreeMap<String, f64>>,
    /// Of all rounds.
    pub summary: BTreeMap<String, Summary>,
}

impl RowResults {
    /// What was measured once, by column; or why it was not.
    #[must_use]
    pub fn once(id: String, title: String, found: Result<BTreeMap<String, f64>, String>) -> Self {
        let (rounds, failed) = match found {
            Ok(values) => (vec![values], None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let summary = |value: &f64| Summary { median: *value, low: *value, high: *value };
        let summary = rounds.iter().flatten().map(|(column, value)| (column.clone(), summary(value))).collect();
        Self { id, title, failed, rounds, summary }
    }
}
