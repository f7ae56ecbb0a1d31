//! Processes: what `/proc` says of them, and the end of this process's own children. The guardian buries them, and
//! kills all that is below it.

use rustix::process::{Pid, WaitOptions, wait};

/// What `/proc` says of a process.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: i32,
    /// In clock ticks since boot. A pid with its start is never used again.
    pub(crate) start: u64,
    /// It has ended and is not buried yet.
    pub(crate) has_ended: bool,
    /// Its environment is empty, or it has none: it has ended, or is a thread of the kernel. While the system puts
    /// another program in its place, its environment reads as empty and this is false.
    pub(crate) is_bare: bool,
}

/// The user that this process runs as.
pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Buries one child that has ended: its pid, exit status and signal.
pub(crate) fn reap_one() -> Option<(Pid, Option<i32>, Option<i32>)> {
    // An error is ECHILD: there are no children.
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    Some((pid, status.exit_status(), status.terminating_signal()))
}

/// Kills and buries until no descendant is left.
///
/// Only direct children are killed in a round, because only their pids cannot be given to somebody else meanwhile; what
/// they leave becomes a direct child in the next round, because the guardian is a subreaper.
#[cfg(target_os = "linux")]
pub(crate) fn kill_all() {
    use rustix::process::{Signal, kill_process};
    use std::time::Duration;

    let mut pause = Duration::from_micros(200);
    loop {
        for child in direct() {
            // An error is ESRCH: it has ended by itself.
            let _ = kill_process(child, Signal::KILL);
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => pause = Duration::from_micros(200),
                Ok(None) => break,
                Err(_) => return, // ECHILD: nobody is left
            }
        }
        // Killed, but not yet dead. Not a blocking wait: a child that was born between the look and the kill is alive.
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The guardian's own children, the ended ones that are not buried among them.
#[cfg(target_os = "linux")]
pub(crate) fn direct() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // The list is whole: only this thread, which has no other one beside it, takes something out of it.
    if let Ok(list) = std::fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        return list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect();
    }
    // A kernel without CONFIG_PROC_CHILDREN.
    all().into_iter().filter(|pid| parent_of(*pid) == Some(own)).filter_map(Pid::from_raw).collect()
}

/// Every process of this machine that may be seen.
#[cfg(target_os = "linux")]
pub(crate) fn all() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether it is a child of ours that has not been buried: then its pid cannot be somebody else's.
#[cfg(target_os = "linux")]
pub(crate) fn is_child(pid: i32) -> bool {
    parent_of(pid) == Some(rustix::process::getpid().as_raw_nonzero().get())
}

#[cfg(target_os = "linux")]
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    stat(pid).map(|stat| stat.parent)
}

#[cfg(target_os = "linux")]
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parsed(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// `pid (name) state ppid …`, and the name may hold anything, `)` included.
#[cfg(target_os = "linux")]
fn parsed(stat: &[u8]) -> Option<Stat> {
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = str::from_utf8(&stat[after_name + 1..]).ok()?.split_ascii_whitespace();
    let has_ended = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?; // field 22, after 3 and 4
    let has_memory = fields.next()? != "0"; // 23
    // 26, 50 and 51: where its code begins, which Linux fills in last, and where its environment is.
    let (has_begun, environment) = (fields.nth(2)? != "0", [fields.nth(23)?, fields.next()?]);
    let is_bare = !has_memory || has_begun && environment[0] == environment[1];
    Some(Stat { parent, start, has_ended, is_bare })
}

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{is_child, kill_all, parent_of};

/// Systems without a subreaper: this process has no descendants but its children.
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled in tests, so that it keeps compiling"))]
mod elsewhere {
    use rustix::process::{WaitOptions, wait};

    /// Waits for all children; only process groups are known, and those have been killed.
    pub(crate) fn kill_all() {
        while wait(WaitOptions::empty()).is_ok() {}
    }

    /// Returns whether a grandchild has become a child of ours, which does not happen here.
    pub(crate) fn is_child(_pid: i32) -> bool {
        false
    }

    /// Returns `None`: the parent of another process is not known here.
    pub(crate) fn parent_of(_pid: i32) -> Option<i32> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::processes::*;

    #[test]
    fn a_name_may_hold_anything() {
        let head = "5 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711";
        let between: Vec<String> = (27..50).map(|field| field.to_string()).collect();
        let check = |begin: &str, memory: u32, code: u32, environment: &str, has_ended, is_bare| {
            let line = format!("{begin} 7 {head} {memory} 24 25 {code} {} {environment} 0\n", between.join(" "));
            let expected = Stat { parent: 7, start: 4711, has_ended, is_bare };
            assert_eq!(parsed(line.as_bytes()), Some(expected), "{line}");
        };
        check("12 (a) S 1 2) S", 1, 1, "100 200", false, false);
        check("12 (()) Z", 0, 0, "0 0", true, true);
        check("12 (a) R", 1, 1, "100 100", false, true);
        check("12 (a) R", 1, 0, "0 0", false, false); // another program is being put in its place
        check("12 (a) R", 1, 0, "100 100", false, false);
        assert_eq!(parsed(b"12 (a) S 7"), None);
        let own = stat(std::process::id() as i32).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id() as i32);
        assert!(!own.is_bare);
    }
}
