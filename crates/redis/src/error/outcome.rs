//! The two questions that an error answers: did it run, and what now?

/// Whether the command was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// Certainly not: the server did not get the whole of it, or refused it unread.
    NotSent,
    /// Not known: it was sent and the reply did not come.
    MaybeExecuted,
    /// The server answered.
    Executed,
}

/// What a caller can do about an error.
///
/// ```no_run
/// # use pilotlight_redis::{Advice, Client, Commands, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// if let Err(error) = client.set("name", "Ada").await
///     && error.advice() == Advice::Retry
/// {
///     println!("later");
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// The same command will fail again.
    Never,
    /// Try again, after a pause.
    Retry,
    /// Another node has the slot; the client follows by itself.
    Redirect,
    /// The node is not what it was: connect anew and try again.
    Reconnect,
    /// The topology of the cluster is stale.
    RefreshTopology,
}
