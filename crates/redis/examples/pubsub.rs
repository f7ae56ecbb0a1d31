//! Publish and subscribe: `cargo run -p pilotlight-redis --example pubsub [URL]`.

use pilotlight_redis::{Client, Commands, Error, Event};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    println!("{} messages", run(&url).await?);
    Ok(())
}

pub(crate) async fn run(url: &str) -> Result<usize, Error> {
    let client = Client::connect(url).await?;
    // The server has confirmed it when this returns: nothing that is published later is missed.
    let mut news = client.subscribe(["news"]).await?;
    let mut rooms = client.psubscribe(["room:*"]).await?;

    for number in 1..=3 {
        client.publish("news", format!("message {number}")).await?;
    }
    client.publish("room:7", "hello").await?;
    client.publish("news", "end").await?;

    let mut count = 0;
    while let Some(event) = news.next().await {
        match event {
            Event::Message(message) => {
                count += 1;
                println!("{}", String::from_utf8_lossy(&message.payload));
                if &*message.payload == b"end" {
                    break;
                }
            }
            // Redis keeps no messages for who is away: what matters has to be read again now.
            Event::Gap { reason } => println!("messages may be missing: {reason:?}"),
            Event::Dropped { count } => println!("{count} messages were dropped: this loop is too slow"),
            Event::Refused { channel, error } => println!("{channel:?}: {error}"),
        }
    }
    if let Some(Event::Message(message)) = rooms.next().await {
        println!("{}: {}", String::from_utf8_lossy(&message.channel), String::from_utf8_lossy(&message.payload));
        count += 1;
    }
    Ok(count)
}
