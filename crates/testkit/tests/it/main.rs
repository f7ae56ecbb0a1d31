//! The testkit against the installed server.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod mock;
mod proxy;
mod script;
mod sentinel;
mod server;

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Starts something within a limit; on a busy machine the best of three tries counts.
#[track_caller]
fn started_within<T, E: Debug>(what: &str, limit: Duration, start: impl Fn() -> Result<T, E>) -> T {
    let mut took = Vec::new();
    for _ in 0..3 {
        let begin = Instant::now();
        let started = start().unwrap();
        took.push(begin.elapsed());
        if begin.elapsed() < limit {
            println!("{what}: ready after {took:?}");
            return started;
        }
    }
    panic!("{what}: ready after {took:?}, wanted {limit:?}");
}
