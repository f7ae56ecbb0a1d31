//! `MONITOR`: every command that a server runs, as it runs them.

use bytes::Bytes;

use crate::client::handle::Client;
use crate::command::Command;
use crate::commands::spec;
use crate::engine::options::CallOptions;
use crate::engine::pool::Lease;
use crate::engine::route::Route;
use crate::engine::routing;
use crate::error::{Error, ErrorKind, Ran, ServerError};
use crate::out::Out;
pub(super) use crate::proto::monitored::Monitored;
use crate::reply::Value;

/// What one server runs, from [`Client::monitor`]. It has a connection of its own, which is closed when it is dropped.
///
/// It costs the server much, and shows the arguments of all its clients: it is for looking into a problem. Nothing is
/// dropped here: who reads too slowly is thrown out by the server, as its `client-output-buffer-limit` says.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error, Route};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut monitor = client.monitor(Route::Any).await?;
/// while let Some(command) = monitor.next().await {
///     println!("{:?}", command?);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Monitor {
    lease: Lease,
    has_ended: bool,
}

impl Client {
    /// Watches what the node of `route` runs.
    ///
    /// # Errors
    /// As [`dedicated_on`](Self::dedicated_on), or the server refuses it.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn monitor(&self, route: Route) -> Result<Monitor, Error> {
        const NAME: &str = "MONITOR";
        let options = CallOptions::by(self.core().config());
        let mut lease = routing::lease(self.core(), &route, options).await?;
        lease.spoil();
        let mut out = Out::contiguous_only();
        Command::new(&spec::MONITOR).encode(&mut out);
        let exchanged = lease.exchange(&out, 1, options.timeout).await;
        let mut replies =
            exchanged.map_err(|failure| Error::new(failure.kind, failure.ran, NAME).at(lease.node().clone()))?;
        match replies.pop() {
            Some(Value::Error(text)) => {
                Err(Error::new(ServerError::parse(&text), Ran::Executed, NAME).at(lease.node().clone()))
            }
            _ => {
                lease.set_endless();
                Ok(Monitor { lease, has_ended: false })
            }
        }
    }
}

impl Monitor {
    /// The node, as `host:port`.
    #[must_use]
    pub fn node(&self) -> &str {
        self.lease.node()
    }

    /// The next command; `None` after an error, or once the client is closed. The server does not say what it ran while
    /// there was no connection, so a lost one is not made again: that is the error.
    ///
    /// # Cancel safety
    /// No command is lost.
    pub async fn next(&mut self) -> Option<Result<Monitored, Error>> {
        if self.has_ended {
            return None;
        }
        let kind = match self.lease.receive_unasked().await {
            Ok(Value::Simple(line)) => match Monitored::read(&line) {
                Some(command) => return Some(Ok(command)),
                None => not_monitored(&line),
            },
            Ok(_) => ErrorKind::Protocol("MONITOR says what is no line".into()),
            Err(kind) => kind,
        };
        self.has_ended = true;
        match kind {
            ErrorKind::Closed => None,
            kind => Some(Err(Error::new(kind, Ran::Executed, "MONITOR").at(self.lease.node().clone()))),
        }
    }
}

/// The line itself may hold secrets.
fn not_monitored(line: &Bytes) -> ErrorKind {
    ErrorKind::Protocol(format!("MONITOR says what is no command, in {} bytes", line.len()).into())
}
