//! Cache-aside: Redis, and behind it SQLite.

use std::cell::OnceCell;
use std::marker::PhantomData;
use std::path::PathBuf;

use anyhow::Context as _;
use bytes::Bytes;
use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::{Client, Commands as _};
use rusqlite::{Connection, OptionalExtension as _};

use crate::encoding::Encode;

/// How long a user is kept.
const TTL_MS: i64 = 60_000;
/// Pages that each connection keeps, as in examples/users.
const PAGE_CACHE_KIB: i64 = 16 * 1024;
const ONE: &str = "SELECT id, name, email, bio, created_at FROM users WHERE id = ?1";

thread_local! {
    /// The connection of each thread that answers requests: a read takes microseconds, and is not worth another thread.
    static READER: OnceCell<Connection> = const { OnceCell::new() };
}

/// Users, with their cache.
#[derive(Debug)]
pub struct Users<E> {
    redis: Client,
    db: PathBuf,
    encoding: PhantomData<E>,
}

impl<E: Encode> Users<E> {
    /// With connections of its own to Redis; needs a runtime.
    ///
    /// # Errors
    /// Redis does not answer.
    pub async fn connect(redis: &str, db: PathBuf) -> anyhow::Result<Self> {
        let redis = Client::connect(redis).await.context("--redis")?;
        Ok(Self { redis, db, encoding: PhantomData })
    }

    /// A user as JSON; from the database only if Redis does not have him, who then has.
    ///
    /// # Errors
    /// Redis or the database fails: nothing is put up with here, for it would be measured.
    pub async fn one(&self, id: i64) -> anyhow::Result<Option<Bytes>> {
        let mut digits = itoa::Buffer::new();
        let mut key = [0; 32];
        let key = key_of(digits.format(id), &mut key);
        if let Some(found) = self.redis.get(key).await? {
            return Ok(Some(found));
        }
        let Some(user) = self.read(id)? else { return Ok(None) };
        let user = Bytes::from(user);
        self.redis.set_with(key, &user, SetOptions::new().px(TTL_MS)).await?;
        Ok(Some(user))
    }

    fn read(&self, id: i64) -> anyhow::Result<Option<Vec<u8>>> {
        READER.with(|reader| {
            let reader = match reader.get() {
                Some(reader) => reader,
                None => {
                    let opened = self.open()?;
                    reader.get_or_init(|| opened)
                }
            };
            Ok(reader.prepare_cached(ONE)?.query_row([id], |row| E::user(row)).optional()?)
        })
    }

    fn open(&self) -> anyhow::Result<Connection> {
        let connection = Connection::open(&self.db).with_context(|| format!("--db {}", self.db.display()))?;
        connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }
}

fn key_of<'k>(digits: &str, key: &'k mut [u8; 32]) -> &'k [u8] {
    const PREFIX: &[u8] = b"user:";
    let length = PREFIX.len() + digits.len();
    key[..PREFIX.len()].copy_from_slice(PREFIX);
    key[PREFIX.len()..length].copy_from_slice(digits.as_bytes());
    &key[..length]
}
