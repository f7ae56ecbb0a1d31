//! What `bench` and `fill` share: numbered keys, values by seed, threads that each have a runtime and a client of their
//! own, faults by kind, progress.

pub(crate) mod distribution;
pub(crate) mod fault;
pub(crate) mod interrupt;
pub(crate) mod name;
pub(crate) mod noise;
pub(crate) mod progress;
pub(crate) mod random;
pub(crate) mod text;
pub(crate) mod thread;

/// How the work of a mode ended, where that is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was done: exit code 0.
    Done,
    /// Something is missing or was refused, which the report says: exit code 1.
    Failed,
}

impl From<Outcome> for std::process::ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::SUCCESS,
            Outcome::Failed => Self::FAILURE,
        }
    }
}

/// Threads by default: half of the cores, as the servers that are tried out are often on the same machine.
pub(crate) fn default_threads() -> usize {
    const MOST: usize = 8;
    std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).clamp(1, MOST))
}
