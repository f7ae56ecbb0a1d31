//! A client that is connected from the beginning.

use crate::client::handle::Client;
use crate::command::Command;
use crate::commands::{Commands, spec};
use crate::config::Config;
use crate::error::{Error, Misuse, Ran};
use crate::reply::Value;

impl Client {
    /// A client of the server that a URL names (see [`Config::from_url`]), connected: a first `ECHO` has been answered.
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
        client.run::<Value>(Command::new(&spec::ECHO).arg("")).await?;
        Ok(client)
    }
}
