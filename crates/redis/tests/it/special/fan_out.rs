//! Commands for several nodes, and for those that the caller names.

use std::collections::HashSet;

use bytes::Bytes;
use pilotlight_redis::command::{Flags, RequestPolicy};
use pilotlight_redis::commands::spec;
use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Command, Commands, Config, ErrorKind, Misuse, Ran, Route, Value};
use pilotlight_testkit::{Cluster, Node};

use super::{SECOND, at, client_of, cluster, config_of, keys, owner, soon, standalone};
use crate::spare::Kind;

#[tokio::test]
async fn commands_without_keys_go_where_their_descriptions_say() {
    let (cluster, client) = cluster(5);
    // Before the first key is known: they wait for the map themselves.
    assert_eq!(soon(client.dbsize()).await.unwrap(), 0);
    assert_eq!(client.randomkey().await.unwrap(), None);
    policies(&client, 5).await;
    for node in cluster.nodes() {
        assert_eq!(node.server().command(&["CONFIG", "GET", "maxmemory-samples"]).unwrap().array()[1].text(), "7");
    }
    routes(&cluster, &client).await;
    replicas_of_none(&client).await;
}

#[tokio::test]
async fn a_standalone_server_is_all_nodes() {
    let (server, client) = standalone();
    assert_eq!(client.randomkey().await.unwrap(), None);
    policies(&client, 1).await;
    assert_eq!(client.scan_with(0, Default::default()).await.unwrap().cursor, 0);
    let replies = client.on_all(Route::AllNodes, Command::raw("PING")).await.unwrap();
    assert_eq!((replies.len(), &replies[0].node), (1, &at(&server)));
    assert!(client.ping().on(Route::Node(at(&server))).await.is_ok());
    let error = client.ping().on(Route::Node(NodeAddress::tcp("example.invalid", 1))).await.unwrap_err();
    assert!(error.to_string().contains("no server of this client"), "{error}");
}

async fn policies(client: &Client, nodes: usize) {
    let keys = keys(200);
    client.mset(keys.iter().map(|key| (key, "v")).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(client.dbsize().await.unwrap(), 200);
    let found: HashSet<Bytes> = client.keys("key:*").await.unwrap().into_iter().collect();
    assert_eq!(found.len(), 200);
    assert!(found.contains(&client.randomkey().await.unwrap().unwrap()));
    assert!(client.ping().await.is_ok());
    assert!(client.info().await.unwrap().contains("run_id:"));
    client.run::<()>(Command::raw("CONFIG SET").arg("maxmemory-samples").arg(7)).await.unwrap();
    let known = client.script_load("return 1").await.unwrap();
    let one_node =
        client.run::<String>(Command::raw("SCRIPT LOAD").arg("return 2")).on(Route::primary_of("k")).await.unwrap();
    let exists = client.script_exists([known, one_node]).await.unwrap();
    assert_eq!(exists, [true, nodes == 1]);
    client.script_flush().await.unwrap();
    client.flushall().await.unwrap();
    assert_eq!(client.dbsize().await.unwrap(), 0);
}

async fn routes(cluster: &Cluster, client: &Client) {
    client.set("k", "v").await.unwrap();
    let (has, has_not) =
        (owner(cluster, "k"), cluster.nodes().iter().find(|node| node.id() != owner(cluster, "k").id()).unwrap());
    let get = |route| client.get("k").on(route);
    assert_eq!(get(Route::Node(at(has.server()))).await.unwrap().unwrap(), "v");
    assert_eq!(get(Route::primary_of("k")).await.unwrap().unwrap(), "v");
    assert_eq!(get(Route::Any).await.unwrap().unwrap(), "v");
    let error = get(Route::Node(at(has_not.server()))).await.unwrap_err();
    assert_eq!((error.server().unwrap().code(), error.ran()), ("MOVED", Ran::NotSent));

    let mut ports = HashSet::new();
    for answer in client.on_all(Route::AllPrimaries, Command::raw("GET").arg("k")).await.unwrap() {
        let is_owner = answer.node == at(has.server());
        assert_eq!(answer.reply.is_ok(), is_owner, "{answer:?}");
        ports.insert(answer.node);
    }
    assert_eq!(ports, cluster.nodes().iter().map(|node| at(node.server())).collect());
    let ids: Vec<String> = client.run(Command::raw("CLUSTER MYID")).on(Route::AllNodes).await.unwrap();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 5);
}

