//! Servers that stand still, and commands that wait for room meanwhile: nothing is sent after its deadline, and not
//! everybody may wait.

use std::sync::Arc;
use std::time::Duration;

use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Commands, Config, ErrorKind, Ran};
use pilotlight_testkit::Server;
use tokio::task::JoinSet;

use crate::bed::{SECOND, eventually, within};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(60);

async fn start(config: Config) -> (Arc<Server>, Client) {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    let servers = vec![NodeAddress::tcp("127.0.0.1", server.port())];
    let client = Client::new(Config { servers, ..config }).unwrap();
    client.set("first", "v").await.unwrap();
    (Arc::new(server), client)
}

/// The runtime stands still while room comes, until the deadline of who waits for it has passed.
#[tokio::test]
async fn what_gets_room_too_late_is_not_sent() {
    let (server, client) = start(Config { max_queued_bytes: 100, ..Config::default() }).await;
    server.stop().unwrap();
    let set = |key: &'static str, timeout| {
        let client = client.clone();
        tokio::spawn(async move { client.set(key, "v").timeout(timeout).await })
    };
    let in_flight = set("in flight", LONG);
    eventually(LONG, "it is in flight", || client.stats().lanes[0].snapshot.in_flight == 1).await;
    let waiting = set("waiting", SHORT);
    tokio::task::yield_now().await;
    server.cont().unwrap();
    std::thread::sleep(2 * SHORT);
    in_flight.await.unwrap().unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
    assert_eq!(error.ran(), Ran::NotSent, "{error}");
    assert_eq!(client.exists(["in flight", "waiting"]).await.unwrap(), 1);
}

/// Thousands wait for a server that stands still. The few that the budget had room for were sent, the others never are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_for_room_are_not_sent_at_their_deadlines() {
    const CALLS: usize = 3000;
    let (server, client) = start(Config { max_queued_bytes: 4096, ..Config::default() }).await;
    server.stop().unwrap();
    let mut calls = JoinSet::new();
    for number in 0..CALLS {
        let client = client.clone();
        calls.spawn(async move { client.set(format!("late:{number}"), "v").timeout(SHORT).await.unwrap_err() });
    }
    let errors = within(LONG, "all deadlines", calls.join_all()).await;
    let sent = errors.iter().filter(|error| error.ran() != Ran::NotSent).count();
    assert!(errors.iter().all(|error| matches!(error.kind(), ErrorKind::Timeout(_))));
    assert!((1..=100).contains(&sent), "{sent} of {CALLS} were sent");
    server.cont().unwrap();
    let keys = client.dbsize().timeout(LONG).await.unwrap();
    assert!(keys <= sent as i64 + 1, "{keys} keys, {sent} commands that may have run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_so_many_may_wait_for_room() {
    let config = Config { max_queued_bytes: 100, max_waiting_commands: 10, ..Config::default() };
    let (server, client) = start(config).await;
    server.stop().unwrap();
    let mut calls = JoinSet::new();
    for number in 0..50 {
        let client = client.clone();
        calls.spawn(async move { client.set(format!("k:{number}"), "v").timeout(LONG).await });
    }
    // Those for whom there is no room to wait are told at once.
    let mut refused = 0;
    while refused < 39 {
        let error = within(LONG, "a refusal", calls.join_next()).await.unwrap().unwrap().unwrap_err();
        let told = matches!(error.kind(), ErrorKind::Crowded { limit: "max_waiting_commands", waiting: 10, max: 10 });
        assert!(told && error.ran() == Ran::NotSent, "{error}");
        refused += 1;
    }
    server.cont().unwrap();
    for result in within(LONG, "the others", calls.join_all()).await {
        result.unwrap();
    }
    client.set("k", "v").timeout(20 * SECOND).await.unwrap();
}
