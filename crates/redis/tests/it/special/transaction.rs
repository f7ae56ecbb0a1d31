//! Transactions.

use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Aborted, Client, Command, Commands, Config, Dedicated, ErrorKind, Misuse, Ran};
use pilotlight_testkit::{Ending, FaultProxy, Server};

use super::{cluster, owner, soon, standalone};

#[tokio::test]
async fn it_runs_as_a_whole() {
    let (server, client) = standalone();
    runs(&client).await;
    // All of that over one connection.
    assert_eq!(client.stats().lanes.len(), 1);
    assert!(server.info("cmdstat_exec").unwrap().starts_with("calls=1,"));

    let empty = client.transaction().run().await.unwrap();
    assert!(empty.is_empty());
    let mut transaction = client.transaction();
    let across = (transaction.set("a", 1), transaction.set("b", 2));
    let mut replies = transaction.run().await.unwrap();
    replies.take(across.0).unwrap();
    replies.take(across.1).unwrap();
}

async fn runs(client: &Client) {
    let mut transaction = client.transaction();
    let set = transaction.set("{t}n", 41);
    let sum = transaction.incr("{t}n");
    let wrong = transaction.lpush("{t}n", "x");
    let got = transaction.get("{t}n").read_as::<i64>();
    assert_eq!(transaction.len(), 4);
    let mut replies = soon(transaction.run()).await.unwrap();
    replies.take(set).unwrap();
    assert_eq!(replies.take(sum).unwrap(), 42);
    let error = replies.take(wrong).unwrap_err();
    assert_eq!((error.server().unwrap().code(), error.command(), error.ran()), ("WRONGTYPE", "LPUSH", Ran::Executed));
    assert_eq!(replies.take(got).unwrap(), 42);
}

#[tokio::test]
async fn what_the_server_refuses_is_named_and_nothing_runs() {
    let (_server, client) = standalone();
    let mut transaction = client.transaction();
    transaction.set("k", 1);
    transaction.queue::<()>(Command::raw("HSET").arg("h"));
    transaction.queue::<()>(Command::raw("NOSUCH").arg("h"));
    let error = transaction.run().await.unwrap_err();
    let ErrorKind::Aborted(Aborted::Refused { index: 1, command: "HSET", error: server }) = error.kind() else {
        panic!("{error}")
    };
    assert!(server.message().contains("wrong number"), "{server}");
    assert_eq!(error.ran(), Ran::NotSent);
    assert_eq!(client.get("k").await.unwrap(), None);

    let mut transaction = client.transaction();
    transaction.set("k", 1);
    transaction.queue::<()>(Command::raw("SELECT").arg(1));
    let error = transaction.run().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::Unroutable { command: "SELECT", .. })), "{error}");
    assert_eq!(client.get("k").await.unwrap(), None);
}

#[tokio::test]
async fn without_the_right_to_multi_each_command_was_on_its_own() {
    let (server, client) = standalone();
    server.command(&["ACL", "SETUSER", "default", "-multi"]).unwrap();
    let mut transaction = client.transaction();
    transaction.set("k", 1);
    let error = transaction.run().await.unwrap_err();
    assert_eq!((error.server().unwrap().code(), error.ran()), ("NOPERM", Ran::Executed));
}

#[tokio::test]
async fn one_that_was_cut_off_did_not_run_and_is_sent_again() {
    let server = Server::start().unwrap();
    let proxy = FaultProxy::to(server.addr()).await.unwrap();
    let client = Client::new(Config::standalone(NodeAddress::tcp("127.0.0.1", proxy.port()))).unwrap();
    client.set("n", 0).await.unwrap();
    proxy.connections()[0].set(|faults| faults.to_server.cut_after = Some((1 << 20, Ending::Close)));
    let mut transaction = client.transaction();
    let sum = transaction.incr("n");
    // More than all the kernels' buffers on the way take.
    transaction.set("large", vec![b'x'; 24 << 20]);
    assert_eq!(soon(transaction.run()).await.unwrap().take(sum).unwrap(), 1);
    assert_eq!(proxy.stats().cut, 1);
    assert_eq!(client.get("n").read_as::<i64>().await.unwrap(), 1);
}

