//! Ends servers whose test process was itself killed, and removes their folders.
//!
//! `Drop` does not run under SIGKILL (a test runner's timeout), so a shell reads from a pipe which ids are ours. The
//! kernel closes the pipe when this process ends, in whatever way, and the shell then kills the ids that are still
//! listed. An id is taken off the list before it is waited for, and an id that was not waited for is not given to
//! another process. Only folders with our prefix are removed.

use parking_lot::Mutex;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
ids=
while read -r verb id dir; do
  kept=
  for other in $ids; do [ "$other" = "$id" ] || kept="$kept $other"; done
  ids=$kept
  [ "$verb" = forget ] || { ids="$ids $id"; eval "dir_$id=\$dir"; }
done
[ -z "$ids" ] || kill -9 $ids
for id in $ids; do
  eval "dir=\$dir_$id"
  case $dir in */pilotlight-redis-*) rm -rf -- "$dir" ;; esac
done
"#;

static REAPER: Mutex<Option<Child>> = Mutex::new(None);

/// From now on this process is killed, and its folder removed, when ours ends.
pub(crate) fn watch(id: u32, dir: &Path) {
    tell(&format!("watch {id} {}", dir.display()));
}

/// This process is about to be waited for.
pub(crate) fn forget(id: u32) {
    tell(&format!("forget {id}"));
}

/// Where no shell can be run, there is no safety net, and tests work all the same.
fn tell(line: &str) {
    let mut reaper = REAPER.lock();
    if reaper.is_none() {
        *reaper = start();
    }
    if let Some(pipe) = reaper.as_mut().and_then(|child| child.stdin.as_mut()) {
        let _ = writeln!(pipe, "{line}");
    }
}

fn start() -> Option<Child> {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn sleeper() -> Child {
        Command::new("sleep").arg("30").spawn().unwrap()
    }

    #[test]
    fn kills_what_is_listed_when_the_pipe_closes_and_spares_what_was_forgotten() {
        let (mut listed, mut forgotten) = (sleeper(), sleeper());
        let mut reaper = start().unwrap();
        let mut pipe = reaper.stdin.take().unwrap();
        let ours = tempfile::Builder::new().prefix("pilotlight-redis-").tempdir().unwrap();
        let (dir, other) = (ours.path().join("pilotlight-redis-of it"), ours.path().join("other"));
        for dir in [&dir, &other] {
            std::fs::create_dir(dir).unwrap();
        }
        let (id, spared) = (listed.id(), forgotten.id());
        writeln!(pipe, "watch {id} {}\nwatch {spared} {}\nforget {spared}", dir.display(), other.display()).unwrap();
        drop(pipe);
        assert!(reaper.wait().unwrap().success());
        assert!(!dir.exists() && other.exists());
        assert_eq!(listed.wait().unwrap().signal(), Some(9));
        assert!(forgotten.try_wait().unwrap().is_none());
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }
}
