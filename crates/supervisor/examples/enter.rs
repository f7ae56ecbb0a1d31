//! What it costs to enter a ready instance and to leave it (docs/adr/0015).
//!
//! ```text
//! cargo build --release -p pilotlight-supervisor --example enter
//! for n in 0 100000; do valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/enter $n [limited]; done
//! ```
//! The difference of `Collected`, divided by 100,000, is the number of instructions; with `limited` the service has a
//! `concurrency`.

use pilotlight_supervisor::{HttpSocket, Program, ServiceSpec, SupervisorOptions, Transport, guardian, start};
use std::ffi::OsString;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|mode| mode == "guardian") {
        return Ok(guardian::main());
    }
    let count: u32 = args.get(1).and_then(|count| count.to_str()).unwrap_or("1000000").parse()?;
    let (log, _lines) = tokio::sync::mpsc::channel(16);
    let options = SupervisorOptions {
        workers: 2,
        runtime_dir: std::env::temp_dir().join(format!("enter-{}", std::process::id())),
        guardian: Program { path: std::env::current_exe()?, arguments: vec!["guardian".into()] },
        log,
        containers: pilotlight_supervisor::ContainerOptions::default(),
    };
    let mut spec = ServiceSpec::new("x", vec!["sleep".into(), "1000".into()], Transport::Http(HttpSocket::Unix));
    spec.concurrency = args.get(2).map(|_| 10);
    let (supervisor, _events) = start(options, vec![spec])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let service = &supervisor.services()[0];
    let first = runtime.block_on(service.ready(0))?;
    let begun = Instant::now();
    for _ in 0..count {
        black_box(service.enter(0));
    }
    println!("{:.1} ns", begun.elapsed().as_nanos() as f64 / f64::from(count.max(1)));
    drop(first);
    Ok(if supervisor.shutdown(Duration::from_secs(1)) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
