//! What docs/from/redis-rs.md and docs/from/fred.md show of this client: `lab/peers/migration/check.py` compares them.

use std::collections::HashMap;

use pilotlight_redis::commands::options::SetOptions;
use pilotlight_redis::{Client, Command, Commands, Dedicated, Error, Event, Ran, Script, blocking};
use pilotlight_testkit::Server;

#[tokio::test]
async fn what_the_pages_show_runs() {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    let client = connect(&server.url()).await.unwrap();
    commands(&client).await.unwrap();
    types(&client).await.unwrap();
    pipeline(&client).await.unwrap();
    transaction(&client).await.unwrap();
    watched(&client).await.unwrap();
    script(&client).await.unwrap();
    scan(&client).await.unwrap();
    pubsub(&client).await.unwrap();
    blocking_command(&client).await.unwrap();
    errors(&client).await.unwrap();
    let url = server.url();
    tokio::task::spawn_blocking(move || without_a_runtime(&url)).await.unwrap().unwrap();
    assert_eq!(client.get("visits").read_as::<i64>().await.unwrap(), 13);
    assert_eq!(client.get("balance").read_as::<i64>().await.unwrap(), 93);
}

async fn connect(url: &str) -> Result<Client, Error> {
    let client = Client::connect(url).await?;
    Ok(client)
}

async fn commands(client: &Client) -> Result<(), Error> {
    client.set_with("name", "Ada", SetOptions::new().ex(60)).await?;
    let name: Option<String> = client.get("name").read_as().await?;
    let visits = client.incr("visits").await?;
    let bytes: i64 = client.run(Command::raw("MEMORY").arg("USAGE").arg("name")).await?;
    println!("{name:?} {visits} {bytes}");
    Ok(())
}

async fn types(client: &Client) -> Result<(), Error> {
    client.hset("user:1", [("name", "Ada"), ("born", "1815")]).await?;
    let user: HashMap<String, String> = client.hgetall("user:1").read_as().await?;
    println!("{user:?}");
    Ok(())
}

async fn pipeline(client: &Client) -> Result<(), Error> {
    let mut pipeline = client.pipeline();
    let visits = pipeline.incr("visits");
    let name = pipeline.get("name").read_as::<Option<String>>();
    let mut replies = pipeline.run().await?;
    let (visits, name) = (replies.take(visits)?, replies.take(name)?);
    println!("{visits} {name:?}");
    Ok(())
}

async fn transaction(client: &Client) -> Result<(), Error> {
    let mut transaction = client.transaction();
    let visits = transaction.incr("{user:1}:visits");
    let added = transaction.sadd("{user:1}:days", "monday");
    let mut replies = transaction.run().await?;
    let (visits, added) = (replies.take(visits)?, replies.take(added)?);
    println!("{visits} {added}");
    Ok(())
}

async fn watched(client: &Client) -> Result<(), Error> {
    let left = client
        .watch("balance", async |connection: &mut Dedicated| {
            let balance: Option<i64> = connection.get("balance").read_as().await?;
            let left = balance.unwrap_or(100) - 7;
            let mut transaction = connection.transaction();
            transaction.set("balance", left);
            transaction.run().await?;
            Ok(left)
        })
        .await?;
    println!("{left}");
    Ok(())
}

async fn script(client: &Client) -> Result<(), Error> {
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let visits: i64 = script.run(client).key("visits").arg(10).await?;
    println!("{visits}");
    Ok(())
}

async fn scan(client: &Client) -> Result<(), Error> {
    let mut pages = client.scan().pattern("user:*").count(100);
    while let Some(page) = pages.next().await {
        for key in page? {
            println!("{key:?}");
        }
    }
    Ok(())
}

async fn pubsub(client: &Client) -> Result<(), Error> {
    let mut news = client.subscribe("news").await?;
    client.publish("news", "hello").await?;
    match news.next().await {
        Some(Event::Message(message)) => println!("{:?}", message.payload),
        Some(Event::Gap { reason }) => println!("messages may be missing: {reason:?}"),
        other => println!("{other:?}"),
    }
    Ok(())
}

async fn blocking_command(client: &Client) -> Result<(), Error> {
    client.lpush("jobs", "7").await?;
    let job: Option<(String, String)> = client.blpop("jobs", 5.0).read_as().await?;
    println!("{job:?}");
    Ok(())
}

async fn errors(client: &Client) -> Result<(), Error> {
    match client.incr("visits").await {
        Ok(visits) => println!("{visits}"),
        Err(error) if error.ran() == Ran::NotSent => println!("not counted: {error}"),
        Err(error) if error.ran() == Ran::MaybeExecuted => println!("perhaps: {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

fn without_a_runtime(url: &str) -> Result<(), Error> {
    let client = blocking::Client::connect(url)?;
    client.set("name", "Ada")?;
    let name = client.get("name")?;
    println!("{name:?}");
    Ok(())
}

#[expect(dead_code, reason = "there is no cluster here")]
async fn cluster() -> Result<Client, Error> {
    let client = Client::connect("redis+cluster://one:7000,two:7000").await?;
    Ok(client)
}

#[expect(dead_code, reason = "there is no Sentinel here")]
async fn sentinel() -> Result<Client, Error> {
    let client = Client::connect("redis+sentinel://one:26379,two:26379/mymaster").await?;
    Ok(client)
}
