//! The first steps: `cargo run -p pilotlight-redis --example quickstart [URL]`.

use std::time::Duration;

use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::{Client, Commands, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    run(&url).await
}

pub(crate) async fn run(url: &str) -> Result<(), Error> {
    let client = Client::connect(url).await?;

    client.set("quickstart:name", "Ada").await?;
    let name: Option<String> = client.get("quickstart:name").read_as().await?;
    println!("name: {name:?}");

    // Options are built; a command's deadline and the type of its reply are said where it is called.
    let is_first = client.set_with("quickstart:lock", "me", SetOptions::new().nx().px(500)).await?;
    let visits: u64 = client.incr("quickstart:visits").read_as().timeout(Duration::from_millis(200)).await?;
    println!("first: {is_first}, visits: {visits}");

    // Tasks share the client. What they send at the same time travels together.
    let tasks = (0..100).map(|number| {
        let client = client.clone();
        tokio::spawn(async move { client.hset("quickstart:squares", [(number, number * number)]).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        if let Ok(result) = task.await {
            result?;
        }
    }

    // One wait for many commands of one task.
    let mut pipeline = client.pipeline();
    let length = pipeline.hlen("quickstart:squares");
    let nine = pipeline.hget("quickstart:squares", 3);
    let mut replies = pipeline.run().await?;
    println!("{} squares, 3² = {:?}", replies.take(length)?, replies.take(nine)?);

    for lane in client.stats().lanes {
        let counters = lane.snapshot.counters;
        println!("{}: {} commands in {} writes", lane.node, counters.commands, counters.waves + counters.inline_writes);
    }
    client.close(Duration::from_secs(1)).await;
    Ok(())
}
