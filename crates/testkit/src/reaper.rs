//! Ends servers whose test process was itself killed.
//!
//! `Drop` does not run under SIGKILL (a test runner's timeout), so a shell reads from a pipe which ids are ours. The kernel closes the pipe when
//! this process ends, in whatever way, and the shell then kills the ids that are still listed. An id is taken off the list before it is waited for, and
//! an id that was not waited for is not given to another process.

use parking_lot::Mutex;
use std::io::Write;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"
trap '' INT TERM HUP
ids=
while read -r verb id; do
  kept=
  for other in $ids; do [ "$other" = "$id" ] || kept="$kept $other"; done
  ids=$kept
  [ "$verb" = forget ] || ids="$ids $id"
done
[ -z "$ids" ] || kill -9 $ids
"#;

static REAPER: Mutex<Option<Child>> = Mutex::new(None);

/// From now on this process is killed when ours ends.
pub(crate) fn watch(id: u32) {
    tell("watch", id);
}

/// This process is about to be waited for.
pub(crate) fn forget(id: u32) {
    tell("forget", id);
}

/// Where no shell can be run, there is no safety net, and tests work all the same.
fn tell(verb: &str, id: u32) {
    let mut reaper = REAPER.lock();
    if reaper.is_none() {
        *reaper = start();
    }
    if let Some(pipe) = reaper.as_mut().and_then(|child| child.stdin.as_mut()) {
        let _ = writeln!(pipe, "{verb} {id}");
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
        writeln!(pipe, "watch {}\nwatch {}\nforget {}", listed.id(), forgotten.id(), forgotten.id()).unwrap();
        drop(pipe);
        assert!(reaper.wait().unwrap().success());
        assert_eq!(listed.wait().unwrap().signal(), Some(9));
        assert!(forgotten.try_wait().unwrap().is_none());
        forgotten.kill().unwrap();
        forgotten.wait().unwrap();
    }
}
