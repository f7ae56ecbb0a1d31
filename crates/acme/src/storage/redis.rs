//! Redis or Valkey: what several gateways share. A lease is a key with a token, which ends by itself when its holder
//! does.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::{Client, Commands as _, Config, Script};

use super::interface::{Item, LEASE_KEPT_EVERY, Lease, Pending, Storage, StorageError};

/// How long a lease lasts that its holder does not renew. Three times [`LEASE_KEPT_EVERY`]: one lost round trip costs
/// nothing.
const LEASE_TIME: Duration = Duration::from_secs(30);
const _: () = assert!(LEASE_TIME.as_secs() >= 3 * LEASE_KEPT_EVERY.as_secs());
/// How long the answer to a challenge is kept: longer than an order may take.
const CHALLENGE_TIME: Duration = Duration::from_secs(600);
/// How long the lease of a gateway that stops may take to be given back.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// Only the holder of a lease may renew it or give it back.
const KEEP: &str = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0";
const RELEASE: &str = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0";

/// A Redis that gateways share.
pub struct RedisStorage {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    prefix: String,
    keep: Script,
    release: Script,
}

impl RedisStorage {
    /// Connects when it is first asked. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The URL means nothing.
    pub fn new(url: &str, prefix: &str) -> Result<Self, StorageError> {
        let config = Config::from_url(url)?;
        let shared = Shared {
            client: Client::new(config)?,
            prefix: prefix.to_owned(),
            keep: Script::new(KEEP),
            release: Script::new(RELEASE),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    fn key(&self, item: &Item) -> String {
        let prefix = &self.shared.prefix;
        match item {
            Item::Account(digest) => format!("{prefix}:acme:account:{digest}"),
            Item::Certificate(name) => format!("{prefix}:acme:certificate:{name}"),
            Item::Challenge(token) => format!("{prefix}:acme:challenge:{token}"),
        }
    }
}

impl Storage for RedisStorage {
    fn read<'a>(&'a self, item: &'a Item) -> Pending<'a, Option<Vec<u8>>> {
        let key = self.key(item);
        Box::pin(async move { Ok(self.shared.client.get(key).await?.map(|bytes| bytes.to_vec())) })
    }

    fn write<'a>(&'a self, item: &'a Item, bytes: Vec<u8>) -> Pending<'a, ()> {
        let key = self.key(item);
        Box::pin(async move {
            match item {
                Item::Challenge(_) => {
                    let options = SetOptions::new().px(milliseconds(CHALLENGE_TIME));
                    self.shared.client.set_with(key, bytes, options).await?;
                }
                Item::Account(_) | Item::Certificate(_) => self.shared.client.set(key, bytes).await?,
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, item: &'a Item) -> Pending<'a, ()> {
        let key = self.key(item);
        Box::pin(async move {
            self.shared.client.del(key).await?;
            Ok(())
        })
    }

    fn lease<'a>(&'a self, item: &'a Item) -> Pending<'a, Option<Box<dyn Lease>>> {
        let key = format!("{}:lease", self.key(item));
        Box::pin(async move {
            let mut token = [0; 16];
            getrandom::fill(&mut token).map_err(|cause| StorageError::Folder {
                path: "/dev/urandom".into(),
                cause: std::io::Error::other(cause),
            })?;
            let token = token.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let options = SetOptions::new().nx().px(milliseconds(LEASE_TIME));
            let is_taken = self.shared.client.set_with(key.clone(), token.clone(), options).await?;
            let lease = || Box::new(Held { shared: Arc::clone(&self.shared), key, token }) as Box<dyn Lease>;
            Ok(is_taken.then(lease))
        })
    }

    fn place(&self) -> String {
        format!("Redis, keys {}:acme:*", self.shared.prefix)
    }
}

/// A key with our token. Dropped without being given back, it ends by itself.
struct Held {
    shared: Arc<Shared>,
    key: String,
    token: String,
}

impl Lease for Held {
    fn keep(&mut self) -> Pending<'_, ()> {
        Box::pin(async {
            let keep = self.shared.keep.run::<i64>(&self.shared.client);
            let kept = keep.key(&self.key).arg(&self.token).arg(milliseconds(LEASE_TIME)).await?;
            if kept == 0 {
                tracing::warn!(lease = %self.key, "the lease was lost: another gateway may order the same certificate");
            }
            Ok(())
        })
    }

    fn release(self: Box<Self>) -> Pending<'static, ()> {
        Box::pin(async move {
            let release = self.shared.release.run::<i64>(&self.shared.client).timeout(CLOSE_TIME);
            release.key(&self.key).arg(&self.token).await?;
            Ok(())
        })
    }
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
