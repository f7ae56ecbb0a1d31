//! An axum service that keeps slow answers in Redis, and stops without losing any.

pub mod cache;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode};
use axum::routing::get;
use bytes::Bytes;
use pilotlight_redis::{Client, Commands};
use tokio::net::TcpListener;

use cache::{Cache, Origin};

/// What handlers share.
#[derive(Clone)]
pub struct App {
    client: Client,
    cache: Cache,
    made: Arc<AtomicU64>,
}

impl App {
    /// Reports are kept for a minute.
    pub fn new(client: Client) -> Self {
        let cache = Cache::new(client.clone(), Duration::from_secs(60), Duration::from_secs(5));
        Self { client, cache, made: Arc::default() }
    }

    /// Redis may take this long for a lookup.
    pub fn lookup_timeout(mut self, timeout: Duration) -> Self {
        self.cache = self.cache.lookup_timeout(timeout);
        self
    }

    /// Reports made by this process.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

/// Serves until `stop`; then lets requests finish, and after them the commands that they left behind.
pub async fn serve(
    listener: TcpListener,
    app: App,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let client = app.client.clone();
    let router = Router::new().route("/reports/{name}", get(report)).route("/health", get(health)).with_state(app);
    axum::serve(listener, router).with_graceful_shutdown(stop).await?;
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

async fn report(State(app): State<App>, Path(name): Path<String>) -> ([(HeaderName, &'static str); 1], Bytes) {
    let made = Arc::clone(&app.made);
    let make = async || {
        // A slow query.
        tokio::time::sleep(Duration::from_millis(100)).await;
        made.fetch_add(1, Ordering::Relaxed);
        Ok::<_, std::convert::Infallible>(Bytes::from(format!("report on {name}\n")))
    };
    let Ok((report, origin)) = app.cache.get(&format!("report:{name}"), make).await;
    let origin = match origin {
        Origin::Cached => "cached",
        Origin::Made => "made",
        Origin::Shared => "shared",
    };
    ([(HeaderName::from_static("x-origin"), origin)], report)
}

async fn health(State(app): State<App>) -> (StatusCode, String) {
    match app.client.ping().timeout(Duration::from_millis(250)).await {
        Ok(_) => (StatusCode::OK, "ok\n".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
