//! Commands that take long, and connections that are dead: one is waited for, the other left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotlight_redis::config::{NodeAddress, Probe};
use pilotlight_redis::raw::RawClient;
use pilotlight_redis::{Client, Command, Commands, Config, Error, ErrorKind, Event, Ran};
use pilotlight_resp::encode;
use pilotlight_testkit::{Failover, FaultProxy, Server};
use tokio::task::JoinSet;

use crate::bed::{Bed, Load, SECOND, eventually, preimages, within};

/// Much longer than a slow command here, also on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// A node is suspected soon.
const WARY: Probe = Probe { idle_ping: Some(Duration::from_secs(5)), stall: Some(Duration::from_millis(200)) };

async fn server() -> Arc<Server> {
    Arc::new(tokio::task::spawn_blocking(|| Server::builder().debug_commands().start().unwrap()).await.unwrap())
}

fn config(server: &Server) -> Config {
    Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()))
}

fn wary(server: &Server) -> Client {
    Client::new(Config { probe: WARY, ..config(server) }).unwrap()
}

fn disconnects(client: &Client) -> u64 {
    client.stats().lanes.iter().map(|lane| lane.snapshot.counters.disconnects).sum()
}

/// A script that keeps the server busy for so long, and then writes.
fn busy(seconds: f64) -> String {
    // Of its server's clock: the version that is tested here does not stop it for a script.
    let now = "local function now() local t = redis.call('TIME'); return t[1] + t[2] / 1e6 end";
    format!("{now} local ends = now() + {seconds}; while now() < ends do end; return redis.call('INCR', KEYS[1])")
}

fn eval<'a>(seconds: f64) -> Command<'a> {
    Command::raw("EVAL").arg(busy(seconds)).arg(1).arg("count")
}

#[track_caller]
fn assert_timeout(result: Result<(), Error>) {
    let error = result.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
}

/// The defaults, and a server that holds writes back for longer than they suspect it.
#[tokio::test]
async fn a_write_outlasts_a_pause() {
    let server = server().await;
    let client = Client::new(config(&server)).unwrap();
    client.set("k", "before").await.unwrap();
    server.command(&["CLIENT", "PAUSE", "3000", "WRITE"]).unwrap();
    client.set("k", "after").timeout(LONG).await.unwrap();
    assert_eq!(client.get("k").await.unwrap().unwrap(), "after");
    assert_eq!(disconnects(&client), 0);
}

/// A script that keeps the server from answering anybody, for longer than a probe is given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_waited_for_and_so_are_those_behind_it() {
    let server = server().await;
    let client = wary(&server);
    client.set("k", "v").await.unwrap();
    let script = tokio::spawn({
        let client = client.clone();
        async move { client.run::<i64>(eval(3.5)).timeout(LONG).await }
    });
    let other = wary(&server);
    let mut behind = JoinSet::new();
    for client in [&client, &other] {
        for number in 0..20 {
            let client = client.clone();
            behind.spawn(async move { client.set(format!("behind:{number}"), number).timeout(LONG).await });
        }
    }
    assert_eq!(script.await.unwrap().unwrap(), 1);
    for result in behind.join_all().await {
        result.unwrap();
    }
    assert_eq!((disconnects(&client), disconnects(&other)), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_waited_for_by_those_who_pass_replies_on() {
    let server = server().await;
    let client = RawClient::new(Config { probe: WARY, command_timeout: Some(LONG), ..config(&server) }).unwrap();
    let script = busy(2.8);
    let words = ["EVAL", &script, "1", "count"];
    let mut bytes = Vec::new();
    encode::command(&mut bytes, &words.map(str::as_bytes));
    let command = words[1..].iter().fold(Command::raw("EVAL"), |command, word| command.arg((*word).to_owned()));
    let replies = client.batch(&[client.encoded(&command, &bytes).unwrap()]).await;
    assert_eq!(replies[0].as_ref().unwrap(), ":1\r\n");
}

/// A subscription does not lose messages because somebody's script is slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_outlasts_a_script() {
    let server = server().await;
    let probe = Probe { idle_ping: Some(Duration::from_millis(100)), stall: Some(Duration::from_millis(200)) };
    let client = Client::new(Config { probe, ..config(&server) }).unwrap();
    let mut subscription = client.subscribe("news").await.unwrap();
    client.run::<i64>(eval(2.8)).timeout(LONG).await.unwrap();
    client.publish("news", "here").await.unwrap();
    match within(LONG, "the message", subscription.next()).await {
        Some(Event::Message(message)) => assert_eq!(message.payload, "here"),
        other => panic!("{other:?}"),
    }
}

