//! Connections for one user alone.

use pilotlight_redis::{Client, Command, Commands, Config, ErrorKind, Misuse, Ran, Route, Value};
use pilotlight_testkit::Server;

use super::{SECOND, cluster, info, owner, soon, standalone, until};

async fn id(connection: &mut pilotlight_redis::Dedicated) -> i64 {
    connection.run(Command::raw("CLIENT ID")).await.unwrap()
}

#[tokio::test]
async fn all_commands_are_allowed_but_those_without_one_reply() {
    let (_server, client) = standalone();
    let mut connection = client.dedicated().await.unwrap();
    connection.set("k", 1).await.unwrap();
    connection.run::<()>(Command::raw("SELECT").arg(3)).await.unwrap();
    assert_eq!(connection.get("k").await.unwrap(), None);
    connection.run::<()>(Command::raw("CLIENT SETNAME").arg("me")).await.unwrap();
    assert_eq!(connection.wait(0, 10).await.unwrap(), 0);
    assert_eq!(connection.blpop("list", 0.01).await.unwrap(), None);
    for name in ["SUBSCRIBE", "MONITOR", "CLIENT REPLY"] {
        let error = connection.run::<Value>(Command::raw(name).arg("x")).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Misuse(Misuse::Unroutable { .. })), "{error}");
    }
    let error = connection.incr("k").read_as::<Value>().await;
    assert_eq!(error.unwrap(), Value::Integer(1));
    // The shared connections are where they were.
    assert_eq!(client.get("k").read_as::<i64>().await.unwrap(), 1);
}

async fn run(connection: &mut pilotlight_redis::Dedicated, words: &[&str]) {
    let name = if words[0] == "CLIENT" { words[..2].join(" ") } else { words[0].to_owned() };
    let rest = words[name.split(' ').count()..].to_vec();
    connection.run::<Value>(Command::raw(&name).args(rest)).await.unwrap();
}

#[tokio::test]
async fn a_clean_connection_is_lent_again_and_no_other() {
    let (_server, client) = standalone();
    let next = async |client: &Client| id(&mut client.dedicated().await.unwrap()).await;
    let first = next(&client).await;
    assert_eq!(next(&client).await, first);
    let spoil: [&[&str]; 2] = [&["CLIENT", "NO-EVICT", "ON"], &["SCRIPT", "DEBUG", "NO"]];
    for words in spoil {
        let before = next(&client).await;
        let mut connection = client.dedicated().await.unwrap();
        run(&mut connection, words).await;
        drop(connection);
        assert_ne!(next(&client).await, before, "{words:?}");
    }
    // What is undone is clean again.
    let before = next(&client).await;
    let mut connection = client.dedicated().await.unwrap();
    connection.watch(["a", "b"]).await.unwrap();
    connection.unwatch().await.unwrap();
    connection.run::<()>(Command::raw("MULTI")).await.unwrap();
    connection.run::<()>(Command::raw("DISCARD")).await.unwrap();
    assert!(connection.get("list").await.is_ok());
    drop(connection);
    assert_eq!(next(&client).await, before);
}

/// What a user has switched on is undone before the next one gets the connection.
#[tokio::test]
async fn a_changed_connection_is_reset_and_lent_again() {
    let server = Server::builder().user("alice on >secret ~* &* +@all").start().unwrap();
    let url = format!("redis://alice:secret@{}/3?client_name=me", server.addr());
    let client = Client::new(Config::from_url(&url).unwrap()).unwrap();
    let state = async |connection: &mut pilotlight_redis::Dedicated| {
        let info: String = connection.run(Command::raw("CLIENT INFO")).await.unwrap();
        let field =
            |name: &str| info.split(' ').find_map(|field| field.strip_prefix(name)).unwrap().trim_end().to_owned();
        ["id=", "name=", "db=", "user=", "resp=", "flags=", "multi="].map(field)
    };
    let before = state(&mut client.dedicated().await.unwrap()).await;
    assert_eq!(before[1..], ["me", "3", "alice", "3", "N", "-1"].map(str::to_owned));
    let changes: [&[&[&str]]; 8] = [
        &[&["SELECT", "1"]],
        &[&["MULTI"]],
        &[&["WATCH", "k"]],
        &[&["CLIENT", "SETNAME", "other"]],
        &[&["CLIENT", "TRACKING", "ON"]],
        &[&["AUTH", "testkit", "testkit-admin"]],
        &[&["HELLO", "2"], &["MULTI"], &["SET", "k", "v"]],
        &[&["RESET"], &["AUTH", "alice", "secret"]],
    ];
    for commands in changes {
        let mut connection = client.dedicated().await.unwrap();
        for words in commands {
            run(&mut connection, words).await;
        }
        drop(connection);
        assert_eq!(state(&mut client.dedicated().await.unwrap()).await, before, "{commands:?}");
    }
    assert_eq!(client.stats().pool.connects, 1);
    // One to which something came unasked is not used again.
    until("the invalidation came before the next use", || async {
        let mut connection = client.dedicated().await.unwrap();
        run(&mut connection, &["CLIENT", "TRACKING", "ON", "BCAST"]).await;
        drop(connection);
        client.set("any", "key").await.unwrap();
        state(&mut client.dedicated().await.unwrap()).await[0] != before[0]
    })
    .await;
}

