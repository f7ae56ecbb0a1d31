//! What this machine and this program are: limits of the kernel, bounds for services, the clock, companions.

use std::io::{self, Read as _, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use pilotlight_companion::Companion;
use pilotlight_send_batch::Batch;
use pilotlight_supervisor::{CgroupLimits, Sandbox, SandboxBounds, probe_sandbox};
use rustix::fs::Access;
use rustix::process::{Resource, getrlimit};

use super::bounded;
use super::finding::{Area, Finding};
use crate::config::Config;
use crate::config::commands::Outcome;

/// Descriptors of a gateway that are no connections of clients: files, its own sockets, connections to services.
const OWN_FILES: u64 = 256;
/// Folders that a project of some size has.
const MIN_WATCHES: u64 = 16_384;
const MIN_INSTANCES: u64 = 64;
/// No clock that is right shows a time before this: 1 January 2026.
const YOUNGEST: Duration = Duration::from_secs(1_767_225_600);

/// This program.
pub(super) fn version() -> Finding {
    let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    let kernel = rustix::system::uname();
    let release = kernel.release().to_string_lossy().into_owned();
    let fact = format!("pilotlight {version} for {os} {arch}, on {} {release}", kernel.sysname().to_string_lossy());
    match cfg!(debug_assertions) {
        true => Area::Program.note(format!("{fact}: a debug build"), "`make release` builds the fast one"),
        false => Area::Program.ok(fact),
    }
}

/// Limits of the kernel: for the gateway that runs, or for one that would be started from here.
pub(super) fn limits(config: Option<&Config>, pid: Option<u64>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let running = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/limits")).ok());
    let own = getrlimit(Resource::Nofile);
    let soft = running.as_deref().and_then(open_files_of).unwrap_or(own.current.unwrap_or(u64::MAX));
    let wanted = config.map_or(0, |config| config.settings.limits.connections as u64);
    findings.push(open_files(soft, wanted));
    let number = |name: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse().ok()
    };
    if let (Some(watches), Some(instances)) = (number("max_user_watches"), number("max_user_instances")) {
        findings.push(inotify(watches, instances));
    }
    if config.is_none_or(|config| config.io_uring) {
        findings.push(match Batch::with_io_uring() {
            Ok(_) => Area::Limits.ok("io_uring is available"),
            Err(why) => Area::Limits.note(
                format!("io_uring is not available ({why}): messages are sent one by one"),
                "allow it in the container's seccomp profile or by `sysctl kernel.io_uring_disabled=0`; it is not needed",
            ),
        });
    }
    findings.push(clock(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()));
    findings
}

/// The soft limit in a `/proc/PID/limits`.
fn open_files_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn open_files(soft: u64, connections: u64) -> Finding {
    let wanted = connections + OWN_FILES;
    let remedy = format!(
        "`ulimit -n {wanted}` in the shell, `LimitNOFILE={wanted}` in a unit; or a smaller `limits.connections`"
    );
    match soft {
        u64::MAX => Area::Limits.ok("any number of open files"),
        _ if soft >= wanted => Area::Limits.ok(format!("{soft} open files at once")),
        _ if soft < OWN_FILES => Area::Limits.problem(format!("only {soft} open files at once are allowed"), remedy),
        _ => Area::Limits.note(
            format!("{soft} open files at once are allowed, and `limits.connections` is {connections}: further clients would wait"),
            remedy,
        ),
    }
}

fn inotify(watches: u64, instances: u64) -> Finding {
    if watches >= MIN_WATCHES && instances >= MIN_INSTANCES {
        return Area::Limits.ok(format!("inotify follows {watches} files and folders for `pilotlight dev`"));
    }
    Area::Limits.note(
        format!("inotify follows only {watches} files and folders, {instances} programs at once: `pilotlight dev` may not see all"),
        "`sudo sysctl fs.inotify.max_user_watches=524288 fs.inotify.max_user_instances=1024`",
    )
}

fn clock(since_1970: Duration) -> Finding {
    match since_1970 < YOUNGEST {
        true => Area::Limits.problem(
            "the clock shows a time in the past: certificates are not valid yet, caches and tokens go wrong",
            "set it, and have it kept: `timedatectl set-ntp true`",
        ),
        false => Area::Limits.ok("the clock is plausible"),
    }
}

