//! One variant, round after round: its requests, and everything that `transport.json` says of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::cases::{Case, Front, Role, Variant};
use super::client::ExchangeError;
use super::target::{Setup, Target};
use crate::experiment::model::Metric;
use crate::experiment::{AROUND, Amount, Measure, Sample};
use crate::interrupt;
use crate::processes::usage::{self, Memory};
use crate::stats::Times;

/// A variant is given up after so many failed requests one after another.
const MAX_FAILURES_IN_A_ROW: u32 = 3;

const OK: u16 = 200;
/// Phases beyond these are not told apart: a service may have said them.
const MAX_PHASES: usize = 16;

/// A request usually takes so long, and one that starts its service, with its end before.
const USUAL: Duration = Duration::from_millis(1);
const USUAL_COLD: Duration = Duration::from_millis(100);

/// How much is measured, in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requests {
    /// Counted ones of each variant, divided among the rounds.
    pub(crate) counted: u32,
    /// Uncounted ones: of warm variants before each round, of cold ones before the first.
    pub(crate) warmup: u32,
    /// Rounds.
    pub(crate) rounds: u32,
    /// Of the intervals.
    pub(crate) seed: u64,
}

impl Requests {
    /// Those of this round; rounds differ by one at most.
    pub(crate) fn in_round(self, round: u32) -> u32 {
        self.counted / self.rounds + u32::from(round < self.counted % self.rounds)
    }
}

/// What one variant did.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// Which.
    pub(crate) variant: Variant,
    /// Times of the counted requests that were answered.
    pub(crate) times: Times,
    /// The very first request, which is not counted: behind a gateway it starts the service.
    pub(crate) first: Option<Duration>,
    /// Statuses of counted requests.
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// Counted requests that failed, by reason.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Bytes of counted answers.
    pub(crate) bytes: u64,
    /// Rounds, in order.
    pub(crate) rounds: Vec<Round>,
    /// Memory of the service after its first warm-up.
    pub(crate) memory_before: Memory,
    /// Memory of the service at the end.
    pub(crate) memory_after: Memory,
    /// Memory of the gateway at the end.
    pub(crate) memory_gateway: Memory,
    /// From the first counted request to the last, with everything between.
    pub(crate) elapsed: Duration,
    /// Times of phases of cold requests, as the front says them, by name; in their order.
    pub(crate) phases: Vec<(String, Times)>,
    /// Why it was given up.
    pub(crate) failed: Option<String>,
}

/// One round of one variant; `None` where nothing was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Round {
    /// Median of the times.
    pub(crate) median_ms: Option<f64>,
    /// CPU time of the gateway for a request.
    pub(crate) gateway_cpu_us: Option<f64>,
    /// CPU time of the service for a request, in cold cases from its start.
    pub(crate) service_cpu_us: Option<f64>,
}

impl Measurement {
    /// Nothing measured yet.
    pub(crate) fn new(variant: Variant) -> Self {
        Self {
            variant,
            times: Times::new(),
            first: None,
            statuses: BTreeMap::new(),
            errors: BTreeMap::new(),
            bytes: 0,
            rounds: Vec::new(),
            memory_before: Memory::default(),
            memory_after: Memory::default(),
            memory_gateway: Memory::default(),
            elapsed: Duration::ZERO,
            phases: Vec::new(),
            failed: None,
        }
    }

    /// Adds a time of a phase.
    pub(crate) fn phase(&mut self, name: String, milliseconds: f64) {
        let time = Duration::from_secs_f64(milliseconds.max(0.0) / 1000.0);
        let known = self.phases.iter().position(|(known, _)| *known == name);
        let index = match known {
            Some(index) => index,
            None if self.phases.len() < MAX_PHASES => {
                self.phases.push((name, Times::new()));
                self.phases.len() - 1
            }
            None => return,
        };
        self.phases[index].1.record(time);
    }
}

/// A variant while it is measured.
pub(crate) struct Lane {
    variant: Variant,
    setup: Rc<Setup>,
    requests: Requests,
    measurement: Rc<RefCell<Measurement>>,
    /// Started with the first round.
    target: Option<Box<dyn Target>>,
    failures_in_a_row: u32,
    round: u32,
    /// The second of two equals, until the runner takes it.
    equal: RefCell<Option<Box<Lane>>>,
}

/// What came of a round: its figures, the times of its requests, and the phases of its cold starts.
struct Counted {
    figures: Round,
    times: Times,
    phases: Vec<(String, f64)>,
}

