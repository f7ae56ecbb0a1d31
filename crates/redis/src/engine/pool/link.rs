//! A connection of the pool: one exchange after the other, in between new credentials.

use std::time::{Duration, Instant};

use bytes::Buf;
use pilotlight_resp::Frame;
use tokio::io::AsyncWriteExt;

use crate::address::NodeAddress;
use crate::config::Config;
use crate::credentials::Credentials;
use crate::engine::lane::{DialError, Lane};
use crate::engine::sink::Sink;
use crate::error::ErrorKind;
use crate::net::connection::Connection;
use crate::net::renewal::{Changes, Renewal};
use crate::net::wire::Wire;
use crate::reply::Value;

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    /// Of the server, as it is announced.
    pub(super) address: NodeAddress,
    wire: Wire,
    /// Who the server takes the client for.
    credentials: Option<Credentials>,
    /// Of the credentials, since it was made.
    changes: Changes,
    can_reset: bool,
}

/// How a reply begins.
pub(super) enum Head {
    /// A string of so many bytes, which follow.
    Size(u64),
    /// The whole of any other.
    Other(Value),
}

/// Read at once of a reply that is passed on.
const PIECE_BYTES: usize = 64 * 1024;

/// One that nobody uses.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) link: Link,
    pub(super) since: Instant,
    /// The user before has left something behind.
    pub(super) is_changed: bool,
}

impl Link {
    /// A new one to the lane's node.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub(super) async fn dial(lane: &Lane, config: &Config) -> Result<Self, DialError> {
        let changes = Changes::new(config.credentials.as_ref().and_then(|provider| provider.changes()));
        Ok(Self::new(lane.dial_another().await?, changes))
    }

    /// The same, without a database.
    ///
    /// # Cancel safety
    /// As [`dial`](Self::dial).
    pub(super) async fn dial_bare(lane: &Lane) -> Result<Self, DialError> {
        Ok(Self::new(lane.dial_bare().await?, Changes::new(None)))
    }

    fn new(mut connection: Connection, changes: Changes) -> Self {
        let (address, credentials) = (connection.address.clone(), connection.credentials.take());
        let can_reset = connection.server.knows_reset();
        Self { address, wire: Wire::new(connection), credentials, changes, can_reset }
    }

    /// It is out of use for now.
    pub(super) fn rest(&mut self) {
        self.wire.rest();
    }

    /// Whether its server can make it as good as new.
    pub(super) fn can_reset(&self) -> bool {
        self.can_reset
    }

    /// Makes it as good as new.
    ///
    /// # Cancel safety
    /// None: it is to be dropped, too.
    pub(super) async fn reset(&mut self, lane: &Lane) -> Result<(), DialError> {
        // Those that come meanwhile are made known behind it.
        self.changes.take(None);
        self.credentials = lane.reset_another(&mut self.wire, &self.address).await?;
        Ok(())
    }

    /// Whether nothing has come that nobody asked for, and it is not closed.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.wire.is_quiet()
    }

    /// Authenticates anew if the credentials have changed: before anything else is sent, as nothing may be in doubt
    /// behind an `AUTH` (redis/redis#15640).
    ///
    /// # Cancel safety
    /// None: it is to be dropped, too.
    pub(super) async fn renew(&mut self) -> Result<(), ErrorKind> {
        let Some(credentials) = self.changes.take(self.credentials.as_ref()) else { return Ok(()) };
        let (mut renewal, mut auth) = (Renewal::Wanted(credentials), Vec::new());
        renewal.send(&mut auth, Instant::now());
        self.wire.send(&auth).await?;
        let until = renewal.until(Instant::now())?;
        let reply = match until {
            Some(until) => tokio::time::timeout_at(until.into(), self.wire.receive()).await.ok(),
            None => None,
        };
        self.credentials = match reply {
            Some(reply) => renewal.answered(&reply?)?,
            None => return Err(ErrorKind::Connection("the server does not answer AUTH".into())),
        };
        Ok(())
    }

    /// Sends what is encoded.
    ///
    /// # Cancel safety
    /// None: it is to be dropped, too.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ErrorKind> {
        self.wire.send(bytes).await
    }

    /// Reads one reply, or what is written as one.
    ///
    /// # Cancel safety
    /// What was read is kept: the next call goes on.
    pub(super) async fn receive_one(&mut self) -> Result<Value, ErrorKind> {
        self.wire.receive().await
    }

    /// Reads the beginning of a reply.
    ///
    /// # Cancel safety
    /// None: it is to be dropped, too.
    pub(super) async fn receive_head(&mut self) -> Result<Head, ErrorKind> {
        loop {
            let buffer = self.wire.unparsed();
            let line = memchr::memchr(b'\n', buffer).map(|end| &buffer[..=end]);
            match (buffer.first(), line) {
                (Some(b'$'), Some(line)) => {
                    let end = line.len();
                    let size = line.strip_prefix(b"$").and_then(|line| line.strip_suffix(b"\r\n"));
                    let size = size.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
                    if let Some(size) = size {
                        buffer.advance(end);
                        return Ok(Head::Size(size));
                    }
                }
                (Some(b'$') | None, None) | (None, Some(_)) => {
                    self.wire.read(0).await?;
                    continue;
                }
                (Some(_), _) => {}
            }
            // Null, a number, an error; pushes are passed over.
            if let Frame::Reply(value) = self.wire.next_frame().await? {
                return Ok(Head::Other(value));
            }
        }
    }

    /// Passes on the body of a string. `patience` is for each piece; an error of `None` says that one was overdue.
    ///
    /// # Cancel safety
    /// None: it is to be dropped, too.
    pub(super) async fn receive_body(
        &mut self,
        size: u64,
        sink: &mut Sink<'_>,
        patience: Option<Duration>,
    ) -> Result<(), Option<ErrorKind>> {
        let failed = |error: std::io::Error| Some(ErrorKind::Writer(error.to_string().into()));
        let mut left = size;
        while left > 0 {
            if self.wire.unparsed_bytes() == 0 {
                let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE_BYTES);
                within(patience, self.wire.read(wanted)).await.ok_or(None)??;
            }
            let buffer = self.wire.unparsed();
            let piece = buffer.split_to(buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            left -= piece.len() as u64;
            within(patience, sink.writer.write_all(&piece)).await.ok_or(None)?.map_err(failed)?;
        }
        while self.wire.unparsed_bytes() < 2 {
            within(patience, self.wire.read(0)).await.ok_or(None)??;
        }
        if self.wire.unparsed().split_to(2) != b"\r\n"[..] {
            return Err(Some(ErrorKind::Protocol("a string does not end where it should".into())));
        }
        within(patience, sink.writer.flush()).await.ok_or(None)?.map_err(failed)
    }

    /// Reads so many replies.
    ///
    /// # Cancel safety
    /// None: it is to be dropped, too.
    pub(super) async fn receive(&mut self, replies: u32) -> Result<Vec<Value>, ErrorKind> {
        let mut values = Vec::with_capacity(replies as usize);
        for _ in 0..replies {
            values.push(self.receive_one().await?);
        }
        Ok(values)
    }
}

async fn within<T>(patience: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match patience {
        Some(patience) => tokio::time::timeout(patience, work).await.ok(),
        None => Some(work.await),
    }
}
