//! What may be asked for, what of it is in force, and for which program.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What an instance may use of the machine. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// A name or number; the gateway's own if none.
    pub user: Option<String>,
    /// A name or number; the user's own if none.
    pub group: Option<String>,
    /// Files with variables, read at each start; later files win, and the variables of
    /// [`ServiceSpec::env`](crate::ServiceSpec::env) win over all.
    pub env_files: Vec<PathBuf>,
    /// For each name a file, read at each start; the instance finds the path of a copy in memory in the variable
    /// `NAME_FILE`.
    pub secrets: Vec<(String, PathBuf)>,
    /// Limits of each process.
    pub limits: ResourceLimits,
    /// Limits of all processes of an instance together.
    pub cgroup: CgroupLimits,
    /// Whether it is in a sandbox.
    pub sandbox: Sandbox,
}

impl Isolation {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits of the kernel for each process (`setrlimit`); `None` leaves what Pilotlight itself has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Open descriptors.
    pub open_files: Option<u64>,
    /// Processes and threads: of the instance where it has a cgroup, else of its user.
    pub processes: Option<u64>,
    /// Seconds of processor time of one process.
    pub cpu_seconds: Option<u64>,
    /// Bytes of a file that is written.
    pub file_size: Option<u64>,
    /// Bytes of a core dump.
    pub core: Option<u64>,
    /// Bytes of address space of one process.
    pub address_space: Option<u64>,
}

impl ResourceLimits {
    /// Values of `open_files`.
    pub const OPEN_FILES: RangeInclusive<u64> = 16..=1_073_741_816;
    /// Values of `processes`.
    pub const PROCESSES: RangeInclusive<u64> = 1..=4_194_304;
    /// Values of `cpu_seconds`.
    pub const CPU_SECONDS: RangeInclusive<u64> = 1..=365 * 24 * 3600;
    /// Values of `file_size`.
    pub const FILE_SIZE: RangeInclusive<u64> = 1..=1 << 50;
    /// Values of `core`.
    pub const CORE: RangeInclusive<u64> = 0..=1 << 40;
    /// Values of `address_space`.
    pub const ADDRESS_SPACE: RangeInclusive<u64> = 16 << 20..=1 << 50;
}

/// Limits of cgroup v2 for all processes of an instance together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupLimits {
    /// Bytes.
    pub memory: Option<u64>,
    /// Thousandths of a processor.
    pub cpu_milli: Option<u64>,
}

impl CgroupLimits {
    /// Values of `memory`.
    pub const MEMORY: RangeInclusive<u64> = 1 << 20..=1 << 40;
    /// Values of `cpu_milli`, in whole processors.
    pub const CPU: RangeInclusive<f64> = 0.01..=1024.0;
}

/// What of a sandbox is in force on this machine, and by what; `None`: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxBounds {
    /// Files that are not listed cannot be read or written.
    pub files: Option<String>,
    /// Network sockets cannot be made.
    pub network: Option<String>,
    /// Unix sockets of others cannot be connected to.
    pub unix_sockets: Option<String>,
    /// Nor those with abstract names.
    pub abstract_sockets: Option<String>,
    /// Processes outside cannot be signalled.
    pub signals: Option<String>,
    /// Processes outside are not in `/proc`. What they were given (environment, descriptors, memory) is not to be read
    /// there if files are bound.
    pub processes: Option<String>,
    /// Calls that change the machine are refused.
    pub calls: Option<String>,
}

impl SandboxBounds {
    /// Each bound's name, what it keeps a service from, and by what it is in force.
    pub fn all(&self) -> [(&'static str, &'static str, Option<&str>); 7] {
        [
            ("files", "reading and writing files that are not listed", self.files.as_deref()),
            ("network", "network connections", self.network.as_deref()),
            ("unix_sockets", "connecting to Unix sockets of others", self.unix_sockets.as_deref()),
            ("abstract_sockets", "connecting to abstract Unix sockets", self.abstract_sockets.as_deref()),
            ("signals", "signals to processes outside", self.signals.as_deref()),
            ("processes", "seeing processes outside in /proc", self.processes.as_deref()),
            ("calls", "calls that change the machine", self.calls.as_deref()),
        ]
    }

    /// What it does not keep a service from, as a list for people; `None` if there is nothing.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let all = self.all();
        let missing: Vec<&str> = all.iter().filter(|(.., by)| by.is_none()).map(|(_, what, _)| *what).collect();
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

/// Whether an instance is in a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sandbox {
    /// It may do what its user may.
    #[default]
    None,
    /// Files: the system's programs and libraries to read, its own folder to write, and what is listed; no network but
    /// the sockets it was given; none of the calls that change the machine or look into other processes; no new
    /// privileges.
    Strict {
        /// Further files and folders to read and execute.
        read: Vec<PathBuf>,
        /// Further files and folders to read and write.
        write: Vec<PathBuf>,
    },
}

/// The program of an instance that is put into bounds.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux puts a program into bounds"))]
pub(crate) struct ToExecute<'a> {
    pub(crate) id: u64,
    pub(crate) program: &'a OsStr,
    pub(crate) dir: Option<&'a Path>,
    pub(crate) env: &'a [(String, String)],
}