impl Measure for Lane {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        let counted = self.next_round();
        if let Err(error) = &counted {
            self.measurement.borrow_mut().failed = Some(format!("{error:#}"));
            self.target = None;
        }
        counted.map(|counted| self.sample(counted))
    }

    fn beside(&self, _: Amount) -> Duration {
        let Requests { counted, warmup, rounds, .. } = self.requests;
        let each = counted.div_ceil(rounds);
        AROUND + if self.variant.case.is_cold() { USUAL_COLD * each } else { USUAL * (each + warmup) }
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        Some(self.equal.take()?)
    }
}

impl Lane {
    pub(crate) fn new(variant: Variant, setup: Rc<Setup>, requests: Requests) -> Self {
        Self {
            measurement: Rc::new(RefCell::new(Measurement::new(variant.clone()))),
            variant,
            setup,
            requests,
            target: None,
            failures_in_a_row: 0,
            round: 0,
            equal: RefCell::new(None),
        }
    }

    /// Another one that does the same with programs of its own.
    pub(crate) fn equal(&self) -> Self {
        let variant = Variant { role: Role::Control, ..self.variant.clone() };
        Self::new(variant, Rc::clone(&self.setup), self.requests)
    }

    /// With the second of two equals.
    pub(crate) fn with(self, equal: Option<Self>) -> Self {
        Self { equal: RefCell::new(equal.map(Box::new)), ..self }
    }

    /// What is measured.
    pub(crate) fn measurement(&self) -> Rc<RefCell<Measurement>> {
        Rc::clone(&self.measurement)
    }

    fn next_round(&mut self) -> anyhow::Result<Counted> {
        let mut target = match self.target.take() {
            Some(target) => target,
            None => {
                let mut target = self.setup.start(&self.variant)?;
                self.measurement.borrow_mut().first = Some(target.request()?.time);
                target
            }
        };
        let counted = if self.variant.case.is_cold() {
            self.cold_round(target.as_mut())?
        } else {
            self.warm_round(target.as_mut())?
        };
        counted.figures.median_ms.context("no request of a round was answered")?;
        self.measurement.borrow_mut().rounds.push(counted.figures);
        self.target = Some(target);
        self.round += 1;
        Ok(counted)
    }

    fn sample(&self, counted: Counted) -> Sample {
        let Counted { figures, times, phases } = counted;
        let time = if self.variant.case.is_cold() { Metric::ColdMs } else { Metric::P50Ms };
        let both = figures.gateway_cpu_us.zip(figures.service_cpu_us).map(|(gateway, service)| gateway + service);
        let value = |metric: Metric, value: Option<f64>| Some((metric, value?));
        let gateway = figures.gateway_cpu_us.filter(|_| has_gateway(self.variant.front));
        let process = |name: &str, us: Option<f64>| Some((name.to_owned(), us?));
        Sample {
            values: [
                value(time, figures.median_ms),
                value(Metric::CpuUs, both),
                value(Metric::MeanMs, Some(times.mean_ms())),
            ]
            .into_iter()
            .flatten()
            .collect(),
            cpu_us: [process("gateway", gateway), process("service", figures.service_cpu_us)]
                .into_iter()
                .flatten()
                .collect(),
            phases_ms: phases,
            requests: times.count(),
            times: Some(times),
            ..Sample::default()
        }
    }

    fn warm_round(&mut self, target: &mut dyn Target) -> anyhow::Result<Counted> {
        for _ in 0..self.requests.warmup.max(1) {
            interrupt::check()?;
            target.request()?;
        }
        let cached = self.variant.case == Case::Cached;
        ensure!(target.was_cached() == cached, "the answer {} from memory", if cached { "is not" } else { "is" });
        let processes = target.processes();
        if self.round == 0 {
            self.measurement.borrow_mut().memory_before = usage::memory(&processes.service);
        }
        let (gateway, service) = (usage::cpu_time(&processes.gateway), usage::cpu_time(&processes.service));
        let begin = Instant::now();
        let mut times = Times::new();
        for _ in 0..self.requests.in_round(self.round) {
            interrupt::check()?;
            self.counted(target, &mut times)?;
        }
        let elapsed = begin.elapsed();
        let gateway = usage::cpu_time(&processes.gateway).saturating_sub(gateway);
        let service = usage::cpu_time(&processes.service).saturating_sub(service);
        let mut measurement = self.measurement.borrow_mut();
        measurement.elapsed += elapsed;
        measurement.memory_after = usage::memory(&processes.service);
        measurement.memory_gateway = usage::memory(&processes.gateway);
        Ok(Counted { figures: figures(&times, gateway, service), times, phases: Vec::new() })
    }

