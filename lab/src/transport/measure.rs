//! The measuring: every variant once in each round, in an order that moves on by one with every round, so that whatever the machine
//! does besides falls on all of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::cases::{Case, Front, Variant};
use super::client::ExchangeError;
use super::target::{Setup, Target};
use crate::interrupt::{self, Interrupted};
use crate::processes::usage::{self, Memory};
use crate::progress::Progress;
use crate::stats::Times;

/// A variant is given up after so many failed requests one after another.
const MAX_FAILURES_IN_A_ROW: u32 = 3;

const OK: u16 = 200;
/// Phases beyond these are not told apart: a service may have said them.
const MAX_PHASES: usize = 16;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Counted requests of each variant, divided among the rounds.
    pub(crate) requests: u32,
    /// Uncounted requests: of warm variants before each round, of cold ones before the first.
    pub(crate) warmup: u32,
    /// Rounds.
    pub(crate) rounds: u32,
}

impl Amount {
    /// Requests of this round; they differ by one at most.
    fn in_round(self, round: u32) -> u32 {
        self.requests / self.rounds + u32::from(round < self.requests % self.rounds)
    }
}

/// What one variant did.
#[derive(Debug)]
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

/// Measures all variants beside each other. One that fails says so in its measurement, and the others go on.
///
/// # Errors
/// The run was interrupted.
pub(crate) fn measure(
    variants: Vec<Variant>,
    setup: &Setup,
    amount: Amount,
    progress: &mut Progress,
) -> Result<Vec<Measurement>, Interrupted> {
    let mut lanes = Vec::with_capacity(variants.len());
    for variant in variants {
        progress.step(0, &format!("{}: starting", variant.title()));
        lanes.push(Lane::open(variant, setup)?);
    }
    for round in 0..amount.rounds {
        progress.milestone(&format!("round {} of {}", round + 1, amount.rounds));
        for index in 0..lanes.len() {
            let count = lanes.len();
            let lane = &mut lanes[(index + round as usize) % count];
            progress
                .step(0, &format!("round {} of {}: {}", round + 1, amount.rounds, lane.measurement.variant.title()));
            lane.round(round, amount)?;
            let variant = &lane.measurement.variant;
            progress.step(amount.in_round(round) as usize * weight(variant), &variant.title());
        }
    }
    progress.step(0, "stopping");
    Ok(lanes.into_iter().map(|lane| lane.measurement).collect())
}

/// How long a request of this variant takes, very roughly, beside one of another: for the estimate of the time left.
pub(crate) fn weight(variant: &Variant) -> usize {
    if variant.case.is_cold() { 100 } else { 1 }
}

/// A variant while it is measured.
struct Lane {
    measurement: Measurement,
    /// `None` once it has failed.
    target: Option<Box<dyn Target>>,
    failures_in_a_row: u32,
}

impl Lane {
    fn open(variant: Variant, setup: &Setup) -> Result<Self, Interrupted> {
        let mut lane = Self { measurement: Measurement::new(variant), target: None, failures_in_a_row: 0 };
        let opened = setup.start(&lane.measurement.variant).and_then(|mut target| {
            lane.measurement.first = Some(target.request()?.time);
            Ok(target)
        });
        match opened {
            Ok(target) => lane.target = Some(target),
            Err(e) => lane.give_up(&e)?,
        }
        Ok(lane)
    }

    fn round(&mut self, round: u32, amount: Amount) -> Result<(), Interrupted> {
        let Some(mut target) = self.target.take() else { return Ok(()) };
        let done = if self.measurement.variant.case.is_cold() {
            self.cold_round(target.as_mut(), round, amount)
        } else {
            self.warm_round(target.as_mut(), round, amount)
        };
        match done {
            Ok(figures) => {
                self.measurement.rounds.push(figures);
                self.target = Some(target);
                Ok(())
            }
            Err(e) => self.give_up(&e),
        }
    }

