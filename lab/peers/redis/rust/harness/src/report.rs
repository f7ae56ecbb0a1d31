//! What was measured, and the line that says it.
use crate::Options;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

/// What one task counted. Errors count in the warm-up, too; answers and times only while it is measured.
#[derive(Default)]
pub struct Tally {
    pub answers: u64,
    pub errors: u64,
    /// Four bytes each, so that millions of them do not show in what is measured.
    pub times_ns: Vec<u32>,
}

impl Tally {
    #[inline]
    pub fn time(&mut self, time: Duration) {
        self.times_ns.push(time.as_nanos().min(u128::from(u32::MAX)) as u32);
    }
}

/// A measurement that runs: from `START` on.
pub struct Measurement {
    begun: Instant,
    before: Usage,
}

impl Measurement {
    /// Prints `START` and begins.
    pub fn start() -> Self {
        println!("START");
        stdout().flush().expect("somebody reads what this prints");
        Self { begun: Instant::now(), before: own_usage() }
    }

    pub fn stop(self) -> Measured {
        Measured { elapsed: self.begun.elapsed(), before: self.before, after: own_usage() }
    }
}

/// A measurement that is over.
pub struct Measured {
    elapsed: Duration,
    before: Usage,
    after: Usage,
}

impl Measured {
    /// Prints the `END` line.
    pub fn print(&self, options: &Options, tallies: &[Tally]) {
        let answers: u64 = tallies.iter().map(|tally| tally.answers).sum();
        let errors: u64 = tallies.iter().map(|tally| tally.errors).sum();
        let mut times_ns: Vec<u32> = tallies.iter().flat_map(|tally| &tally.times_ns).copied().collect();
        times_ns.sort_unstable();

        let user = microseconds(self.before.user_time(), self.after.user_time());
        let system = microseconds(self.before.system_time(), self.after.system_time());
        let switches = context_switches(&self.after) - context_switches(&self.before);
        let each = |total: f64| total / answers.max(1) as f64;
        println!(
            "END {{\"workload\":\"{}\",\"ops\":{answers},\"errors\":{errors},\"secs\":{:.4},\"ops_s\":{:.0},\"cpu_us\":{:.4},\
             \"user_us\":{:.4},\"switches\":{:.4},\"p50\":{:.2},\"p99\":{:.2},\"p999\":{:.2},\"rss_mb\":{:.1}}}",
            options.workload.name,
            self.elapsed.as_secs_f64(),
            answers as f64 / self.elapsed.as_secs_f64(),
            each(user + system),
            each(user),
            each(switches as f64),
            quantile_us(&times_ns, 0.5),
            quantile_us(&times_ns, 0.99),
            quantile_us(&times_ns, 0.999),
            self.after.max_rss() as f64 / 1024.0,
        );
    }
}

fn own_usage() -> Usage {
    getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask for its own usage")
}

fn microseconds(before: TimeVal, after: TimeVal) -> f64 {
    (after - before).num_microseconds() as f64
}

fn context_switches(usage: &Usage) -> i64 {
    usage.voluntary_context_switches() + usage.involuntary_context_switches()
}

fn quantile_us(sorted_ns: &[u32], part: f64) -> f64 {
    let index = (sorted_ns.len() as f64 * part) as usize;
    let last = sorted_ns.len().saturating_sub(1);
    sorted_ns.get(index.min(last)).map_or(0.0, |time| f64::from(*time) / 1e3)
}
