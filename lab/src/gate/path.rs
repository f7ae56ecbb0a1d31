//! The hot paths, and how each is counted.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use clap::ValueEnum;

use super::checkout::Programs;
use crate::callgrind::{self, Callgrind};
use crate::layers::counted::Counted;
use crate::layers::layer::Layer;
use crate::processes::Program;

/// Turns of a loop.
const FEW: u32 = 1000;
const MANY: u32 = 11_000;
/// A loop under callgrind takes seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// Something that is done for every request or command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum HotPath {
    /// the client of Redis: slot and bytes of a GET, its reply of 64 bytes decoded
    RespGet,
    /// the pipe's codec: a request and an answer of 200 bytes, encoded and decoded
    FrameCodec,
    /// the gateway: a request that is answered from memory
    Hit,
    /// the gateway and a Rust service: a request over the pipe
    Pipe,
    /// `resp-get` with 5 % more work, which tests plant
    #[value(hide = true)]
    Planted,
}

impl HotPath {
    pub(super) const ALL: [Self; 4] = [Self::RespGet, Self::FrameCodec, Self::Hit, Self::Pipe];

    /// As on the command line and in the baseline.
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Instructions of one.
    pub(super) fn count(self, callgrind: &Callgrind, programs: &Programs, scratch: &Path) -> anyhow::Result<f64> {
        let layer = |layer| Counted::new(layer, callgrind.clone(), scratch).of(programs.pilotlight.clone()).each();
        match self {
            Self::Hit => layer(Layer::Hit),
            Self::Pipe => layer(Layer::Pipe),
            Self::RespGet | Self::FrameCodec | Self::Planted => {
                let (few, many) =
                    (self.turns(FEW, callgrind, programs, scratch)?, self.turns(MANY, callgrind, programs, scratch)?);
                ensure!(many > few, "{MANY} turns took no more instructions than {FEW}");
                Ok((many - few) as f64 / f64::from(MANY - FEW))
            }
        }
    }

    fn turns(self, times: u32, callgrind: &Callgrind, programs: &Programs, scratch: &Path) -> anyhow::Result<u64> {
        let out = scratch.join(format!("callgrind.{}.{times}", self.name()));
        let mut command = callgrind.before(&out);
        command.extend([programs.gate.clone().into(), self.name().into(), times.to_string().into()]);
        let output = scratch.join(format!("{}.output", self.name()));
        let program = Program { name: self.name(), command, dir: scratch.to_owned(), output };
        program.start()?.ended_within(LIMIT)?;
        callgrind::total(&out)
    }
}
