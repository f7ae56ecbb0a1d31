//! `pilotlight redis bench`: how many commands a second, and how long each takes.
//!
//! Closed loop: workers send a batch, await it, send the next. Open loop (`--rate`): commands have intended starts,
//! whatever became of those before, and their latency counts from there, so a server that stops for a second is seen by
//! all commands of that second.

mod arguments;
mod batch;
mod measure;
mod operation;
mod pacer;
mod plan;
mod plot;
mod populate;
mod report;
mod template;
mod worker;

use std::io::Write;
use std::time::Duration;

use anyhow::Context;

pub use arguments::BenchArgs;

use crate::load::interrupt::Interrupt;
use crate::load::{Outcome, thread};
use plan::Bench;

/// Measures, and writes the results to `out`.
///
/// # Errors
/// The arguments make no sense ([`UsageError`](crate::connection::UsageError)), or there is no server, or `out` takes
/// no more.
pub fn run(args: &BenchArgs, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let bench = Bench::new(args)?;
    // Before the work, not after it.
    let mut plot = match &args.plot {
        Some(path) => Some(std::fs::File::create(path).with_context(|| format!("--plot {}", path.display()))?),
        None => None,
    };
    let rows = thread::runtime()?.block_on(measure_all(&bench, out))?;
    if args.json {
        report::write_json(&bench, &rows, out)?;
    }
    if let Some(file) = &mut plot {
        file.write_all(plot::svg(&rows).as_bytes()).context("--plot")?;
    }
    let all_is_well = rows.iter().all(measure::Row::is_flawless) && rows.len() == bench.plans.len();
    Ok(if all_is_well { Outcome::Done } else { Outcome::Failed })
}

async fn measure_all(bench: &Bench<'_>, out: &mut impl Write) -> anyhow::Result<Vec<measure::Row>> {
    let interrupt = Interrupt::listen();
    let client = thread::first_connect(&bench.config).await?;
    let mut rows = Vec::new();
    let mut is_populated = bench.args.no_populate;
    if !bench.args.json {
        report::write_head(bench, out)?;
    }
    for plan in &bench.plans {
        if plan.reads() && !is_populated {
            if !populate::populate(&bench.config, plan, bench.threads, &interrupt).await? {
                break; // Ctrl-C
            }
            is_populated = true;
        }
        let row = measure::measure(&bench.config, plan, bench.threads, &interrupt).await?;
        if !bench.args.json {
            report::write_row(&row, out)?;
        }
        rows.push(row);
        if interrupt.is_asked() {
            break;
        }
    }
    if bench.args.cleanup {
        populate::clean(&bench.config, &bench.plans, bench.threads, &interrupt).await?;
    }
    client.close(Duration::from_secs(1)).await;
    Ok(rows)
}
