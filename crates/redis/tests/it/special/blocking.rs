//! Commands that wait in the server.

use std::sync::Arc;

use bytes::Bytes;
use pilotlight_redis::commands::options::XreadOptions;
use pilotlight_redis::{Client, Command, Commands, Config, ErrorKind, Ran, Route, Value};

use super::{SECOND, at, cluster, info, owner, soon, standalone, until};

#[tokio::test]
async fn others_are_not_kept_waiting() {
    let (server, client) = standalone();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.blpop("list", 0.0).await }
    });
    until("it waits", || async { info(&server, "blocked_clients") == 1 }).await;
    for number in 0..1000 {
        soon(client.get(format!("key:{number}"))).await.unwrap();
    }
    assert!(!waiting.is_finished());
    client.rpush("list", "x").await.unwrap();
    let popped = soon(waiting).await.unwrap().unwrap();
    assert_eq!(popped, Some((Bytes::from("list"), Bytes::from("x"))));
}

#[tokio::test]
async fn its_own_time_out_comes_from_the_server() {
    let (_server, client) = standalone();
    assert_eq!(soon(client.blpop("list", 0.1)).await.unwrap(), None);
    let error = soon(client.blpop("list", 0.0).timeout(SECOND / 5)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
    assert_eq!(error.ran(), Ran::MaybeExecuted);
    assert!(client.blpop("list", -1.0).await.unwrap_err().server().is_some());
}

#[tokio::test]
async fn who_gives_up_swallows_nothing() {
    let (server, client) = standalone();
    for _ in 0..10 {
        {
            let mut waiting = Box::pin(client.blpop("list", 0.0));
            let is_blocked = || async { info(&server, "blocked_clients") == 1 };
            tokio::select! {
                result = &mut waiting => panic!("{result:?}"),
                () = until("it waits", is_blocked) => {}
            }
        }
        until("it does not wait any more", || async { info(&server, "blocked_clients") == 0 }).await;
    }
    client.rpush("list", "x").await.unwrap();
    assert_eq!(client.llen("list").await.unwrap(), 1);
}

#[tokio::test]
async fn connections_are_used_again_and_limited() {
    let (server, _) = standalone();
    // So often it looks whose time is over: ten times a second otherwise.
    server.config_set("hz", "100").unwrap();
    let config = Config { max_blocking_connections: 2, ..Config::standalone(at(&server)) };
    let client = Client::new(config).unwrap();
    client.get("k").await.unwrap();
    let before = info(&server, "total_connections_received");
    for _ in 0..20 {
        assert_eq!(client.blpop("list", 0.01).await.unwrap(), None);
    }
    // One of the client's, and one for each INFO of the testkit at most.
    assert!(info(&server, "total_connections_received") - before <= 2);

    let client = Arc::new(client);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn({
                let client = Arc::clone(&client);
                async move { client.blpop("list", 0.0).await.unwrap().unwrap().1 }
            })
        })
        .collect();
    until("two wait", || async { info(&server, "blocked_clients") == 2 }).await;
    let error = client.blpop("list", 0.0).timeout(SECOND / 10).await.unwrap_err();
    assert!(error.to_string().contains("max_blocking_connections"), "{error}");
    assert_eq!(error.ran(), Ran::NotSent);
    client.rpush("list", ["a", "b", "c"]).await.unwrap();
    let mut popped = Vec::new();
    for waiter in waiters {
        popped.push(soon(waiter).await.unwrap());
    }
    popped.sort();
    assert_eq!(popped, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_stream_is_waited_for_only_on_request() {
    let (server, client) = standalone();
    client.run::<Value>(Command::raw("XADD").arg("s").arg("1-1").arg("f").arg("v")).await.unwrap();
    let before = info(&server, "connected_clients");
    let read = |from: &'static str| Command::raw("XREAD").arg("STREAMS").arg("s").arg(from);
    assert_ne!(client.run::<Value>(read("0")).await.unwrap(), Value::Null);
    assert_eq!(info(&server, "connected_clients"), before);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.xread_with([("s", "$")], XreadOptions::new().block(0)).read_as::<Value>().await }
    });
    until("it waits", || async { info(&server, "blocked_clients") == 1 }).await;
    client.run::<Value>(Command::raw("XADD").arg("s").arg("*").arg("f").arg("w")).await.unwrap();
    assert_ne!(soon(waiting).await.unwrap().unwrap(), Value::Null);
}

#[tokio::test]
async fn a_lost_connection_is_not_waited_on() {
    let (server, client) = standalone();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.blpop("list", 0.0).await }
    });
    until("it waits", || async { info(&server, "blocked_clients") == 1 }).await;
    server.client_kill_all().unwrap();
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(error.ran(), Ran::MaybeExecuted);
    // The pool does not lend what is lost.
    assert_eq!(soon(client.blpop("list", 0.01)).await.unwrap(), None);
    server.client_kill_all().unwrap();
    assert_eq!(soon(client.blpop("list", 0.01)).await.unwrap(), None);
}

#[tokio::test]
async fn closing_ends_the_waiting() {
    let (server, client) = standalone();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.blpop("list", 0.0).await }
    });
    until("it waits", || async { info(&server, "blocked_clients") == 1 }).await;
    soon(client.close(SECOND / 10)).await;
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed), "{error}");
    assert!(matches!(client.blpop("list", 1.0).await.unwrap_err().kind(), ErrorKind::Closed));
}

#[tokio::test]
async fn in_a_cluster_redirects_are_followed() {
    let (cluster, client) = cluster(3);
    let (source, slot) = cluster.node_for_key("list").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    assert_eq!(soon(client.blpop("list", 0.05)).await.unwrap(), None);
    // MOVED: the client does not know yet.
    cluster.move_slot(slot, target).unwrap();
    target.server().command(&["RPUSH", "list", "x"]).unwrap();
    assert_eq!(soon(client.blpop("list", 1.0)).await.unwrap().unwrap().1, "x");
    // The slot leaves while it waits.
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.blpop("list", 0.0).await }
    });
    until("it waits", || async { info(target.server(), "blocked_clients") == 1 }).await;
    cluster.move_slot(slot, source).unwrap();
    source.server().command(&["RPUSH", "list", "y"]).unwrap();
    assert_eq!(soon(waiting).await.unwrap().unwrap().unwrap().1, "y");
    assert_eq!(owner(&cluster, "list").id(), source.id());
    // ASK: the key is not at the source any more.
    let step = cluster.begin_move(slot, target).unwrap();
    client.rpush("list", "z").await.unwrap();
    assert_eq!(soon(client.blpop("list", 1.0)).await.unwrap().unwrap().1, "z");
    step.finish().unwrap();
    assert!(client.blpop("list", 0.01).on(Route::AllNodes).await.is_err());
}
