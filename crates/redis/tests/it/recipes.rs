//! What stands above the client: consumers of streams, locks, rate limits, durable writes.

mod durability;
mod limit;
mod lock;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use pilotlight_redis::{Client, Config};
use pilotlight_testkit::{Server, ServerBuilder};

async fn start(server: ServerBuilder) -> (Arc<Server>, Client) {
    let server = tokio::task::spawn_blocking(move || server.start().unwrap()).await.unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    (server.into(), client)
}

async fn run<T: Send + 'static>(server: &Arc<Server>, work: impl FnOnce(&Server) -> T + Send + 'static) -> T {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || work(&server)).await.unwrap()
}

/// Waits until it is so.
async fn until<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    let waited = tokio::time::timeout(Duration::from_secs(120), async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("it is so within two minutes");
}
