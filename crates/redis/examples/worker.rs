//! A worker of a stream: `cargo run -p pilotlight-redis --example worker [URL]`. Start several, and kill them: each
//! entry is handled, and what may have been handled before says so. Ctrl-C ends it without repetitions.

use std::time::Duration;

use pilotlight_redis::recipes::stream::{Consumer, ConsumerConfig, DeadLetters, Entry, StreamError, Trim};
use pilotlight_redis::{Client, Commands};

#[tokio::main]
async fn main() -> Result<(), StreamError> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = Client::connect(&url).await?;
    for number in 1..=20 {
        client.xadd("worker:orders", "*", [("number", number)]).await?;
    }
    let handled = run(&client, 20).await?;
    println!("{handled} handled");
    Ok(())
}

/// Handles so many entries; how many it handled for the first time.
pub(crate) async fn run(client: &Client, wanted: usize) -> Result<usize, StreamError> {
    let config = ConsumerConfig {
        max_prefetched: 16,
        claim_after: Duration::from_secs(10),
        dead_letters: Some(DeadLetters::after(5, "worker:orders:dead")),
        trim: Trim::KeepNewest(1000),
        ..ConsumerConfig::new("worker:orders", "billing")
    };
    let mut consumer = Consumer::open(client, config).await?;
    let (mut handled, mut first) = (0, 0);
    while handled < wanted {
        let Some(entry) = consumer.next().await else { break };
        let mut entry = entry?;
        if handle(&entry) {
            entry.ack().await?;
            handled += 1;
            first += usize::from(entry.deliveries() == 1);
        }
        // Otherwise it is dropped, and comes again.
    }
    consumer.close(Duration::from_secs(5)).await;
    Ok(first)
}

fn handle(entry: &Entry) -> bool {
    let again = if entry.deliveries() > 1 { ", perhaps not for the first time" } else { "" };
    println!("{:?}: order {:?}{again}", entry.id(), entry.get("number"));
    true
}