    fn cold_round(&mut self, target: &mut dyn Target) -> anyhow::Result<Counted> {
        // The very first request was one start already.
        for _ in 1..if self.round == 0 { self.requests.warmup } else { 0 } {
            interrupt::check()?;
            target.make_cold()?;
            target.request()?;
        }
        let (mut gateway, mut service) = (Duration::ZERO, Duration::ZERO);
        let begin = Instant::now();
        let (mut times, mut phases) = (Times::new(), Vec::new());
        for number in 0..self.requests.in_round(self.round) {
            interrupt::check()?;
            target.make_cold()?;
            let before = target.processes();
            ensure!(before.service.is_empty(), "the service runs although it was stopped");
            let used = usage::cpu_time(&before.gateway);
            self.counted(target, &mut times)?;
            phases.extend(target.phases());
            let after = target.processes();
            gateway += usage::cpu_time(&after.gateway).saturating_sub(used);
            service += usage::cpu_time(&after.service);
            if number == 0 {
                let mut measurement = self.measurement.borrow_mut();
                measurement.memory_after = usage::memory(&after.service);
                measurement.memory_gateway = usage::memory(&after.gateway);
            }
        }
        let mut measurement = self.measurement.borrow_mut();
        measurement.elapsed += begin.elapsed();
        if self.round == 0 {
            measurement.memory_before = measurement.memory_after;
        }
        for (name, milliseconds) in &phases {
            measurement.phase(name.clone(), *milliseconds);
        }
        Ok(Counted { figures: figures(&times, gateway, service), times, phases })
    }

    /// A request that counts. A failed one counts as an error; several one after another are an end.
    fn counted(&mut self, target: &mut dyn Target, times: &mut Times) -> anyhow::Result<()> {
        let mut measurement = self.measurement.borrow_mut();
        match target.request() {
            Ok(answer) => {
                self.failures_in_a_row = 0;
                *measurement.statuses.entry(OK).or_default() += 1;
                times.record(answer.time);
                measurement.times.record(answer.time);
                measurement.bytes += answer.bytes as u64;
            }
            Err(e) => {
                // What is said with a status is another text for each request.
                let what = if let Some(ExchangeError::Status(status, _)) = e.downcast_ref() {
                    *measurement.statuses.entry(*status).or_default() += 1;
                    format!("status {status}")
                } else {
                    format!("{e:#}")
                };
                *measurement.errors.entry(what).or_default() += 1;
                self.failures_in_a_row += 1;
                ensure!(
                    self.failures_in_a_row < MAX_FAILURES_IN_A_ROW,
                    "{MAX_FAILURES_IN_A_ROW} requests in a row failed: {e:#}"
                );
            }
        }
        Ok(())
    }
}

fn figures(times: &Times, gateway: Duration, service: Duration) -> Round {
    if times.is_empty() {
        return Round::default();
    }
    let each = |time: Duration| Some(time.as_secs_f64() * 1e6 / times.count() as f64);
    Round { median_ms: Some(times.median_ms()), gateway_cpu_us: each(gateway), service_cpu_us: each(service) }
}

/// Whether a front's CPU time is a gateway's: without a gateway there is none.
#[must_use]
pub(crate) fn has_gateway(front: Front) -> bool {
    front != Front::Bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_divided_among_rounds() {
        let requests = Requests { counted: 50, warmup: 5, rounds: 8, seed: 1 };
        let rounds: Vec<u32> = (0..requests.rounds).map(|round| requests.in_round(round)).collect();
        assert_eq!(rounds, [7, 7, 6, 6, 6, 6, 6, 6]);
        assert_eq!(rounds.iter().sum::<u32>(), 50);
    }

    #[test]
    fn cpu_time_is_that_of_answered_requests() {
        let mut times = Times::new();
        let none = figures(&times, Duration::from_micros(50), Duration::ZERO);
        assert_eq!(none, Round::default());
        times.record(Duration::from_millis(1));
        times.record(Duration::from_millis(1));
        let round = figures(&times, Duration::from_micros(50), Duration::from_micros(10));
        assert_eq!((round.gateway_cpu_us, round.service_cpu_us), (Some(25.0), Some(5.0)));
    }
}
