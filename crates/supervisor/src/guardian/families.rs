//! What an instance has left behind when it ends: processes that went to a session of their own, and so out of reach of
//! its group.
//!
//! Whatever detaches itself becomes a child of the guardian, which is its subreaper. Whose it was says its environment:
//! each instance gets an unguessable [`MARK`](super::message::MARK) that everything it starts inherits. A process that
//! has emptied its environment is known if it was below the instance when that was told to end; otherwise it ends with
//! the last instance that is old enough to have started it.
//!
//! Nobody is waited for: what is killed becomes a child of the guardian if it was not, its end is a SIGCHLD, and that
//! is the time for the next look, until one finds nothing. Only a process that begins another program at this moment
//! has no environment to be read, and gives no signal afterwards: it is looked at again after a millisecond.

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

        pub(crate) fn is_unsettled(&self) -> bool {
            false
        }
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
    use std::io::{self, Read};
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
        /// Something was beginning another program at the last look.
        is_unsettled: bool,
    }

    /// What the environment of a process says.
    #[derive(Debug, PartialEq, Eq)]
    enum Mark {
        /// It belongs to this instance.
        Of(String),
        /// Nothing, or it may not be asked.
        None,
        /// It begins another program just now, so it has no environment yet.
        Later,
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
            (self.again, self.is_unsettled) = (false, false);
            for child in processes::direct().into_iter().filter(|pid| !leaders.contains_key(pid)) {
                let pid = child.as_raw_nonzero().get();
                let Some(stat) = processes::stat(pid).filter(|stat| !stat.has_ended) else {
                    has_ended = true; // its own children may have come after the list was made; its burial is the next look
                    continue;
                };
                let mark = mark_of(pid);
                let belongs = match &mark {
                    _ if self.known.get(&(pid, stat.start)).is_some_and(|above| !leaders.contains_key(above)) => true,
                    Mark::Of(mark) => self.marks.contains(mark),
                    Mark::None => !leaders.values().any(|leader| leader.start <= stat.start),
                    Mark::Later => false,
                };
                if belongs {
                    self.remember_below(child);
                    // Only a child of ours, whose pid cannot be given to somebody else meanwhile. An error is ESRCH.
                    let _ = kill_process(child, Signal::KILL);
                }
                match mark {
                    Mark::Of(mark) if belongs => _ = seen.insert(mark),
                    Mark::Later if !belongs => self.is_unsettled = true,
                    Mark::None | Mark::Later => self.again |= belongs,
                    Mark::Of(_) => {}
                }
            }
            if has_ended || self.is_unsettled {
                self.again = true;
                return;
            }
            self.marks.retain(|mark| seen.contains(mark));
            if self.marks.is_empty() && !self.again {
                // Those that are below an instance that has not ended yet are looked at again when it has.
                self.known.retain(|(pid, start), _| processes::stat(*pid).is_some_and(|stat| stat.start == *start));
            }
        }

        /// Whether [`sweep`](Self::sweep) must be called again soon, without a sign from outside.
        pub(crate) fn is_unsettled(&self) -> bool {
            self.is_unsettled
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

    /// Whether there was one, or what may become one.
    fn kill_seen(marks: &HashSet<String>) -> bool {
        let mut any = false;
        for pid in processes::all() {
            // The descriptor first: what is then read is about the process that it stands for, or about none.
            let Some(process) = Pid::from_raw(pid) else { continue };
            let Ok(process) = pidfd_open(process, PidfdFlags::empty()) else { continue };
            match mark_of(pid) {
                Mark::Of(mark) if marks.contains(&mark) => any |= pidfd_send_signal(&process, Signal::KILL).is_ok(),
                Mark::Later => any = true,
                Mark::Of(_) | Mark::None => {}
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

    /// The instance that a process says it belongs to.
    fn mark_of(pid: i32) -> Mark {
        let Ok(environment) = environment(pid) else { return Mark::None };
        let mut variables = environment.split_inclusive(|byte| *byte == 0);
        // A last one without its end may be a part.
        let mark = variables.find_map(|one| one.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?.strip_suffix(b"\0"));
        if let Some(mark) = mark {
            return Mark::Of(String::from_utf8_lossy(mark).into_owned());
        }
        let is_part = environment.is_empty() || environment.len() > ONE_READ && !environment.ends_with(b"\0");
        match is_part && processes::stat(pid).is_some_and(|stat| !stat.is_bare) {
            true => Mark::Later,
            false => Mark::None,
        }
    }

    /// What one read takes of an environment. Between two reads another program may take the place of the one that is
    /// asked, and then nothing more is read.
    const ONE_READ: usize = 64 * 1024;

    fn environment(pid: i32) -> io::Result<Vec<u8>> {
        let mut file = File::open(format!("/proc/{pid}/environ"))?;
        let mut environment = Vec::new();
        loop {
            let read = environment.len();
            environment.resize(read + ONE_READ, 0);
            let more = file.read(&mut environment[read..])?;
            environment.truncate(read + more);
            if more < ONE_READ || environment.len() >= MAX_ENVIRONMENT {
                return Ok(environment);
            }
        }
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
            assert_eq!(mark_of(pid(&marked)), Mark::Of("m1".to_owned()));
            assert_eq!(mark_of(pid(&bare)), Mark::None);
            assert!(kill_seen(&HashSet::from(["m1".to_owned()])));
            marked.wait().unwrap();
            kill_marked(&HashSet::from(["m1".to_owned()]));
            for child in [&mut other, &mut bare] {
                assert_eq!(child.try_wait().unwrap(), None);
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }

        #[test]
        fn what_executes_programs_all_the_time_is_found_and_killed() {
            for round in 0..20 {
                let mark = format!("exec{round}");
                let mut command = Command::new("sh");
                command.args(["-c", "exec sh -c \"$0\" \"$0\"", "exec sh -c \"$0\" \"$0\""]).env(MARK, &mark);
                let mut children: Vec<Child> = (0..4).map(|_| command.spawn().unwrap()).collect();
                kill_marked(&HashSet::from([mark]));
                // What is dead may not be told yet.
                let survives = |child: &mut Child| {
                    std::thread::sleep(Duration::from_millis(5));
                    child.try_wait().unwrap().is_none()
                };
                let survivors: Vec<u32> =
                    children.iter_mut().filter_map(|child| survives(child).then(|| child.id())).collect();
                for child in &mut children {
                    let _ = child.kill(); // it may be dead
                    child.wait().unwrap();
                }
                assert!(survivors.is_empty(), "round {round}: {survivors:?}");
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
