#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "bb8")]
mod bb8;
#[cfg(feature = "deadpool")]
mod deadpool;

use pilotlight_redis::Client;

/// Lends clones of one client. They share its connections, so that none is ever broken or has to be made: the client
/// connects again by itself.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use deadpool::managed::Pool;
/// use pilotlight_redis::{Client, Commands};
/// use pilotlight_redis_pools::SharedManager;
///
/// let client = Client::connect("redis://localhost").await?;
/// let pool: Pool<SharedManager> = Pool::builder(SharedManager::new(client)).max_size(8).build()?;
/// pool.get().await?.incr("visits").await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct SharedManager {
    client: Client,
}

/// Lends connections that nobody else uses meanwhile, to any primary.
///
/// Each is leased from the client when it is asked for, and given back when its user is done; the pool keeps none. So
/// it is the client that decides to which node it goes, and what a user left behind (`SELECT`, `WATCH`, `MULTI`) is
/// seen by nobody.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use pilotlight_redis::{Client, Commands};
/// use pilotlight_redis_pools::DedicatedManager;
///
/// let client = Client::connect("redis://localhost").await?;
/// let pool = bb8::Pool::builder().max_size(16).build(DedicatedManager::new(client)).await?;
/// let mut connection = pool.get().await?;
/// connection.watch("balance").await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DedicatedManager {
    client: Client,
}

impl SharedManager {
    /// A manager of clones of `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client that is lent.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }
}

impl DedicatedManager {
    /// A manager of connections of `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client whose connections are lent.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }
}
