//! Answers the probes of a kubelet: whether this process lives, and whether it has its first configuration.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Bytes of a request's head that are read.
const MAX_HEAD: usize = 4096;
/// Time for one probe.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Probes at once; more wait to be accepted.
const MAX_PROBES: usize = 32;

/// Where probes are answered.
pub struct Probes {
    listener: TcpListener,
    ready: Arc<AtomicBool>,
}

impl Probes {
    /// Listens.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn bind(address: SocketAddr, ready: Arc<AtomicBool>) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, ready })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until it is dropped.
    pub async fn serve(self) {
        let places = Arc::new(Semaphore::new(MAX_PROBES));
        let mut tasks = tokio::task::JoinSet::new();
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let accepted = self.listener.accept().await;
            while tasks.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    let ready = Arc::clone(&self.ready);
                    tasks.spawn(async move {
                        // Who does not ask in time is asked nothing.
                        let _ = tokio::time::timeout(TIMEOUT, answer(stream, &ready)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!("a probe could not be accepted: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn answer(mut stream: TcpStream, ready: &AtomicBool) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut more = [0; 1024];
        let count = stream.read(&mut more).await?;
        if count == 0 || head.len() + count > MAX_HEAD {
            return Ok(());
        }
        head.extend_from_slice(&more[..count]);
    }
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, text) = status(&String::from_utf8_lossy(line), ready.load(Ordering::Acquire));
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// The answer to a request line.
fn status(line: &str, is_ready: bool) -> (&'static str, &'static str) {
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path, is_ready) {
        ("GET", "/livez" | "/healthz", _) => ("200 OK", "alive\n"),
        ("GET", "/readyz", true) => ("200 OK", "ready\n"),
        ("GET", "/readyz", false) => {
            ("503 Service Unavailable", "the first configuration of the cluster is not there yet\n")
        }
        _ => ("404 Not Found", "there are /livez, /healthz and /readyz\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(status("GET /livez HTTP/1.1", false).0, "200 OK");
        assert_eq!(status("GET /healthz?x HTTP/1.1", false).0, "200 OK");
        assert_eq!(status("GET /readyz HTTP/1.1", false).0, "503 Service Unavailable");
        assert_eq!(status("GET /readyz HTTP/1.1", true).0, "200 OK");
        assert_eq!(status("POST /readyz HTTP/1.1", true).0, "404 Not Found");
        assert_eq!(status("", true).0, "404 Not Found");
    }
}
