//! A report as it is stored: read, and refused with a reason if it is none of ours.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde::Deserialize;

use crate::experiment::model::{Latency, OLDER, Report, Results, SCHEMA, Summary};
use crate::stats::median;

/// What every version of the shape begins with.
const SHAPE: &str = "pilotlight-lab/";

/// Reads a report.
///
/// # Errors
/// The file cannot be read, is no report, or is one of another version.
pub fn read(file: &Path) -> anyhow::Result<Report> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse(&text).with_context(|| format!("{} cannot be shown", file.display()))
}

#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
}

/// Likewise, of its text.
pub(crate) fn parse(text: &str) -> anyhow::Result<Report> {
    let head: Head = serde_json::from_str(text).context("it is not the JSON of a report")?;
    match head.schema.as_deref() {
        Some(schema) if schema == SCHEMA || OLDER.contains(&schema) => {}
        Some(other) if other.starts_with(SHAPE) => bail!(
            "its schema is {other}, and this pilotlight {} reads {SCHEMA}: show it with the version that wrote it",
            env!("CARGO_PKG_VERSION")
        ),
        Some(other) => bail!("its schema is {other:?}, which is no report of all experiments ({SCHEMA})"),
        None => bail!("it has no \"schema\"; a report has {SCHEMA:?}"),
    }
    let report: Report = serde_json::from_str(text).context("it is no valid report")?;
    for results in &report.experiments {
        for (group, variant) in results.groups.iter().flat_map(|group| group.variants.iter().map(move |v| (group, v))) {
            if let Some(latency) = &variant.latency {
                histogram(latency).with_context(|| {
                    format!("the histogram of {}/{}/{} cannot be read", results.name, group.id, variant.id)
                })?;
            }
        }
        of_its_rounds(results)?;
    }
    Ok(report)
}

/// Other programs write tables, and hands change them: a median is that of its rounds.
fn of_its_rounds(results: &Results) -> anyhow::Result<()> {
    let same = |summary: &Summary, rounds: &[f64]| {
        median(rounds).is_some_and(|median| (median - summary.median).abs() <= 1e-9 * median.abs())
    };
    for (table, row) in results.tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row))) {
        for (column, summary) in &row.summary {
            let rounds: Vec<f64> = row.rounds.iter().filter_map(|round| round.get(column).copied()).collect();
            let place = || format!("{}/{}/{column}/{}", results.name, table.id, row.id);
            ensure!(same(summary, &rounds), "{} is not the median of its rounds", place());
        }
    }
    for figure in results.figures.iter().filter(|figure| !figure.rounds.is_empty()) {
        let same = figure.measured.is_some_and(|summary| same(&summary, &figure.rounds));
        ensure!(same, "{}: {} is not the median of its rounds", results.name, figure.name);
    }
    Ok(())
}

/// The times of a distribution, in nanoseconds.
///
/// # Errors
/// It is no HDR histogram in base64.
pub(super) fn histogram(latency: &Latency) -> anyhow::Result<Histogram<u64>> {
    let bytes = BASE64.decode(&latency.hdr).context("it is not base64")?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| anyhow::anyhow!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = format!("{:#}", parse(text).expect_err("a mistake"));
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn what_is_no_report_is_refused_with_a_reason() {
        check("nothing", "not the JSON of a report");
        check("{}", "no \"schema\"");
        check(r#"{"schema":"pilotlight-lab/3"}"#, "its schema is pilotlight-lab/3, and this pilotlight");
        check(r#"{"schema":"pilotlight-lab/0"}"#, "show it with the version that wrote it");
        check(r#"{"schema":"pilotlight-lab-rest/1"}"#, "no report of all experiments");
        check(r#"{"schema":"pilotlight-lab/1"}"#, "no valid report: missing field");
        check(r#"{"schema":"pilotlight-lab/2"}"#, "no valid report: missing field");
    }
}
