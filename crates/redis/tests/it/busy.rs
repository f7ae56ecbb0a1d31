//! A server that a script keeps busy, and what gets through to it.

use std::time::Duration;

use pilotlight_redis::raw::RawClient;
use pilotlight_redis::{Client, Command, Commands, Config, Error, Ran};
use pilotlight_testkit::Server;
use tokio::task::JoinHandle;

use crate::bed::{SECOND, within};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

const ENDLESS: &[&str] = &["EVAL", "while true do end", "0"];
const ENDLESS_FUNCTION: &str = "#!lua name=mine\nredis.register_function('endless', function() while true do end end)";

async fn server() -> Server {
    let server = tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap();
    server.config_set("busy-reply-threshold", "20").unwrap();
    server
}

fn client(server: &Server, database: u16) -> Client {
    Client::new(Config { database, ..Config::from_url(&server.url()).unwrap() }).unwrap()
}

/// Runs what never ends, on a connection of its own; what came of it. Returns when the server says that it is busy.
async fn keep_busy(server: &Server, words: &'static [&'static str]) -> JoinHandle<Result<(), Error>> {
    let running = run(client(server, 0), words);
    let observer = client(server, 0);
    within(LONG, "the script", async {
        // Reads wait for the end of a script.
        while !observer
            .set("observed", 1)
            .await
            .is_err_and(|error| error.server().is_some_and(|it| it.code() == "BUSY"))
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    running
}

fn run(client: Client, words: &'static [&'static str]) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move {
        let command = words[1..].iter().fold(Command::raw(words[0]), |command, word| command.arg(*word));
        client.run::<()>(command).timeout(LONG).await
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_killed_by_who_uses_another_database() {
    let server = server().await;
    let client = client(&server, 3);
    let running = keep_busy(&server, ENDLESS).await;
    within(LONG, "the kill", async { client.script_kill().await.unwrap() }).await;
    let error = running.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("killed by user"), "{error}");
    // What comes after goes to the database that is configured.
    client.set("k", "v").await.unwrap();
    assert_eq!(client.clone().run::<i64>(Command::raw("DBSIZE")).await.unwrap(), 1);
    assert_eq!(self::client(&server, 0).exists("k").await.unwrap(), 0);
}

/// The one connection of a client waits for the script that it has sent itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_killed_by_the_client_that_runs_it() {
    let server = server().await;
    let client = client(&server, 0);
    client.ping().await.unwrap();
    let running = run(client.clone(), ENDLESS);
    within(LONG, "the kill", async {
        while let Err(error) = client.script_kill().await {
            // It has not begun yet.
            assert_eq!(error.server().unwrap().code(), "NOTBUSY", "{error}");
        }
    })
    .await;
    running.await.unwrap().unwrap_err();
    client.ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_is_told_of_and_killed_also_in_a_pipeline() {
    let server = server().await;
    let client = client(&server, 2);
    self::client(&server, 0).run::<()>(Command::raw("FUNCTION LOAD").arg(ENDLESS_FUNCTION)).await.unwrap();
    let running = keep_busy(&server, &["FCALL", "endless", "0"]).await;
    let mut pipeline = client.pipeline().timeout(LONG);
    let stats = pipeline.queue::<pilotlight_redis::Value>(Command::raw("FUNCTION STATS"));
    let killed = pipeline.queue::<()>(Command::raw("FUNCTION KILL"));
    let set = pipeline.set("k", "v");
    let mut replies = within(LONG, "the pipeline", pipeline.run()).await.unwrap();
    let stats = format!("{:?}", replies.take(stats).unwrap());
    assert!(stats.contains("endless"), "{stats}");
    replies.take(killed).unwrap();
    replies.take(set).unwrap();
    running.await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_pass_replies_on_kill_too() {
    let server = server().await;
    let client = RawClient::new(Config { database: 3, ..Config::from_url(&server.url()).unwrap() }).unwrap();
    let running = keep_busy(&server, ENDLESS).await;
    let reply = within(LONG, "the kill", client.run(Command::raw("SCRIPT KILL"), None)).await.unwrap();
    assert_eq!(reply, "+OK\r\n");
    running.await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_server_is_shut_down_by_who_uses_another_database() {
    let server = server().await;
    let client = client(&server, 3);
    let running = keep_busy(&server, ENDLESS).await;
    let down = client.run::<()>(Command::raw("SHUTDOWN").arg("NOSAVE")).timeout(10 * SECOND);
    // It answers by its end.
    let error = within(LONG, "the end", down).await.unwrap_err();
    assert_eq!(error.ran(), Ran::MaybeExecuted, "{error}");
    running.await.unwrap().unwrap_err();
    within(LONG, "the end of the server", async {
        while std::net::TcpStream::connect(server.addr()).is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
