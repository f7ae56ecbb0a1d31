//! Cgroups (v2) for instances: memory, processor time and the number of processes of all that an instance starts.
//!
//! Only where the gateway's own cgroup is delegated to it: it may write there, and nobody else is in it. The gateway
//! and the guardian move into `pilotlight` below it, because a cgroup that hands controllers down may have no processes
//! itself; each instance gets a `service-…` beside that.

use super::settings::{CgroupLimits, Isolation};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where processes of our own go.
const OWN: &str = "pilotlight";
/// The period of `cpu.max`, microseconds.
const PERIOD: u64 = 100_000;

/// The cgroups of a guardian's instances. Looked for with the first instance that asks for one.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    base: Option<Result<PathBuf, String>>,
    by_id: HashMap<u64, PathBuf>,
    /// Those that could not be removed yet.
    leftover: Vec<PathBuf>,
}

impl Cgroups {
    /// The cgroup of an instance with its limits, or `None` with what is missing as a notice.
    pub(crate) fn make(&mut self, id: u64, isolation: &Isolation, notices: &mut Vec<String>) -> Option<PathBuf> {
        let settings = settings(isolation);
        if settings.is_empty() {
            return None;
        }
        let base = match self.base.get_or_insert_with(find).as_ref() {
            Ok(base) => base,
            Err(reason) => {
                // The number of processes has another way.
                if isolation.cgroup != CgroupLimits::default() {
                    notices.push(format!("the limits of `cgroup` have no effect: {reason}"));
                }
                return None;
            }
        };
        // With the guardian's number, because the gateway that is replaced by an upgrade counts its runs as well.
        match make(&base.join(format!("service-{}-{id}", std::process::id())), &settings) {
            Ok(made) => {
                self.by_id.insert(id, made.clone());
                Some(made)
            }
            Err(error) => {
                notices.push(format!("the limits of `cgroup` have no effect: {error}"));
                None
            }
        }
    }

    /// Kills what is left in the cgroup of an instance that has ended, and removes it. Gives back why the kernel killed
    /// something in it.
    pub(crate) fn ended(&mut self, id: u64) -> Option<String> {
        let path = self.by_id.remove(&id)?;
        let reason = limit_reached(&path);
        kill(&path);
        self.leftover.push(path);
        self.sweep();
        reason
    }

    /// Removes what could not be removed before: a cgroup is busy until its last process is buried.
    pub(crate) fn sweep(&mut self) {
        self.leftover
            .retain(|path| matches!(fs::remove_dir(path), Err(error) if error.kind() != io::ErrorKind::NotFound));
    }

    /// Kills all that is in any of them.
    pub(crate) fn kill_all(&mut self) {
        for (_, path) in self.by_id.drain() {
            kill(&path);
            self.leftover.push(path);
        }
    }
}

fn settings(isolation: &Isolation) -> Vec<(&'static str, &'static str, String)> {
    let memory = isolation.cgroup.memory.map(|bytes| ("memory", "memory.max", bytes.to_string()));
    let quota = |milli: u64| format!("{} {PERIOD}", (milli * PERIOD / 1000).max(1000));
    let cpu = isolation.cgroup.cpu_milli.map(|milli| ("cpu", "cpu.max", quota(milli)));
    let pids = isolation.limits.processes.map(|count| ("pids", "pids.max", count.to_string()));
    [memory, cpu, pids].into_iter().flatten().collect()
}

fn make(path: &Path, settings: &[(&str, &str, String)]) -> Result<PathBuf, String> {
    let failed = |file: &Path, error: &io::Error| format!("{}: {error}", file.display());
    fs::create_dir(path).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()), // of a guardian before this one
        _ => Err(failed(path, &error)),
    })?;
    for (controller, file, value) in settings {
        let file = path.join(file);
        if let Err(error) = fs::write(&file, value) {
            let _ = fs::remove_dir(path);
            return Err(match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                    format!("the controller `{controller}` is not handed down to {}", path.display())
                }
                _ => failed(&file, &error),
            });
        }
    }
    // Older kernels, and those without swap, do not have these. Memory that goes to swap is not limited by
    // `memory.max`; and half an instance is of no use.
    for (file, value) in [("memory.swap.max", "0"), ("memory.oom.group", "1")] {
        let file = path.join(file);
        if file.exists() {
            let _ = fs::write(file, value);
        }
    }
    Ok(path.to_owned())
}

