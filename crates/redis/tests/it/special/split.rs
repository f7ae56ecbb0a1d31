//! Commands with many keys.

use pilotlight_redis::{Client, Commands, Error, ErrorKind, Misuse, Ran, Value};

use super::{SECOND, cluster, keys, owner, soon, standalone};

#[tokio::test]
async fn many_keys_over_all_slots_keep_their_order() {
    let (cluster, client) = cluster(5);
    all_commands(&client).await;
    // Each node was asked, and none was asked for what is not its own.
    for node in cluster.nodes() {
        assert!(node.server().info("cmdstat_mget").is_ok(), "port {}", node.port());
        assert!(node.server().info("errorstat_MOVED").is_err(), "port {}", node.port());
        assert!(node.server().info("errorstat_CROSSSLOT").is_err(), "port {}", node.port());
    }
    same_slot_is_not_split(&client).await;
    slots_are_not_crossed(&client).await;
    in_a_pipeline(&client).await;
}

#[tokio::test]
async fn a_standalone_server_gets_them_whole() {
    let (server, client) = standalone();
    all_commands(&client).await;
    assert!(server.info("cmdstat_mget").unwrap().starts_with("calls=2,"));
    assert!(client.msetnx([("x", 1), ("y", 2)]).await.unwrap());
}

async fn all_commands(client: &Client) {
    let keys = keys(100);
    soon(client.mset(keys.iter().zip(0..).collect::<Vec<(&String, i64)>>())).await.unwrap();
    let mut wanted: Vec<&str> = keys.iter().map(String::as_str).rev().collect();
    wanted.insert(50, "missing");
    wanted.push("key:7");
    let values: Vec<Option<i64>> = client.mget(wanted.clone()).read_as().await.unwrap();
    let expected: Vec<Option<i64>> =
        wanted.iter().map(|key| key.strip_prefix("key:").map(|n| n.parse().unwrap())).collect();
    assert_eq!(values, expected);
    assert_eq!(client.exists(wanted.clone()).await.unwrap(), 101);
    assert_eq!(client.touch(wanted).await.unwrap(), 101);
    assert_eq!(client.del(&keys[..30]).await.unwrap(), 30);
    assert_eq!(client.unlink(&keys[..40]).await.unwrap(), 10);
    assert_eq!(client.dbsize().await.unwrap(), 60);
    let values: Vec<Option<i64>> = client.mget(&keys).read_as().await.unwrap();
    assert_eq!(values.iter().flatten().copied().collect::<Vec<_>>(), (40..100).collect::<Vec<_>>());
}

async fn same_slot_is_not_split(client: &Client) {
    client.mset([("{one}a", 1), ("{one}b", 2)]).await.unwrap();
    let values: Vec<i64> = client.mget(["{one}b", "{one}a"]).read_as().await.unwrap();
    assert_eq!(values, [2, 1]);
    assert!(!client.msetnx([("{one}a", 1), ("{one}c", 2)]).await.unwrap());
}

async fn slots_are_not_crossed(client: &Client) {
    let errors = [
        client.msetnx([("a", 1), ("b", 2)]).await.unwrap_err(),
        client.sinter(["a", "b"]).await.unwrap_err(),
        client.rename("a", "b").await.unwrap_err(),
        client.blpop(["a", "b"], 1.0).await.unwrap_err(),
        client.eval("return 1", ["a", "b"], ()).await.unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(error.kind(), ErrorKind::Misuse(Misuse::CrossSlot { first: 15_495, second: 3300 })),
            "{error}"
        );
        assert_eq!(error.ran(), Ran::NotSent);
    }
}

async fn in_a_pipeline(client: &Client) {
    let mut pipeline = client.pipeline();
    let set = pipeline.mset([("p1", 1), ("p2", 2), ("p3", 3)]);
    let before = pipeline.set("{p1}x", "x");
    let got = pipeline.mget(["p3", "p2", "p1"]).read_as::<Vec<i64>>();
    let crossed = pipeline.sinter(["a", "b"]);
    let size = pipeline.dbsize();
    let mut replies = pipeline.run().await.unwrap();
    replies.take(set).unwrap();
    replies.take(before).unwrap();
    assert_eq!(replies.take(got).unwrap(), [3, 2, 1]);
    assert!(matches!(replies.take(crossed).unwrap_err().kind(), ErrorKind::Misuse(_)));
    assert!(replies.take(size).unwrap() > 4);
}

#[tokio::test]
async fn a_shard_that_fails_leaves_the_other_keys_their_values() {
    let (cluster, client) = cluster(5);
    let keys = keys(60);
    client.mset(keys.iter().zip(0..).collect::<Vec<(&String, i64)>>()).await.unwrap();
    let lost = owner(&cluster, "key:0");
    let is_lost: Vec<bool> = keys.iter().map(|key| owner(&cluster, key).id() == lost.id()).collect();
    lost.server().kill().unwrap();

    let error = soon(client.mget(&keys).timeout(SECOND)).await.unwrap_err();
    let ErrorKind::Partial(partial) = error.kind() else { panic!("{error}") };
    let lost_name = format!("127.0.0.1:{}", lost.port());
    for (key, reply) in partial.keys().iter().enumerate() {
        match reply {
            Ok(value) => assert_eq!((value, is_lost[key]), (&Value::Bulk(key.to_string().into()), false)),
            Err(error) => assert!(is_lost[key] && is_of(error, &lost_name), "key {key}: {error}"),
        }
    }
    let failed: Vec<usize> = partial.failed().map(|(key, _)| key).collect();
    assert_eq!(failed, (0..60).filter(|&key| is_lost[key]).collect::<Vec<_>>());
    assert!(error.to_string().contains("keys failed"), "{error}");
    assert_ne!(error.ran(), Ran::Executed);

    let error = soon(client.del(&keys).timeout(SECOND)).await.unwrap_err();
    let ErrorKind::Partial(partial) = error.kind() else { panic!("{error}") };
    assert_eq!(partial.failed().count(), failed.len());
    assert_eq!(error.ran(), Ran::MaybeExecuted);
}

/// It names the node, or says that nobody has the slot any more.
fn is_of(error: &Error, node: &str) -> bool {
    error.node() == Some(node)
        || matches!(error.kind(), ErrorKind::Cluster(_))
        || error.server().is_some_and(|it| it.code() == "CLUSTERDOWN")
}
