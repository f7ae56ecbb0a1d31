//! A closed-loop HTTP/1.1 load generator cheap enough that one core of it saturates one core of server.
//!
//! `cbench TARGET CONNECTIONS DEPTH SECONDS PATH [PATHS]`, where TARGET is `127.0.0.1:PORT` or `unix:PATH` and DEPTH is
//! the number of requests in flight on each connection. With PATHS, that many paths are asked for in turn: PATH and six
//! digits. With `A|B` as PATH, every connection asks for both by turns. One connection with one request uses blocking
//! I/O: round trips without an event loop. Prints one line of JSON; times are microseconds.
mod concurrent;
mod histogram;
mod requests;
mod response;
mod sequential;
mod target;

use histogram::Histogram;
use requests::Requests;
use std::time::{Duration, Instant};
use target::Target;

/// What to send, to whom and for how long.
struct Plan {
    target: Target,
    connections: usize,
    depth: usize,
    duration: Duration,
    requests: Requests,
}

/// What came back.
#[derive(Default)]
struct Outcome {
    latency: Histogram,
    /// Answers with a status other than 2xx.
    bad_status: u64,
    /// Connections that could not be used to the end.
    broken: u64,
}

impl Plan {
    fn from_arguments() -> Option<Self> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let (first, paths) = arguments.split_at_checked(5)?;
        let [target, connections, depth, seconds, path] = first else {
            return None;
        };
        let paths = match paths {
            [] => None,
            [count] => Some(count.parse().ok().filter(|count| (1..=1_000_000).contains(count))?),
            _ => return None,
        };
        let plan = Self {
            target: Target::parse(target),
            connections: connections.parse().ok()?,
            depth: depth.parse().ok()?,
            duration: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
            requests: Requests::new(path, paths),
        };
        (plan.connections > 0 && plan.depth > 0).then_some(plan)
    }
}

fn main() {
    let Some(mut plan) = Plan::from_arguments() else {
        eprintln!("usage: cbench 127.0.0.1:PORT|unix:PATH CONNECTIONS DEPTH SECONDS PATH [PATHS]");
        std::process::exit(2);
    };
    let start = Instant::now();
    let run = if plan.connections == 1 && plan.depth == 1 { sequential::run } else { concurrent::run };
    let outcome = match run(&mut plan) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("cbench: {}: {error}", plan.target);
            std::process::exit(1);
        }
    };
    let latency = &outcome.latency;
    println!(
        r#"{{"rps":{:.1},"n":{},"p50":{:.2},"p99":{:.2},"max":{:.1},"errors":{}}}"#,
        latency.count() as f64 / start.elapsed().as_secs_f64(),
        latency.count(),
        latency.percentile_us(0.5),
        latency.percentile_us(0.99),
        latency.max_us(),
        outcome.bad_status + outcome.broken,
    );
}
