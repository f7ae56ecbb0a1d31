//! New credentials on live connections: nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pilotlight_redis::config::{BoxFuture, CredentialError, CredentialProvider, Credentials, ProtocolChoice};
use pilotlight_redis::{Client, Command, Commands, Config, Event, GapReason, Subscription};
use pilotlight_testkit::{Script, ScriptedServer, Server, Signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::tracking::{PATIENCE, until};

/// Credentials that a test changes.
#[derive(Clone)]
struct Changing(watch::Sender<Option<Credentials>>);

impl Changing {
    fn new(password: &str) -> Self {
        Self(watch::Sender::new(Some(Credentials::new("app", password))))
    }

    fn change(&self, password: &str) {
        self.0.send_replace(Some(Credentials::new("app", password)));
    }

    fn client(&self, url: &str, lanes: usize) -> Client {
        self.client_of(Config { lanes, ..Config::from_url(url).unwrap() })
    }

    fn client_of(&self, config: Config) -> Client {
        Client::new(config.with_credentials(self.clone())).unwrap()
    }
}

impl CredentialProvider for Changing {
    fn credentials(&self) -> BoxFuture<'_, Result<Credentials, CredentialError>> {
        let now = self.0.borrow().clone().ok_or_else(|| CredentialError::new("none yet"));
        Box::pin(std::future::ready(now))
    }

    fn changes(&self) -> Option<watch::Receiver<Option<Credentials>>> {
        Some(self.0.subscribe())
    }
}

fn auths(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let text = stats.text();
    let calls = text.split("cmdstat_auth:calls=").nth(1).map(|rest| rest.split(',').next().unwrap());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_fails_while_the_password_changes() {
    let server = Server::builder().user("app on >p0 ~* +@all").start().unwrap();
    let credentials = Changing::new("p0");
    let client = credentials.client(&server.url(), 2);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let (client, is_over) = (client.clone(), Arc::clone(&is_over));
        tasks.spawn(async move {
            let (mut count, key) = (0_i64, format!("count:{task}"));
            while !is_over.load(Ordering::Relaxed) {
                count += 1;
                assert_eq!(client.incr(&key).await.unwrap(), count);
            }
        });
    }
    // A connection that is made after a change begins with the new password.
    until(|| client.stats().lanes.iter().all(|lane| lane.snapshot.is_connected)).await;
    let before = auths(&server);
    for round in 1..=20_u64 {
        let password = format!("p{round}");
        server.command(&["ACL", "SETUSER", "app", "resetpass", &format!(">{password}")]).unwrap();
        credentials.change(&password);
        // One for each lane; none is lost.
        until(|| auths(&server) >= before + 2 * round).await;
    }
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let stats = client.stats();
    assert!(
        stats.lanes.iter().all(|lane| (lane.snapshot.counters.connects, lane.snapshot.counters.disconnects) == (1, 0)),
        "{stats:?}"
    );
    assert_eq!(auths(&server), before + 40);
}

#[tokio::test]
async fn an_idle_connection_authenticates_anew_and_a_new_one_does_once() {
    let server = Server::builder().user("app on >old >new ~* +@all").start().unwrap();
    let credentials = Changing::new("old");
    let client = credentials.client(&server.url(), 1);
    client.set("k", "v").await.unwrap();
    let before = auths(&server);
    credentials.change("new");
    until(|| auths(&server) == before + 1).await;
    // The same again is nothing new.
    credentials.change("new");
    client.set("k", "w").await.unwrap();
    client.set("k", "w").await.unwrap();
    assert_eq!(auths(&server), before + 1);
}

#[tokio::test]
async fn a_connection_whose_new_credentials_are_refused_is_replaced() {
    let server = Server::builder().user("app on >old ~* +@all").start().unwrap();
    let credentials = Changing::new("old");
    let client = credentials.client(&server.url(), 1);
    client.set("k", "v").await.unwrap();
    credentials.change("wrong");
    until(|| client.stats().lanes[0].snapshot.counters.disconnects == 1).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.get("k").timeout(PATIENCE).await.unwrap().unwrap() }
    });
    credentials.change("old");
    assert_eq!(waiting.await.unwrap(), "v");
}

