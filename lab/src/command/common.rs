//! What all experiments take on the command line.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{DEFAULT_OUT, DEFAULT_SEED, find_peers, seconds};
use crate::experiment::Setting;
use crate::experiment::noise::Noisy;
use crate::profile::Profiler;

/// The folder of flame graphs.
const FLAMES: &str = "flames";

/// What all experiments take.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The folder for report.json, report.html, report.md and plots; made if it is not there
    #[arg(long, value_name = "DIR", default_value = DEFAULT_OUT)]
    pub(crate) out: PathBuf,
    /// Less of everything: two minutes at most for all experiments together
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these groups of variants
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) groups: Vec<String>,
    /// Rounds in which the variants alternate, instead of what each experiment takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// Seconds of each measurement, instead of what each experiment takes
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) secs: Option<f64>,
    /// The folder lab/peers of a checkout, with what was built there; found above the current folder unless given
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,
    /// Seed of all random choices and of the intervals
    #[arg(long, default_value_t = DEFAULT_SEED)]
    pub(crate) seed: u64,
    /// Compare although the machine is too noisy for it; the report says so
    #[arg(long)]
    pub(crate) noisy_anyway: bool,
    /// Measure each variant once more beneath perf: flame graphs of where its time goes and of what it waits for, into
    /// DIR/flames; system calls of a request
    #[arg(long)]
    pub(crate) flames: bool,
    /// Go on with the interrupted run whose report is in DIR: what it has measured whole is kept
    #[arg(long)]
    pub(crate) resume: bool,
    /// Say what there is to measure, what is believed of it, how long it takes, and what is missing for it
    #[arg(long)]
    pub(crate) list: bool,
    /// Print the report as JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            out: DEFAULT_OUT.into(),
            quick: false,
            groups: Vec::new(),
            rounds: None,
            secs: None,
            peers: None,
            seed: DEFAULT_SEED,
            noisy_anyway: false,
            flames: false,
            resume: false,
            list: false,
            json: false,
        }
    }
}

impl Common {
    pub(super) fn noisy(&self) -> Noisy {
        if self.noisy_anyway { Noisy::Compare } else { Noisy::Refuse }
    }

    pub(super) fn setting(&self, scratch: &Path) -> Setting {
        let peers = self.peers.clone().or_else(find_peers);
        Setting { quick: self.quick, scratch: scratch.to_owned(), peers, seed: self.seed }
    }

    /// Where flame graphs are written.
    pub(super) fn flames_folder(&self) -> PathBuf {
        self.out.join(FLAMES)
    }

    /// What looks at the variants once more, if that is asked for.
    pub(super) fn profiler(&self, setting: &Setting) -> anyhow::Result<Option<Profiler>> {
        self.flames.then(|| Profiler::find(self.flames_folder(), &setting.scratch)).transpose()
    }
}