#[tokio::test]
async fn where_there_is_no_reset_a_changed_connection_is_closed() {
    let (server, _) = standalone();
    let config = Config::from_url(&format!("{}?protocol=resp2", server.url())).unwrap();
    let client = Client::new(config).unwrap();
    let mut connection = client.dedicated().await.unwrap();
    run(&mut connection, &["SELECT", "1"]).await;
    drop(connection);
    client.dedicated().await.unwrap();
    assert_eq!(client.stats().pool.connects, 2);
}

#[tokio::test]
async fn a_command_given_up_closes_it() {
    let (server, client) = standalone();
    let mut connection = client.dedicated().await.unwrap();
    {
        let mut waiting = Box::pin(connection.blpop("list", 0.0));
        tokio::select! {
            result = &mut waiting => panic!("{result:?}"),
            () = until("it waits", || async { info(&server, "blocked_clients") == 1 }) => {}
        }
    }
    until("it does not wait any more", || async { info(&server, "blocked_clients") == 0 }).await;
    assert!(!connection.is_open());
    let error = connection.get("k").await.unwrap_err();
    assert_eq!(error.ran(), Ran::NotSent);
    let mut connection = client.dedicated().await.unwrap();
    let error = soon(connection.blpop("list", 0.0).timeout(SECOND / 10)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
    assert!(!connection.is_open());
}

#[tokio::test]
async fn it_may_outlive_the_client_and_move_between_tasks() {
    let (_server, client) = standalone();
    let mut connection = client.dedicated().await.unwrap();
    drop(client);
    let value = tokio::spawn(async move {
        connection.set("k", 5).await.unwrap();
        connection.get("k").read_as::<i64>().await.unwrap()
    });
    assert_eq!(soon(value).await.unwrap(), 5);
}

#[tokio::test]
async fn a_closed_client_takes_them_back() {
    let (_server, client) = standalone();
    let mut connection = client.dedicated().await.unwrap();
    connection.set("k", 1).await.unwrap();
    soon(client.close(SECOND / 10)).await;
    assert!(matches!(connection.get("k").await.unwrap_err().kind(), ErrorKind::Closed));
    assert!(matches!(client.dedicated().await.unwrap_err().kind(), ErrorKind::Closed));
}

#[tokio::test]
async fn in_a_cluster_it_is_one_nodes() {
    let (cluster, client) = cluster(3);
    let mut connection = soon(client.dedicated_on(Route::primary_of("k"))).await.unwrap();
    let has = owner(&cluster, "k");
    assert_eq!(connection.node(), format!("127.0.0.1:{}", has.port()));
    connection.set("k", 1).await.unwrap();
    let other = super::keys(50).into_iter().find(|key| owner(&cluster, key).id() != has.id()).unwrap();
    let error = connection.set(&other, 1).await.unwrap_err();
    assert_eq!((error.server().unwrap().code(), error.ran()), ("MOVED", Ran::NotSent));
    assert!(matches!(client.dedicated_on(Route::AllNodes).await.unwrap_err().kind(), ErrorKind::Misuse(_)));
    assert!(client.dedicated().await.is_ok());
}

#[tokio::test]
async fn connections_are_spared_if_that_is_wanted() {
    let (server, _) = standalone();
    let client = Client::connect(&format!("{}?no_evict=true", server.url())).await.unwrap();
    let is_spared = |info: String| info.split(' ').any(|field| field.starts_with("flags=") && field.contains('e'));
    assert!(is_spared(client.run(Command::raw("CLIENT INFO")).on(Route::Any).await.unwrap()));
    let mut connection = client.dedicated().await.unwrap();
    run(&mut connection, &["SELECT", "1"]).await;
    drop(connection);
    let mut connection = client.dedicated().await.unwrap();
    assert!(is_spared(connection.run(Command::raw("CLIENT INFO")).await.unwrap()), "after RESET, too");
}