/// The kernel's word on why something in a cgroup was killed.
fn limit_reached(path: &Path) -> Option<String> {
    let limit = |file| fs::read_to_string(path.join(file)).unwrap_or_default().trim().to_owned();
    if count(path, "memory.events", "oom_kill ") > 0 {
        let limit = limit("memory.max");
        return Some(format!("it used all of `cgroup.memory` ({limit} bytes) and the kernel killed it"));
    }
    let refused = count(path, "pids.events", "max ");
    let limit = limit("pids.max");
    (refused > 0).then(|| format!("limits.processes = {limit} had refused {refused} new processes or threads"))
}

fn count(path: &Path, file: &str, event: &str) -> u64 {
    let events = fs::read_to_string(path.join(file)).unwrap_or_default();
    events.lines().find_map(|line| line.strip_prefix(event)?.trim().parse().ok()).unwrap_or(0)
}

fn kill(path: &Path) {
    // Linux 5.14; before that the process group and the subreaper have to do.
    let _ = fs::write(path.join("cgroup.kill"), "1");
}

/// Our own cgroup, made ready to have cgroups of instances below it.
fn find() -> Result<PathBuf, String> {
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
    let mounts =
        fs::read_to_string("/proc/self/mountinfo").map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    let own = located(&own, &mounts)?;
    // The gateway was moved there for a guardian before this one.
    let base =
        own.parent().filter(|_| own.file_name().is_some_and(|name| name == OWN)).map(Path::to_owned).unwrap_or(own);
    prepare(&base, &ours)
}

/// The folder of our own cgroup.
fn located(own: &str, mounts: &str) -> Result<PathBuf, String> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).ok_or("this system has no cgroup v2")?;
    let mount = mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?;
        after.starts_with("cgroup2 ").then_some(point)
    });
    let mount = mount.ok_or("no cgroup v2 is mounted")?;
    Ok(Path::new(mount).join(path.trim_start_matches('/')))
}

fn prepare(base: &Path, ours: &dyn Fn(i32) -> bool) -> Result<PathBuf, String> {
    let advice = "start Pilotlight with `systemd-run --scope -p Delegate=yes` or from a unit with Delegate=yes";
    let failed = |what: &str, error: &io::Error| format!("cgroup {}: {what}: {error}; {advice}", base.display());
    let there =
        fs::read_to_string(base.join("cgroup.controllers")).map_err(|error| failed("cgroup.controllers", &error))?;
    let there: Vec<&str> =
        ["memory", "cpu", "pids"].into_iter().filter(|c| there.split_whitespace().any(|t| t == *c)).collect();
    if there.is_empty() {
        return Err(format!("cgroup {} has none of the controllers memory, cpu, pids", base.display()));
    }
    let procs = fs::read_to_string(base.join("cgroup.procs")).map_err(|error| failed("cgroup.procs", &error))?;
    let pids: Vec<i32> = procs.lines().filter_map(|pid| pid.trim().parse().ok()).collect();
    if let Some(other) = pids.iter().find(|pid| !ours(**pid)) {
        return Err(format!("process {other} of somebody else is in cgroup {} as well; {advice}", base.display()));
    }
    remove_leftovers(base);
    let own = base.join(OWN);
    match fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed("a cgroup below it", &error)),
        _ => {}
    }
    for pid in pids {
        match fs::write(own.join("cgroup.procs"), pid.to_string()) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(failed("moving out of it", &error)),
            _ => {}
        }
    }
    let down: String = there.iter().map(|controller| format!("+{controller} ")).collect();
    fs::write(base.join("cgroup.subtree_control"), down.trim_end())
        .map_err(|error| failed("cgroup.subtree_control", &error))?;
    Ok(base.to_owned())
}

