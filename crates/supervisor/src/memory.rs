//! The memory of an instance: its process and all below it.
//!
//! What left the tree (a daemon) is not counted. Shared pages are counted once: the resident sizes are added first,
//! which is cheap and never too little; only if they reach the limit are the proportional sizes asked for, which costs
//! the kernel a walk over the page tables.

use crate::limits::MAX_PROCESSES;
use std::fs;

/// The bytes of the processes of an instance, `None` if the system does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) instance: u64,
    pub(crate) bytes: Option<u64>,
}

/// Bytes of the process and those below it, exact only if they may reach `limit`; `None` if the system does not say.
pub(crate) fn of_tree(pid: i32, limit: u64) -> Option<u64> {
    let processes = tree(pid);
    let resident: u64 = processes.iter().filter_map(|pid| resident(*pid)).sum();
    if resident < limit {
        return Some(resident).filter(|bytes| *bytes > 0);
    }
    Some(processes.iter().filter_map(|pid| proportional(*pid).or_else(|| self::resident(*pid))).sum())
}

/// The process and all below it, [`MAX_PROCESSES`] at most.
pub(crate) fn tree(pid: i32) -> Vec<i32> {
    let mut found = vec![pid];
    let mut next = 0;
    while next < found.len() && found.len() < MAX_PROCESSES {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// Each thread has the list of those that it began.
fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

fn resident(pid: i32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn proportional(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    #[cfg(target_os = "linux")]
    fn a_tree_is_more_than_its_root() {
        let script = "sleep 1000 & echo ready; wait";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let pid = child.id() as i32;
        let processes = tree(pid);
        assert_eq!(processes.len(), 2);
        let (rough, exact) = (of_tree(pid, u64::MAX).unwrap(), of_tree(pid, 1).unwrap());
        assert!(exact > 0 && exact <= rough, "{exact} {rough}");
        let member = rustix::process::Pid::from_raw(processes[1]).unwrap();
        rustix::process::kill_process(member, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(of_tree(pid, 1), None);
    }
}
