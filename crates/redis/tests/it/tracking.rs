//! The cache: never stale after the server's word, whatever happens to connections.

mod cluster;
mod real;
mod scripted;

use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::{CacheConfig, CacheMode, Cached, Client, Command, Commands, Config, Error, Value};

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Waits until it is so.
#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "in vain, at {caller}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

fn client(url: &str) -> Client {
    Client::new(Config::from_url(url).unwrap()).unwrap()
}

fn cached(client: &Client) -> Cached {
    client.cached(CacheConfig::default()).unwrap()
}

fn broadcast(prefixes: &[&'static str]) -> CacheConfig {
    let prefixes = prefixes.iter().map(|prefix| Bytes::from_static(prefix.as_bytes())).collect();
    CacheConfig { mode: CacheMode::Broadcast { prefixes }, ..CacheConfig::default() }
}

async fn get(cached: &Cached, key: &str) -> Result<Option<String>, Error> {
    tokio::time::timeout(PATIENCE, cached.get(key).read_as()).await.unwrap()
}

async fn value(cached: &Cached, key: &str) -> String {
    get(cached, key).await.unwrap().unwrap_or_else(|| "nothing".into())
}

/// Returns once everything that the server said before to the cache's lane of `key` was heard: replies and pushes keep
/// their order, and TTL always asks.
async fn barrier(cached: &Cached, key: &str) {
    cached.run::<Value>(Command::raw("TTL").arg(key)).await.unwrap();
}
