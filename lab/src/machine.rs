//! What figures depend on: the machine, its system and how busy it is.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::processes::usage;

/// Facts about this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub hostname: String,
    /// The model of its processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory in all.
    pub memory_bytes: u64,
    /// The distribution.
    pub system: String,
    /// The kernel.
    pub kernel: String,
    /// The architecture.
    pub architecture: String,
    /// How the clock rate is governed; `None` where that cannot be seen, as in most virtual machines.
    pub governor: Option<String>,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        let name = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            hostname: text(name.nodename()),
            cpu: value(&read("/proc/cpuinfo"), "model name", ':').unwrap_or_else(|| text(name.machine())),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: value(&read("/proc/meminfo"), "MemTotal", ':')
                .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
                .map_or(0, |kilobytes| kilobytes * 1024),
            system: value(&read("/etc/os-release"), "PRETTY_NAME", '=')
                .map_or_else(|| text(name.sysname()), |quoted| quoted.trim_matches('"').to_owned()),
            kernel: format!("{} {}", text(name.sysname()), text(name.release())),
            architecture: std::env::consts::ARCH.to_owned(),
            governor: fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
                .ok()
                .map(|governor| governor.trim().to_owned()),
        }
    }
}

/// Processes that ran or wanted to, on average over the last minute; 0 if the system does not say.
#[must_use]
pub fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// The commit that this binary was built from, as the build said it (`PILOTLIGHT_COMMIT`); else that of the checkout
/// around it, which may have moved on since. `None` if there is neither.
#[must_use]
pub fn commit() -> Option<String> {
    if let Some(commit) = option_env!("PILOTLIGHT_COMMIT") {
        return Some(commit.to_owned());
    }
    let program = std::env::current_exe().ok()?;
    let checkout = program.ancestors().find(|folder| folder.join(".git").exists())?.to_str()?.to_owned();
    let git = crate::processes::find_program("git")?;
    let commit = crate::processes::first_line(
        git.as_os_str(),
        &["-C", &checkout, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
    )?;
    Some(format!("{commit} (of the checkout around the binary)"))
}

/// Whether the system says what the lab has to know.
///
/// # Errors
/// It does not: this is no Linux, or /proc is not there.
pub fn require_proc() -> anyhow::Result<()> {
    let own = usage::memory(&[std::process::id()]);
    anyhow::ensure!(
        own.processes == 1 && own.rss_bytes > 0,
        "the lab reads CPU time and memory of processes from /proc, which is not here: it needs Linux"
    );
    Ok(())
}

/// The value of the first line `NAME <separator> VALUE`.
fn value(text: &str, name: &str, separator: char) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(separator)?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_lines() {
        let text = "processor\t: 0\nmodel name\t: A: fast one\n";
        assert_eq!(value(text, "model name", ':').as_deref(), Some("A: fast one"));
        assert_eq!(value(text, "cores", ':'), None);
    }

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let machine = Machine::here();
        assert!(machine.cores >= 1 && machine.memory_bytes > 0 && machine.kernel.len() > 6, "{machine:?}");
        require_proc().expect("tests run on Linux");
    }
}
