//! Which processes descend from a guardian: those that services are made of.
//!
//! A service of the gateway's own user passes every check of user ids. What it cannot change is where it comes from:
//! the guardian is a subreaper, so a process below it that loses its parent becomes its child.
//!
//! Invariant: a process whose descent cannot be established is never said to be outside.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Guardians remembered; of more the oldest is forgotten, which by then has killed what was below it and ended.
const MAX_GUARDIANS: usize = 64;

/// The guardians of this gateway, and of those that it took over from.
#[derive(Clone, Debug, Default)]
pub struct Guardians(Arc<Mutex<Vec<Process>>>);

/// A process for ever: its number may be given to another one, its number and start together are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it was started, in the kernel's ticks since the start of the machine.
    pub started: u64,
}

/// Where the process at the other end of a Unix socket comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descent {
    /// Not from a service.
    Outside,
    /// From the guardian, so from a service.
    Service,
    /// It cannot be seen, or it has ended.
    Unknown,
}

impl Guardians {
    /// Notes one.
    pub fn add(&self, guardian: Process) {
        let mut all = self.all();
        if all.len() == MAX_GUARDIANS {
            all.remove(0);
        }
        all.push(guardian);
    }

    /// Notes a child that has not been buried.
    pub(crate) fn add_child(&self, pid: u32) {
        if let Some(guardian) = i32::try_from(pid).ok().and_then(system::process) {
            self.add(guardian);
        }
    }

    /// Those that may still have processes below them.
    #[must_use]
    pub fn list(&self) -> Vec<Process> {
        let is_there = |known: &Process| system::process(known.pid) == Some(*known);
        self.all().iter().copied().filter(is_there).collect()
    }

    /// Where the peer of a connection comes from: the process that called `connect`.
    pub fn descent_of_peer(&self, socket: &impl AsFd) -> Descent {
        system::descent(socket, &self.all().clone())
    }

    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Process>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use crate::lineage::{Descent, Process};
    use nix::errno::Errno;
    use nix::sys::socket::{getsockopt, sockopt};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, test_kill_process};
    use std::os::fd::{AsFd, OwnedFd};

    /// Longer lines of ancestors are refused.
    const MAX_ANCESTORS: usize = 512;
    /// How often a line is read again that has changed meanwhile.
    const MAX_TRIES: usize = 4;

    /// What `/proc/PID/stat` says.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Stat {
        parent: i32,
        process: Process,
    }

    /// A process and its ancestors, itself first.
    #[derive(PartialEq, Eq)]
    enum Line {
        Whole(Vec<Process>),
        /// The last ancestor belongs to another user, and may not be looked at (`hidepid`).
        UpToAnotherUser(Vec<Process>),
        Broken,
    }

    pub(super) fn process(pid: i32) -> Option<Process> {
        Some(stat(pid)?.process)
    }

    pub(super) fn descent(socket: &impl AsFd, guardians: &[Process]) -> Descent {
        // 0: it is in no PID namespace that can be seen from here.
        let Some(pid) = getsockopt(socket, sockopt::PeerCredentials).ok().map(|peer| peer.pid()).filter(|pid| *pid > 0)
        else {
            return Descent::Unknown;
        };
        let held = match getsockopt(socket, sockopt::PeerPidfd) {
            Ok(held) => Some(held),
            // Before Linux 6.5: it may have ended, and its number be another's by now.
            Err(Errno::ENOPROTOOPT) => None,
            Err(_) => return Descent::Unknown,
        };
        let mut before = line(pid);
        for _ in 0..MAX_TRIES {
            // A parent may end while the line is read, and its number be given away. Whoever had the same parent before
            // and after had it all the time, so what was read of that parent in between was its own.
            let now = line(pid);
            if now != before {
                before = now;
                continue;
            }
            if held.as_ref().is_some_and(has_ended) {
                return Descent::Unknown;
            }
            return match now {
                Line::Whole(line) | Line::UpToAnotherUser(line) => {
                    let is_below = line.iter().any(|ancestor| guardians.contains(ancestor));
                    if is_below { Descent::Service } else { Descent::Outside }
                }
                Line::Broken => Descent::Unknown,
            };
        }
        Descent::Unknown
    }

    fn has_ended(process: &OwnedFd) -> bool {
        let mut looked = [PollFd::new(process, PollFlags::IN)];
        !matches!(poll(&mut looked, Some(&Timespec::default())), Ok(0))
    }

    fn line(pid: i32) -> Line {
        let (mut all, mut pid) = (Vec::new(), pid);
        while pid != 0 {
            let Some(found) = stat(pid) else {
                // Services of a user without privileges have no ancestors of another user below the guardian, but for
                // programs that run as their owner, which a service that may become somebody else needs no socket for.
                let is_hidden = !all.is_empty()
                    && Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::PERM));
                return if is_hidden { Line::UpToAnotherUser(all) } else { Line::Broken };
            };
            all.push(found.process);
            if all.len() > MAX_ANCESTORS {
                return Line::Broken;
            }
            pid = found.parent;
        }
        Line::Whole(all)
    }

    fn stat(pid: i32) -> Option<Stat> {
        // `pid (name) state ppid …`, and the name may hold anything, `)` included. The start is the 22nd field.
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let after_name = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = str::from_utf8(&stat[after_name + 1..]).ok()?.split_ascii_whitespace().skip(1);
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Stat { parent, process: Process { pid, started } })
    }

    #[cfg(test)]
    mod tests {
        use crate::lineage::Guardians;
        use crate::lineage::system::*;
        use std::os::unix::net::UnixStream;

        #[test]
        fn this_process_descends_from_its_ancestors_and_not_from_its_children() {
            let (ours, theirs) = UnixStream::pair().unwrap(); // its peer is this process
            let guardians = Guardians::default();
            assert_eq!(guardians.descent_of_peer(&ours), Descent::Outside);
            let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            guardians.add_child(child.id());
            assert_eq!(guardians.descent_of_peer(&ours), Descent::Outside);
            assert_eq!(guardians.list().len(), 1);
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(guardians.list(), []);
            let own = process(std::process::id() as i32).unwrap();
            guardians.add(Process { pid: own.pid, started: own.started + 1 }); // another one, before, of this number
            assert_eq!(guardians.descent_of_peer(&theirs), Descent::Outside);
            guardians.add(process(stat(own.pid).unwrap().parent).unwrap());
            assert_eq!(guardians.descent_of_peer(&theirs), Descent::Service);
        }
    }
}

#[cfg(not(target_os = "linux"))]
use elsewhere as system;

#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", expect(dead_code, reason = "compiled in tests, so that it keeps compiling"))]
mod elsewhere {
    use crate::lineage::{Descent, Process};

    pub(super) fn process(_pid: i32) -> Option<Process> {
        None
    }

    pub(super) fn descent(_socket: &impl std::os::fd::AsFd, _guardians: &[Process]) -> Descent {
        Descent::Outside
    }
}
