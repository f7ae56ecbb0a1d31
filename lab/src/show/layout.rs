//! The order of a report: sections of experiments, with the names that links and files have, and their pictures.

use std::collections::HashSet;

use super::charts::{Chart, Charts, slug};
use crate::experiment::model::{GroupResults, Report, Results, TableResults};

/// A report with its pictures.
pub(super) struct Layout<'a> {
    pub(super) report: &'a Report,
    pub(super) sections: Vec<Section<'a>>,
}

/// An experiment.
pub(super) struct Section<'a> {
    pub(super) report: &'a Report,
    pub(super) results: &'a Results,
    /// Unique in the report.
    pub(super) anchor: String,
    pub(super) parts: Vec<Part<'a>>,
    /// With their names, unique as well.
    pub(super) tables: Vec<(String, &'a TableResults)>,
}

/// A group.
pub(super) struct Part<'a> {
    pub(super) group: &'a GroupResults,
    /// Unique in the report.
    pub(super) anchor: String,
    pub(super) charts: Charts,
}

impl<'a> Layout<'a> {
    /// # Errors
    /// A histogram cannot be read.
    pub(super) fn new(report: &'a Report) -> anyhow::Result<Self> {
        let mut taken = HashSet::new();
        let mut sections = Vec::new();
        for results in &report.experiments {
            let anchor = unique(slug(&results.name), &mut taken);
            let mut parts = Vec::new();
            for group in &results.groups {
                let anchor = unique(format!("{anchor}-{}", slug(&group.id)), &mut taken);
                let charts = Charts::new(results, group, &anchor)?;
                parts.push(Part { group, anchor, charts });
            }
            let mut name = |table: &TableResults| unique(format!("{anchor}-{}", slug(&table.id)), &mut taken);
            let tables = results.tables.iter().map(|table| (name(table), table)).collect();
            sections.push(Section { report, results, anchor, parts, tables });
        }
        Ok(Self { report, sections })
    }

    pub(super) fn charts(&self) -> impl Iterator<Item = &Chart> {
        self.sections.iter().flat_map(|section| &section.parts).flat_map(|part| part.charts.iter())
    }
}

fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let name = if name.is_empty() { "unnamed".to_owned() } else { name };
    let mut candidate = name.clone();
    let mut number = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{name}-{number}");
        number += 1;
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut taken = HashSet::new();
        let names = ["a", "a", "", "", "a-2"].map(|name| unique(name.into(), &mut taken));
        assert_eq!(names, ["a", "a-2", "unnamed", "unnamed-2", "a-2-2"]);
    }
}
