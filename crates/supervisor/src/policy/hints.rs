//! What Pilotlight adds when a service complains about something that its isolation refuses, or ends because of it.
//!
//! The kernel tells a service that it may not, but not why; and it tells Pilotlight nothing. The service's own line
//! names what was refused, and the first such line of an instance is followed by one that names the setting.

use crate::error::Exit;
use crate::isolation::{Isolation, Sandbox};
use memchr::memmem::{self, Finder};
use std::path::{Path, PathBuf};

/// What one instance has not been told yet.
#[derive(Debug)]
pub(crate) struct Hints(Vec<Hint>);

#[derive(Debug)]
struct Hint {
    signs: Vec<Finder<'static>>,
    /// In a sandbox: what is to be seen. A file that is said to be missing and is not below one of these may be there,
    /// outside.
    seen: Option<Vec<PathBuf>>,
    text: String,
}

const REFUSED: &[&str] = &[
    "Permission denied",
    "Operation not permitted",
    "PermissionError",
    "EACCES",
    "EPERM",
    "permission denied",
    "operation not permitted",
    "Read-only file system",
    "read-only file system",
    "EROFS",
];
const MISSING: &[&str] = &["No such file", "no such file", "FileNotFoundError", "ENOENT"];
/// What is seen in every sandbox.
const SYSTEM: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", "/nix/store", "/gnu/store"];
const DESCRIPTORS: &[&str] = &["Too many open files", "too many open files", "EMFILE"];
const PROCESSES: &[&str] = &[
    "Resource temporarily unavailable",
    "resource temporarily unavailable",
    "EAGAIN",
    "can't start new thread",
    "Cannot fork",
    "cannot fork",
    "fork failed",
    "unable to create native thread",
];
const MEMORY: &[&str] = &[
    "Cannot allocate memory",
    "cannot allocate memory",
    "MemoryError",
    "ENOMEM",
    "bad_alloc",
    "memory allocation of",
    "out of memory",
    "Out of memory",
    "OutOfMemoryError",
];
const FILE_SIZE: &[&str] = &["File too large", "file too large", "EFBIG"];

impl Hints {
    /// What there is to say about an instance; `None` for one that has no bounds, whose lines are not looked at.
    pub(crate) fn new(isolation: &Isolation, dir: Option<&Path>) -> Option<Self> {
        let mut hints: Vec<Hint> = Vec::new();
        let mut add = |signs: &[&'static str], text: String| {
            let signs = signs.iter().map(|sign| Finder::new(*sign)).collect();
            hints.push(Hint { signs, seen: None, text });
        };
        let limits = &isolation.limits;
        if let Some(limit) = limits.open_files {
            add(DESCRIPTORS, format!("limits.open_files = {limit} may be the reason"));
        }
        if let Some(limit) = limits.processes {
            add(PROCESSES, format!("limits.processes = {limit} may be the reason"));
        }
        if let Some(limit) = limits.address_space {
            add(MEMORY, format!("limits.address_space = {limit} bytes may be the reason"));
        }
        if let Some(limit) = limits.file_size {
            add(FILE_SIZE, format!("limits.file_size = {limit} bytes may be the reason"));
        }
        if let Sandbox::Strict { read, write } = &isolation.sandbox {
            add(REFUSED, format!("sandbox = \"strict\" may be the reason: {}", sandbox(isolation, dir)));
            let listed = read.iter().chain(write).map(PathBuf::as_path).chain(dir);
            let seen: Vec<PathBuf> = SYSTEM.iter().map(Path::new).chain(listed).map(Path::to_owned).collect();
            if let Some(hint) = hints.last_mut() {
                hint.seen = Some(seen);
            }
        } else if let Some(user) = &isolation.user {
            add(REFUSED, format!("user = \"{user}\" may be the reason"));
        }
        (!hints.is_empty()).then_some(Self(hints))
    }

    /// What to add to a line of output; the same is said once.
    pub(crate) fn explain(&mut self, line: &[u8]) -> Option<String> {
        let found = self.0.iter().position(|hint| hint.explains(line))?;
        Some(self.0.remove(found).text)
    }
}

impl Hint {
    fn explains(&self, line: &[u8]) -> bool {
        let has = |sign: &Finder<'_>| sign.find(line).is_some();
        self.signs.iter().any(has)
            || self.seen.as_ref().is_some_and(|seen| {
                MISSING.iter().any(|sign| memmem::find(line, sign.as_bytes()).is_some())
                    && paths(line).any(|path| !seen.iter().any(|seen| path.starts_with(seen)))
            })
    }
}

/// What looks like an absolute path in a line.
fn paths(line: &[u8]) -> impl Iterator<Item = &Path> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"'\"`:,;()<>".contains(byte);
    let words = line.split(is_end).filter(|word| word.len() > 1 && word.starts_with(b"/"));
    words.filter_map(|word| str::from_utf8(word).ok()).map(Path::new)
}

