//! Crowds: callers that leave at random, values larger than all buffers, budgets that are used up.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pilotlight_redis::config::{BoxFuture, ByteStream, Connector, NodeAddress, Overload, Pem, TlsConfig, TlsRoots};
use pilotlight_redis::{Client, Command, Commands, Config, ErrorKind, Ran};
use pilotlight_testkit::{Answer, ClientAuth, ScriptedServer, ScriptedServerBuilder, Server};
use tokio::io::copy_bidirectional;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bed::eventually;
use crate::desync::scenario::{InMemory, PATIENCE, calm};

const MIB: usize = 1 << 20;

/// Callers that leave at random points, many at a time; those who stay get their own.
async fn random_drops(config: Config, drops: usize, seed: u64) {
    const TASKS: usize = 64;
    let client = Client::new(config).unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = client.clone();
        let mut random = fastrand::Rng::with_seed(seed + task as u64);
        tasks.spawn(async move {
            let (mut dropped, mut call) = (0, 0_u64);
            while dropped < drops / TASKS {
                call += 1;
                let text = format!("{task}.{call}");
                let stays = random.u8(..4) == 0;
                let patience = random.u32(..6);
                tokio::select! {
                    biased;
                    echo = client.run::<Bytes>(Command::raw("ECHO").arg(&text)) => assert_eq!(echo.unwrap(), text),
                    () = turns(patience), if !stays => dropped += 1,
                }
            }
        });
    }
    timeout(Duration::from_secs(600), tasks.join_all()).await.expect("it ends");
    calm(&client).await;
    let snapshot = client.stats().lanes[0].snapshot;
    assert_eq!((snapshot.counters.connects, snapshot.counters.disconnects), (1, 0), "{snapshot:?}");
    assert!(snapshot.counters.abandoned > drops as u64 / 100, "some left after they were written: {snapshot:?}");
}

async fn turns(count: u32) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

fn tcp(server: &Server) -> Config {
    Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()))
}