/// Puts this process into a sandbox, and tells what it bounds.
pub(super) fn try_sandbox(out: &mut dyn Write) -> io::Result<Outcome> {
    match probe_sandbox() {
        Ok(bounds) => {
            writeln!(out, "{}", serde_json::to_string(&bounds).unwrap_or_default())?;
            Ok(Outcome::Done)
        }
        Err(why) => {
            writeln!(out, "{why}")?;
            Ok(Outcome::Failed)
        }
    }
}

/// What a sandbox bounds here: another process tries it, because nothing leads out of one.
pub(super) fn sandbox() -> Result<SandboxBounds, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["doctor", "--try-sandbox"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (status, mut child) = bounded::ended(&mut command).ok_or("it was not tried to its end")?;
    let mut text = String::new();
    if let Some(out) = child.stdout.take() {
        out.take(64 * 1024).read_to_string(&mut text).map_err(|error| error.to_string())?;
    }
    match text.trim() {
        "" => Err(status.to_string()),
        text if status.success() => serde_json::from_str(text).map_err(|error| error.to_string()),
        why => Err(why.to_owned()),
    }
}

/// Whether some service of the file is bound in these ways.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    sandbox: bool,
    cgroup: bool,
}

impl Asked {
    fn by(config: Option<&Config>) -> Self {
        let specs = || config.into_iter().flat_map(|config| &config.services).filter_map(|service| service.spec());
        Self {
            sandbox: specs().any(|spec| spec.isolation.sandbox != Sandbox::None),
            cgroup: specs().any(|spec| spec.isolation.cgroup != CgroupLimits::default()),
        }
    }
}

/// What the kernel has for bounds of services.
pub(super) fn kernel(config: Option<&Config>, tried: Option<Result<SandboxBounds, String>>) -> Vec<Finding> {
    if !cfg!(target_os = "linux") {
        return vec![Area::Isolation.note("bounds of services need Linux", "run services that need them there")];
    }
    let asked = Asked::by(config);
    let mut findings = vec![in_force(tried, asked.sandbox)];
    findings.push(cgroup(own_cgroup(), config.is_some(), asked.cgroup));
    findings.push(match beneath() {
        Ok(()) => Area::Isolation.ok("openat2 is available: no request path can leave a folder of files"),
        Err(error) => Area::Isolation.note(
            format!("openat2 may not be used ({error}): paths are followed part by part, which is slower"),
            "allow it in the container's seccomp profile; Linux has it from 5.6 on",
        ),
    });
    findings
}

fn cgroup(own: Result<String, String>, has_file: bool, is_asked: bool) -> Finding {
    let remedy = "a system with cgroup v2; `Delegate=yes` in the unit, or `systemd-run --user --scope -p Delegate=yes pilotlight`";
    match own {
        Ok(path) => Area::Isolation.ok(format!("cgroup v2 is available and delegated to this process: {path}")),
        Err(why) if is_asked => {
            Area::Isolation.problem(format!("`cgroup` limits in the file have no effect: {why}"), remedy)
        }
        Err(why) if has_file => {
            Area::Isolation.ok(format!("no service uses `cgroup` limits, which are not available here: {why}"))
        }
        Err(why) => Area::Isolation.note(format!("`cgroup` limits would have no effect: {why}"), remedy),
    }
}

fn in_force(tried: Option<Result<SandboxBounds, String>>, is_asked: bool) -> Finding {
    let missing = match tried {
        Some(Ok(bounds)) => match bounds.missing() {
            None => return Area::Isolation.ok("everything that `sandbox = \"strict\"` needs is available"),
            Some(missing) => format!("`sandbox = \"strict\"` does not keep a service from {missing}"),
        },
        Some(Err(why)) => format!("`sandbox = \"strict\"` cannot be had: {why}"),
        None => "what `sandbox = \"strict\"` does here could not be tried in time".to_owned(),
    };
    let remedy = "a newer kernel (landlock: 5.13, 6.12), user namespaces, or a `user` for each service";
    let is_lost = missing.contains("cannot be had") && is_asked;
    if is_lost { Area::Isolation.problem(missing, remedy) } else { Area::Isolation.note(missing, remedy) }
}

