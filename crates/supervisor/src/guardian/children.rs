//! Burying the guardian's children, and killing all that is below it.

use rustix::process::{Pid, WaitOptions, wait};

/// Buries one child that has ended: its pid, exit status and signal.
pub(super) fn reap_one() -> Option<(Pid, Option<i32>, Option<i32>)> {
    // An error is ECHILD: there are no children.
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    Some((pid, status.exit_status(), status.terminating_signal()))
}

/// Kills and buries until no descendant is left.
///
/// Only direct children are killed in a round, because only their pids cannot be given to somebody else meanwhile; what
/// they leave becomes a direct child in the next round, because the guardian is a subreaper.
#[cfg(target_os = "linux")]
pub(super) fn kill_all() {
    use rustix::process::{Signal, kill_process};
    use std::time::Duration;

    let mut pause = Duration::from_micros(200);
    loop {
        for child in direct_children() {
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

/// Without a subreaper only process groups are known, and those have been killed.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill_all() {
    while wait(WaitOptions::empty()).is_ok() {}
}

#[cfg(target_os = "linux")]
fn direct_children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| parent_of(*pid) == Some(own))
        .filter_map(Pid::from_raw)
        .collect()
}

/// Whether it is a child of ours that has not been buried: then its pid cannot be somebody else's.
#[cfg(target_os = "linux")]
pub(super) fn is_child(pid: i32) -> bool {
    parent_of(pid) == Some(rustix::process::getpid().as_raw_nonzero().get())
}

/// Without a subreaper nobody's grandchild is.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_child(_pid: i32) -> bool {
    false
}

#[cfg(target_os = "linux")]
pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    // `pid (name) state ppid …`, and the name may hold anything, `)` included.
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.iter().rposition(|byte| *byte == b')')?;
    str::from_utf8(&stat[after_name + 1..]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}