#[tokio::test]
async fn random_drops_of_many_tasks() {
    let server = Server::start().unwrap();
    random_drops(tcp(&server), 30_000, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_drops_of_many_tasks_on_two_threads() {
    let server = Server::start().unwrap();
    random_drops(Config::standalone(NodeAddress::unix(server.unix_path())), 30_000, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: make soak"]
async fn soak_a_million_random_drops() {
    let server = Server::start().unwrap();
    random_drops(tcp(&server), 1_000_000, fastrand::u64(..1 << 32)).await;
}

/// A server that does not read while it writes: `ECHO x` is answered before the next command is read.
async fn strict_echo(builder: ScriptedServerBuilder) -> Arc<ScriptedServer> {
    let echo = |words: Vec<Bytes>| {
        let word = words.get(1).cloned().unwrap_or_default();
        Answer::from([format!("${}\r\n", word.len()).as_bytes(), &word, b"\r\n"].concat())
    };
    Arc::new(builder.respond(echo).await.unwrap())
}

/// More on its way in both directions than all buffers hold: whoever stops reading while it writes hangs.
async fn both_ways_at_once(config: Config, values: usize, bytes: usize) {
    let client = Client::new(Config { max_queued_bytes: 1 << 30, command_timeout: None, ..config }).unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..values {
        let client = client.clone();
        tasks.spawn(async move {
            let value = Bytes::from(vec![number as u8; bytes]);
            // Shared values go by reference, borrowed ones by copy.
            let echo = if number % 2 == 0 {
                client.run::<Bytes>(Command::raw("ECHO").arg(&value)).await
            } else {
                client.run::<Bytes>(Command::raw("ECHO").arg(&value[..])).await
            };
            assert!(echo.unwrap() == value, "{number} got another value");
        });
    }
    timeout(Duration::from_secs(60), tasks.join_all()).await.expect("neither side waits for the other");
    calm(&client).await;
}

/// Through a pipe that holds so many bytes.
struct Narrow(InMemory, usize);

impl Connector for Narrow {
    fn connect<'a>(&'a self, address: &'a NodeAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async {
            let mut server = self.0.connect(address).await?;
            let (client, mut pipe) = tokio::io::duplex(self.1);
            tokio::spawn(async move { copy_bidirectional(&mut pipe, &mut server).await });
            Ok(Box::new(client) as Box<dyn ByteStream>)
        })
    }
}

async fn through(buffer_bytes: usize) -> Config {
    let server = strict_echo(ScriptedServer::builder().memory()).await;
    Config { connector: Some(Arc::new(Narrow(InMemory(server), buffer_bytes))), ..Config::default() }
}

#[tokio::test]
async fn both_ways_at_once_in_memory_through_64_bytes() {
    both_ways_at_once(through(64).await, 2, MIB / 2).await;
}

#[tokio::test]
async fn both_ways_at_once_in_memory() {
    both_ways_at_once(through(16 << 10).await, 2, 10 * MIB).await;
}

#[tokio::test]
#[ignore = "half a minute: make soak"]
async fn soak_both_ways_at_once_in_memory_through_64_bytes() {
    both_ways_at_once(through(64).await, 2, 10 * MIB).await;
}

#[tokio::test]
async fn both_ways_at_once_over_tcp() {
    let server = strict_echo(ScriptedServer::builder()).await;
    both_ways_at_once(Config::standalone(NodeAddress::tcp("127.0.0.1", server.port())), 6, 10 * MIB).await;
}

#[tokio::test]
async fn both_ways_at_once_over_a_unix_socket() {
    let server = strict_echo(ScriptedServer::builder().unix()).await;
    both_ways_at_once(Config::standalone(NodeAddress::unix(server.unix_path().unwrap())), 6, 10 * MIB).await;
}

#[tokio::test]
async fn both_ways_at_once_over_tls() {
    let server = Server::builder().tls(ClientAuth::None).start().unwrap();
    let ca = server.certificates().unwrap().ca_pem().to_owned();
    let tls = TlsConfig { roots: TlsRoots::Only(Pem::Text(ca.into_bytes().into())), ..TlsConfig::default() };
    both_ways_at_once(Config::standalone(NodeAddress::tcp("localhost", server.port())).with_tls(tls), 4, 10 * MIB)
        .await;
}

#[tokio::test]
async fn a_crowd_waits_for_a_small_byte_budget() {
    let server = Server::start().unwrap();
    let client = Client::new(Config { max_queued_bytes: 1000, ..tcp(&server) }).unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let client = client.clone();
        tasks.spawn(async move {
            for call in 0..100 {
                let text = format!("{task}.{call}");
                let echo = client.run::<Bytes>(Command::raw("ECHO").arg(&text));
                // Some lose their patience.
                if call % 10 == 9 {
                    let _ = timeout(Duration::from_micros(50), echo).await;
                } else {
                    assert_eq!(echo.await.unwrap(), text);
                }
            }
        });
    }
    timeout(PATIENCE, tasks.join_all()).await.expect("everybody has his turn");
    calm(&client).await;
}

#[tokio::test]
async fn a_crowd_is_rejected_above_the_byte_budget_and_nobody_else() {
    let server = Server::start().unwrap();
    let client = Client::new(Config { max_queued_bytes: 1000, overload: Overload::Reject, ..tcp(&server) }).unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let client = client.clone();
        tasks.spawn(async move {
            let mut rejected = 0;
            for call in 0..100 {
                let text = format!("{task}.{call}");
                match client.run::<Bytes>(Command::raw("ECHO").arg(&text)).await {
                    Ok(echo) => assert_eq!(echo, text),
                    Err(error) => {
                        assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }), "{error}");
                        rejected += 1;
                        tokio::task::yield_now().await;
                    }
                }
            }
            rejected
        });
    }
    let rejected: u32 = timeout(PATIENCE, tasks.join_all()).await.unwrap().into_iter().sum();
    assert!((1..6400).contains(&rejected), "{rejected} of 6400 were rejected");
    calm(&client).await;
}