#[tokio::test]
async fn auth_is_sent_alone() {
    let (asked, answer, quiet) = (Signal::new(), Signal::new(), Signal::new());
    let script = Script::new().expect(["GET", "a"]).raise(&asked).pause_until(&answer).send("$1\r\n1\r\n");
    // A script's next step takes whatever came: AUTH was sent before GET b, which was submitted long before.
    let script = script
        .expect(["AUTH", "app", "new"])
        .pause_until(&quiet)
        .send("+OK\r\n")
        .expect(["GET", "b"])
        .send("$1\r\n2\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let credentials = Changing::new("old");
    let client = credentials.client(&server.url(), 1);
    let call = |key: &'static str| {
        let client = client.clone();
        tokio::spawn(async move { client.get(key).await.unwrap().unwrap() })
    };
    let first = call("a");
    asked.wait().await;
    credentials.change("new");
    let before = server.commands().len();
    until(|| client.stats().lanes[0].snapshot.in_flight == 1).await;
    // The lane hears of the change in a turn of its own; GET b comes later.
    tokio::task::yield_now().await;
    let second = call("b");
    until(|| client.stats().lanes[0].snapshot.queued == 1).await;
    answer.raise();
    assert_eq!(first.await.unwrap(), "1");
    assert!(server.wait_for_commands(before + 1).await);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(server.commands().len(), before + 1, "nothing is sent behind AUTH before its answer");
    quiet.raise();
    assert_eq!(second.await.unwrap(), "2");
    server.finish().await.unwrap();
}

const APP: &str = "app on >p0 ~* &* +@all";

/// The server and the client agree on another password; the one before is good for nothing.
fn change_everywhere(server: &Server, credentials: &Changing, password: &str) {
    server.command(&["ACL", "SETUSER", "app", "resetpass", &format!(">{password}")]).unwrap();
    credentials.change(password);
}

async fn next(subscription: &mut Subscription) -> Event {
    tokio::time::timeout(PATIENCE, subscription.next()).await.unwrap().unwrap()
}

#[track_caller]
fn assert_payload(event: &Event, payload: &str) {
    let Event::Message(message) = event else { panic!("{event:?} instead of {payload}") };
    assert_eq!(message.payload, payload.as_bytes());
}

#[tokio::test]
async fn subscriptions_go_on_without_a_gap() {
    let server = Server::builder().user(APP).start().unwrap();
    let credentials = Changing::new("p0");
    let client = credentials.client(&server.url(), 1);
    let mut subscription = client.subscribe("news").await.unwrap();
    for round in 1..=5 {
        let before = auths(&server);
        change_everywhere(&server, &credentials, &format!("p{round}"));
        until(|| auths(&server) == before + 1).await;
        server.command(&["PUBLISH", "news", &round.to_string()]).unwrap();
        assert_payload(&next(&mut subscription).await, &round.to_string());
    }
    // Something else can be subscribed afterwards, on the same connection.
    subscription.add("weather").await.unwrap();
    let clients = server.command(&["CLIENT", "LIST", "TYPE", "PUBSUB"]).unwrap();
    assert_eq!(clients.text().lines().count(), 1);
    assert_eq!(subscription.try_next(), None);
}

/// RESP2 allows no `AUTH` beside subscriptions: the connection is replaced, and the subscriber told.
#[tokio::test]
async fn subscriptions_of_resp2_move_to_a_new_connection() {
    let server = Server::builder().user(APP).start().unwrap();
    let credentials = Changing::new("p0");
    let protocol = ProtocolChoice::Resp2;
    let client = credentials.client_of(Config { protocol, ..Config::from_url(&server.url()).unwrap() });
    let mut subscription = client.subscribe("news").await.unwrap();
    change_everywhere(&server, &credentials, "p1");
    assert_eq!(next(&mut subscription).await, Event::Gap { reason: GapReason::ConnectionLost });
    server.command(&["PUBLISH", "news", "after"]).unwrap();
    assert_payload(&next(&mut subscription).await, "after");
}

