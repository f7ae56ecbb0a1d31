//! The rules of `sandbox = "strict"` for files, TCP, and signals: landlock.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use std::path::{Path, PathBuf};

/// What is asked of the kernel; an older one does what it can, which is said.
const WANTED: ABI = ABI::V9;

/// Programs, libraries and what they need of the machine; not in the list are `/etc` as a whole, `/home`, `/root`,
/// `/var`, `/tmp`, `/run`.
const SYSTEM: [&str; 41] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/proc",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/terminfo",
    "/etc/timezone",
    "/dev/urandom",
    "/dev/random",
];

/// Devices that may be written to as well.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// What the kernel has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    status: LandlockStatus,
}

impl Rules {
    /// Files are protected.
    pub(super) fn has_files(self) -> bool {
        self.abi() >= ABI::V1
    }

    /// Abstract Unix sockets and processes outside are out of reach.
    pub(super) fn has_scopes(self) -> bool {
        self.abi() >= ABI::V6
    }

    /// Unix sockets with a path need a rule (Linux 7.1).
    pub(super) fn has_unix_sockets(self) -> bool {
        self.abi() >= ABI::V9
    }

    fn abi(self) -> ABI {
        match self.status {
            LandlockStatus::Available { effective_abi, .. } => effective_abi,
            LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => ABI::Unsupported,
        }
    }
}

/// Puts this process under the rules: what is listed may be read or written, everything else is refused.
pub(super) fn enforce(
    program: &Path,
    socket: Option<&Path>,
    dir: &Path,
    read: &[PathBuf],
    write: &[PathBuf],
) -> Result<Rules, String> {
    let failed = |error: RulesetError| format!("sandbox: landlock: {error}");
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(WANTED)))
        .and_then(|rules| rules.scope(Scope::AbstractUnixSocket | Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(failed)?;
    let reading = AccessFs::from_read(WANTED);
    let all = AccessFs::from_all(WANTED);
    for path in SYSTEM {
        rules = optional(rules, Path::new(path), reading)?;
    }
    for path in DEVICES {
        rules = optional(rules, Path::new(path), all)?;
    }
    for path in programs(program) {
        rules = optional(rules, &path, reading)?;
    }
    if let Some(pipe) = socket {
        rules = optional(rules, pipe, AccessFs::ResolveUnix.into())?;
    }
    for path in read {
        rules = required(rules, path, reading, "sandbox_read")?;
    }
    for path in write {
        rules = required(rules, path, all, "sandbox_write")?;
    }
    rules = required(rules, dir, all, "dir")?;
    // Off by default behind an `exec`, which is where a service is: with it the system's audit log names each file that
    // is refused, also where the service is silent (Linux 6.15, and only where auditing is on).
    rules = rules.log_new_exec(true).map_err(failed)?;
    let status = rules.restrict_self().map_err(failed)?;
    Ok(Rules { status: status.landlock })
}

/// The program as it is named and as it is, with a link both have to be read; and the library of a Python that is not
/// the system's. Of others only the file, for what lies beside it may be a home folder.
pub(super) fn programs(program: &Path) -> Vec<PathBuf> {
    let mut found = vec![program.to_owned()];
    found.extend(program.canonicalize());
    let pythons =
        found.iter().filter(|file| file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python")));
    let prefixes: Vec<PathBuf> = pythons.filter_map(|file| Some(file.parent()?.parent()?.to_owned())).collect();
    for prefix in prefixes {
        if prefix.join("pyvenv.cfg").is_file() {
            found.push(prefix); // a virtual environment
        } else {
            found.push(prefix.join("lib"));
        }
    }
    found
}

/// What is not there, or may not even be looked at, needs no rule.
fn optional(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    match PathFd::new(path) {
        Ok(opened) => add(rules, path, opened, access),
        Err(_) => Ok(rules),
    }
}

fn required(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    key: &str,
) -> Result<RulesetCreated, String> {
    let opened = PathFd::new(path).map_err(|error| format!("{key}: {}: {error}", path.display()))?;
    add(rules, path, opened, access)
}

fn add(
    rules: RulesetCreated,
    path: &Path,
    opened: PathFd,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    // A rule for a file may only speak of what can be done with files.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(WANTED) };
    rules.add_rule(PathBeneath::new(opened, access)).map_err(|error| format!("sandbox: {}: {error}", path.display()))
}

/// What this kernel lacks.
pub(super) fn lacking(rules: Rules) -> Vec<String> {
    match rules.status {
        LandlockStatus::NotEnabled => {
            return vec!["sandbox: landlock is not enabled in this kernel (boot with lsm=landlock,…)".into()];
        }
        LandlockStatus::NotImplemented => {
            return vec!["sandbox: this kernel has no landlock (Linux 5.13 or newer)".into()];
        }
        LandlockStatus::Available { .. } => {}
    }
    let wanted = [
        (ABI::V3, "truncating a file is not refused (Linux 6.2)"),
        (ABI::V4, "TCP sockets that were opened before are not bound by it (Linux 6.7)"),
        (ABI::V5, "ioctl on devices is not refused (Linux 6.10)"),
        (ABI::V6, "signals to processes outside are not refused (Linux 6.12)"),
    ];
    wanted
        .iter()
        .filter(|(needs, _)| rules.abi() < *needs)
        .map(|(_, what)| format!("sandbox: this kernel is too old for all of it: {what}"))
        .collect()
}
