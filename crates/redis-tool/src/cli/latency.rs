//! `--latency`, `--latency-history`, `--latency-dist`, `--intrinsic-latency`: how long a `PING` takes, one after the
//! other on one connection, and how long this machine leaves a process waiting.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use pilotlight_redis::Route;
use pilotlight_resp::{Frame, Limits};

use super::arguments::CliArgs;
use super::format::Format;
use super::output::Output;
use super::session::{Failure, Session};
use super::task::LatencyReport;
use crate::wire::Wire;

/// Pause between two `PING`s.
const PAUSE: Duration = Duration::from_millis(10);
/// Time of one measurement where the output is for programs, and between the lines of the history.
const SUMMARY_FOR: Duration = Duration::from_secs(1);
const HISTORY_EVERY: Duration = Duration::from_secs(15);
const DISTRIBUTION_EVERY: Duration = Duration::from_secs(1);
/// Upper ends of the classes of the distribution.
const CLASSES_US: [u64; 15] =
    [50, 100, 200, 300, 500, 750, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 500_000, 1_000_000];

#[derive(Debug, Default)]
struct Times {
    count: u64,
    total: Duration,
    least: Option<Duration>,
    most: Duration,
    /// The last class is open.
    classes: [u64; CLASSES_US.len() + 1],
}

