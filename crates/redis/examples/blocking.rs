//! Without a runtime: `cargo run -p pilotlight-redis --example blocking [URL]`.

use std::time::Duration;

use pilotlight_redis::command::each;
use pilotlight_redis::{Commands, Error, Event, blocking};

fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    println!("{} keys", run(&url)?);
    Ok(())
}

pub(crate) fn run(url: &str) -> Result<usize, Error> {
    let client = blocking::Client::connect(url)?;
    let names = (0..100).map(|id| (format!("blocking:{id}"), id));
    client.mset(each(names))?;
    let seven = client.timeout(Duration::from_secs(1)).read_as::<u32>().get("blocking:7")?;
    println!("read: {seven}");

    let mut transaction = client.transaction();
    let first = transaction.incr("blocking:0");
    let second = transaction.incr("blocking:0");
    let mut replies = transaction.run()?;
    println!("counted: {}, {}", replies.take(first)?, replies.take(second)?);

    // Threads share the client; one of them hears the other.
    let mut news = client.subscribe("blocking:news")?;
    std::thread::scope(|scope| {
        scope.spawn(|| client.publish("blocking:news", "hello"));
        if let Some(Event::Message(message)) = news.next() {
            println!("heard: {:?}", message.payload);
        }
    });

    let mut keys = 0;
    for page in client.scan().with(|scan| scan.pattern("blocking:*").count(10)) {
        keys += page?.len();
    }
    Ok(keys)
}
