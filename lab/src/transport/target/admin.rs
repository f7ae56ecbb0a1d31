//! What the lab asks of a running Pilotlight through its admin socket (docs/admin-api.md).

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// The admin interface of one gateway.
#[derive(Debug)]
pub(super) struct Admin {
    pub(super) socket: PathBuf,
}

impl Admin {
    /// Begins to stop the service.
    pub(super) fn stop(&self, service: &str) -> anyhow::Result<()> {
        self.ask("POST", &format!("/services/{service}/stop"), "202").map(drop)
    }

    /// Whether nothing of the service is left: no instance, not even one that ends.
    pub(super) fn is_stopped(&self, service: &str) -> anyhow::Result<bool> {
        let status = self.ask("GET", &format!("/services/{service}"), "200")?;
        Ok(status["state"] == "stopped" && status["instances"].as_array().is_some_and(Vec::is_empty))
    }

    fn ask(&self, method: &str, path: &str, wanted: &str) -> anyhow::Result<Value> {
        let mut socket = UnixStream::connect(&self.socket).context("the gateway's admin socket does not answer")?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        // HTTP/1.0, so that the answer ends where the connection does.
        socket.write_all(
            format!("{method} {path} HTTP/1.0\r\nHost: pilotlight\r\nContent-Length: 0\r\n\r\n").as_bytes(),
        )?;
        let mut answer = String::new();
        socket.take(MAX_ANSWER_BYTES).read_to_string(&mut answer).with_context(|| format!("{method} {path}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a head")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        ensure!(status == wanted, "{method} {path}: {status}: {body}");
        // A 202 may have nothing more to say.
        if body.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(body)?) }
    }
}
