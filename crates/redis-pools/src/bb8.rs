//! The interface of bb8.

use std::convert::Infallible;

use bb8::ManageConnection;
use pilotlight_redis::{Client, Commands, Dedicated, Error};

use crate::{DedicatedManager, SharedManager};

impl ManageConnection for SharedManager {
    type Connection = Client;
    type Error = Infallible;

    async fn connect(&self) -> Result<Client, Infallible> {
        Ok(self.client.clone())
    }

    async fn is_valid(&self, _: &mut Client) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut Client) -> bool {
        false
    }
}

impl ManageConnection for DedicatedManager {
    type Connection = Dedicated;
    type Error = Error;

    async fn connect(&self) -> Result<Dedicated, Error> {
        self.client.dedicated().await
    }

    /// Of one that was made in advance (`min_idle`).
    async fn is_valid(&self, connection: &mut Dedicated) -> Result<(), Error> {
        connection.ping().await.map(drop)
    }

    /// The pool keeps none: dropping it gives it back to the client.
    fn has_broken(&self, _: &mut Dedicated) -> bool {
        true
    }
}
