//! What to do about a service now: the number of its instances, as far as its circuit allows.

use super::circuit::{Admit, Circuit};
use super::scale::{Load, Scale};
use std::time::Instant;

/// What is known of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) scale: &'a Scale,
    pub(crate) circuit: &'a Circuit,
    pub(crate) load: Load,
    /// One is to run without a request.
    pub(crate) start_asked: bool,
    /// A ready instance is to be replaced.
    pub(crate) replaceable: bool,
    /// An instance is starting to replace another.
    pub(crate) replacing: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// Instances to start.
    pub(crate) start: u32,
    /// Whether to start the successor of the replaceable one.
    pub(crate) replace: bool,
    /// Whether this start is the circuit's probe.
    pub(crate) probe: bool,
    /// Requests that may go on waiting; the others are refused. `None`: all.
    pub(crate) keep: Option<usize>,
    /// When to decide again, if nothing else happens before.
    pub(crate) look_at: Option<Instant>,
}

/// Decides.
pub(crate) fn decide(situation: &Situation<'_>, now: Instant) -> Orders {
    let Situation { scale, circuit, load, start_asked, replaceable, replacing } = *situation;
    let have = load.ready + load.starting;
    let growth = scale.growth(&load, now);
    let start = growth.start.max(u32::from(start_asked && have == 0));
    let replace = replaceable && !replacing;
    let wanted = start > 0 || replace;
    let orders = Orders { look_at: growth.look_at, ..Orders::default() };
    // Those whom a ready instance will serve are not refused.
    let keep = |count| Some(count).filter(|_| load.ready == 0);
    match circuit.admit(load.starting > 0 || replacing, now) {
        Admit::Start => Orders { start, replace, ..orders },
        Admit::Wait(until) => Orders { look_at: Some(until).filter(|_| wanted).or(orders.look_at), ..orders },
        Admit::Probe if start > 0 => Orders { start: 1, probe: true, keep: keep(1), ..orders },
        Admit::Probe => Orders { replace, probe: replace, ..orders },
        Admit::Probing => Orders { keep: keep(1), ..orders },
        Admit::Refuse(wait) => {
            let keep = keep(0).filter(|_| load.starting == 0);
            // Without a ready instance or a floor there is no hurry: the next request asks again.
            let again = Some(now + wait).filter(|_| wanted && (load.ready > 0 || scale.floor() > 0));
            Orders { keep, look_at: again, ..orders }
        }
    }
}
