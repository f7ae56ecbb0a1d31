//! The interface of deadpool.

use std::convert::Infallible;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use pilotlight_redis::{Client, Dedicated, Error};

use crate::{DedicatedManager, SharedManager};

impl Manager for SharedManager {
    type Type = Client;
    type Error = Infallible;

    async fn create(&self) -> Result<Client, Infallible> {
        Ok(self.client.clone())
    }

    async fn recycle(&self, _: &mut Client, _: &Metrics) -> RecycleResult<Infallible> {
        Ok(())
    }
}

impl Manager for DedicatedManager {
    type Type = Dedicated;
    type Error = Error;

    async fn create(&self) -> Result<Dedicated, Error> {
        self.client.dedicated().await
    }

    /// The pool drops it, which gives it back to the client, and asks for another one.
    async fn recycle(&self, _: &mut Dedicated, _: &Metrics) -> RecycleResult<Error> {
        Err(RecycleError::message("leased from the client anew"))
    }
}
