//! The ends of lanes: clients that close or are dropped, runtimes that are shut down, runtimes that share a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::config::{Backoff, NodeAddress, Probe};
use pilotlight_redis::{Client, Command, Commands, Config, Error, Ran};
use pilotlight_testkit::{Answer, Script, ScriptedServer, Server, Signal};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::desync::scenario::{Kind, PATIENCE, ScriptExt, calm};

fn to(server: &ScriptedServer) -> Client {
    Client::new(Config {
        reconnect: Backoff { min: Duration::from_millis(1), max: Duration::from_millis(20), factor: 2.0 },
        probe: Probe { idle_ping: None, stall: None },
        ..Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()))
    })
    .unwrap()
}

/// A server whose reply to `ECHO x` is `x`.
async fn echo() -> ScriptedServer {
    ScriptedServer::respond(|words| {
        let word = words.get(1).cloned().unwrap_or_default();
        Answer::from([format!("${}\r\n", word.len()).as_bytes(), &word, b"\r\n"].concat())
    })
    .await
    .unwrap()
}

async fn echoed(client: &Client, text: &str) -> Result<Bytes, Error> {
    let call = client.run::<Bytes>(Command::raw("ECHO").arg(text));
    timeout(PATIENCE, call).await.expect("it ends")
}

#[track_caller]
fn has_failed<T: std::fmt::Debug>(outcome: Result<T, Error>, ran: Ran, kind: Kind) {
    let error = outcome.unwrap_err();
    assert_eq!((error.ran(), Kind::from(error.kind())), (ran, kind), "{error}");
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[tokio::test]
async fn close_lets_what_is_in_flight_finish_and_refuses_the_rest() {
    let (seen, go) = (Signal::new(), Signal::new());
    let server = ScriptedServer::play(Script::new().takes("a").raise(&seen).pause_until(&go).gives("a")).await.unwrap();
    let client = to(&server);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.getdel("a").await }
    });
    timeout(PATIENCE, seen.wait()).await.unwrap();
    let closing = tokio::spawn({
        let client = client.clone();
        async move { client.close(PATIENCE).await }
    });
    tokio::task::yield_now().await;
    has_failed(client.getdel("b").await, Ran::NotSent, Kind::Closed);
    go.raise();
    assert_eq!(waiting.await.unwrap().unwrap().unwrap(), "value-of-a");
    timeout(PATIENCE, closing).await.expect("all is finished").unwrap();
    has_failed(client.getdel("c").await, Ran::NotSent, Kind::Closed);
    server.finish().await.unwrap();
    calm(&client).await;
}

#[tokio::test]
async fn close_loses_its_patience() {
    let (seen, never) = (Signal::new(), Signal::new());
    let server = ScriptedServer::play(Script::new().takes("a").raise(&seen).pause_until(&never)).await.unwrap();
    let client = to(&server);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.getdel("a").await }
    });
    timeout(PATIENCE, seen.wait()).await.unwrap();
    let begin = Instant::now();
    client.close(Duration::from_millis(50)).await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    has_failed(waiting.await.unwrap(), Ran::MaybeExecuted, Kind::Closed);
    calm(&client).await;
}

#[tokio::test]
async fn close_before_the_first_command_and_twice() {
    let server = echo().await;
    let client = to(&server);
    client.close(Duration::from_secs(1)).await;
    client.close(Duration::from_secs(1)).await;
    has_failed(echoed(&client, "x").await, Ran::NotSent, Kind::Closed);
}

#[tokio::test]
async fn close_while_it_connects() {
    let never = Signal::new();
    let server = ScriptedServer::play(Script::new().pause_until(&never)).await.unwrap();
    let client = to(&server);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.getdel("a").await }
    });
    assert!(server.wait_for_connections(1).await);
    client.close(PATIENCE).await;
    has_failed(waiting.await.unwrap(), Ran::NotSent, Kind::Closed);
}

