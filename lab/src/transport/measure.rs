//! One variant, round after round: its requests, and what is taken of them.

use std::rc::Rc;
use std::time::Duration;

use anyhow::ensure;

use super::cases::{Case, Front, Variant};
use super::target::{Setup, Target};
use crate::experiment::model::Metric;
use crate::experiment::{AROUND, Amount, Measure, Sample};
use crate::interrupt;
use crate::processes::usage;
use crate::stats::Times;

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

/// A variant while it is measured.
pub(crate) struct Lane {
    variant: Variant,
    setup: Rc<Setup>,
    requests: Requests,
    /// Started with the first round.
    target: Option<Box<dyn Target>>,
    round: u32,
}

/// What came of a round.
#[derive(Default)]
struct Round {
    times: Times,
    /// CPU time of the gateway.
    gateway: Duration,
    /// CPU time of the service, in cold cases from its start.
    service: Duration,
    /// Memory of the service.
    memory: u64,
    phases: Vec<(String, f64)>,
}

impl Measure for Lane {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        // Where it fails, its programs end.
        let mut target = match self.target.take() {
            Some(target) => target,
            None => {
                let mut target = self.setup.start(&self.variant)?;
                target.request()?;
                target
            }
        };
        let round = match self.variant.case.is_cold() {
            true => self.cold_round(target.as_mut())?,
            false => self.warm_round(target.as_mut())?,
        };
        self.target = Some(target);
        self.round += 1;
        Ok(self.sample(round))
    }

    fn beside(&self, _: Amount) -> Duration {
        let Requests { counted, warmup, rounds, .. } = self.requests;
        let each = counted.div_ceil(rounds);
        AROUND + if self.variant.case.is_cold() { USUAL_COLD * each } else { USUAL * (each + warmup) }
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        Some(Box::new(Self::new(self.variant.clone(), Rc::clone(&self.setup), self.requests)))
    }
}

impl Lane {
    pub(crate) fn new(variant: Variant, setup: Rc<Setup>, requests: Requests) -> Self {
        Self { variant, setup, requests, target: None, round: 0 }
    }

    fn sample(&self, round: Round) -> Sample {
        let Round { times, gateway, service, memory, phases } = round;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / times.count() as f64;
        let time = if self.variant.case.is_cold() { Metric::ColdMs } else { Metric::P50Ms };
        let mut cpu_us = vec![("service".to_owned(), each(service))];
        if has_gateway(self.variant.front) {
            cpu_us.insert(0, ("gateway".to_owned(), each(gateway)));
        }
        Sample {
            values: vec![
                (time, times.median_ms()),
                (Metric::CpuUs, each(gateway + service)),
                (Metric::MeanMs, times.mean_ms()),
                (Metric::PssBytes, memory as f64),
            ],
            cpu_us,
            phases_ms: phases,
            requests: times.count(),
            times: Some(times),
            ..Sample::default()
        }
    }

    fn warm_round(&self, target: &mut dyn Target) -> anyhow::Result<Round> {
        for _ in 0..self.requests.warmup.max(1) {
            interrupt::check()?;
            target.request()?;
        }
        let cached = self.variant.case == Case::Cached;
        ensure!(target.was_cached() == cached, "the answer {} from memory", if cached { "is not" } else { "is" });
        let processes = target.processes();
        let (gateway, service) = (usage::cpu_time(&processes.gateway), usage::cpu_time(&processes.service));
        let mut round = Round::default();
        for _ in 0..self.requests.in_round(self.round) {
            interrupt::check()?;
            round.times.record(target.request()?);
        }
        round.gateway = usage::cpu_time(&processes.gateway).saturating_sub(gateway);
        round.service = usage::cpu_time(&processes.service).saturating_sub(service);
        round.memory = usage::memory(&processes.service).pss_bytes;
        Ok(round)
    }

    fn cold_round(&self, target: &mut dyn Target) -> anyhow::Result<Round> {
        // The very first request was one start already.
        for _ in 1..if self.round == 0 { self.requests.warmup } else { 0 } {
            interrupt::check()?;
            target.make_cold()?;
            target.request()?;
        }
        let mut round = Round::default();
        for _ in 0..self.requests.in_round(self.round) {
            interrupt::check()?;
            target.make_cold()?;
            let before = target.processes();
            ensure!(before.service.is_empty(), "the service runs although it was stopped");
            let used = usage::cpu_time(&before.gateway);
            round.times.record(target.request()?);
            round.phases.extend(target.phases());
            let after = target.processes();
            round.gateway += usage::cpu_time(&after.gateway).saturating_sub(used);
            round.service += usage::cpu_time(&after.service);
            round.memory = usage::memory(&after.service).pss_bytes;
        }
        Ok(round)
    }
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
}
