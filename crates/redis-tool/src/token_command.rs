//! `--token-command`: what a command of the shell prints, for as long as it may take.
//!
//! Not by tokio's processes: in a build of all programs at once they would be compiled into the gateway, too, whose
//! event loops then look for children at each of their turns.

use std::io::{self, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

/// How long a command that prints a token may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes of a token.
const MAX_TOKEN: u64 = 64 * 1024;

/// The token that the command prints, without the end of its line.
///
/// # Errors
/// Why there is none.
pub(crate) async fn token(command: &str) -> Result<String, String> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let (status, output) = output(shell, TIMEOUT).await?;
    if output.len() as u64 > MAX_TOKEN {
        return Err(format!("it printed more than {MAX_TOKEN} bytes"));
    }
    if !status.success() {
        return Err(status.to_string());
    }
    let token = String::from_utf8(output).map_err(|_| "its output is no text".to_owned())?;
    match token.trim_end_matches(['\n', '\r']) {
        "" => Err("it printed nothing".to_owned()),
        token => Ok(token.to_owned()),
    }
}

/// Runs it to its end. One that takes too long is killed.
async fn output(mut command: Command, within: Duration) -> Result<(ExitStatus, Vec<u8>), String> {
    let text = |error: io::Error| error.to_string();
    let mut running = Running(command.spawn().map_err(text)?);
    let Some(stdout) = running.0.stdout.take() else { return Err("it has no output".to_owned()) };
    let (told, hears) = oneshot::channel();
    let read = move || {
        let mut output = Vec::new();
        let read = stdout.take(MAX_TOKEN + 1).read_to_end(&mut output).map(|_| output);
        drop(told.send(read)); // nobody waits any more: it took too long
    };
    thread::Builder::new().name("token".to_owned()).spawn(read).map_err(text)?;
    let ended = async {
        let output = hears.await.map_err(|_| "its output cannot be read".to_owned())?.map_err(text)?;
        // It has closed its output, so its end is near; a shell that goes on is asked now and then.
        loop {
            if let Some(status) = running.0.try_wait().map_err(text)? {
                return Ok((status, output));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(within, ended).await.unwrap_or_else(|_| Err(format!("no token within {within:?}")))
}

/// Killed when it is dropped, if it still runs.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) && self.0.kill().is_ok() {
            let _ = self.0.wait(); // SIGKILL has been sent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_it_prints() {
        assert_eq!(token("printf 'secret\r\n'").await, Ok("secret".to_owned()));
        assert_eq!(token("true").await, Err("it printed nothing".to_owned()));
        assert_eq!(token("echo x; exit 3").await, Err("exit status: 3".to_owned()));
        assert_eq!(token("printf '\\377'").await, Err("its output is no text".to_owned()));
        assert!(token("head -c 100000 /dev/zero").await.unwrap_err().contains("more than"));
    }

    #[tokio::test]
    async fn one_that_takes_too_long_is_killed() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec sleep 1000 >&-"]).stdout(Stdio::piped());
        assert_eq!(output(command, Duration::from_millis(200)).await, Err("no token within 200ms".to_owned()));
        let mut command = Command::new("sleep");
        command.arg("1000").stdout(Stdio::piped());
        assert_eq!(output(command, Duration::from_millis(50)).await, Err("no token within 50ms".to_owned()));
    }
}
