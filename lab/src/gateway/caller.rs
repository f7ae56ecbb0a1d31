//! One caller, who asks for the next answer when it has the last: over HTTP through a gateway, and without one.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::running::Running;
use super::{Lab, loads};
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Sample};
use crate::load::{self, Outcome, Requests};
use crate::stats::Times;
use crate::{cores, interrupt};

/// A caller on one connection, with the same request each time. Every answer is a 200; the first and the last have to
/// contain `wanted`, in whatever they are wrapped. `processes`, the gateway's first, are looked for when they run.
pub(crate) fn over_http(
    lab: &Lab,
    amount: Amount,
    gateway: &Running,
    request: &[u8],
    wanted: &str,
    processes: impl FnOnce() -> Vec<(&'static str, Vec<u32>)>,
) -> anyhow::Result<Sample> {
    let check = || {
        let (status, body) = load::ask(gateway.address, request)?;
        let text = String::from_utf8_lossy(&body);
        ensure!(status == 200 && text.contains(wanted), "answered with status {status}: {text}");
        Ok(())
    };
    let load = |duration| {
        let requests = Requests::Same { request: request.to_owned(), body: None };
        loads::ask(lab.load_core(), gateway.address, 1, duration, requests)
    };
    check()?;
    load(amount.warm_up)?;
    let sample = loads::measured(&processes(), || Ok(vec![load(amount.duration)?]))?;
    check()?;
    Ok(whole(sample))
}

/// A caller of a program without a gateway. `ask` says how long an answer took.
pub(crate) fn without_gateway(
    lab: &Lab,
    amount: Amount,
    name: &'static str,
    pid: u32,
    mut ask: impl FnMut() -> anyhow::Result<Duration>,
) -> anyhow::Result<Sample> {
    let mut load = |duration| cores::on(lab.load_core(), || ask_for(duration, &mut ask))?;
    load(amount.warm_up)?;
    let processes = [("gateway", Vec::new()), (name, vec![pid])];
    loads::measured(&processes, || Ok(vec![load(amount.duration)?])).map(whole)
}

fn ask_for(duration: Duration, mut ask: impl FnMut() -> anyhow::Result<Duration>) -> anyhow::Result<Outcome> {
    let (mut times, begin) = (Times::new(), Instant::now());
    while times.is_empty() || begin.elapsed() < duration {
        interrupt::check()?;
        times.record(ask()?);
    }
    let (answers, elapsed) = (times.count(), begin.elapsed());
    Ok(Outcome { answers, elapsed, times, statuses: [(200, answers)].into(), cpu: Duration::ZERO })
}

/// With the CPU time of all processes together.
fn whole(mut sample: Sample) -> Sample {
    sample.values.push((Metric::CpuUs, sample.cpu_us.iter().map(|(_, us)| us).sum()));
    sample
}