/// Removes what a guardian that died has left; those that are in use cannot be removed.
fn remove_leftovers(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b"service-") {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether a process is the gateway or below it.
fn ours(pid: i32) -> bool {
    let gateway = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    // A chain of parents is never long; a bound, because processes come and go while it is followed.
    let chain = std::iter::successors(Some(pid), |pid| crate::processes::parent_of(*pid)).take(64);
    chain.take_while(|pid| *pid > 0).any(|pid| Some(pid) == gateway)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::ResourceLimits;

    /// Plain files in the place of the kernel's.
    fn fake(controllers: &str, procs: &str) -> tempfile::TempDir {
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("cgroup.controllers"), controllers).unwrap();
        fs::write(base.path().join("cgroup.procs"), procs).unwrap();
        base
    }

    #[test]
    fn our_own_cgroup_is_found() {
        let mounts =
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n1 2 0:1 / / rw - ext4 /dev/vda rw\n";
        let found = |own| located(own, mounts);
        assert_eq!(found("0::/user.slice/a.scope\n"), Ok("/sys/fs/cgroup/user.slice/a.scope".into()));
        assert_eq!(found("4:memory:/x\n0::/\n"), Ok("/sys/fs/cgroup/".into()));
        assert!(found("4:memory:/x\n").unwrap_err().contains("no cgroup v2"));
        assert!(located("0::/\n", "").unwrap_err().contains("mounted"));
    }

    #[test]
    fn it_is_prepared_once_and_only_if_it_is_ours_alone() {
        let base = fake("cpuset cpu memory pids\n", "10\n11\n");
        assert_eq!(prepare(base.path(), &|_| true), Ok(base.path().to_owned()));
        assert_eq!(fs::read_to_string(base.path().join("cgroup.subtree_control")).unwrap(), "+memory +cpu +pids");
        assert_eq!(fs::read_to_string(base.path().join("pilotlight/cgroup.procs")).unwrap(), "11");
        let shared = fake("memory\n", "10\n11\n");
        let refused = prepare(shared.path(), &|pid| pid == 10).unwrap_err();
        assert!(refused.contains("process 11") && refused.contains("Delegate=yes"), "{refused}");
        assert!(!shared.path().join(OWN).exists());
        let refused = prepare(fake("hugetlb\n", "").path(), &|_| true).unwrap_err();
        assert!(refused.contains("none of the controllers"), "{refused}");
        assert!(prepare(Path::new("/no/such/folder"), &|_| true).unwrap_err().contains("Delegate=yes"));
    }

    #[test]
    fn limits_are_written_and_what_they_did_is_read() {
        let base = tempfile::tempdir().unwrap();
        let isolation = Isolation {
            cgroup: CgroupLimits { memory: Some(64 << 20), cpu_milli: Some(1500) },
            limits: ResourceLimits { processes: Some(20), ..Default::default() },
            ..Default::default()
        };
        let mut groups = Cgroups { base: Some(Ok(base.path().to_owned())), ..Default::default() };
        let mut notices = Vec::new();
        let made = groups.make(7, &isolation, &mut notices).unwrap();
        assert!(notices.is_empty());
        let read = |file| fs::read_to_string(made.join(file)).unwrap();
        assert_eq!(
            (read("memory.max"), read("cpu.max"), read("pids.max")),
            ("67108864".into(), "150000 100000".into(), "20".into())
        );
        fs::write(made.join("memory.events"), "low 0\nmax 12\noom 1\noom_kill 1\n").unwrap();
        assert_eq!(
            groups.ended(7).unwrap(),
            "it used all of `cgroup.memory` (67108864 bytes) and the kernel killed it"
        );
        assert_eq!(fs::read_to_string(made.join("cgroup.kill")).unwrap(), "1");
        assert_eq!(groups.ended(7), None, "said once");
        fs::write(made.join("memory.events"), "oom_kill 0\n").unwrap();
        fs::write(made.join("pids.events"), "max 41\n").unwrap();
        assert_eq!(limit_reached(&made).unwrap(), "limits.processes = 20 had refused 41 new processes or threads");
        assert_eq!(groups.make(8, &Isolation::default(), &mut notices), None);
        let mut none = Cgroups { base: Some(Err("why".into())), ..Default::default() };
        assert_eq!(none.make(9, &isolation, &mut notices), None);
        assert_eq!(notices, ["the limits of `cgroup` have no effect: why"]);
    }
}
