//! Programs whose start is what is measured: executed by the lab itself, neither through [`super::HOLD`] nor by a copy
//! of the lab.
//!
//! A `fork` copies the page tables of the lab, which grow with its samples, and the child takes them down again:
//! milliseconds that no gateway has to do with. `posix_spawn` lends the child this memory until it executes its
//! program. So does the standard library, but for a child that needs a descriptor of a certain number.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;

use anyhow::Context as _;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal as Number};
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};

use super::{UNWANTED_ENVIRONMENT, with_huge_pages};

/// The descriptor that an inherited listening socket gets, `SD_LISTEN_FDS_START`.
const LISTEN_FD: i32 = 3;
/// Variables of a socket that somebody gave to the lab.
const LISTEN_ENVIRONMENT: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// What is to be started, ready but for the start.
pub struct Direct {
    arguments: Vec<CString>,
    environment: Vec<CString>,
    /// What the actions name, open until the start.
    descriptors: Vec<OwnedFd>,
    actions: PosixSpawnFileActions,
}

/// A running program. Dropping it kills its process group.
#[derive(Debug)]
pub struct Started {
    pid: Pid,
}

impl Direct {
    /// The program and its arguments in the lab's folder, with these variables beside the lab's own; what it prints
    /// goes to `output`.
    ///
    /// # Errors
    /// A word has a zero byte in it, or the system refuses a descriptor.
    pub fn new(command: &[OsString], variables: &[(&str, &OsStr)], output: File) -> anyhow::Result<Self> {
        let unwanted = UNWANTED_ENVIRONMENT.into_iter().chain(LISTEN_ENVIRONMENT);
        let unwanted: Vec<&str> = unwanted.chain(variables.iter().map(|(name, _)| *name)).collect();
        let own = std::env::vars_os().filter(|(name, _)| !unwanted.iter().any(|unwanted| name == unwanted));
        let set = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let mut prepared = Self {
            arguments: command.iter().cloned().map(text).collect::<anyhow::Result<_>>()?,
            environment: own.chain(set).map(assignment).collect::<anyhow::Result<_>>()?,
            descriptors: Vec::new(),
            actions: PosixSpawnFileActions::init()?,
        };
        let output = OwnedFd::from(output);
        prepared.give(File::open("/dev/null")?.into(), 0)?;
        prepared.give(output.try_clone()?, 1)?;
        prepared.give(output, 2)?;
        Ok(prepared)
    }

    /// The same with a listening socket that it inherits. This process's copy goes with the start.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listening(mut self, listener: OwnedFd) -> anyhow::Result<Self> {
        self.environment.push(assignment(("LISTEN_FDS".into(), "1".into()))?);
        self.give(listener, LISTEN_FD)?;
        Ok(self)
    }

    /// The same, where FastCGI programs look for it: as standard input as well.
    ///
    /// # Errors
    /// The system refuses.
    pub fn fastcgi(mut self, listener: OwnedFd) -> anyhow::Result<Self> {
        self.give(listener.try_clone()?, 0)?;
        self.listening(listener)
    }

    /// Starts it in a process group of its own.
    ///
    /// # Errors
    /// There is no such program, or the system refuses.
    pub fn start(self) -> anyhow::Result<Started> {
        let program = self.arguments.first().context("no command")?;
        let mut attributes = PosixSpawnAttr::init()?;
        let flags = PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
        attributes.set_flags(flags)?;
        attributes.set_pgroup(nix::unistd::Pid::from_raw(0))?;
        // Rust programs ignore it, and what is ignored stays so through `exec`.
        attributes.set_sigdefault(&SigSet::from_iter([Number::SIGPIPE]))?;
        attributes.set_sigmask(&SigSet::empty())?;
        let spawned =
            with_huge_pages(|| posix_spawnp(program, &self.actions, &attributes, &self.arguments, &self.environment));
        let pid = spawned.with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
        Ok(Started { pid: Pid::from_raw(pid.as_raw()).context("the new process has no pid")? })
    }

    /// Descriptors are given in ascending order, so that none takes the place of another that is still to be given.
    /// (One that has its number already is passed on as well: POSIX.1-2024, `posix_spawn_file_actions_adddup2`.)
    fn give(&mut self, descriptor: OwnedFd, number: i32) -> anyhow::Result<()> {
        self.actions.add_dup2(descriptor.as_raw_fd(), number)?;
        self.descriptors.push(descriptor);
        Ok(())
    }
}