/// This process's own cgroup, if it may be divided.
fn own_cgroup() -> Result<String, String> {
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        return Err("there is no cgroup v2 at /sys/fs/cgroup".to_owned());
    }
    let text = std::fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::")).ok_or("this process is in no cgroup v2")?;
    let folder = format!("/sys/fs/cgroup{}", own.trim_end_matches('/'));
    match rustix::fs::access(format!("{folder}/cgroup.procs").as_str(), Access::WRITE_OK) {
        Ok(()) => Ok(folder),
        Err(_) => Err(format!("{folder} was not delegated to this user")),
    }
}

#[cfg(target_os = "linux")]
fn beneath() -> rustix::io::Result<()> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};

    let root = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(&root, ".", flags, Mode::empty(), ResolveFlags::BENEATH).map(drop)
}

#[cfg(not(target_os = "linux"))]
fn beneath() -> rustix::io::Result<()> {
    Err(rustix::io::Errno::NOSYS)
}

/// Whether the other programs of the release are there.
pub(super) fn companions(all: &[Companion]) -> Vec<Finding> {
    let one = |companion: &Companion| match companion.find() {
        Ok(program) => Area::Program.ok(format!("`pilotlight {}` is {}", companion.command, program.display())),
        Err(_) => missing(companion),
    };
    all.iter().map(one).collect()
}

fn missing(companion: &Companion) -> Finding {
    let Companion { command, program, package } = companion;
    Area::Program.note(
        format!("`pilotlight {command}` is not here: there is no {program} beside this program or in PATH"),
        format!("install it from the same release, or `cargo build --release -p {package}`"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn open_files_have_to_do_for_the_connections() {
        for (soft, connections, expected) in [
            (u64::MAX, 10_000, Level::Ok),
            (20_000, 10_000, Level::Ok),
            (1024, 10_000, Level::Note),
            (1024, 500, Level::Ok),
            (128, 500, Level::Problem),
        ] {
            assert_eq!(open_files(soft, connections).level, expected, "{soft} {connections}");
        }
        assert_eq!(
            open_files_of("Limit\nMax open files            1024                 524288               files\n"),
            Some(1024)
        );
        assert_eq!(open_files_of("Max open files unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(open_files_of("nothing"), None);
    }

    #[test]
    fn inotify_and_the_clock() {
        assert_eq!(inotify(524_288, 1024).level, Level::Ok);
        assert_eq!(inotify(8192, 1024).level, Level::Note);
        assert_eq!(inotify(524_288, 8).level, Level::Note);
        assert_eq!(clock(Duration::ZERO).level, Level::Problem);
        assert_eq!(clock(YOUNGEST * 2).level, Level::Ok);
    }

    #[test]
    fn bounds_that_cannot_be_had_are_a_problem_for_those_who_ask_for_them() {
        let bad = || Some(Err("no".to_owned()));
        assert_eq!(in_force(bad(), true).level, Level::Problem);
        assert_eq!(in_force(bad(), false).level, Level::Note);
        assert_eq!(in_force(None, true).level, Level::Note);
        let no_cgroup = |has_file, is_asked| cgroup(Err("no".to_owned()), has_file, is_asked).level;
        assert_eq!(
            [no_cgroup(true, true), no_cgroup(true, false), no_cgroup(false, false)],
            [Level::Problem, Level::Ok, Level::Note]
        );
        let (by, none) = (Some("x".to_owned()), None);
        let whole = SandboxBounds {
            files: by.clone(),
            network: by.clone(),
            unix_sockets: by.clone(),
            abstract_sockets: by.clone(),
            signals: by.clone(),
            processes: by.clone(),
            calls: by,
        };
        assert_eq!(in_force(Some(Ok(whole.clone())), true).level, Level::Ok);
        let partly = in_force(Some(Ok(SandboxBounds { signals: none, ..whole })), true);
        assert!(partly.level == Level::Note && partly.fact.contains("signals"), "{partly:?}");
    }
}