#[tokio::test]
async fn in_a_cluster_it_is_of_one_slot_and_follows_it() {
    let (cluster, client) = cluster(3);
    runs(&client).await;
    let mut transaction = client.transaction();
    transaction.set("a", 1);
    transaction.mget(["a", "b"]);
    let error = transaction.run().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::CrossSlot { .. })), "{error}");

    let (source, slot) = cluster.node_for_key("{t}n").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    // Half of the keys are at the target: TRYAGAIN, until the other half is there, too.
    client.mset([("{t}1", 1), ("{t}2", 2)]).await.unwrap();
    let step = cluster.begin_move(slot, target).unwrap();
    step.migrate(&["{t}1"]).unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            let mut transaction = client.transaction();
            let both = transaction.mget(["{t}1", "{t}2"]).read_as::<Vec<i64>>();
            transaction.run().await.unwrap().take(both).unwrap()
        }
    });
    super::until("it was refused", || async { source.server().info("errorstat_TRYAGAIN").is_ok() }).await;
    step.migrate_all().unwrap();
    // ASK: all keys are at the target, the slot is not yet.
    assert_eq!(soon(waiting).await.unwrap(), [1, 2]);
    let mut transaction = client.transaction();
    let one = transaction.incr("{t}1");
    let two = transaction.incr("{t}2");
    let mut replies = soon(transaction.run()).await.unwrap();
    assert_eq!((replies.take(one).unwrap(), replies.take(two).unwrap()), (2, 3));
    assert_eq!(owner(&cluster, "{t}").id(), source.id());
    // MOVED.
    step.finish().unwrap();
    runs(&client).await;
    assert!(source.server().info("errorstat_ASK").is_ok());
}

#[tokio::test]
async fn a_watched_key_that_changes_aborts_it() {
    let (_server, client) = standalone();
    let mut connection = client.dedicated().await.unwrap();
    connection.watch("k").await.unwrap();
    client.set("k", "other").await.unwrap();
    let mut transaction = connection.transaction();
    transaction.set("k", "mine");
    let error = transaction.run().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Aborted(Aborted::Changed { attempts: 1 })), "{error}");
    assert_eq!(error.ran(), Ran::NotSent);
    assert_eq!(client.get("k").await.unwrap().unwrap(), "other");
    // Nothing is watched any more.
    let mut transaction = connection.transaction();
    let set = transaction.set("k", "mine");
    transaction.run().await.unwrap().take(set).unwrap();
}

/// Adds one by reading and writing.
async fn add_one(connection: &mut Dedicated, key: &str) -> Result<i64, pilotlight_redis::Error> {
    let sum = connection.get(key).read_as::<Option<i64>>().await?.unwrap_or(0) + 1;
    let mut transaction = connection.transaction();
    transaction.set(key, sum);
    transaction.run().await?;
    Ok(sum)
}

#[tokio::test]
async fn optimistic_increments_are_all_counted() {
    let (_server, client) = standalone();
    increments(&client).await;
    // Whoever writes each time wins each time.
    let mut calls = 0;
    let error = soon(client.watch("k", async |connection: &mut Dedicated| {
        calls += 1;
        client.set("k", calls).await?;
        add_one(connection, "k").await
    }))
    .await
    .unwrap_err();
    assert_eq!(calls, 32);
    assert!(matches!(error.kind(), ErrorKind::Aborted(Aborted::Changed { attempts: 32 })), "{error}");
    // An attempt's own errors are the result; one without a transaction leaves nothing watched.
    let error = client.watch("k", async |connection: &mut Dedicated| connection.lpush("k", 1).await).await.unwrap_err();
    assert_eq!(error.server().unwrap().code(), "WRONGTYPE");
    client.watch("k", async |_: &mut Dedicated| Ok(())).await.unwrap();
    client.set("k", 0).await.unwrap();
    let mut connection = client.dedicated().await.unwrap();
    let mut transaction = connection.transaction();
    transaction.incr("k");
    assert!(transaction.run().await.is_ok());
}

#[tokio::test]
async fn optimistic_increments_follow_their_slot() {
    let (cluster, client) = cluster(3);
    increments(&client).await;
    let (source, slot) = cluster.node_for_key("sum").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    cluster.move_slot(slot, target).unwrap();
    let sum = soon(client.watch("sum", async |connection: &mut Dedicated| add_one(connection, "sum").await)).await;
    assert_eq!(sum.unwrap(), 41);
    let error = client.watch(["a", "b"], async |_: &mut Dedicated| Ok(())).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::CrossSlot { .. })), "{error}");
}

async fn increments(client: &Client) {
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    client
                        .watch("sum", async |connection: &mut Dedicated| add_one(connection, "sum").await)
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(client.get("sum").read_as::<i64>().await.unwrap(), 40);
}
