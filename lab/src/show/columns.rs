//! Tables with columns of their own, in words and numbers.

use super::words::{grouped, range};
use crate::experiment::model::{Column, Report, RowResults, Summary, TableResults};
use crate::report::number;

/// `PSS, MB`.
pub(crate) fn heading(column: &Column) -> String {
    match &*column.unit {
        "" => column.title.clone(),
        unit => format!("{}, {unit}", column.title),
    }
}

/// `20 starts · 3 rounds`.
pub(crate) fn workload(table: &TableResults) -> String {
    let rounds = if table.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", table.rounds) };
    format!("{} · {rounds}", table.workload)
}

/// What stands in a table: `14.2 (14.1–14.4)`.
pub(crate) fn cell(table: &TableResults, row: &RowResults, column: &Column) -> String {
    match row.summary.get(&column.id) {
        _ if row.failed.is_some() => "failed".to_owned(),
        Some(summary) => with_interval(table, column, *summary),
        None => "–".to_owned(),
    }
}

/// What stands in a sentence: `14.2 (14.1–14.4) MB`.
pub(crate) fn measured(table: &TableResults, column: &Column, summary: Summary) -> String {
    let text = with_interval(table, column, summary);
    match &*column.unit {
        "" => text,
        unit @ ("/s" | "×") => format!("{text}{unit}"),
        unit => format!("{text} {unit}"),
    }
}

/// Each row that was given up, in a sentence.
pub(crate) fn failed(report: &Report) -> Vec<String> {
    let tables = report.experiments.iter().flat_map(|results| &results.tables);
    let rows = tables.flat_map(|table| table.rows.iter().map(move |row| (table, row)));
    rows.filter_map(|(table, row)| {
        let failed = row.failed.as_ref()?;
        Some(format!("{} failed in “{}” and does not count: {failed}", row.title, table.title))
    })
    .collect()
}

fn with_interval(table: &TableResults, column: &Column, summary: Summary) -> String {
    let counted = is_counted(table, column);
    let amount = |value: f64| amount(value, counted);
    let interval = range(summary, amount).map_or_else(String::new, |range| format!(" ({range})"));
    format!("{}{interval}", amount(summary.median))
}

/// Whether only whole numbers were measured: then `2` is not `2.00`.
fn is_counted(table: &TableResults, column: &Column) -> bool {
    table
        .rows
        .iter()
        .flat_map(|row| &row.rounds)
        .filter_map(|round| round.get(&column.id))
        .all(|value| is_whole(*value))
}

fn is_whole(value: f64) -> bool {
    value.fract() == 0.0
}

fn amount(value: f64, counted: bool) -> String {
    if value.abs() >= 1000.0 || counted && is_whole(value) { grouped(value) } else { number(value).replace('-', "−") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn table(rounds: &[f64]) -> TableResults {
        TableResults {
            id: "t".into(),
            title: "A table".into(),
            workload: "20 starts".into(),
            rounds: 3,
            columns: vec![Column { id: "c".into(), title: "growth".into(), unit: "MB".into() }],
            rows: vec![RowResults {
                id: "r".into(),
                title: "a row".into(),
                failed: None,
                rounds: rounds.iter().map(|value| BTreeMap::from([("c".to_owned(), *value)])).collect(),
                summary: BTreeMap::new(),
            }],
        }
    }

    #[track_caller]
    fn check(rounds: [f64; 3], expected: &str) {
        let table = table(&rounds);
        let [low, median, high] = rounds;
        assert_eq!(measured(&table, &table.columns[0], Summary { median, low, high }), expected);
    }

    #[test]
    fn what_is_counted_has_no_decimals() {
        check([2.0, 2.0, 2.0], "2 MB");
        check([1.0, 2.0, 1234.0], "2 (1–1,234) MB");
        check([0.5, 2.0, 3.0], "2.00 (0.500–3.00) MB");
        check([-0.5, 0.25, 3.0], "0.250 (−0.500 to 3.00) MB");
        check([141_982.3, 151_644.1, 151_644.9], "151,644 (141,982–151,645) MB");
    }

    #[test]
    fn a_row_that_failed_or_lacks_a_column_has_no_number() {
        let mut table = table(&[]);
        assert_eq!(cell(&table, &table.rows[0], &table.columns[0]), "–");
        table.rows[0].failed = Some("it hung".into());
        assert_eq!(cell(&table, &table.rows[0], &table.columns[0]), "failed");
        assert_eq!(
            (heading(&table.columns[0]), workload(&table)),
            ("growth, MB".into(), "20 starts · 3 rounds".into())
        );
    }
}