    fn warm_round(&mut self, target: &mut dyn Target, round: u32, amount: Amount) -> anyhow::Result<Round> {
        for _ in 0..amount.warmup.max(1) {
            interrupt::check()?;
            target.request()?;
        }
        let cached = self.measurement.variant.case == Case::Cached;
        ensure!(target.was_cached() == cached, "the answer {} from memory", if cached { "is not" } else { "is" });
        let processes = target.processes();
        if round == 0 {
            self.measurement.memory_before = usage::memory(&processes.service);
        }
        let (gateway, service) = (usage::cpu_time(&processes.gateway), usage::cpu_time(&processes.service));
        let begin = Instant::now();
        let mut times = Times::new();
        for _ in 0..amount.in_round(round) {
            interrupt::check()?;
            self.counted(target, &mut times)?;
        }
        self.measurement.elapsed += begin.elapsed();
        let gateway = usage::cpu_time(&processes.gateway).saturating_sub(gateway);
        let service = usage::cpu_time(&processes.service).saturating_sub(service);
        self.measurement.memory_after = usage::memory(&processes.service);
        self.measurement.memory_gateway = usage::memory(&processes.gateway);
        Ok(figures(&times, gateway, service))
    }

    fn cold_round(&mut self, target: &mut dyn Target, round: u32, amount: Amount) -> anyhow::Result<Round> {
        // The very first request was one start already.
        for _ in 1..if round == 0 { amount.warmup } else { 0 } {
            interrupt::check()?;
            target.make_cold()?;
            target.request()?;
        }
        let (mut gateway, mut service) = (Duration::ZERO, Duration::ZERO);
        let begin = Instant::now();
        let mut times = Times::new();
        for number in 0..amount.in_round(round) {
            interrupt::check()?;
            target.make_cold()?;
            let before = target.processes();
            ensure!(before.service.is_empty(), "the service runs although it was stopped");
            let used = usage::cpu_time(&before.gateway);
            self.counted(target, &mut times)?;
            for (name, milliseconds) in target.phases() {
                self.measurement.phase(name, milliseconds);
            }
            let after = target.processes();
            gateway += usage::cpu_time(&after.gateway).saturating_sub(used);
            service += usage::cpu_time(&after.service);
            if number == 0 {
                self.measurement.memory_after = usage::memory(&after.service);
                self.measurement.memory_gateway = usage::memory(&after.gateway);
            }
        }
        self.measurement.elapsed += begin.elapsed();
        if round == 0 {
            self.measurement.memory_before = self.measurement.memory_after;
        }
        Ok(figures(&times, gateway, service))
    }

    /// A request that counts. A failed one counts as an error; several one after another are an end.
    fn counted(&mut self, target: &mut dyn Target, times: &mut Times) -> anyhow::Result<()> {
        match target.request() {
            Ok(answer) => {
                self.failures_in_a_row = 0;
                *self.measurement.statuses.entry(OK).or_default() += 1;
                times.record(answer.time);
                self.measurement.times.record(answer.time);
                self.measurement.bytes += answer.bytes as u64;
            }
            Err(e) => {
                if let Some(ExchangeError::Status(status)) = e.downcast_ref() {
                    *self.measurement.statuses.entry(*status).or_default() += 1;
                }
                *self.measurement.errors.entry(format!("{e:#}")).or_default() += 1;
                self.failures_in_a_row += 1;
                ensure!(
                    self.failures_in_a_row < MAX_FAILURES_IN_A_ROW,
                    "{MAX_FAILURES_IN_A_ROW} requests in a row failed: {e:#}"
                );
            }
        }
        Ok(())
    }

    fn give_up(&mut self, error: &anyhow::Error) -> Result<(), Interrupted> {
        if let Some(interrupted) = error.downcast_ref::<Interrupted>() {
            return Err(*interrupted);
        }
        self.measurement.failed = Some(format!("{error:#}"));
        self.target = None;
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
        let amount = Amount { requests: 50, warmup: 5, rounds: 8 };
        let rounds: Vec<u32> = (0..amount.rounds).map(|round| amount.in_round(round)).collect();
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
