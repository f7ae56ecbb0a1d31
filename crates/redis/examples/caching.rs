//! Replies that are kept until the server says that they changed:
//! `cargo run -p pilotlight-redis --example caching [URL]`.

use std::time::{Duration, Instant};

use pilotlight_redis::{CacheConfig, Client, Commands, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    run(&url).await.map(drop)
}

/// Hits and the value that was read last.
pub(crate) async fn run(url: &str) -> Result<(u64, Option<String>), Error> {
    let client = Client::connect(url).await?;
    let cached = client.cached(CacheConfig { max_bytes: 16 << 20, ..CacheConfig::default() })?;

    client.set("greeting", "hello").await?;
    // The first asks the server, the others do not.
    for _ in 0..1000 {
        cached.get("greeting").await?;
    }
    println!("{}", cached.stats());

    // Somebody else writes: the server's message is here in a moment.
    client.set("greeting", "good morning").await?;
    let since = Instant::now();
    let mut greeting: Option<String> = cached.get("greeting").read_as().await?;
    while greeting.as_deref() != Some("good morning") && since.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        greeting = cached.get("greeting").read_as().await?;
    }
    println!("{greeting:?} after {:?}", since.elapsed());

    // Who has to read an own write at once forgets what is kept.
    client.set("greeting", "good evening").await?;
    cached.forget("greeting");
    Ok((cached.stats().hits, cached.get("greeting").read_as().await?))
}
