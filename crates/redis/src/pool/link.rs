//! A connection of the pool: one exchange after the other, in between new credentials.

use std::io;
use std::time::Instant;

use crate::config::Config;
use crate::error::ErrorKind;
use crate::net::connect::Connection;
use crate::net::exchange;
use crate::net::lane::{DialError, Lane};
use crate::net::renewal::{Changes, check_answer};
use crate::proto::handshake::encode_auth;
use crate::reply::Value;

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    /// Of the credentials, since it was made.
    changes: Changes,
}

/// One that nobody uses.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) link: Link,
    pub(super) since: Instant,
}

impl Link {
    /// A new one to the lane's node.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub(super) async fn dial(lane: &Lane, config: &Config) -> Result<Self, DialError> {
        let changes = Changes::new(config.credentials.as_ref().and_then(|provider| provider.changes()));
        Ok(Self { connection: lane.dial_another().await?, changes })
    }

    /// Whether nothing has come that nobody asked for, and it is not closed.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.connection.read_buffer.is_empty() && self.connection.transport.is_quiet()
    }

    /// Authenticates anew if the credentials have changed: before anything else is sent, as nothing may be in doubt behind an `AUTH` (redis/redis#15640).
    ///
    /// # Cancel safety
    /// None: it is to be dropped, too.
    pub(super) async fn renew(&mut self) -> Result<(), ErrorKind> {
        let Some(credentials) = self.changes.take(self.connection.credentials.as_ref()) else { return Ok(()) };
        let mut auth = Vec::new();
        encode_auth(&mut auth, &credentials);
        exchange::send(&mut self.connection, &auth).await.map_err(|error| kind_of(&error))?;
        let reply = self.receive_one().await?;
        check_answer(&reply)?;
        self.connection.credentials = Some(credentials);
        Ok(())
    }

    /// Sends what is encoded.
    ///
    /// # Cancel safety
    /// None: it is to be dropped, too.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), ErrorKind> {
        exchange::send(&mut self.connection, bytes).await.map_err(|error| kind_of(&error))
    }

    /// Reads one reply, or what is written as one.
    ///
    /// # Cancel safety
    /// What was read is kept: the next call goes on.
    pub(super) async fn receive_one(&mut self) -> Result<Value, ErrorKind> {
        exchange::receive(&mut self.connection).await.map_err(|error| kind_of(&error))
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

fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::InvalidData => ErrorKind::Protocol(error.to_string().into()),
        _ => ErrorKind::Connection(error.to_string().into()),
    }
}
