//! What was let in, and when, by the clock of Redis: what its script writes, as MONITOR shows it.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use crate::experiment::model::Metric;
use crate::rest::redis::Redis;

/// Redis has failed if it shows nothing for so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// The times at which Redis lets requests in from now on, in seconds.
pub(super) struct Monitor {
    socket: TcpStream,
    reader: JoinHandle<io::Result<Vec<f64>>>,
}

impl Monitor {
    pub(super) fn start(redis: &Redis) -> anyhow::Result<Self> {
        let mut socket =
            TcpStream::connect_timeout(&redis.addresses()[0], PATIENCE).context("cannot connect to Redis")?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(socket.try_clone()?).lines();
        ensure!(lines.next().transpose()?.is_some_and(|said| said == "+OK"), "Redis shows nothing");
        let times = move || lines.filter_map(|line| line.map(|line| let_in(&line)).transpose()).collect();
        Ok(Self { socket, reader: std::thread::spawn(times) })
    }

    /// All of them: Redis shows what it has done until then.
    pub(super) fn end(self) -> anyhow::Result<Vec<f64>> {
        self.socket.shutdown(Shutdown::Write)?;
        let times = self.reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
        times.context("what Redis does cannot be read")
    }
}

/// The time of `+1700000000.123456 [0 lua] "SET" "pilotlight:rate:1:AAAA" …`.
fn let_in(line: &str) -> Option<f64> {
    let (time, rest) = line.strip_prefix('+')?.split_once(" [")?;
    let (key, _) = rest.split_once(" lua] \"SET\" \"")?.1.split_once('"')?;
    key.contains(":rate:1:").then(|| time.parse().ok())?
}

/// How often Redis has said this of a request, in the text of a gateway's metrics.
pub(super) fn counted(metrics: &str, result: &str) -> u64 {
    let name = format!("pilotlight_shared_rate_requests_total{{result=\"{result}\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse().ok()).unwrap_or(0)
}

/// How far beyond a rate that is. What the load was told of beyond what Redis let in was let in by gateways alone, and
/// counts evenly.
pub(super) fn beyond(times: &[f64], answered: u64, rate: f64, windows: usize) -> anyhow::Result<Vec<(Metric, f64)>> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { bail!("Redis has let nothing in") };
    ensure!(last > first, "Redis has let in one request only");
    let alone = answered.saturating_sub(times.len() as u64) as f64;
    let percent = |in_a_second: f64| ((in_a_second + alone / (last - first)) / rate - 1.0) * 100.0;
    let counts = windows_of(times, windows);
    Ok(vec![
        (Metric::WindowBeyondPercent, percent(counts.iter().copied().fold(0.0, f64::max))),
        (Metric::SecondBeyondPercent, percent(most_in_a_second(times) as f64)),
        (Metric::BeyondPercent, percent(counts.iter().sum::<f64>() / windows as f64)),
        (Metric::LetInAlone, alone),
    ])
}

/// How many are in each second from the first one on.
fn windows_of(times: &[f64], windows: usize) -> Vec<f64> {
    let mut counts = vec![0.0; windows];
    for time in times {
        if let Some(count) = counts.get_mut((time - times[0]) as usize) {
            *count += 1.0;
        }
    }
    counts
}

fn most_in_a_second(times: &[f64]) -> usize {
    let (mut most, mut first) = (0, 0);
    for (last, time) in times.iter().enumerate() {
        while time - times[first] >= 1.0 {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_with_the_first() {
        assert_eq!(windows_of(&[7.5, 7.6, 8.4999, 8.5, 9.6, 10.4, 10.6], 3), [3.0, 1.0, 2.0]);
        assert_eq!(most_in_a_second(&[0.0, 0.9, 1.0, 1.1, 1.8, 1.85]), 5);
        assert_eq!(most_in_a_second(&[0.0, 1.0, 2.0]), 1);
    }

    #[test]
    fn what_redis_did_not_let_in_counts_evenly() {
        let found = beyond(&[0.0, 0.5, 1.0, 1.1, 1.2, 2.0], 10, 2.0, 2).expect("something was let in");
        let found: Vec<f64> = found.into_iter().map(|(_, value)| value).collect();
        assert_eq!(found, [150.0, 200.0, 125.0, 4.0]);
        assert!(beyond(&[1.0], 1, 2.0, 2).is_err() && beyond(&[], 1, 2.0, 2).is_err());
    }

    #[test]
    fn what_is_shown_is_read() {
        let line = r#"+1700000000.123456 [0 lua] "SET" "pilotlight:rate:1:AAAA" "1700000000.133456000" "PX" "10""#;
        assert_eq!(let_in(line), Some(1_700_000_000.123456));
        for other in [line.replace("SET", "GET"), line.replace("0 lua", "0 127.0.0.1:1"), line.replace("rate", "x")] {
            assert_eq!(let_in(&other), None, "{other}");
        }
        let text = "# HELP x\npilotlight_shared_rate_requests_total{result=\"admitted\"} 12\n";
        assert_eq!([counted(text, "admitted"), counted(text, "timeout")], [12, 0]);
    }
}
