//! The socket to a zygote: the process of the Python SDK that has imported what a service needs, and forks its
//! instances.
//!
//! The messages are those of `sdk/python/pilotlight/zygote.py`, framed like those of the guardian.

use crate::fd_message::{Inbox, encode};
use crate::guardian::{Outgoing, write};
use crate::limits::MAX_GUARDIAN_QUEUE;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

#[derive(Debug, Serialize)]
enum ToZygote<'a> {
    /// Comes with descriptors: standard output and standard error.
    Fork {
        #[serde(rename = "run")]
        instance: u64,
        env: &'a [(String, String)],
    },
}

/// What a zygote says.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum FromZygote {
    /// It has imported everything.
    Ready,
    /// It will not be ready, and ends.
    Refused { reason: String },
    /// The instance's process.
    Forked {
        #[serde(rename = "run")]
        instance: u64,
        pid: i32,
    },
    /// There is no process for the instance.
    NotForked {
        #[serde(rename = "run")]
        instance: u64,
        reason: String,
    },
}

/// A running zygote. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ZygoteLink {
    outgoing: mpsc::Sender<Outgoing>,
}

impl ZygoteLink {
    /// The link, and what the zygote inherits as its standard input. To be called within the supervisor's event loop.
    /// What it says comes with its number; its end is reported by the guardian.
    pub(crate) fn pair(number: u64, events: mpsc::Sender<(u64, FromZygote)>) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = StdUnixStream::pair()?; // close-on-exec, both
        ours.set_nonblocking(true)?;
        let socket = Arc::new(UnixStream::from_std(ours)?);
        let (outgoing, to_send) = mpsc::channel(MAX_GUARDIAN_QUEUE);
        // The writer ends with the link, and shuts the socket down; the reader with the zygote.
        tokio::spawn(write(Arc::clone(&socket), to_send));
        tokio::spawn(read(number, socket, events));
        Ok((Self { outgoing }, theirs.into()))
    }

    /// Asks for a fork; the answer comes as an event.
    pub(crate) fn fork(&self, instance: u64, env: &[(String, String)], fds: Vec<OwnedFd>) -> io::Result<()> {
        let bytes = encode(&ToZygote::Fork { instance, env })?;
        let sent = self.outgoing.try_send(Outgoing { bytes, fds });
        sent.map_err(|error| io::Error::other(format!("the zygote takes no requests: {error}")))
    }
}

async fn read(number: u64, socket: Arc<UnixStream>, events: mpsc::Sender<(u64, FromZygote)>) {
    let mut inbox = Inbox::default();
    loop {
        match inbox.receive(&socket).await {
            Ok(Some(event)) => {
                if events.send((number, event)).await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                // It is no zygote of ours if it talks like that: without its socket it ends.
                tracing::warn!(%error, "a zygote's messages cannot be read");
                let _ = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_sdk() {
        let env = [("A".to_owned(), "b".to_owned())];
        let text = serde_json::to_string(&ToZygote::Fork { instance: 3, env: &env }).unwrap();
        assert_eq!(text, r#"{"Fork":{"run":3,"env":[["A","b"]]}}"#);
        let check = |text: &str, expected| assert_eq!(serde_json::from_str::<FromZygote>(text).unwrap(), expected);
        check(r#""Ready""#, FromZygote::Ready);
        check(r#"{"Refused": {"reason": "x"}}"#, FromZygote::Refused { reason: "x".to_owned() });
        check(r#"{"Forked": {"run": 3, "pid": 7}}"#, FromZygote::Forked { instance: 3, pid: 7 });
        check(
            r#"{"NotForked": {"run": 3, "reason": "y"}}"#,
            FromZygote::NotForked { instance: 3, reason: "y".to_owned() },
        );
    }
}
