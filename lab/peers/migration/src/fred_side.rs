//! What docs/from/fred.md shows of fred.

use std::collections::HashMap;
use std::time::Duration;

use fred::prelude::*;
use fred::types::CustomCommand;
use fred::types::scan::Scanner;
use fred::types::scripts::Script;
use futures_util::TryStreamExt;

type Result<T> = std::result::Result<T, Error>;

pub async fn run(url: &str) -> Result<()> {
    let client = connect(url).await?;
    let _: () = client.flushall(false).await?;
    commands(&client).await?;
    types(&client).await?;
    pipeline(&client).await?;
    transaction(&client).await?;
    script(&client).await?;
    scan(&client).await?;
    pubsub(url, &client).await?;
    blocking_command(&client).await?;
    errors(&client).await?;
    client.quit().await
}

async fn connect(url: &str) -> Result<Client> {
    let config = Config::from_url(url)?;
    let client = Builder::from_config(config)
        .with_performance_config(|config| config.default_command_timeout = Duration::from_secs(5))
        .set_policy(ReconnectPolicy::new_exponential(0, 20, 5_000, 2))
        .build()?;
    client.init().await?;
    Ok(client)
}

async fn commands(client: &Client) -> Result<()> {
    let _: () = client.set("name", "Ada", Some(Expiration::EX(60)), None, false).await?;
    let name: Option<String> = client.get("name").await?;
    let visits: i64 = client.incr("visits").await?;
    let bytes: i64 = client.custom(CustomCommand::new_static("MEMORY USAGE", None, false), vec!["name"]).await?;
    println!("{name:?} {visits} {bytes}");
    Ok(())
}

async fn types(client: &Client) -> Result<()> {
    let _: () = client.hset("user:1", [("name", "Ada"), ("born", "1815")]).await?;
    let user: HashMap<String, String> = client.hgetall("user:1").await?;
    println!("{user:?}");
    Ok(())
}

async fn pipeline(client: &Client) -> Result<()> {
    let pipeline = client.pipeline();
    let _: () = pipeline.incr("visits").await?;
    let _: () = pipeline.get("name").await?;
    let (visits, name): (i64, Option<String>) = pipeline.all().await?;
    println!("{visits} {name:?}");
    Ok(())
}

async fn transaction(client: &Client) -> Result<()> {
    let transaction = client.multi();
    let _: () = transaction.incr("{user:1}:visits").await?;
    let _: () = transaction.sadd("{user:1}:days", "monday").await?;
    let (visits, added): (i64, i64) = transaction.exec(true).await?;
    println!("{visits} {added}");
    Ok(())
}

async fn script(client: &Client) -> Result<()> {
    let script = Script::from_lua("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let visits: i64 = script.evalsha_with_reload(client, "visits", 10).await?;
    println!("{visits}");
    Ok(())
}

async fn scan(client: &Client) -> Result<()> {
    let mut pages = client.scan("user:*", Some(100), None);
    while let Some(mut page) = pages.try_next().await? {
        for key in page.take_results().unwrap_or_default() {
            println!("{key:?}");
        }
        page.next();
    }
    Ok(())
}

async fn pubsub(url: &str, client: &Client) -> Result<()> {
    let subscriber = Builder::from_config(Config::from_url(url)?).build_subscriber_client()?;
    subscriber.init().await?;
    let _task = subscriber.manage_subscriptions();
    let mut messages = subscriber.message_rx();
    subscriber.subscribe("news").await?;
    let _: () = client.publish("news", "hello").await?;
    if let Ok(message) = messages.recv().await {
        println!("{}: {:?}", message.channel, message.value);
    }
    Ok(())
}

async fn blocking_command(client: &Client) -> Result<()> {
    let own = client.clone_new();
    own.init().await?;
    let _: () = client.lpush("jobs", "7").await?;
    let job: Option<(String, String)> = own.blpop("jobs", 5.0).await?;
    println!("{job:?}");
    Ok(())
}

async fn errors(client: &Client) -> Result<()> {
    let counted: Result<i64> = client.incr("visits").await;
    match counted {
        Ok(visits) => println!("{visits}"),
        // Did it count? The error does not say.
        Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::IO) => println!("perhaps: {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

#[expect(dead_code, reason = "there is no cluster here")]
async fn cluster() -> Result<Client> {
    let config = Config::from_url("redis-cluster://one:7000?node=two:7000")?;
    let client = Builder::from_config(config).build()?;
    client.init().await?;
    Ok(client)
}

#[expect(dead_code, reason = "there is no Sentinel here")]
async fn sentinel() -> Result<Client> {
    let config = Config::from_url("redis-sentinel://one:26379?node=two:26379&sentinelServiceName=mymaster")?;
    let client = Builder::from_config(config).build()?;
    client.init().await?;
    Ok(client)
}
