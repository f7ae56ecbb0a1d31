//! A cluster, with reads from replicas: `cargo run -p pilotlight-redis --example cluster redis+cluster://host:port`.

use std::collections::BTreeMap;
use std::time::Duration;

use pilotlight_redis::config::ReadFrom;
use pilotlight_redis::{Advice, Client, Commands, Config, Error, Ran};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis+cluster://localhost:7000".to_owned());
    run(&url).await
}

pub(crate) async fn run(url: &str) -> Result<(), Error> {
    // One node that answers is enough; the others are learnt from it.
    let mut config = match Config::from_url(url) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return Ok(());
        }
    };
    config.read_from = ReadFrom::PreferReplica;
    let client = Client::new(config)?;

    // Keys are sent to the nodes that serve their slots.
    for number in 0..100 {
        client.set(format!("user:{number}"), number).await?;
    }
    // A hash tag keeps keys together, so that one command or transaction can have them all.
    client.mset([("{user:1}:name", "Ada"), ("{user:1}:born", "1815")]).await?;

    // Reads and writes that certainly did not run are repeated by the client, within the deadline. What may have run is
    // the caller's decision.
    match client.incr("{user:1}:visits").await {
        Ok(visits) => println!("visits: {visits}"),
        Err(error) if error.ran() == Ran::NotSent && error.advice() != Advice::Never => println!("later: {error}"),
        Err(error) => return Err(error),
    }
    // To count a visit twice does no harm: so the client may repeat it.
    client.incr("{user:1}:visits").retryable().await?;

    let mut commands = BTreeMap::new();
    for lane in client.stats().lanes {
        *commands.entry(lane.node).or_insert(0) += lane.snapshot.counters.commands;
    }
    println!("commands by node: {commands:?}");
    client.close(Duration::from_secs(1)).await;
    Ok(())
}
