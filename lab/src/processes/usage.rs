//! CPU time and memory of processes, from /proc (Linux).

use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::Context as _;

/// How long a process may take to begin another program while it is asked for its environment.
const EXEC_TIMEOUT: Duration = Duration::from_millis(100);

/// A process as the table of processes has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
}

/// Memory of some processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident, pages that several processes share divided among them (`Pss`). 0 if the system does not say.
    pub pss_bytes: u64,
    /// Resident (`VmRSS`).
    pub rss_bytes: u64,
    /// How many processes.
    pub processes: usize,
}

/// `pid` and all that descend from it, parents before children. Those that have ended are not among them.
#[must_use]
pub fn tree(pid: u32) -> Vec<Process> {
    let everything = processes();
    let mut found: Vec<Process> = everything.iter().copied().filter(|process| process.pid == pid).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).map(|process| process.pid) {
        found.extend(everything.iter().copied().filter(|process| process.parent == parent));
        next += 1;
    }
    found
}

/// Whether it runs (a process that has ended but was not waited for does not).
#[must_use]
pub fn runs(pid: u32) -> bool {
    process(pid).is_some()
}

/// The program that it executes.
#[must_use]
pub fn executable(pid: u32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Processes that were started with this environment variable.
#[must_use]
pub fn with_variable(name: &str, value: &str) -> Vec<u32> {
    let wanted = format!("{name}={value}");
    let has = |process: &Process| {
        environment(process.pid).split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    processes().iter().filter(|process| has(process)).map(|process| process.pid).collect()
}

/// What a process was started with, as in `/proc/PID/environ`. Empty if it may not be read.
///
/// While a process begins another program it has no environment, or ends in the middle of one that is being read; it is
/// waited for, [`EXEC_TIMEOUT`] at most.
fn environment(pid: u32) -> Vec<u8> {
    let deadline = Instant::now() + EXEC_TIMEOUT;
    loop {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if environment.ends_with(b"\0") || is_bare(pid) || Instant::now() > deadline {
            return environment;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether its environment is empty, or it has none: it has ended, or is a thread of the kernel.
fn is_bare(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    // proc_pid_stat(5): fields 23, 26, which Linux fills in last when a program begins, 50 and 51.
    let [memory, code, begin, end] = [20, 23, 47, 48].map(|index| fields.get(index).copied().unwrap_or("0"));
    memory == "0" || code != "0" && begin == end
}

/// CPU time that the threads of these processes have used so far, in nanoseconds. Threads that have ended do not count.
#[must_use]
pub fn cpu_time(pids: &[u32]) -> Duration {
    let threads = pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok()).flatten().flatten();
    let used = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(used.sum())
}

/// CPU time that groups of processes have used while something was done.
///
/// # Errors
/// It failed.
pub fn during<T>(
    groups: &[(&'static str, Vec<u32>)],
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, Vec<Duration>)> {
    let used = || groups.iter().map(|(_, pids)| cpu_time(pids)).collect::<Vec<Duration>>();
    let before = used();
    let done = work()?;
    Ok((done, used().into_iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect()))
}

/// CPU time of processes that this one has started and waited for, to the tick (usually 10 ms).
///
/// # Errors
/// The system does not say.
pub fn ended_children_cpu_time() -> anyhow::Result<Duration> {
    // Behind the times of a process are those of its children.
    let [user, system] = ticks("self", 13).context("/proc/self/stat has no times of children")?;
    Ok(user + system)
}

/// CPU time of these processes so far in user space and in the kernel, to the tick.
#[must_use]
pub fn user_and_kernel(pids: &[u32]) -> [Duration; 2] {
    let all = pids.iter().filter_map(|pid| ticks(&pid.to_string(), 11));
    all.fold([Duration::ZERO; 2], |[user, system], [more, most]| [user + more, system + most])
}

/// Two times that stand beside each other in a process's `stat`, counted from behind its name.
fn ticks(pid: &str, index: usize) -> Option<[Duration; 2]> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may have spaces in it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let seconds = |index: usize| {
        Some(fields.get(index)?.parse::<u64>().ok()? as f64 / rustix::param::clock_ticks_per_second() as f64)
    };
    Some([Duration::from_secs_f64(seconds(index)?), Duration::from_secs_f64(seconds(index + 1)?)])
}

/// Memory of these processes.
#[must_use]
pub fn memory(pids: &[u32]) -> Memory {
    let mut sum = Memory::default();
    for pid in pids {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        sum.processes += 1;
        sum.rss_bytes += field_bytes(&status, "VmRSS:");
        sum.pss_bytes +=
            fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).map_or(0, |text| field_bytes(&text, "Pss:"));
    }
    sum
}

/// The sum of a field of `/proc/PID/status` in bytes: `VmHWM`, `RssAnon`.
#[must_use]
pub fn status_bytes(pids: &[u32], field: &str) -> u64 {
    let name = format!("{field}:");
    let status = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    pids.iter().map(|pid| field_bytes(&status(pid), &name)).sum()
}

/// Lets `VmHWM`, the peak of resident memory, begin again from what it is now.
///
/// # Errors
/// The system refuses.
pub fn reset_peak(pids: &[u32]) -> anyhow::Result<()> {
    pids.iter().try_for_each(|pid| Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?))
}

/// The letter of its state: `T` is stopped.
#[must_use]
pub fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 1..].trim_start().chars().next()
}

/// A line `NAME:  123 kB`.
fn field_bytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| process(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name in parentheses may have spaces and parentheses in it
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(Process { pid, parent })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_in_the_tree_until_it_ends() {
        let own = std::process::id();
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        assert!(tree(own).contains(&Process { pid: child.id(), parent: own }));
        assert!(runs(child.id()));
        drop(child.stdin.take());
        let pid = child.id();
        child.wait().expect("it ends at the end of its input");
        assert!(!runs(pid));
        assert!(tree(own).iter().all(|process| process.pid != pid));
    }

    #[test]
    fn a_marked_process_is_found() {
        let mut child = Command::new("cat").env("LAB_TEST_MARK", "a b").stdin(Stdio::piped()).spawn().expect("cat");
        assert_eq!(with_variable("LAB_TEST_MARK", "a b"), [child.id()]);
        assert_eq!(with_variable("LAB_TEST_MARK", "a"), [0_u32; 0]);
        drop(child.stdin.take());
        child.wait().expect("it ends at the end of its input");
        assert_eq!(with_variable("LAB_TEST_MARK", "a b"), [0_u32; 0]);
    }

    #[test]
    fn a_process_that_executes_programs_all_the_time_is_found_each_time() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec sh -c \"$0\" \"$0\"", "exec sh -c \"$0\" \"$0\""]);
        let mut child = command.env("LAB_TEST_EXEC", "1").spawn().expect("sh");
        let missed = (0..200).filter(|_| with_variable("LAB_TEST_EXEC", "1") != [child.id()]).count();
        child.kill().expect("it runs for ever");
        child.wait().expect("it was killed");
        assert_eq!(missed, 0);
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let own = [std::process::id()];
        let before = cpu_time(&own);
        let mut sum = 0_u64;
        while cpu_time(&own) <= before {
            sum = std::hint::black_box(sum + 1);
        }
        let memory = memory(&own);
        assert_eq!(memory.processes, 1);
        assert!(memory.pss_bytes > 0 && memory.pss_bytes <= memory.rss_bytes);
    }

    #[test]
    fn a_process_that_is_gone_uses_nothing() {
        assert_eq!(cpu_time(&[u32::MAX]), Duration::ZERO);
        assert_eq!(user_and_kernel(&[u32::MAX]), [Duration::ZERO; 2]);
        assert_eq!(memory(&[u32::MAX]), Memory::default());
    }

    #[test]
    fn a_child_that_has_ended_has_used_time() {
        let before = ended_children_cpu_time().expect("times");
        // As much as is seen in ticks of 10 ms.
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", script]).status().expect("a shell").success());
        assert!(ended_children_cpu_time().expect("times") > before);
    }
}
