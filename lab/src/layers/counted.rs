//! A layer under callgrind: the same stack twice, with few requests and with many. Starts and ends are in both, so the
//! difference is requests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::layer::Layer;
use super::stack::{Place, Stack, folder};
use crate::callgrind::{self, Callgrind};
use crate::experiment::model::Metric;
use crate::experiment::{Amount, Measure, Sample};
use crate::processes::OwnPrograms;

pub(crate) const FEW: u32 = 500;
pub(crate) const MANY: u32 = 2500;
/// Two stacks, slowed down fifty times.
const USUAL: Duration = Duration::from_secs(7);
/// Longer than any of it takes.
const LIMIT: Duration = Duration::from_secs(300);

/// A layer whose instructions are counted.
#[derive(Debug)]
pub(crate) struct Counted {
    layer: Layer,
    callgrind: Callgrind,
    /// [`OwnPrograms::here`] without it.
    programs: Option<OwnPrograms>,
    dir: PathBuf,
}

impl Counted {
    /// The gateway under measurement is counted.
    pub(crate) fn new(layer: Layer, callgrind: Callgrind, dir: &Path) -> Self {
        Self { layer, callgrind, programs: None, dir: folder(dir, layer) }
    }

    /// `programs` are counted.
    pub(crate) fn of(self, programs: OwnPrograms) -> Self {
        Self { programs: Some(programs), ..self }
    }

    /// Instructions for one request.
    pub(crate) fn each(&self) -> anyhow::Result<f64> {
        callgrind::each(FEW, MANY, |requests| self.count(requests))
    }

    fn count(&self, requests: u32) -> anyhow::Result<u64> {
        let callgrind = Some(self.callgrind.clone());
        let programs = self.programs.clone().map_or_else(OwnPrograms::here, Ok)?;
        let place = Place { dir: self.dir.clone(), core: None, programs, callgrind };
        let stack = Stack::start(self.layer, &place)?;
        stack.ask(requests)?;
        stack.end_counted()
    }
}

impl Measure for Counted {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        let values = vec![(Metric::Instructions, self.each()?)];
        Ok(Sample { values, requests: u64::from(MANY), ..Sample::default() })
    }

    fn beside(&self, _: Amount) -> Duration {
        USUAL
    }

    fn limit(&self, _: Amount) -> Duration {
        2 * (LIMIT + 2 * super::COUNTED_LIMIT)
    }
}
