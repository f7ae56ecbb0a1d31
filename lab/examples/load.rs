//! The lab's load on its own, to hold it against other generators: prints a line of JSON.
//!
//! `cargo run --release -p pilotlight-lab --example load -- 127.0.0.1:8080 64 1 5 /users/42`

use std::time::Duration;

use anyhow::Context as _;
use pilotlight_lab::load::{Load, Pace, Requests, Target, get, run};

const USAGE: &str = "load ADDRESS|SOCKET CONNECTIONS DEPTH SECONDS PATH [REQUESTS_PER_SECOND]";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [to, connections, depth, seconds, path, rate @ ..] = &arguments[..] else { anyhow::bail!("usage: {USAGE}") };
    let pace = match rate.first() {
        Some(rate) => Pace::Open { per_second: rate.parse().context(USAGE)? },
        None => Pace::Closed { depth: depth.parse().context(USAGE)? },
    };
    let load = Load {
        to: to.parse().map_or_else(|_| Target::Unix(to.into()), Target::Tcp),
        connections: connections.parse().context(USAGE)?,
        pace,
        duration: Duration::from_secs_f64(seconds.parse().context(USAGE)?),
    };
    let outcome = run(&load, Requests::Same { request: get(path), body: None })?;
    let us = |percent| outcome.times.percentile_ms(percent) * 1000.0;
    let line = serde_json::json!({
        "answers": outcome.answers, "per_second": outcome.per_second(), "load_cpu_us": outcome.cpu_us(),
        "p50_us": us(50.0), "p99_us": us(99.0), "statuses": outcome.statuses,
    });
    println!("{line}");
    Ok(())
}
