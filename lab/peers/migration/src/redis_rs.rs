//! What docs/from/redis-rs.md shows of redis-rs.

use std::collections::HashMap;

use futures_util::StreamExt;
use redis::aio::ConnectionManager;
use redis::{AsyncCommands, AsyncConnectionConfig, RedisResult};

pub async fn run(url: &str) -> RedisResult<()> {
    let mut connection = connect(url).await?;
    let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await?;
    commands(&mut connection).await?;
    types(&mut connection).await?;
    pipeline(&mut connection).await?;
    transaction(&connection).await?;
    script(&mut connection).await?;
    scan(&mut connection).await?;
    pubsub(url, &mut connection).await?;
    blocking_command(url, &mut connection).await?;
    errors(&mut connection).await?;
    let url = url.to_owned();
    tokio::task::spawn_blocking(move || without_a_runtime(&url)).await.expect("it ends")
}

async fn connect(url: &str) -> RedisResult<ConnectionManager> {
    let client = redis::Client::open(url)?;
    let connection = client.get_connection_manager().await?;
    Ok(connection)
}

async fn commands(connection: &mut ConnectionManager) -> RedisResult<()> {
    let _: () = connection.set_ex("name", "Ada", 60).await?;
    let name: Option<String> = connection.get("name").await?;
    let visits: i64 = connection.incr("visits", 1).await?;
    let bytes: i64 = redis::cmd("MEMORY").arg("USAGE").arg("name").query_async(connection).await?;
    println!("{name:?} {visits} {bytes}");
    Ok(())
}

async fn types(connection: &mut ConnectionManager) -> RedisResult<()> {
    let _: () = connection.hset_multiple("user:1", &[("name", "Ada"), ("born", "1815")]).await?;
    let user: HashMap<String, String> = connection.hgetall("user:1").await?;
    println!("{user:?}");
    Ok(())
}

async fn pipeline(connection: &mut ConnectionManager) -> RedisResult<()> {
    let (visits, name): (i64, Option<String>) =
        redis::pipe().incr("visits", 1).get("name").query_async(connection).await?;
    println!("{visits} {name:?}");
    Ok(())
}

async fn transaction(connection: &ConnectionManager) -> RedisResult<()> {
    let left: (i64,) = redis::aio::transaction_async(
        connection.clone(), // must not run another transaction meanwhile
        &["balance"],
        |mut connection, mut pipe| async move {
            let balance: Option<i64> = connection.get("balance").await?;
            pipe.set("balance", balance.unwrap_or(100) - 7).ignore().get("balance");
            pipe.query_async(&mut connection).await
        },
    )
    .await?;
    println!("{left:?}");
    Ok(())
}

async fn script(connection: &mut ConnectionManager) -> RedisResult<()> {
    let script = redis::Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let visits: i64 = script.key("visits").arg(10).invoke_async(connection).await?;
    println!("{visits}");
    Ok(())
}

async fn scan(connection: &mut ConnectionManager) -> RedisResult<()> {
    let mut keys = connection.scan_match::<_, String>("user:*").await?;
    while let Some(key) = keys.next_item().await {
        println!("{}", key?);
    }
    Ok(())
}

async fn pubsub(url: &str, connection: &mut ConnectionManager) -> RedisResult<()> {
    let client = redis::Client::open(url)?;
    let mut pubsub = client.get_async_pubsub().await?;
    pubsub.subscribe("news").await?;
    let _: () = connection.publish("news", "hello").await?;
    if let Some(message) = pubsub.on_message().next().await {
        let text: String = message.get_payload()?;
        println!("{text}");
    }
    Ok(())
}

async fn blocking_command(url: &str, connection: &mut ConnectionManager) -> RedisResult<()> {
    let client = redis::Client::open(url)?;
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let mut own = client.get_multiplexed_async_connection_with_config(&config).await?;
    let _: () = connection.lpush("jobs", "7").await?;
    let job: Option<(String, String)> = own.blpop("jobs", 5.0).await?;
    println!("{job:?}");
    Ok(())
}

async fn errors(connection: &mut ConnectionManager) -> RedisResult<()> {
    let counted: RedisResult<i64> = connection.incr("visits", 1).await;
    match counted {
        Ok(visits) => println!("{visits}"),
        // Did it count? The error does not say.
        Err(error) if error.is_timeout() || error.is_connection_dropped() => println!("perhaps: {error}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

fn without_a_runtime(url: &str) -> RedisResult<()> {
    use redis::TypedCommands;

    let client = redis::Client::open(url)?;
    let mut connection = client.get_connection()?;
    connection.set("name", "Ada")?;
    let name = connection.get("name")?;
    println!("{name:?}");
    Ok(())
}

#[expect(dead_code, reason = "there is no cluster here")]
async fn cluster() -> RedisResult<()> {
    let client = redis::cluster::ClusterClient::new(["redis://one:7000", "redis://two:7000"])?;
    let mut connection = client.get_async_connection().await?;
    let _: () = connection.set("name", "Ada").await?;
    Ok(())
}

#[expect(dead_code, reason = "there is no Sentinel here")]
async fn sentinel() -> RedisResult<()> {
    use redis::sentinel::{SentinelClient, SentinelServerType};

    let nodes = vec!["redis://one:26379", "redis://two:26379"];
    let mut client = SentinelClient::build(nodes, "mymaster".to_owned(), None, SentinelServerType::Master)?;
    let mut connection = client.get_async_connection().await?;
    let _: () = connection.set("name", "Ada").await?;
    Ok(())
}
