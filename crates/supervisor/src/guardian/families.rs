//! What an instance has left behind when it ends: processes that went to a session of their own, and so out of reach of
//! its group.
//!
//! Whatever detaches itself becomes a child of the guardian, which is its subreaper. Whose it was says its environment:
//! each instance gets an unguessable [`MARK`](super::message::MARK) that everything it starts inherits. A process that
//! has emptied its environment is known if it was below the instance when that was told to end; otherwise it ends with
//! the last instance that is old enough to have started it.
//!
//! Nobody is waited for: what is killed becomes a child of the guardian if it was not, its end is a SIGCHLD, and that
//! is the time for the next look, until one finds nothing.

use rustix::process::Pid;
use std::collections::HashMap;

/// The process that the guardian knows an instance by.
#[derive(Debug)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux finds what has left its group"))]
pub(super) struct Leader {
    pub(super) id: u64,
    /// What everything that it starts has in its environment; none: what is left of it is not looked for.
    pub(super) mark: Option<String>,
    /// When it was started, as [`Families`] counts.
    pub(super) start: u64,
}

/// The leaders that have not been buried.
pub(super) type Leaders = HashMap<Pid, Leader>;

#[cfg(target_os = "linux")]
pub(super) use linux::Families;
#[cfg(target_os = "linux")]
pub(crate) use linux::kill_marked;

/// Without a subreaper nobody knows what has left its group.
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled in tests, so that it keeps compiling"))]
mod elsewhere {
    use crate::guardian::families::{Leader, Leaders, Pid};
    use std::collections::HashSet;

    #[derive(Debug, Default)]
    pub(crate) struct Families;

    impl Families {
        pub(crate) fn leader(id: u64, _pid: Pid, mark: Option<String>) -> Leader {
            Leader { id, mark, start: 0 }
        }

        pub(crate) fn ending(&mut self, _leader: Pid) {}

        pub(crate) fn ended(&mut self, _leader: &Leader) {}

        pub(crate) fn sweep(&mut self, _leaders: &Leaders) {}
    }

    pub(crate) fn kill_marked(_marks: &HashSet<String>) {}
}
#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::Families;
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::kill_marked;

#[cfg(target_os = "linux")]
mod linux {
    use crate::guardian::families::{HashMap, Leader, Leaders, Pid};
    use crate::guardian::message::MARK;
    use crate::limits::{KILL_TIMEOUT, MAX_ENVIRONMENT, MAX_FAMILY};
    use crate::processes;
    use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
    use std::collections::HashSet;
    use std::fs::{self, File};
    use std::io::Read;
    use std::time::{Duration, Instant};

    /// A process for certain: its pid and when it was started.
    type Known = (i32, u64);

    /// What is looked for among the guardian's children.
    #[derive(Debug, Default)]
    pub(crate) struct Families {
        /// Of instances that have ended, as long as something with them was found.
        marks: HashSet<String>,
        /// Processes that were below an instance that was told to end, or below what one has left: with the process
        /// that they were below.
        known: HashMap<Known, Pid>,
        /// Something that has no mark was killed, so there may be more.
        again: bool,
    }

    impl Families {
        pub(crate) fn leader(id: u64, pid: Pid, mark: Option<String>) -> Leader {
            let start = processes::stat(pid.as_raw_nonzero().get()).map_or(0, |stat| stat.start);
            Leader { id, mark, start }
        }

        /// The instance is being ended. The processes that descend from it now are remembered as its own, in case they
        /// change their environment.
        pub(crate) fn ending(&mut self, leader: Pid) {
            self.remember_below(leader);
        }

        /// The instance has ended; [`sweep`](Self::sweep) kills what it has left.
        pub(crate) fn ended(&mut self, leader: &Leader) {
            self.marks.extend(leader.mark.clone());
        }

