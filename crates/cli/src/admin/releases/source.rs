//! What is deployed: a folder, an archive, the standard input, or a commit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use pilotlight_printable::printable;
use pilotlight_releases::{Limits, pack, unpack};

use super::super::client::Failure;

/// Characters of a commit's name in that of its release.
const COMMIT: usize = 12;

/// What is deployed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    Folder(PathBuf),
    Archive(PathBuf),
    StandardInput,
    /// The name of a commit: hexadecimal digits.
    Commit(String),
}

/// How the bytes of a source come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As they are in a file, which may be compressed.
    AsTheyAre,
    /// Not compressed.
    Plain,
}

impl Source {
    pub(super) fn of(what: &Path) -> Result<Self, Failure> {
        if what == Path::new("-") {
            if io::stdin().is_terminal() {
                return Err(refused("`-` is an archive on the standard input, which is a terminal".to_owned()));
            }
            return Ok(Self::StandardInput);
        }
        match what.metadata() {
            Ok(found) if found.is_dir() => Ok(Self::Folder(what.to_owned())),
            Ok(_) => Ok(Self::Archive(what.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => commit(what.as_os_str()).map(Self::Commit),
            Err(error) => Err(refused(format!("{}: {error}", what.display()))),
        }
    }

    /// What the name of the release says of it.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Folder(path) => {
                { path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())) }
                    .unwrap_or_default()
            }
            Self::Archive(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let end = [".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar"].into_iter().find(|end| name.ends_with(end));
                end.and_then(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
            }
            Self::StandardInput => String::new(),
            Self::Commit(name) => name.chars().take(COMMIT).collect(),
        }
    }

    pub(super) fn form(&self) -> Form {
        match self {
            Self::Folder(_) | Self::Commit(_) => Form::Plain,
            Self::Archive(_) | Self::StandardInput => Form::AsTheyAre,
        }
    }

    /// Unpacks it into an empty folder, which may be in what is deployed, below `releases`.
    pub(super) fn unpack(&self, into: &Path, releases: &Path) -> Result<(), Failure> {
        let (reader, writer) = io::pipe()?;
        thread::scope(|scope| {
            let written = scope.spawn(|| self.write(Some(releases), writer));
            let unpacked = unpack(reader, into, Limits::default());
            let written = written.join().unwrap_or_else(|_| Err(refused("it cannot be read".to_owned())));
            match (written, unpacked) {
                // Then what was unpacked was not whole.
                (Err(failure), _) if !is_broken_pipe(&failure) => Err(failure),
                (_, Err(error)) => Err(refused(error.to_string())),
                (Err(failure), Ok(_)) => Err(failure),
                (Ok(()), Ok(_)) => Ok(()),
            }
        })
    }

    /// Writes it as an archive.
    pub(super) fn write(&self, except: Option<&Path>, mut out: impl Write) -> Result<(), Failure> {
        match self {
            Self::Folder(path) => pack(path, except, out).map_err(|error| unreadable(path, error)),
            Self::Archive(path) => {
                let mut file = File::open(path).map_err(|error| unreadable(path, error))?;
                copied(io::copy(&mut file, &mut out), path)
            }
            Self::StandardInput => copied(io::copy(&mut io::stdin().lock(), &mut out), Path::new("-")),
            Self::Commit(name) => archive(name, out),
        }
    }
}

fn copied(result: io::Result<u64>, path: &Path) -> Result<(), Failure> {
    result.map(drop).map_err(|error| unreadable(path, error))
}

fn refused(detail: String) -> Failure {
    Failure::Refused { status: 400, detail }
}

/// A reader that is gone has said why itself.
fn unreadable(path: &Path, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Output(error),
        _ => refused(format!("{} cannot be read: {error}", path.display())),
    }
}

pub(super) fn is_broken_pipe(failure: &Failure) -> bool {
    matches!(failure, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
}

/// The name of the commit that somebody wrote in words of Git.
fn commit(words: &OsStr) -> Result<String, Failure> {
    let text = words.to_string_lossy();
    let shown = printable(&text);
    let neither = |why: &str| refused(format!("{shown} is neither a folder nor an archive, nor a commit: {why}"));
    let mut asked = words.to_owned();
    asked.push("^{commit}");
    let output = git(["rev-parse", "--verify", "--end-of-options"]).arg(asked).stderr(Stdio::piped()).output();
    let output = output.map_err(|error| neither(&format!("`git` cannot be run ({error})")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().last().unwrap_or("Git does not know it");
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if output.status.success() && is_name { Ok(name) } else { Err(neither(why.trim_start_matches("fatal: "))) }
}

/// What of the commit is in this folder, as `git archive` has it.
fn archive(name: &str, mut out: impl Write) -> Result<(), Failure> {
    let failed = |why: String| refused(format!("`git archive {name}`: {why}"));
    let mut child = git(["archive", "--format=tar"]).arg(name).stdout(Stdio::piped()).spawn()?;
    let copied = child.stdout.take().map_or(Ok(0), |mut bytes| io::copy(&mut bytes, &mut out));
    if copied.is_err() {
        let _ = child.kill(); // it may have ended
    }
    let status = child.wait()?;
    copied.map_err(|error| unreadable(Path::new(name), error))?;
    if status.success() { Ok(()) } else { Err(failed(format!("it ended with {status}"))) }
}

fn git<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("git");
    command.args(arguments).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        let check = |source: Source, expected: &str| assert_eq!(source.label(), expected);
        check(Source::Archive("out/app-1.2.tar.gz".into()), "app-1.2");
        check(Source::Archive("app.tar.zst".into()), "app");
        check(Source::Archive("app".into()), "app");
        check(Source::Commit("0123456789abcdef0123".into()), "0123456789ab");
        let folder = tempfile::tempdir().unwrap();
        let dist = folder.path().join("dist");
        std::fs::create_dir(&dist).unwrap();
        check(Source::Folder(dist.join("../dist/.")), "dist");
    }

    #[test]
    fn what_is_what() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar");
        std::fs::write(&file, "").unwrap();
        assert_eq!(Source::of(folder.path()).unwrap(), Source::Folder(folder.path().to_owned()));
        assert_eq!(Source::of(&file).unwrap(), Source::Archive(file));
        let missing = Source::of(&folder.path().join("missing")).unwrap_err().to_string();
        assert!(missing.contains("neither a folder nor an archive, nor a commit"), "{missing}");
    }

    #[test]
    fn a_folder_that_cannot_be_read_to_its_end_is_not_unpacked() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(from.path().join("a"), "whole").unwrap();
        // A socket is in no archive.
        let _socket = std::os::unix::net::UnixListener::bind(from.path().join("b.sock")).unwrap();
        let failure = Source::Folder(from.path().to_owned()).unpack(to.path(), Path::new("/nowhere")).unwrap_err();
        assert!(failure.to_string().contains("b.sock"), "{failure}");
    }
}