/// Does it, until Ctrl-C; for programs `--latency` ends after a second (`-i`).
pub(super) async fn run(
    session: &mut Session,
    kind: LatencyReport,
    arguments: &CliArgs,
    output: &mut Output,
) -> anyhow::Result<ExitCode> {
    let mut wire = Wire::open(session.client(), Route::Any, Limits::default()).await?;
    let is_live = kind == LatencyReport::Summary && output.is_terminal() && output.format() == Format::Human;
    let usual = match kind {
        LatencyReport::Summary => SUMMARY_FOR,
        LatencyReport::History => HISTORY_EVERY,
        LatencyReport::Distribution => DISTRIBUTION_EVERY,
    };
    let every = arguments.input.interval.unwrap_or(usual);
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    let (mut times, mut since) = (Times::default(), Instant::now());
    if kind == LatencyReport::Distribution && !is_json(output) {
        output.bytes(distribution_heading().as_bytes())?;
    }
    loop {
        let is_stopped = tokio::select! {
            time = ping(&mut wire) => {
                times.add(time?);
                false
            }
            _ = &mut stop => true,
        };
        let is_full = since.elapsed() >= every && !is_live;
        if is_live && !is_stopped {
            output.progress(&times.summary());
        }
        if is_stopped || is_full {
            output.end_of_progress();
            if times.count > 0 {
                output.bytes(times.line(kind, output.format(), since.elapsed()).as_bytes())?;
            }
            if is_stopped || kind == LatencyReport::Summary {
                return Ok(ExitCode::SUCCESS);
            }
            (times, since) = (Times::default(), Instant::now());
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            _ = &mut stop => {
                output.end_of_progress();
                output.bytes(times.line(kind, output.format(), since.elapsed()).as_bytes())?;
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

async fn ping(wire: &mut Wire) -> Result<Duration, Failure> {
    let lost = |error: std::io::Error| Failure::Lost(error.to_string());
    let start = Instant::now();
    wire.send(&[b"PING".to_vec()]).await.map_err(lost)?;
    while let Frame::Push(_) = wire.frame().await.map_err(lost)? {}
    Ok(start.elapsed())
}

fn is_json(output: &Output) -> bool {
    matches!(output.format(), Format::Json | Format::QuotedJson)
}

impl Times {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.total += time;
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
        self.most = self.most.max(time);
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.classes[CLASSES_US.partition_point(|end| *end < us)] += 1;
    }

    fn mean_ms(&self) -> f64 {
        ms(self.total) / self.count.max(1) as f64
    }

    fn summary(&self) -> String {
        format!(
            "least {:.3} ms, most {:.3} ms, mean {:.3} ms, {} samples",
            ms(self.least.unwrap_or_default()),
            ms(self.most),
            self.mean_ms(),
            self.count
        )
    }

    fn line(&self, kind: LatencyReport, format: Format, elapsed: Duration) -> String {
        let (least, most, mean) = (ms(self.least.unwrap_or_default()), ms(self.most), self.mean_ms());
        let is_json = matches!(format, Format::Json | Format::QuotedJson);
        let classes = || self.classes.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        match (kind, format) {
            (LatencyReport::Distribution, _) if is_json => {
                let ends = CLASSES_US.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
                format!("{{\"count\":{},\"class_ends_us\":[{ends}],\"classes\":[{}]}}\n", self.count, classes())
            }
            (LatencyReport::Distribution, _) => self.distribution(),
            (_, Format::Json | Format::QuotedJson) => format!(
                "{{\"min\":{least:.3},\"max\":{most:.3},\"avg\":{mean:.3},\"count\":{},\"unit\":\"ms\",\"seconds\":{:.2}}}\n",
                self.count,
                elapsed.as_secs_f64()
            ),
            (_, Format::Raw) => format!("{least:.3} {most:.3} {mean:.3} {}\n", self.count),
            (_, Format::Csv) => format!("{least:.3},{most:.3},{mean:.3},{}\n", self.count),
            (LatencyReport::History, _) => format!("{} in {:.2} s\n", self.summary(), elapsed.as_secs_f64()),
            (LatencyReport::Summary, _) => format!("{}\n", self.summary()),
        }
    }

    /// How much of all came in each class, in percent.
    fn distribution(&self) -> String {
        let cell = |count: &u64| match *count {
            0 => format!("{:>6}", "·"),
            count => format!("{:>6.1}", count as f64 * 100.0 / self.count.max(1) as f64),
        };
        format!("{}\n", self.classes.iter().map(cell).collect::<String>())
    }
}

fn distribution_heading() -> String {
    let end = |us: &u64| match us {
        us if *us < 1_000 => format!("{:>6}", format!("≤{us}µ")),
        us if *us < 1_000_000 => format!("{:>6}", format!("≤{}m", us / 1_000)),
        us => format!("{:>6}", format!("≤{}s", us / 1_000_000)),
    };
    format!(
        "{}  more   (percent of samples by time: µ microseconds, m milliseconds, s seconds)\n",
        CLASSES_US.iter().map(end).collect::<String>()
    )
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Runs busily for so many seconds and looks for the longest time that it did not run.
pub(super) fn intrinsic(seconds: u64, output: &mut Output) -> anyhow::Result<ExitCode> {
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds));
    let (mut runs, mut worst, mut last) = (0_u64, Duration::ZERO, start);
    while last.duration_since(start) < limit {
        let now = Instant::now();
        let gap = now.duration_since(last);
        if gap > worst {
            worst = gap;
            if output.is_terminal() && std::io::stderr().is_terminal() {
                output.progress(&format!("longest pause so far: {} µs", worst.as_micros()));
            }
        }
        runs += 1;
        last = now;
    }
    output.end_of_progress();
    let mean = last.duration_since(start).as_nanos() as f64 / runs.max(1) as f64;
    if is_json(output) {
        output.line(format!(
            "{{\"seconds\":{seconds},\"runs\":{runs},\"mean_ns\":{mean:.1},\"worst_us\":{}}}",
            worst.as_micros()
        ))?;
    } else {
        output
            .line(format!("{runs} turns of {mean:.1} ns on average; the longest pause was {} µs", worst.as_micros()))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_classed() {
        let mut times = Times::default();
        for us in [50, 51, 2_000_000] {
            times.add(Duration::from_micros(us));
        }
        assert_eq!((times.classes[0], times.classes[1], times.classes[15]), (1, 1, 1));
        assert_eq!(times.line(LatencyReport::Summary, Format::Raw, Duration::ZERO), "0.050 2000.000 666.700 3\n");
        assert!(
            times.line(LatencyReport::Distribution, Format::Human, Duration::ZERO).starts_with("  33.3  33.3     ·")
        );
    }
}