/// While the server is away more and more are queued: the oldest give way, the newest are answered when it is back.
#[tokio::test]
async fn the_oldest_give_way_where_a_late_answer_is_worth_nothing() {
    const CALLS: usize = 100;
    const LIMIT: usize = 5000;
    let server = Server::start().unwrap();
    let client = Client::new(Config { max_queued_bytes: LIMIT, overload: Overload::Shed, ..tcp(&server) }).unwrap();
    client.set("k", 0).await.unwrap();
    server.kill().unwrap();
    eventually(PATIENCE, "the loss", || !client.stats().lanes[0].snapshot.is_connected).await;
    let mut calls = Vec::new();
    for number in 0..CALLS {
        let client = client.clone();
        calls.push(tokio::spawn(async move { client.run::<Bytes>(Command::raw("ECHO").arg(number)).await }));
        // In this order.
        tokio::task::yield_now().await;
    }
    let counters = || client.stats().lanes[0].snapshot;
    eventually(PATIENCE, "all calls", || counters().counters.commands == CALLS as u64 + 1).await;
    // The last one is taken while there is any room.
    assert!(counters().budget_used_bytes < LIMIT + 200, "{:?}", counters());
    server.restart().unwrap();
    let mut answered = Vec::new();
    for (number, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Ok(echo) => {
                assert_eq!(echo, number.to_string());
                answered.push(number);
            }
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Overloaded { .. }), "{error}");
                assert_eq!(error.ran(), Ran::NotSent);
            }
        }
    }
    let shed = counters().counters.shed as usize;
    assert!(shed > 0 && shed + answered.len() == CALLS, "{shed} gave way, {} were answered", answered.len());
    assert!(answered.iter().copied().eq(shed..CALLS), "the newest: {answered:?}");
    calm(&client).await;
}

/// A caller that only shouts does not keep the others from being heard.
#[tokio::test]
async fn large_commands_do_not_starve_the_clock() {
    let server = strict_echo(ScriptedServer::builder()).await;
    let client = Client::new(Config::standalone(NodeAddress::tcp("127.0.0.1", server.port()))).unwrap();
    let value = Bytes::from(vec![b'x'; 8 * MIB]);
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let (client, value) = (client.clone(), value.clone());
        tasks.spawn(async move {
            client
                .run::<Bytes>(Command::raw("ECHO").arg(value))
                .await
                .map(|echo| echo.len())
                .map_err(|error| error.ran())
        });
    }
    tokio::task::yield_now().await;
    let begin = std::time::Instant::now();
    let late = client.run::<Bytes>(Command::raw("ECHO").arg("x")).timeout(Duration::from_millis(5)).await;
    assert!(late.is_err() && begin.elapsed() < Duration::from_secs(2), "{late:?} after {:?}", begin.elapsed());
    timeout(PATIENCE, tasks.join_all()).await.unwrap();
    calm(&client).await;
}

/// It is sent in parts, in its order.
#[tokio::test]
async fn a_pipeline_may_be_larger_than_the_byte_budget() {
    let server = Server::start().unwrap();
    let client = Client::new(Config { max_queued_bytes: 10_000, ..tcp(&server) }).unwrap();
    let mut pipeline = client.pipeline();
    let appended: Vec<_> = (0..100).map(|_| pipeline.append("a", "x".repeat(1000))).collect();
    let large = pipeline.set("large", "x".repeat(1_000_000));
    let last = pipeline.append("a", "x");
    let mut replies = pipeline.run().await.unwrap();
    for (at, length) in appended.into_iter().enumerate() {
        assert_eq!(replies.take(length).unwrap(), 1000 * (at as i64 + 1));
    }
    replies.take(large).unwrap();
    assert_eq!(replies.take(last).unwrap(), 100_001);
}