/// Failovers pause writes. Nobody is cut for that, however soon a node is suspected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failovers_cost_no_command_of_who_suspects_soon() {
    let bed = Bed::start(3, 1).await;
    let probe = Probe { stall: Some(Duration::from_millis(100)), ..Probe::default() };
    let client = Client::new(Config { probe, ..bed.config() }).unwrap();
    let load = Load::start(&client, 64, preimages().into_iter().step_by(31).collect());
    load.more(1000).await;
    for new in [3, 4, 5, 0, 1, 2] {
        bed.run(move |cluster| {
            cluster.failover(&cluster.nodes()[new], Failover::Graceful).unwrap();
            cluster.wait_until_agreed().unwrap();
            // As long as some failovers take.
            cluster.nodes()[new].server().command(&["CLIENT", "PAUSE", "400", "WRITE"]).unwrap();
        })
        .await;
        load.more(1000).await;
    }
    let failed = load.stop().await;
    assert!(failed.is_empty(), "{} commands failed: {:?}", failed.len(), failed.first());
}

/// A server that stands still: those with little time end in time, as timeouts; one with more time gets its reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_costs_deadlines_and_no_more() {
    const SHORT: Duration = Duration::from_millis(250);
    let (server, well) = (server().await, server().await);
    let (client, other) = (wary(&server), wary(&well));
    client.set("k", "v").await.unwrap();
    server.stop().unwrap();
    let mut hasty = JoinSet::new();
    let begin = Instant::now();
    let patient = tokio::spawn({
        let client = client.clone();
        async move { client.set("patient", "v").timeout(LONG).await }
    });
    while begin.elapsed() < 3 * SECOND {
        let client = client.clone();
        hasty.spawn(async move {
            let begin = Instant::now();
            (client.set("hasty", "v").timeout(SHORT).await, begin.elapsed())
        });
        other.set("k", "v").timeout(LONG).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (result, took) in hasty.join_all().await {
        assert_timeout(result);
        assert!(took < SHORT + SECOND, "{took:?}");
    }
    server.cont().unwrap();
    patient.await.unwrap().unwrap();
    assert_eq!(disconnects(&client), 0);
}

/// The oldest command has little time and the server is well: a connection on which it is not answered is left, and
/// only then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_connection_is_left_at_the_oldest_deadline() {
    let server = server().await;
    let proxy = FaultProxy::to(server.addr()).await.unwrap();
    let config = Config::standalone(NodeAddress::tcp("127.0.0.1", proxy.port()));
    let client = Client::new(Config { probe: WARY, ..config }).unwrap();
    client.set("k", "v").await.unwrap();
    for connection in proxy.connections() {
        connection.set(|faults| (faults.to_client.is_paused, faults.to_server.is_paused) = (true, true));
    }
    let begin = Instant::now();
    let error = client.set("k", "a").timeout(SECOND).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)), "{error}");
    assert_eq!(error.ran(), Ran::MaybeExecuted);
    assert!(begin.elapsed() >= SECOND);
    eventually(10 * SECOND, "the connection is left", || disconnects(&client) == 1).await;
    client.set("k", "b").timeout(10 * SECOND).await.unwrap();
    assert_eq!(client.get("k").await.unwrap().unwrap(), "b");
}

/// The deadline of a script passes, and the server says that it is busy: those behind the script on its connection are
/// not cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_is_told_from_a_dead_connection() {
    let server = server().await;
    server.config_set("busy-reply-threshold", "50").unwrap();
    let client = wary(&server);
    client.set("k", "v").await.unwrap();
    let (script, behind) = tokio::join!(
        client.run::<i64>(eval(2.5)).timeout(Duration::from_millis(300)),
        client.set("k", "behind").timeout(LONG)
    );
    assert!(matches!(script.unwrap_err().kind(), ErrorKind::Timeout(_)));
    behind.unwrap();
    assert_eq!(disconnects(&client), 0);
}
