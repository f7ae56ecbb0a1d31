//! Whether a service may be started now: a circuit breaker over the failures of its starts.
//!
//! ```text
//!            max_failures in a row                    the pause is over: one start
//!  Closed ─────────────────────────▶ Open ─────────────────────────────────▶ Probing
//!    ▲  requests wait for the pause    ▲ requests are refused at once           │  │ one request waits
//!    │  after a failure                └────────────── it failed ────────────────┘  │
//!    └─────────────────────────── it started, or people asked ─────────────────────┘
//! ```

use super::backoff::{Backoff, InstanceEnd};
use std::time::{Duration, Instant};

/// The breaker of one service.
#[derive(Debug)]
pub(crate) struct Circuit {
    backoff: Backoff,
    max_failures: u32,
    state: CircuitState,
}

/// Whether a service may be started, as its last starts went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// Yes, after a pause if the last start failed.
    Closed,
    /// No: requests are refused at once.
    Open,
    /// One start is tried; all requests but one are refused.
    Probing,
}

impl CircuitState {
    /// Its name, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Probing => "probing",
        }
    }
}

/// What is to be done about a request for an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admit {
    /// Start as many as are needed.
    Start,
    /// Start none before this time; requests wait.
    Wait(Instant),
    /// Start one to see whether it works; one request waits for it.
    Probe,
    /// One is being started to see whether it works.
    Probing,
    /// Start none for so long, and say so at once.
    Refuse(Duration),
}

impl Circuit {
    /// A closed circuit, which opens after `max_failures` in a row.
    pub(crate) fn new(max_failures: u32) -> Self {
        Self { backoff: Backoff::default(), max_failures: max_failures.max(1), state: CircuitState::Closed }
    }

    /// Whether one may be started. `starting`: one is.
    pub(crate) fn admit(&self, starting: bool, now: Instant) -> Admit {
        match (self.state, self.backoff.wait(now)) {
            (CircuitState::Closed, None) => Admit::Start,
            (CircuitState::Closed, Some(wait)) => Admit::Wait(now + wait),
            (CircuitState::Probing, _) if starting => Admit::Probing,
            (CircuitState::Open | CircuitState::Probing, Some(wait)) => Admit::Refuse(wait),
            (CircuitState::Open | CircuitState::Probing, None) => Admit::Probe,
        }
    }

    /// Follows another limit from the next failure on.
    pub(crate) fn set_max_failures(&mut self, max_failures: u32) {
        self.max_failures = max_failures.max(1);
    }

    /// The probe has begun.
    pub(crate) fn probe(&mut self) {
        self.state = CircuitState::Probing;
    }

    /// A start came to its end: the service works, for now.
    pub(crate) fn started(&mut self) {
        self.state = CircuitState::Closed;
    }

    /// Notes the end of an instance; see [`Backoff::ended`].
    pub(crate) fn ended(&mut self, end: InstanceEnd, now: Instant, random: u32) {
        self.backoff.ended(end, now, random);
        self.state =
            if self.backoff.failures() >= self.max_failures { CircuitState::Open } else { CircuitState::Closed };
    }

    /// Somebody wants it to be tried now, whatever came before.
    pub(crate) fn close(&mut self) {
        self.backoff = Backoff::default();
        self.state = CircuitState::Closed;
    }

    pub(crate) fn state(&self) -> CircuitState {
        self.state
    }

    /// When the next start may be tried, if there is a pause.
    pub(crate) fn next_attempt(&self) -> Option<Instant> {
        self.backoff.not_before()
    }

    /// Whether requests are refused, or all but one.
    #[cfg(test)]
    pub(crate) fn is_open(&self) -> bool {
        self.state != CircuitState::Closed
    }

    /// What is left of the pause after the last failure.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.backoff.wait(now)
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.backoff.failures()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIDDLE: u32 = u32::MAX / 2;

    #[test]
    fn opens_probes_and_closes() {
        let (mut circuit, start) = (Circuit::new(3), Instant::now());
        let fail = |circuit: &mut Circuit, now| circuit.ended(InstanceEnd::NeverReady, now, MIDDLE);
        assert_eq!(circuit.admit(false, start), Admit::Start);
        fail(&mut circuit, start);
        assert!(matches!(circuit.admit(false, start), Admit::Wait(_)));
        fail(&mut circuit, start);
        assert!(!circuit.is_open());
        fail(&mut circuit, start);
        let Admit::Refuse(pause) = circuit.admit(false, start) else { panic!("three failures") };
        let later = start + pause;
        assert_eq!(circuit.admit(false, later), Admit::Probe);
        circuit.probe();
        assert_eq!(circuit.admit(true, later), Admit::Probing);
        assert_eq!(circuit.admit(false, later), Admit::Probe, "a probe that vanished does not block the next");
        fail(&mut circuit, later);
        assert!(matches!(circuit.admit(false, later), Admit::Refuse(longer) if longer > pause));
        circuit.probe();
        circuit.started();
        assert!(!circuit.is_open());
        // It works, but not for long: the failures before still count.
        circuit.ended(InstanceEnd::Crashed { ready_for: Duration::from_millis(1) }, later, MIDDLE);
        assert!(circuit.is_open());
        circuit.close();
        assert_eq!((circuit.admit(false, later), circuit.failures()), (Admit::Start, 0));
    }

    proptest! {
        /// Whatever happens, the time comes when a request starts the service.
        #[test]
        fn never_refuses_for_ever(max in 1..10u32, ends in prop::collection::vec((0..4u8, any::<u32>()), 0..40)) {
            let (mut circuit, mut now) = (Circuit::new(max), Instant::now());
            for (what, random) in ends {
                match what {
                    0 => circuit.ended(InstanceEnd::NeverReady, now, random),
                    1 => circuit.ended(InstanceEnd::Crashed { ready_for: Duration::ZERO }, now, random),
                    2 => circuit.ended(InstanceEnd::Stopped, now, random),
                    _ if circuit.admit(false, now) == Admit::Probe => circuit.probe(),
                    _ => circuit.started(),
                }
                now += Duration::from_millis(u64::from(random % 1000));
            }
            now += Duration::from_secs(31);
            prop_assert!(matches!(circuit.admit(false, now), Admit::Start | Admit::Probe));
        }
    }
}
