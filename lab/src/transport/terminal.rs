//! The report on a terminal.

use std::path::Path;

use super::cases::Case;
use super::findings;
use super::published::{self, published};
use super::results::Results;
use super::services::SDK;
use super::{JSON_FILE, MARKDOWN_FILE};
use crate::report::{Table, bar, maybe, megabytes, number};

const BAR_WIDTH: usize = 10;

/// Everything that fits a screen or two.
#[must_use]
pub(crate) fn render(results: &Results, folder: &Path) -> String {
    let mut out = String::new();
    out.push_str(&times(results).text());
    out.push_str("\nMemory (Pss), and CPU time of a request\n");
    out.push_str(&usage(results).text());
    for failed in results.results.iter().filter(|result| result.failed.is_some() || result.errors > 0) {
        let reasons = failed.failed.iter().chain(failed.error_reasons.keys()).cloned().collect::<Vec<_>>().join("; ");
        out.push_str(&format!("FAILED: {}: {reasons}\n", failed.title));
    }
    if !results.own_parts.is_empty() {
        out.push_str("\nThe gateway's own part of a cold start, ms\n");
        out.push_str(&own_parts(results).text());
    }
    out.push_str(&format!("\nPublished ({})\n", published::CAVEAT));
    out.push_str(&published_table(results).text());
    out.push('\n');
    for finding in findings::key_findings(results) {
        out.push_str(&format!("- {}\n", finding.replace("**", "")));
    }
    out.push('\n');
    for recommendation in &results.recommendations {
        out.push_str(&format!(
            "{}: {} ({})\n",
            recommendation.service.title(),
            recommendation.transport.advice(),
            recommendation.because
        ));
    }
    for warning in findings::warnings(results) {
        out.push_str(&format!("warning: {warning}\n"));
    }
    for skipped in &results.skipped {
        out.push_str(&format!("skipped: {}: {}; {}\n", skipped.what, skipped.why, skipped.install));
    }
    out.push_str(&format!(
        "\nwritten: {} and {}\n",
        folder.join(MARKDOWN_FILE).display(),
        folder.join(JSON_FILE).display()
    ));
    out
}

/// Times: a row for each variant that a client saw.
pub(crate) fn times(results: &Results) -> Table {
    let mut table =
        Table::new(["ms", "mean", "± dev", "p10", "p50", "p90", "p99", "p99.9", "first", "req/s", "least – most"]);
    for result in findings::answered(results) {
        let at = |name| maybe(result.percentile(name));
        let moments = result.response_time_ms;
        let most = result.histogram.iter().map(|bar| bar.count).max().unwrap_or(0);
        table.row([
            result.title.clone(),
            maybe(moments.map(|m| m.mean)),
            maybe(moments.map(|m| m.std_dev)),
            at("p10"),
            at("p50"),
            at("p90"),
            at("p99"),
            at("p99.9"),
            maybe(result.first_request_ms),
            maybe(result.throughput.map(|t| t.requests_per_second)),
            result.histogram.iter().map(|bar| spark(bar.count, most)).collect(),
        ]);
    }
    table
}

/// Memory and CPU time in short.
fn usage(results: &Results) -> Table {
    let mut table = Table::new(["", "service MB", "gateway MB", "CPU µs: gateway", "service", "both"]);
    for result in findings::answered(results).filter(|result| result.success > 0) {
        let both = result.cpu.gateway_us.zip(result.cpu.service_us).map(|(gateway, service)| gateway + service);
        table.row([
            result.title.clone(),
            megabytes(result.memory.service_after.pss_bytes),
            megabytes(result.memory.gateway.pss_bytes),
            maybe(result.cpu.gateway_us),
            maybe(result.cpu.service_us),
            maybe(both),
        ]);
    }
    table
}

/// The gateway's own part of cold starts.
#[must_use]
pub(crate) fn own_parts(results: &Results) -> Table {
    let mut table =
        Table::new(["variant", "whole, p50", "service alone, p50", "gateway's own part, p50", "95 % interval"]);
    for part in &results.own_parts {
        let interval = match (part.low_ms, part.high_ms) {
            (Some(low), Some(high)) => format!("{} – {}", number(low), number(high)),
            _ => "–".into(),
        };
        table.row([part.title.clone(), number(part.whole_ms), number(part.bare_ms), number(part.own_ms), interval]);
    }
    table
}

/// The published figures, and this run's beside them.
#[must_use]
pub(crate) fn published_table(results: &Results) -> Table {
    let mut table =
        Table::new(["case", "published mean ms", "first request ms", "service memory MB", "measured here, mean ms"]);
    for case in Case::ALL {
        let Some(row) = published(case) else { continue };
        let here: Vec<String> = findings::answered(results)
            .filter(|result| result.case == case && result.front == super::cases::Front::Pilotlight)
            .filter_map(|result| {
                let server = if result.server == SDK { String::new() } else { format!(" ({})", result.server) };
                Some(format!("{}{server} {}", result.service.title(), number(result.response_time_ms?.mean)))
            })
            .collect();
        let memory = row.memory_mb.map_or_else(|| "–".into(), |(from, to)| format!("{from:.0}–{to:.0}"));
        table.row([
            case.title().into(),
            number(row.mean_ms),
            maybe(row.first_request_ms),
            memory,
            if here.is_empty() { "–".into() } else { here.join(", ") },
        ]);
    }
    table
}

/// One of ten heights.
fn spark(count: u64, most: u64) -> char {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = if most == 0 { 0.0 } else { (count as f64 / most as f64 * 8.0).ceil() };
    HEIGHTS[(eighths as usize).min(8)]
}

/// A histogram with a line for each bar.
#[must_use]
pub(crate) fn histogram(bars: &[super::results::Bar]) -> String {
    let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
    let line = |b: &super::results::Bar| {
        format!(
            "{:>9} – {:<9} {:>7}  {}\n",
            number(b.from_ms),
            number(b.to_ms),
            b.count,
            bar(b.count, most, BAR_WIDTH * 4)
        )
    };
    bars.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparks() {
        let line: String = [0, 1, 50, 100].map(|count| spark(count, 100)).iter().collect();
        assert_eq!(line, " ▁▄█");
        assert_eq!(spark(0, 0), ' ');
    }
}