        /// Kills what instances that have ended have left. To be called whenever a child may have ended.
        pub(crate) fn sweep(&mut self, leaders: &Leaders) {
            if self.marks.is_empty() && !self.again {
                return;
            }
            let (mut seen, mut has_ended) = (HashSet::new(), false);
            self.again = false;
            for child in processes::direct().into_iter().filter(|pid| !leaders.contains_key(pid)) {
                let pid = child.as_raw_nonzero().get();
                let Some(stat) = processes::stat(pid).filter(|stat| !stat.has_ended) else {
                    has_ended = true; // its own children may have come after the list was made; its burial is the next look
                    continue;
                };
                let mark = mark_of(pid);
                let belongs = match &mark {
                    _ if self.known.get(&(pid, stat.start)).is_some_and(|above| !leaders.contains_key(above)) => true,
                    Some(mark) => self.marks.contains(mark),
                    None => !leaders.values().any(|leader| leader.start <= stat.start),
                };
                if belongs {
                    self.remember_below(child);
                    // Only a child of ours, whose pid cannot be given to somebody else meanwhile. An error is ESRCH.
                    let _ = kill_process(child, Signal::KILL);
                    self.again |= mark.is_none();
                    seen.extend(mark);
                }
            }
            if has_ended {
                self.again = true;
                return;
            }
            self.marks.retain(|mark| seen.contains(mark));
            if self.marks.is_empty() && !self.again {
                // Those that are below an instance that has not ended yet are looked at again when it has.
                self.known.retain(|(pid, start), _| processes::stat(*pid).is_some_and(|stat| stat.start == *start));
            }
        }

        fn remember_below(&mut self, above: Pid) {
            let mut found = vec![above.as_raw_nonzero().get()];
            while let Some(pid) = found.pop() {
                for child in children_of(pid) {
                    if self.known.len() >= MAX_FAMILY {
                        return; // those that keep their environment are found all the same
                    }
                    if let Some(stat) = processes::stat(child) {
                        self.known.insert((child, stat.start), above);
                        found.push(child);
                    }
                }
            }
        }
    }

    /// Kills every process with one of the marks, wherever it is, until a look finds none. For when the guardian that
    /// they were below is dead.
    pub(crate) fn kill_marked(marks: &HashSet<String>) {
        let begun = Instant::now();
        let mut pause = Duration::from_millis(1);
        while kill_seen(marks) {
            if begun.elapsed() > KILL_TIMEOUT {
                return tracing::error!("something that a service started is still there after SIGKILL");
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Whether there was one.
    fn kill_seen(marks: &HashSet<String>) -> bool {
        let mut any = false;
        for pid in processes::all() {
            // The descriptor first: what is then read is about the process that it stands for, or about none.
            let Some(process) = Pid::from_raw(pid) else { continue };
            let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { continue };
            if mark_of(pid).is_some_and(|mark| marks.contains(&mark)) {
                any |= pidfd_send_signal(&process, Signal::KILL).is_ok();
            }
        }
        any
    }

    fn children_of(pid: i32) -> Vec<i32> {
        // Of each thread: it is a thread that forks.
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect()
    }

    /// The instance that a process says it belongs to. None, too, if it may not be asked.
    fn mark_of(pid: i32) -> Option<String> {
        let mut environment = Vec::new();
        File::open(format!("/proc/{pid}/environ")).ok()?.take(MAX_ENVIRONMENT).read_to_end(&mut environment).ok()?;
        let mark = environment
            .split(|byte| *byte == 0)
            .find_map(|one| one.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
        Some(String::from_utf8_lossy(mark).into_owned())
    }

    #[cfg(test)]
    mod tests {
        use crate::guardian::families::linux::*;
        use std::process::{Child, Command};

        fn sleeper(mark: Option<&str>) -> Child {
            let mut command = Command::new("sleep");
            command.arg("1000").env_clear().env("PATH", "/usr/bin:/bin").env(format!("{MARK}X"), "x");
            command.envs(mark.map(|mark| (MARK, mark))).spawn().unwrap()
        }

        #[test]
        fn a_mark_is_found_and_kills() {
            let (mut marked, mut other, mut bare) = (sleeper(Some("m1")), sleeper(Some("m11")), sleeper(None));
            let pid = |child: &Child| child.id() as i32;
            assert_eq!(mark_of(pid(&marked)).as_deref(), Some("m1"));
            assert_eq!(mark_of(pid(&bare)), None);
            assert!(kill_seen(&HashSet::from(["m1".to_owned()])));
            marked.wait().unwrap();
            kill_marked(&HashSet::from(["m1".to_owned()]));
            assert!(!kill_seen(&HashSet::from(["m1".to_owned(), String::new()])));
            for child in [&mut other, &mut bare] {
                assert_eq!(child.try_wait().unwrap(), None);
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }

        #[test]
        fn all_that_is_below_is_remembered() {
            let script = "sleep 1000 & sh -c 'sleep 1000 & wait' & wait";
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let mut families = Families::default();
            let begun = Instant::now();
            while families.known.len() < 3 {
                assert!(begun.elapsed() < Duration::from_secs(30), "{families:?}");
                families.ending(Pid::from_child(&child));
            }
            for (pid, _) in families.known.keys() {
                let _ = kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL);
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
