//! The tables of `transport.md`.

use super::cases::Case;
use super::findings;
use super::published::published;
use super::results::Results;
use super::services::SDK;
use crate::report::{Table, bar, maybe, number};

const BAR_WIDTH: usize = 10;

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
