//! One command on several nodes.

use crate::client::handle::Client;
use crate::command::Command;
use crate::engine::options::CallOptions;
use crate::engine::route::{NodeReply, Route};
use crate::engine::routing;
use crate::error::Error;

impl Client {
    /// Runs a command on every node of `route` at the same time, and tells what each of them answered.
    ///
    /// ```no_run
    /// # use pilotlight_redis::{Client, Command, Error, Route};
    /// # async fn example(client: &Client) -> Result<(), Error> {
    /// for answer in client.on_all(Route::AllNodes, Command::raw("INFO").arg("memory")).await? {
    ///     println!("{}: {:?}", answer.node, answer.reply?);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No node is known until the deadline, or the command cannot be sent on shared connections. What goes wrong at one
    /// node is in its own place.
    ///
    /// # Cancel safety
    /// As [`Call`](crate::Call), at each node.
    pub async fn on_all(&self, route: Route, command: Command<'_>) -> Result<Vec<NodeReply>, Error> {
        routing::on_all(self.core(), &route, &command, CallOptions::by(self.core().config())).await
    }
}
