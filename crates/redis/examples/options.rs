//! What settings that are off by default give and cost: `large_bytes`, `verify_replies` and `observer`.
//!
//! ```text
//! cargo run --release -p pilotlight-redis --example options [rounds] [seconds per setting]
//! ```
//!
//! - `large_bytes`: 32 tasks read 64 bytes each, while two others read and write 4 MiB all the time. The times of the
//!   small reads, without the setting and with `64KiB`; and without anybody who is large.
//! - `verify_replies`: 64 tasks read 64 bytes each, one at a time; processor time of the client and of the server for a
//!   read, without the setting and with it; and in a pipeline of 100.
//! - `observer`: the same reads, told to nobody, to [`Durations`], and to one that makes something of each beginning.
//!
//! Settings alternate within each round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pilotlight_redis::metrics::{Beginning, Durations, Observer, Ongoing, Operation};
use pilotlight_redis::{Client, Commands, Config};
use pilotlight_testkit::Server;
use tokio::task::JoinSet;

const SMALL_READERS: usize = 32;
const READERS: usize = 64;
const SMALL: usize = 64;
const LARGE: usize = 4 << 20;
const LARGE_BYTES: usize = 64 << 10;
const PIPELINE: usize = 100;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (rounds, seconds) = (arguments.next().unwrap_or(5), arguments.next().unwrap_or(2));
    let server = tokio::task::spawn_blocking(Server::start).await??;
    let config = || server.url().parse::<Config>();
    let process = server.pid().ok_or("the server is not running")?.to_string();
    let plain = Client::new(config()?)?;
    let apart = Client::new(Config { large_bytes: Some(LARGE_BYTES), ..config()? })?;
    let verified = Client::new(Config { verify_replies: true, ..config()? })?;
    let measured = Client::new(Config { observer: Some(Arc::new(Durations::default())), ..config()? })?;
    let hooked = Client::new(Config { observer: Some(Arc::new(Hook)), ..config()? })?;
    plain.set("small", vec![b'x'; SMALL]).await?;
    plain.set("large", vec![b'x'; LARGE]).await?;
    let length = Duration::from_secs(seconds);
    println!("{:>5}  {:<28} {:>9} {:>10} {:>10} {:>10}", "round", "small reads", "number", "p50", "p99", "p99.9");
    for round in 1..=rounds {
        for (name, client, with_large) in [
            ("nobody is large", &plain, false),
            ("large_bytes=none", &plain, true),
            ("large_bytes=64KiB", &apart, true),
        ] {
            let took = beside_large(client, with_large, length).await;
            let at = |per_mille: usize| took[took.len() * per_mille / 1000];
            let (p50, p99, p999) = (at(500), at(990), at(999));
            println!("{round:>5}  {name:<28} {:>9} {p50:>10.1?} {p99:>10.1?} {p999:>10.1?}", took.len());
        }
    }
    println!("{:>5}  {:<42} {:>9} {:>10} {:>10}", "round", "reads", "reads/s", "client", "server");
    for round in 1..=rounds {
        for (name, client, pipeline) in [
            ("all off", &plain, 1),
            ("verify_replies=true", &verified, 1),
            ("observer=Durations", &measured, 1),
            ("observer with something of each beginning", &hooked, 1),
            ("all off, pipelines of 100", &plain, PIPELINE),
            ("verify_replies=true, pipelines of 100", &verified, PIPELINE),
        ] {
            let before = (cpu_time("self")?, cpu_time(&process)?);
            let reads = reads(client, pipeline, length).await?;
            let micros = |used: Duration| used.as_secs_f64() * 1e6 / reads as f64;
            let of_client = micros(cpu_time("self")?.saturating_sub(before.0));
            let of_server = micros(cpu_time(&process)?.saturating_sub(before.1));
            let rate = reads as f64 / length.as_secs_f64();
            println!("{round:>5}  {name:<42} {rate:>9.0} {of_client:>7.2} µs {of_server:>7.2} µs");
        }
    }
    Ok(())
}

/// As a span for each command would be, without what a span costs.
#[derive(Debug)]
struct Hook;

struct Begun(Instant);

impl Observer for Hook {
    fn begun(&self, _: &Beginning<'_>) -> Option<Box<dyn Ongoing>> {
        Some(Box::new(Begun(Instant::now())))
    }

    fn ended(&self, _: &Operation<'_>) {}
}

impl Ongoing for Begun {
    fn ended(self: Box<Self>, _: &Operation<'_>) {
        std::hint::black_box(self.0.elapsed());
    }
}

/// The times of all small reads, sorted, while others move what is large.
async fn beside_large(client: &Client, with_large: bool, length: Duration) -> Vec<Duration> {
    let is_over = Arc::new(AtomicBool::new(!with_large));
    let mut large = JoinSet::new();
    for writes in [false, true] {
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        large.spawn(async move {
            let value = vec![b'x'; LARGE];
            while !is_over.load(Ordering::Relaxed) {
                // A failure would be seen in the small reads.
                match writes {
                    true => drop(client.set("written", &value).await),
                    false => drop(client.get("large").await),
                }
            }
        });
    }
    let end = Instant::now() + length;
    let mut readers = JoinSet::new();
    for _ in 0..SMALL_READERS {
        let client = client.clone();
        readers.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < end {
                let begin = Instant::now();
                if client.get("small").await.is_ok() {
                    took.push(begin.elapsed());
                }
            }
            took
        });
    }
    let mut took: Vec<Duration> = readers.join_all().await.into_iter().flatten().collect();
    is_over.store(true, Ordering::Relaxed);
    large.join_all().await;
    took.sort_unstable();
    took
}

/// How many reads were answered in that time.
async fn reads(client: &Client, pipeline: usize, length: Duration) -> Result<u64, Failure> {
    let end = Instant::now() + length;
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let client = client.clone();
        readers.spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                if pipeline == 1 {
                    client.get("small").await?;
                } else {
                    let mut commands = client.pipeline();
                    for _ in 0..pipeline {
                        commands.get("small");
                    }
                    commands.run().await?;
                }
                count += pipeline as u64;
            }
            Ok::<_, pilotlight_redis::Error>(count)
        });
    }
    let mut sum = 0;
    for count in readers.join_all().await {
        sum += count?;
    }
    Ok(sum)
}

/// Of all threads of a process (Linux).
fn cpu_time(process: &str) -> Result<Duration, Failure> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        sum += text.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
    }
    Ok(Duration::from_nanos(sum))
}