impl Started {
    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Errors: it has ended by itself.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

fn text(word: OsString) -> anyhow::Result<CString> {
    CString::new(word.into_vec()).context("a word of the command or its environment has a zero byte in it")
}

fn assignment((name, value): (OsString, OsString)) -> anyhow::Result<CString> {
    let mut word = name;
    word.push("=");
    word.push(value);
    text(word)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

    use super::*;

    const PAGE: usize = 4096;
    const PAGES: usize = 8192;

    /// What a shell prints that executes this.
    fn said(script: &str, prepare: impl FnOnce(Direct) -> Direct) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("output");
        let command = ["sh", "-c", script].map(OsString::from);
        let output = File::create(&file).expect("a file");
        let direct = Direct::new(&command, &[("LAB_A", OsStr::new("b c"))], output).expect("prepared");
        let started = prepare(direct).start().expect("started");
        waitpid(Some(started.pid), WaitOptions::empty()).expect("it ends");
        fs::read_to_string(file).expect("text")
    }

    #[test]
    fn it_has_its_variables_and_a_group_of_its_own() {
        let text =
            said(r#"echo "$LAB_A|$LISTEN_FDS|$(($$ == $(cut -d' ' -f5 /proc/$$/stat)))"; echo end >&2"#, |it| it);
        assert_eq!(text, "b c||1\nend\n");
    }

    #[test]
    fn a_socket_is_inherited_as_descriptor_3_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("socket")).expect("a socket");
        let own = fs::read_link(format!("/proc/self/fd/{}", listener.as_raw_fd())).expect("its name");
        let script = r#"echo "$LISTEN_FDS"; for f in /proc/$$/fd/*; do echo "${f##*/} $(readlink $f)"; done"#;
        let text = said(script, |it| it.listening(listener.into()).expect("prepared"));
        let named: Vec<&str> = text.lines().filter(|line| line.ends_with(&*own.to_string_lossy())).collect();
        assert_eq!(named, [format!("3 {}", own.display())], "{text}");
        assert!(text.starts_with("1\n0 /dev/null\n"), "{text}");
    }

    #[test]
    fn a_start_copies_nothing_of_the_lab() {
        let mut memory = vec![1_u8; PAGES * PAGE];
        let faults = || {
            let stat = fs::read_to_string("/proc/thread-self/stat").expect("this thread");
            let (_, fields) = stat.rsplit_once(')').expect("a name");
            fields.split_whitespace().nth(7).expect("minor faults").parse::<usize>().expect("a number")
        };
        said("true", |it| it);
        let before = faults();
        said("true", |it| it);
        // What a fork has copied, the first write to each page copies for good.
        memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = std::hint::black_box(2));
        let faults = faults() - before;
        assert!(faults < PAGES / 8, "{faults} page faults");
    }

    #[test]
    fn huge_pages_that_an_allocator_declined_are_there_for_others() {
        disable_transparent_huge_pages(true).expect("the kernel takes it");
        let text = said("grep THP_enabled /proc/$$/status", |it| it);
        let still = transparent_huge_pages_are_disabled();
        disable_transparent_huge_pages(false).expect("the kernel takes it");
        assert_eq!((text.split_whitespace().nth(1), still), (Some("1"), Ok(true)), "{text}");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let output = File::create("/dev/null").expect("a file");
        let direct = Direct::new(&["/nonexistent/program".into()], &[], output).expect("prepared");
        let error = format!("{:#}", direct.start().expect_err("it is not there"));
        assert!(error.starts_with("cannot start /nonexistent/program: "), "{error}");
    }
}
