//! A huge reply that is never held in memory: it goes to a writer as it comes.

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::client::handle::Client;
use crate::client::observed::{Observed, Subject, followed};
use crate::command::Command;
use crate::engine::options::CallOptions;
use crate::engine::request::Payload;
use crate::engine::retry;
use crate::engine::routing;
use crate::engine::sink::Sink;
use crate::error::{Error, ErrorKind, Ran};
use crate::reply::{FromReply, Value};

impl Client {
    /// Writes the reply of `command`, a string, to `writer` as it comes, and tells its size; `None`: there is none. It
    /// travels on a connection that nobody shares meanwhile, so it holds up nobody.
    /// [`max_bulk_bytes`](pilotlight_resp::Limits::max_bulk_bytes) does not bound it.
    ///
    /// The command timeout bounds the time until the reply begins, and then each pause in it.
    ///
    /// ```no_run
    /// # use pilotlight_redis::{Client, Command};
    /// # async fn example(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut file = tokio::io::sink();
    /// let size = client.copy(Command::raw("GET").arg("video"), &mut file).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As any command; the writer fails ([`ErrorKind::Writer`](crate::ErrorKind::Writer)), or the reply is no string.
    /// Once it has begun, nothing is tried again: the writer may have a part of it.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection. The writer may have a part of the reply.
    pub async fn copy<W: AsyncWrite + Unpin + Send>(
        &self,
        command: Command<'_>,
        writer: &mut W,
    ) -> Result<Option<u64>, Error> {
        let command = command.resolved();
        let name = command.name();
        routing::check(&command)?;
        let options = CallOptions::by(self.core().config());
        let mut sink = Sink { writer, begun: None };
        let request = Payload::Command(&command).usual();
        let observed = Observed::begin(self.core().config(), || Subject {
            name: name.into(),
            slot: request.slot,
            node: None,
            batch_size: None,
        });
        let copied = followed(
            observed.as_deref().map(Observed::trail),
            retry::one_into(self.core(), &request, options, &mut sink),
        )
        .await;
        if let Some(observed) = observed {
            observed.end(self.core().config(), copied.as_ref().err());
        }
        match (sink.begun, copied?) {
            (Some(size), _) => Ok(Some(size)),
            (None, Value::Null) => Ok(None),
            (None, other) => {
                // A status or a number, which are no strings of their own, or what comes with attributes.
                let text = bytes::Bytes::from_reply(other).map_err(|error| Error::new(error, Ran::Executed, name))?;
                let failed = |error: std::io::Error| {
                    Error::new(ErrorKind::Writer(error.to_string().into()), Ran::Executed, name)
                };
                sink.writer.write_all(&text).await.map_err(failed)?;
                sink.writer.flush().await.map_err(failed)?;
                Ok(Some(text.len() as u64))
            }
        }
    }
}