async fn replicas_of_none(client: &Client) {
    let error = soon(client.get("k").on(Route::replica_of("k"))).await.unwrap_err();
    assert!(error.to_string().contains("has no replica"), "{error}");
}

#[tokio::test]
async fn replicas_are_asked_and_all_nodes_are_all() {
    let cluster = Kind::of(3, 1).start();
    super::until("all replicas are announced", || async {
        let slots = |node: &Node| node.server().command(&["CLUSTER", "SLOTS"]).unwrap();
        cluster.nodes().iter().all(|node| slots(node).array().iter().all(|range| range.array().len() == 4))
    })
    .await;
    let client = client_of(&cluster);
    client.set("k", "v").await.unwrap();
    super::until("the replica has it", || async {
        client.get("k").on(Route::replica_of("k")).await.unwrap().is_some()
    })
    .await;
    let replica = cluster.replica_of(owner(&cluster, "k")).unwrap();
    assert!(replica.server().info("cmdstat_get").is_ok());
    assert_eq!(client.on_all(Route::AllNodes, Command::raw("PING")).await.unwrap().len(), 6);
    assert_eq!(client.on_all(Route::AllPrimaries, Command::raw("PING")).await.unwrap().len(), 3);
    assert_eq!(client.dbsize().await.unwrap(), 1);
}

#[tokio::test]
async fn the_node_that_fails_is_named() {
    let (cluster, _) = cluster(3);
    let client = Client::new(Config { command_timeout: Some(SECOND), ..config_of(&cluster) }).unwrap();
    client.dbsize().await.unwrap();
    let lost = &cluster.nodes()[1];
    lost.server().stop().unwrap();
    let name = format!("127.0.0.1:{}", lost.port());
    let error = soon(client.flushall().timeout(SECOND / 2)).await.unwrap_err();
    assert_eq!(error.node(), Some(&*name), "{error}");
    lost.server().kill().unwrap();
    let error = soon(client.dbsize().timeout(SECOND / 2)).await.unwrap_err();
    assert_eq!(error.node(), Some(&*name), "{error}");
    let answers = client.on_all(Route::AllPrimaries, Command::raw("DBSIZE")).await.unwrap();
    let failed: Vec<_> = answers.iter().filter(|it| it.reply.is_err()).map(|it| it.node.clone()).collect();
    assert_eq!(failed, [at(lost.server())]);
}

#[tokio::test]
async fn what_is_about_its_connection_is_not_sent() {
    let (server, client) = standalone();
    client.set("k", 1).await.unwrap();
    let before = super::info(&server, "total_commands_processed");
    let mut count = 0;
    for spec in spec::ALL.iter().filter(|spec| spec.flags.has(Flags::CONNECTION_STATE)) {
        let error = client.run::<Value>(Command::new(spec).arg("x")).await.unwrap_err();
        let ErrorKind::Misuse(Misuse::ConnectionState { command, instead }) = error.kind() else { panic!("{error}") };
        assert_eq!((*command, instead.is_empty(), error.ran()), (spec.name, false, Ran::NotSent));
        count += 1;
    }
    assert!(count > 25);
    assert!(client.wait(0, 1).await.unwrap_err().to_string().contains("client.dedicated()"));
    let error = client.on_all(Route::Any, Command::raw("SELECT").arg(1)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Misuse(_)));
    // The two are those of the testkit itself: AUTH, INFO.
    assert!(super::info(&server, "total_commands_processed") - before <= 2);
}

#[tokio::test]
async fn a_cursor_has_no_meaning_in_a_cluster() {
    let (cluster, client) = cluster(3);
    let error = Commands::scan(&client, 0).await.unwrap_err();
    assert!(error.to_string().contains("client.scan()"), "{error}");
    let page = Commands::scan(&client, 0).on(Route::Node(at(cluster.nodes()[0].server()))).await.unwrap();
    assert!(page.is_complete());
    assert_eq!(spec::SCAN.request, RequestPolicy::Special);
}
