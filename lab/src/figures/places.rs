//! What was measured in a report, number by number, under the names that places of documents have for them.

use crate::experiment::model::{
    Column, GroupResults, Metric, Report, Results, Role, RowResults, Summary, TableResults, VariantResults,
};
use crate::show::{columns, words};

/// A number with its rounds.
#[derive(Clone, Copy)]
pub(crate) struct Place<'r> {
    pub(crate) results: &'r Results,
    pub(crate) of: Of<'r>,
}

/// Where it stands.
#[derive(Clone, Copy)]
pub(crate) enum Of<'r> {
    /// In a group, beside equals and others.
    Variant(&'r GroupResults, &'r VariantResults, Metric),
    /// In a table.
    Row(&'r TableResults, &'r RowResults, &'r Column),
}

impl Place<'_> {
    /// `cache/cached/cpu-us/pilotlight`.
    pub(crate) fn name(&self) -> String {
        let name = &self.results.name;
        match self.of {
            Of::Variant(group, variant, metric) => format!("{name}/{}/{}/{}", group.id, metric.id(), variant.id),
            Of::Row(table, row, column) => format!("{name}/{}/{}/{}", table.id, column.id, row.id),
        }
    }

    /// For people: `A cached answer: CPU per request, µs`, and of whom.
    pub(crate) fn title(&self) -> [String; 2] {
        match self.of {
            Of::Variant(group, variant, metric) => {
                [format!("{}: {}", group.title, words::heading(metric)), variant.title.clone()]
            }
            Of::Row(table, row, column) => {
                [format!("{}: {}", table.title, columns::heading(column)), row.title.clone()]
            }
        }
    }

    pub(crate) fn unit(&self) -> &str {
        match self.of {
            Of::Variant(_, _, metric) => metric.unit(),
            Of::Row(_, _, column) => &column.unit,
        }
    }

    /// What a column counts is told by its unit alone: of what is per second more is better, of all else less.
    pub(crate) fn more_is_better(&self) -> bool {
        match self.of {
            Of::Variant(_, _, metric) => metric.more_is_better(),
            Of::Row(_, _, column) => column.unit.ends_with("/s"),
        }
    }

    pub(crate) fn summary(&self) -> Option<Summary> {
        match self.of {
            Of::Variant(_, variant, metric) => variant.summary.get(&metric),
            Of::Row(_, row, column) => row.summary.get(&column.id),
        }
        .copied()
    }

    /// `4.16 (3.92–4.31) µs`.
    pub(crate) fn text(&self) -> String {
        match (self.of, self.summary()) {
            (_, None) => "–".to_owned(),
            (Of::Variant(_, _, metric), Some(summary)) => words::measured(metric, summary),
            (Of::Row(table, _, column), Some(summary)) => columns::measured(table, column, summary),
        }
    }

    pub(crate) fn rounds(&self) -> Vec<Option<f64>> {
        match self.of {
            Of::Variant(_, variant, metric) => variant.rounds.iter().map(|round| round.get(&metric).copied()).collect(),
            Of::Row(_, row, column) => row.rounds.iter().map(|round| round.get(&column.id).copied()).collect(),
        }
    }
}

/// All that a report has of Pilotlight, in its order: of a group its subjects, and where it has none (services compared
/// among themselves) every variant; of a table every row. What failed has none.
pub(crate) fn of_report(report: &Report) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    for results in &report.experiments {
        for group in &results.groups {
            let has_subject = words::shown(group).any(|variant| variant.role == Role::Subject);
            let ours = words::shown(group).filter(|variant| !has_subject || variant.role == Role::Subject);
            for variant in ours.filter(|variant| variant.failed.is_none()) {
                let with = |metric: &Metric| Place { results, of: Of::Variant(group, variant, *metric) };
                places.extend(group.metrics.iter().map(with));
            }
        }
        for table in &results.tables {
            for row in table.rows.iter().filter(|row| row.failed.is_none()) {
                places.extend(table.columns.iter().map(|column| Place { results, of: Of::Row(table, row, column) }));
            }
        }
    }
    places.retain(|place| place.summary().is_some());
    places
}
