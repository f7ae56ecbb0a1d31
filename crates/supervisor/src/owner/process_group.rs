//! Signals to process groups that do not go through the guardian.

use rustix::process::{Pid, Signal, kill_process_group};

/// For what has no guardian any more.
pub(super) fn kill_group(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // An error is ESRCH: the group has ended by itself.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Past a guardian that does not keep up.
pub(super) fn continue_group(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process_group(pid, Signal::CONT); // as above
    }
}
