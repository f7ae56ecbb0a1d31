//! The results: a table for people, JSON for programs.

use std::io::Write;

use hdrhistogram::Histogram;
use serde_json::{Value as Json, json};

use super::measure::Row;
use super::plan::Bench;
use crate::load::text::{grouped, milliseconds};

/// Of the JSON.
const SCHEMA: &str = "pilotlight.redis.bench";
const SCHEMA_VERSION: u32 = 1;

/// The percentiles that are told.
const PERCENTILES: [(&str, &str, f64); 6] = [
    ("p50", "p50", 50.0),
    ("p90", "p90", 90.0),
    ("p95", "p95", 95.0),
    ("p99", "p99", 99.0),
    ("p99.9", "p99_9", 99.9),
    ("p99.99", "p99_99", 99.99),
];

/// What is measured, and the heads of the columns.
pub(crate) fn write_head(bench: &Bench<'_>, out: &mut impl Write) -> anyhow::Result<()> {
    let args = bench.args;
    let load = match args.rate {
        Some(rate) => format!("{} commands a second, latency from the intended start", grouped(rate)),
        None => "closed loop".to_owned(),
    };
    writeln!(
        out,
        "{}: {} workers × {} commands, {load}; {} threads, {} connections each to a node; {} keys ({}), values of {} bytes",
        bench.config,
        args.workers,
        args.pipeline,
        bench.threads,
        args.lanes,
        grouped(args.keys),
        args.distribution,
        args.value_size,
    )?;
    write!(out, "{:<10} {:>12} {:>10}", "", "ops/s", "errors")?;
    for (name, _, _) in PERCENTILES {
        write!(out, " {name:>9}")?;
    }
    writeln!(out, " {:>9} {:>9}", "max ms", "CPU µs/op")?;
    out.flush()?;
    Ok(())
}

/// One line, and what went wrong.
pub(crate) fn write_row(row: &Row, out: &mut impl Write) -> anyhow::Result<()> {
    let tally = &row.tally;
    let rate = grouped(row.operations_per_second().round() as u64);
    write!(out, "{:<10} {rate:>12} {:>10}", row.name, grouped(tally.faults.total()))?;
    for (_, _, percentile) in PERCENTILES {
        write!(out, " {:>9}", milliseconds(tally.latency.value_at_percentile(percentile)))?;
    }
    writeln!(out, " {:>9} {:>9.2}", milliseconds(tally.latency.max()), row.cpu_us_per_operation())?;
    write!(out, "{}", tally.faults)?;
    if tally.unsent > 0 {
        let wanted = row.rate.unwrap_or_default();
        writeln!(
            out,
            "  {} commands were due and not sent in time: {} a second is more than these workers and this server can do; their latencies are missing above",
            grouped(tally.unsent),
            grouped(wanted)
        )?;
    }
    if row.was_interrupted {
        writeln!(out, "  interrupted after {:.1} s", row.elapsed.as_secs_f64())?;
    }
    out.flush()?;
    Ok(())
}

/// Everything.
pub(crate) fn write_json(bench: &Bench<'_>, rows: &[Row], out: &mut impl Write) -> anyhow::Result<()> {
    let args = bench.args;
    let results: Vec<Json> = rows.iter().map(result).collect();
    let all = json!({
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "server": bench.config.to_string(),
        "settings": {
            "workers": args.workers,
            "pipeline": args.pipeline,
            "lanes": args.lanes,
            "threads": bench.threads,
            "rate": args.rate,
            "duration_seconds": args.duration.as_secs_f64(),
            "warmup_seconds": args.warmup.as_secs_f64(),
            "keys": args.keys,
            "key_prefix": args.key_prefix,
            "distribution": args.distribution.to_string(),
            "value_size_bytes": args.value_size,
            "write_percent": args.writes,
            "seed": args.seed,
        },
        "results": results,
    });
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)?;
    Ok(())
}

fn result(row: &Row) -> Json {
    let tally = &row.tally;
    json!({
        "operation": row.name,
        "operations": tally.done,
        "seconds": row.elapsed.as_secs_f64(),
        "operations_per_second": row.operations_per_second(),
        "errors": tally.faults.total(),
        "errors_by_kind": tally.faults.json(),
        "unsent": tally.unsent,
        "interrupted": row.was_interrupted,
        "client_cpu_us_per_operation": row.cpu_us_per_operation(),
        "latency_us": latency(&tally.latency),
    })
}

fn latency(histogram: &Histogram<u64>) -> Json {
    let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1e3;
    let mut all = json!({
        "min": microseconds(if histogram.is_empty() { 0 } else { histogram.min() }),
        "mean": histogram.mean() / 1e3,
        "max": microseconds(histogram.max()),
    });
    for (_, name, percentile) in PERCENTILES {
        all[name] = json!(microseconds(histogram.value_at_percentile(percentile)));
    }
    all
}