/// What a sandbox allows and refuses, for people.
pub(crate) fn sandbox(isolation: &Isolation, dir: Option<&Path>) -> String {
    let Sandbox::Strict { read, write } = &isolation.sandbox else {
        return "everything is allowed".to_owned();
    };
    let list =
        |paths: &[std::path::PathBuf]| paths.iter().map(|path| format!(", {}", path.display())).collect::<String>();
    let dir = dir.map_or_else(|| "its folder".to_owned(), |dir| dir.display().to_string());
    format!(
        "it may read the system's programs and libraries{}, write {dir}{}, and use the sockets that it was given; refused are all other files (`sandbox_read`, \
         `sandbox_write`), network connections, and calls that change the machine or look into other processes",
        list(read),
        list(write)
    )
}

/// The limit behind the end of an instance, if its exit tells.
pub(crate) fn of_exit(exit: Exit, isolation: &Isolation) -> Option<String> {
    use rustix::process::Signal;
    let signal = match exit {
        Exit::Signal(signal) => signal,
        // A shell says so about what it ran.
        Exit::Code(code) => code.checked_sub(128).filter(|signal| *signal > 0)?,
        Exit::Lost | Exit::Left => return None,
    };
    let is = |known: Signal| signal == known.as_raw();
    if let Some(limit) = isolation.limits.cpu_seconds.filter(|_| is(Signal::XCPU)) {
        return Some(format!("limits.cpu_seconds = {limit} was reached"));
    }
    if let Some(limit) = isolation.limits.file_size.filter(|_| is(Signal::XFSZ)) {
        return Some(format!("limits.file_size = {limit} bytes was reached"));
    }
    let strict = isolation.sandbox != Sandbox::None;
    (strict && is(Signal::SYS))
        .then(|| "it made a system call of another architecture, which sandbox = \"strict\" refuses".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolation::ResourceLimits;

    fn isolation() -> Isolation {
        Isolation {
            limits: ResourceLimits {
                open_files: Some(64),
                processes: Some(9),
                cpu_seconds: Some(2),
                file_size: Some(1000),
                address_space: Some(1 << 30),
                ..Default::default()
            },
            sandbox: Sandbox::Strict { read: vec!["/opt/app".into()], write: Vec::new() },
            ..Default::default()
        }
    }

    #[track_caller]
    fn check(line: &str, expected: Option<&str>) {
        let mut hints = Hints::new(&isolation(), Some(Path::new("/srv/shop"))).unwrap();
        let got = hints.explain(line.as_bytes());
        match expected {
            Some(expected) => assert!(got.as_deref().is_some_and(|got| got.contains(expected)), "{line}: {got:?}"),
            None => assert_eq!(got, None, "{line}"),
        }
        assert_eq!(hints.explain(line.as_bytes()), None, "once");
    }

    #[test]
    fn complaints_are_explained_once() {
        check("PermissionError: [Errno 13] Permission denied: '/etc/shadow'", Some("/opt/app, write /srv/shop,"));
        check("Error: connect EPERM 10.0.0.1:80", Some("sandbox = \"strict\""));
        check("OSError: [Errno 24] Too many open files: 'x'", Some("limits.open_files = 64"));
        check("bash: fork: retry: Resource temporarily unavailable", Some("limits.processes = 9"));
        check("sh: 1: Cannot fork", Some("limits.processes"));
        check("RuntimeError: can't start new thread", Some("limits.processes"));
        check("MemoryError", Some("limits.address_space"));
        check("OSError: [Errno 27] File too large", Some("limits.file_size"));
        check("all is well", None);
        check("FileNotFoundError: [Errno 2] No such file or directory: '/srv/pictures/1'", Some("sandbox_read"));
        check("sh: 1: cannot open /srv/lib: No such file", Some("sandbox_read"));
        check("cannot open /srv/shop/lib: No such file", None);
        check("No such file or directory: '/etc/nothing'", None);
        check("No such file or directory: 'relative'", None);
    }

    #[test]
    fn without_bounds_nothing_is_looked_at() {
        assert!(Hints::new(&Isolation::default(), None).is_none());
        let user = Isolation { user: Some("shop".into()), ..Default::default() };
        assert!(Hints::new(&user, None).unwrap().explain(b"EACCES").unwrap().contains("user = \"shop\""));
    }

    #[test]
    fn exits_that_tell() {
        let said = |exit| of_exit(exit, &isolation());
        assert_eq!(said(Exit::Signal(24)).as_deref(), Some("limits.cpu_seconds = 2 was reached"));
        assert_eq!(said(Exit::Code(152)), said(Exit::Signal(24)));
        assert!(said(Exit::Signal(25)).unwrap().contains("file_size"));
        assert!(said(Exit::Signal(31)).unwrap().contains("sandbox"));
        assert_eq!((said(Exit::Signal(9)), said(Exit::Code(1)), said(Exit::Lost)), (None, None, None));
        assert_eq!(of_exit(Exit::Signal(24), &Isolation::default()), None);
    }
}