#[tokio::test]
async fn a_subscription_waits_for_the_answer_to_auth() {
    let confirmed = |channel: &str| format!(">3\r\n$9\r\nsubscribe\r\n$1\r\n{channel}\r\n:1\r\n");
    let (asked, answer) = (Signal::new(), Signal::new());
    let script = Script::new()
        .expect(["SUBSCRIBE", "a"])
        .expect(["PING"])
        .send(confirmed("a") + "+PONG\r\n")
        .expect(["AUTH", "app", "new"])
        .raise(&asked)
        .send(">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$4\r\nhere\r\n")
        .pause_until(&answer)
        .send("+OK\r\n")
        .expect(["SUBSCRIBE", "b"])
        .expect(["PING"])
        .send(confirmed("b") + "+PONG\r\n");
    let server = ScriptedServer::play(script).await.unwrap();
    let credentials = Changing::new("old");
    let client = credentials.client(&server.url(), 1);
    let mut subscription = client.subscribe("a").await.unwrap();
    credentials.change("new");
    asked.wait().await;
    assert_payload(&next(&mut subscription).await, "here");
    let before = server.commands().len();
    let (added, ()) = tokio::join!(subscription.add("b"), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(server.commands().len(), before, "nothing is sent behind AUTH before its answer");
        answer.raise();
    });
    added.unwrap();
    server.finish().await.unwrap();
}

#[tokio::test]
async fn a_connection_of_the_pool_authenticates_before_its_next_use() {
    let server = Server::builder().user(APP).start().unwrap();
    let credentials = Changing::new("p0");
    let client = credentials.client(&server.url(), 1);
    client.rpush("list", ["a", "b", "c"]).await.unwrap();
    let blocking = async |expected: &str| {
        let popped = client.blpop(["list"], 1.0).read_as::<(String, String)>().await.unwrap();
        assert_eq!(popped.1, expected);
    };
    blocking("a").await;
    let before = auths(&server);
    change_everywhere(&server, &credentials, "p1");
    // That of the lane.
    until(|| auths(&server) == before + 1).await;
    blocking("b").await;
    blocking("c").await;
    assert_eq!(auths(&server), before + 2);
    assert_eq!((client.stats().pool.connects, client.stats().pool.leases), (1, 3));
    // Refused, it is replaced by a new one.
    credentials.change("wrong");
    credentials.change("p2");
    server.command(&["ACL", "SETUSER", "app", "resetpass", ">p3"]).unwrap();
    let dialled = tokio::spawn({
        let client = client.clone();
        async move { client.blpop(["none"], 0.01).timeout(PATIENCE).read_as::<Option<(String, String)>>().await }
    });
    until(|| client.stats().pool.connect_failures > 0).await;
    credentials.change("p3");
    assert_eq!(dialled.await.unwrap().unwrap(), None);
    assert_eq!(client.stats().pool.connects, 2);
}

#[tokio::test]
async fn a_connection_of_ones_own_authenticates_between_two_commands() {
    let server = Server::builder().user(APP).user("other on >secret ~* +@all").start().unwrap();
    let credentials = Changing::new("p0");
    let client = credentials.client(&server.url(), 1);
    let mut connection = client.dedicated().await.unwrap();
    connection.watch("key").await.unwrap();
    let mut renewed = auths(&server);
    change_everywhere(&server, &credentials, "p1");
    connection.get("key").await.unwrap();
    renewed += 1;
    assert_eq!(auths(&server), renewed);
    // Not between MULTI and EXEC, where it would be queued.
    connection.run::<()>(Command::raw("MULTI")).await.unwrap();
    change_everywhere(&server, &credentials, "p2");
    connection.run::<String>(Command::raw("SET").arg("key").arg("value")).await.unwrap();
    connection.run::<Vec<String>>(Command::raw("EXEC")).await.unwrap();
    assert_eq!(auths(&server), renewed);
    connection.get("key").await.unwrap();
    renewed += 1;
    assert_eq!(auths(&server), renewed);
    // Its user says who he is: he stays that.
    connection.run::<()>(Command::raw("AUTH").arg("other").arg("secret")).await.unwrap();
    change_everywhere(&server, &credentials, "p3");
    assert_eq!(connection.run::<String>(Command::raw("ACL WHOAMI")).await.unwrap(), "other");
    assert_eq!(auths(&server), renewed + 1);
}
