//! Which core servers and the load run on: one each, so that they do not move and do not take each other's time.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A core for all servers and another one for the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Of the servers.
    pub server: usize,
    /// Of the load.
    pub load: usize,
}

impl Cores {
    /// The first two that this process may use; `None`: there is one only, and nothing can be kept apart.
    #[must_use]
    pub fn here() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        Some(Self { server: cores.next()?, load: cores.next()? })
    }
}

/// Does something on this core, if one is given; what is started meanwhile stays there.
///
/// # Errors
/// The system refuses.
pub fn on<T>(core: Option<usize>, work: impl FnOnce() -> T) -> std::io::Result<T> {
    let Some(core) = core else { return Ok(work()) };
    let before = sched_getaffinity(None)?;
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only)?;
    let done = work();
    sched_setaffinity(None, &before)?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn allowed(status: &str) -> Option<&str> {
        status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(str::trim)
    }

    #[test]
    fn what_is_started_on_a_core_stays_there_and_the_thread_does_not() {
        let Some(cores) = Cores::here() else { return };
        assert_ne!(cores.server, cores.load);
        let before = sched_getaffinity(None).expect("the mask of this thread");
        let started = on(Some(cores.load), || Command::new("cat").arg("/proc/self/status").output());
        let status = started.expect("pinned").expect("cat").stdout;
        let status = String::from_utf8(status).expect("UTF-8");
        assert_eq!(allowed(&status), Some(cores.load.to_string().as_str()));
        assert_eq!(sched_getaffinity(None).expect("the mask again"), before);
    }
}