/// Whoever waits for the byte budget of a closed client is told so.
#[tokio::test]
async fn close_while_others_wait_for_the_byte_budget() {
    let (seen, go) = (Signal::new(), Signal::new());
    let server = ScriptedServer::play(Script::new().takes("a").raise(&seen).pause_until(&go).gives("a")).await.unwrap();
    let config = Config { max_queued_bytes: 100, ..Config::standalone(NodeAddress::tcp("127.0.0.1", server.port())) };
    let client = Client::new(config).unwrap();
    let mut waiting = JoinSet::new();
    for key in ["a", "b", "c"] {
        let other = client.clone();
        waiting.spawn(async move { (key, other.getdel(key).await) });
        tokio::task::yield_now().await;
    }
    timeout(PATIENCE, seen.wait()).await.unwrap();
    let closing = tokio::spawn(async move { client.close(PATIENCE).await });
    for _ in 0..2 {
        let (key, outcome) = timeout(PATIENCE, waiting.join_next()).await.unwrap().unwrap().unwrap();
        assert_ne!(key, "a");
        has_failed(outcome, Ran::NotSent, Kind::Closed);
    }
    go.raise();
    let (_, outcome) = timeout(PATIENCE, waiting.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(outcome.unwrap().unwrap(), "value-of-a");
    closing.await.unwrap();
}

/// The connection of a client that is dropped is closed, even if the server still owes replies.
#[tokio::test]
async fn a_dropped_client_leaves_nothing_behind() {
    let (seen, gone) = (Signal::new(), Signal::new());
    // The script ends when the client closes the connection: nothing else comes.
    let server =
        ScriptedServer::play(Script::new().takes("a").raise(&seen).pause_until(&gone).expect_any()).await.unwrap();
    let client = to(&server);
    let waiting = tokio::spawn(async move { client.getdel("a").await });
    timeout(PATIENCE, seen.wait()).await.unwrap();
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    gone.raise();
    let error = timeout(PATIENCE, server.finish()).await.expect("the connection ends").unwrap_err();
    assert!(error.to_string().contains("the connection's end"), "{error}");
}

#[test]
fn a_runtime_that_is_shut_down_fails_its_lanes_and_the_next_one_takes_over() {
    let servers = multi_thread();
    let (seen, never) = (Signal::new(), Signal::new());
    let script = Script::new().answers("a").takes("b").raise(&seen).pause_until(&never).next_connection().answers("c");
    let server = servers.block_on(ScriptedServer::play(script)).unwrap();
    let client = to(&server);

    let first = multi_thread();
    assert_eq!(first.block_on(client.getdel("a")).unwrap().unwrap(), "value-of-a");
    let second = current_thread();
    let waiting = thread::spawn({
        let client = client.clone();
        // Not on the runtime that the connection lives on.
        move || second.block_on(async { timeout(PATIENCE, client.getdel("b")).await }).expect("it does not hang")
    });
    servers.block_on(async { timeout(PATIENCE, seen.wait()).await }).unwrap();
    first.shutdown_background();
    has_failed(waiting.join().unwrap(), Ran::MaybeExecuted, Kind::Connection);

    let third = current_thread();
    assert_eq!(
        third
            .block_on(async { timeout(PATIENCE, client.getdel("c")).await })
            .expect("it does not hang")
            .unwrap()
            .unwrap(),
        "value-of-c"
    );
    third.block_on(calm(&client));
    never.raise();
    servers.block_on(server.finish()).unwrap();
}

/// One runtime after the other, as with one for each test or each call.
#[test]
fn a_client_outlives_many_runtimes() {
    let servers = multi_thread();
    let server = servers.block_on(echo());
    let client = to(&server);
    for round in 0..20 {
        let text = format!("round {round}");
        assert_eq!(current_thread().block_on(echoed(&client, &text)).unwrap(), text);
    }
    assert_eq!(server.connections(), 20);
}

#[test]
fn without_a_runtime_there_is_an_error_and_no_panic() {
    let servers = multi_thread();
    let server = servers.block_on(echo());
    let client = to(&server);
    let outcome = block_on(client.run::<Bytes>(Command::raw("ECHO").arg("x")));
    has_failed(outcome, Ran::NotSent, Kind::Connect);
    // Once there is a connection, callers need no runtime.
    servers.block_on(echoed(&client, "first")).unwrap();
    assert_eq!(block_on(client.run::<Bytes>(Command::raw("ECHO").arg("x"))).unwrap(), "x");
}

/// Polls a future without any runtime, waking by the thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(PATIENCE);
    }
}

/// Runtimes of one thread each, all on one client whose connection lives on one of them.
#[test]
fn threads_with_runtimes_of_their_own_share_a_client() {
    const THREADS: usize = 4;
    const TASKS: usize = 8;
    const CALLS: usize = 100;
    let server = Server::start().unwrap();
    let client = Client::new(Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()))).unwrap();
    let home = multi_thread();
    home.block_on(echoed(&client, "first")).unwrap();
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (client, done) = (client.clone(), &done);
            scope.spawn(move || {
                current_thread().block_on(async {
                    let mut tasks = JoinSet::new();
                    for task in 0..TASKS {
                        let client = client.clone();
                        tasks.spawn(async move {
                            for call in 0..CALLS {
                                let text = format!("{thread}.{task}.{call}");
                                assert_eq!(echoed(&client, &text).await.unwrap(), text);
                            }
                        });
                    }
                    tasks.join_all().await;
                    done.fetch_add(TASKS * CALLS, Ordering::Relaxed);
                });
            });
        }
    });
    assert_eq!(done.into_inner(), THREADS * TASKS * CALLS);
    home.block_on(calm(&client));
    let connects: u64 = client.stats().lanes.iter().map(|lane| lane.snapshot.counters.connects).sum();
    assert_eq!(connects, 1);
}

#[tokio::test]
async fn many_clients_on_one_runtime() {
    let server = Server::start().unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..50 {
        let client =
            Client::new(Config { lanes: 2, ..Config::standalone(NodeAddress::unix(server.unix_path())) }).unwrap();
        for call in 0..20 {
            let client = client.clone();
            tasks.spawn(async move {
                let text = format!("{number}.{call}");
                assert_eq!(echoed(&client, &text).await.unwrap(), text);
                let key = format!("{{{number}.{call}}}");
                client.set(&key, &text).await.unwrap();
                assert_eq!(client.get(&key).await.unwrap().unwrap(), text);
            });
        }
    }
    tasks.join_all().await;
}
