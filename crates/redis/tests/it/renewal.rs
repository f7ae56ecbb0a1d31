//! New credentials on live connections: nobody notices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pilotlight_redis::config::{BoxFuture, CredentialError, CredentialProvider, Credentials};
use pilotlight_redis::{Client, Commands, Config};
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
        let config = Config { lanes, ..Config::from_url(url).unwrap() };
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
