//! A client that is connected from the beginning.

use crate::client::handle::Client;
use crate::command::Command;
use crate::commands::{Commands, spec};
use crate::config::Config;
use crate::error::table::{About, judge_own};
use crate::error::{Error, Misuse, Ran};
use crate::reply::Value;

impl Client {
    /// A client of the server that a URL names (see [`Config::from_url`]), connected: a first `PING` has been answered.
    ///
    /// ```no_run
    /// # use pilotlight_redis::{Client, Error};
    /// # async fn example() -> Result<(), Error> {
    /// let client = Client::connect("rediss://ada:secret@redis.example.org/2?command_timeout=1s").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The URL is malformed, or no server answers within the command timeout.
    ///
    /// # Cancel safety
    /// Dropping the future closes what was opened.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let config = Config::from_url(url)
            .map_err(|error| Error::new(Misuse::Url(error.to_string()), Ran::NotSent, "connect"))?;
        let client = Self::new(config)?;
        match client.run::<Value>(Command::new(&spec::PING)).await {
            // A user who may not do that is answered, too.
            Err(error) if error.server().is_some_and(|error| judge_own(error).about == About::Permission) => Ok(client),
            answered => answered.map(|_| client),
        }
    }
}
