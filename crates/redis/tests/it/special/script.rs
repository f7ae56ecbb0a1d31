//! Scripts and functions.

use pilotlight_redis::{Client, Command, Commands, Route, Script, Value};

use super::{cluster, keys, soon, standalone};

const ADD: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

#[tokio::test]
async fn a_script_is_sent_once_and_again_after_a_flush() {
    let (server, client) = standalone();
    let add = Script::new(ADD);
    for expected in 1..=5 {
        let sum: i64 = soon(add.run(&client).key("k").arg(1).into_future()).await.unwrap();
        assert_eq!(sum, expected);
    }
    assert!(server.info("cmdstat_eval").unwrap().starts_with("calls=1,"));
    assert!(server.info("cmdstat_evalsha").unwrap().starts_with("calls=5,"));
    client.script_flush().await.unwrap();
    assert_eq!(add.run::<i64>(&client).key("k").arg(1).await.unwrap(), 6);
    assert!(server.info("cmdstat_eval").unwrap().starts_with("calls=2,"));
    let error = Script::new("return redis.error_reply('MINE it failed')").run::<()>(&client).await.unwrap_err();
    assert_eq!(error.server().unwrap().code(), "MINE");
    let get = Script::read_only("return redis.call('GET', KEYS[1])");
    assert_eq!(get.run::<i64>(&client).key("k").await.unwrap(), 6);
    let error = Script::read_only(ADD).run::<i64>(&client).key("k").arg(1).await.unwrap_err();
    assert!(error.to_string().contains("Write commands are not allowed"), "{error}");
}

#[tokio::test]
async fn it_can_be_part_of_a_pipeline_and_of_a_transaction() {
    let (server, client) = standalone();
    let add = Script::new(ADD);
    together(&client, &add).await;
    assert!(server.info("cmdstat_evalsha").is_err());
    add.load(&client).await.unwrap();
    together(&client, &add).await;
    assert!(server.info("cmdstat_evalsha").unwrap().starts_with("calls=3,"));
}

async fn together(client: &Client, add: &Script) {
    client.del("k").await.unwrap();
    let mut pipeline = client.pipeline();
    let one = pipeline.queue::<i64>(add.command().key("k").arg(1).build());
    let two = pipeline.queue::<i64>(add.command().key("k").arg(1).build());
    let mut replies = pipeline.run().await.unwrap();
    assert_eq!((replies.take(one).unwrap(), replies.take(two).unwrap()), (1, 2));
    let mut transaction = client.transaction();
    let three = transaction.queue::<i64>(add.command().key("k").arg(1).build());
    assert_eq!(transaction.run().await.unwrap().take(three).unwrap(), 3);
}

#[tokio::test]
async fn in_a_cluster_all_nodes_know_it() {
    let (_cluster, client) = cluster(5);
    let add = Script::new(ADD);
    for key in &keys(20) {
        assert_eq!(soon(add.run::<i64>(&client).key(key).arg(2).into_future()).await.unwrap(), 2);
    }
    client.script_flush().await.unwrap();
    add.load(&client).await.unwrap();
    assert_eq!(client.script_exists(add.sha1()).await.unwrap(), [true]);
    let replies = client.on_all(Route::AllPrimaries, Command::raw("SCRIPT EXISTS").arg(add.sha1())).await.unwrap();
    assert!(
        replies.iter().all(|it| *it.reply.as_ref().unwrap() == Value::Array(vec![Value::Integer(1)])),
        "{replies:?}"
    );

    let code = "#!lua name=mine\nredis.register_function('add', function(keys, args) return redis.call('INCRBY', keys[1], args[1]) end)";
    assert_eq!(client.function_load(code).await.unwrap(), "mine");
    for key in &keys(20) {
        assert_eq!(client.fcall("add", [key.as_str()], [5]).await.unwrap(), Value::Integer(7));
    }
}
