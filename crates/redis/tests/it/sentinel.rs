//! The primary that Sentinels name: found, followed, and not found.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::config::{AddressMap, Credentials, NodeAddress, ProtocolChoice, SentinelConfig, Topology};
use pilotlight_redis::{Client, Commands, Config, Error, ErrorKind, Event, Ran};
use pilotlight_testkit::{Handshake, ScriptedServer, Sentinels, Server};
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(20);

async fn start(replicas: usize) -> Arc<Sentinels> {
    Arc::new(tokio::task::spawn_blocking(move || Sentinels::start(replicas).unwrap()).await.unwrap())
}

async fn run<T: Send + 'static>(bed: &Arc<Sentinels>, work: impl FnOnce(&Sentinels) -> T + Send + 'static) -> T {
    let bed = Arc::clone(bed);
    tokio::task::spawn_blocking(move || work(&bed)).await.unwrap()
}

fn address(server: &Server) -> NodeAddress {
    NodeAddress::tcp("127.0.0.1", server.port())
}

fn config(sentinels: &[NodeAddress], name: &str) -> Config {
    Config { servers: sentinels.to_vec(), topology: Topology::Sentinel(SentinelConfig::new(name)), ..Config::default() }
}

fn all(bed: &Sentinels) -> Config {
    config(&bed.sentinels().iter().map(address).collect::<Vec<_>>(), bed.name())
}

/// Writers until they are stopped: how often they succeeded, when last, and their errors.
struct Load {
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<Vec<Error>>,
    counter: &'static str,
}

impl Load {
    fn start(client: &Client, counter: &'static str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let (client, is_over) = (client.clone(), Arc::clone(&is_over));
            tasks.spawn(async move {
                let mut errors = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    errors.extend(client.incr(counter).await.err());
                    // The Sentinels need some of the machine, too.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                errors
            });
        }
        Self { is_over, tasks, counter }
    }

    /// Stops it, and says what went wrong.
    async fn stop(self) -> Vec<Error> {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.into_iter().flatten().collect()
    }

    /// Waits until `server` itself is written to.
    async fn reaches(&self, bed: &Arc<Sentinels>, port: u16) -> Duration {
        let (since, counter) = (Instant::now(), self.counter);
        let count = move |bed: &Sentinels| {
            let server = bed.servers().iter().find(|server| server.port() == port).unwrap();
            server.command(&["GET", counter]).unwrap().integer().unwrap_or(0)
        };
        let before = run(bed, count).await;
        while run(bed, count).await <= before {
            assert!(since.elapsed() < LIMIT, "nothing is written to the new primary");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        since.elapsed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follows_a_failover_under_load() {
    let bed = start(1).await;
    let client = Client::new(all(&bed)).unwrap();
    client.set("k", "v").await.unwrap();
    let first = bed.servers()[0].addr().to_string();
    assert_eq!(&*client.stats().lanes[0].node, first);
    let since = Instant::now();
    while bed.servers()[1].command(&["EXISTS", "k"]).unwrap().integer() != Some(1) {
        assert!(since.elapsed() < LIMIT, "it is not replicated");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let load = Load::start(&client, "n");
    let port = run(&bed, |bed| bed.failover().unwrap().port()).await;
    let late = load.reaches(&bed, port).await;
    let errors = load.stop().await;
    println!("written {late:?} after all Sentinels agreed; {} errors", errors.len());
    assert!(late < Duration::from_secs(1), "{late:?}");
    // Sentinels cut the connections of the old primary: what was in flight may have run. Nothing else is an error.
    assert!(errors.iter().all(|error| error.ran() == Ran::MaybeExecuted), "{errors:?}");
    assert_ne!(&*client.stats().lanes[0].node, first);
    assert_eq!(client.get("k").await.unwrap().as_deref(), Some(b"v".as_slice()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn follows_after_the_primary_is_killed_and_after_it_hangs() {
    let bed = start(2).await;
    // In RESP2, where HELLO does not tell the role and messages are replies.
    let config = Config { command_timeout: Some(LIMIT), protocol: ProtocolChoice::Resp2, ..all(&bed) };
    let client = Client::new(config).unwrap();
    let load = Load::start(&client, "n");
    client.set("k", "v").await.unwrap();

    let killed = bed.servers()[0].addr();
    bed.servers()[0].kill().unwrap();
    let port = run(&bed, move |bed| bed.wait_for_new_primary(killed).unwrap().port()).await;
    let late = load.reaches(&bed, port).await;
    println!("killed: written {late:?} after all Sentinels agreed");
    assert!(late < Duration::from_secs(2), "{late:?}");

    let stopped = bed.servers().iter().find(|server| server.port() == port).unwrap().addr();
    run(&bed, move |bed| bed.servers().iter().find(|server| server.addr() == stopped).unwrap().stop().unwrap()).await;
    let port = run(&bed, move |bed| bed.wait_for_new_primary(stopped).unwrap().port()).await;
    let late = load.reaches(&bed, port).await;
    println!("stopped: written {late:?} after all Sentinels agreed");
    assert!(late < Duration::from_secs(2), "{late:?}");
    let errors = load.stop().await;
    assert!(errors.iter().all(|error| error.ran() == Ran::MaybeExecuted), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscriptions_follow_to_the_new_primary() {
    let bed = start(1).await;
    let config = Config { command_timeout: Some(LIMIT), ..all(&bed) };
    let client = Client::new(config).unwrap();
    let mut news = client.subscribe(["news"]).await.unwrap();
    client.publish("news", "before").await.unwrap();
    assert!(matches!(news.next().await, Some(Event::Message(message)) if &*message.payload == b"before"));

    let killed = bed.servers()[0].addr();
    bed.servers()[0].kill().unwrap();
    run(&bed, move |bed| _ = bed.wait_for_new_primary(killed).unwrap()).await;
    let since = Instant::now();
    // Nobody receives it as long as nobody is subscribed there.
    while client.publish("news", "after").await.unwrap() == 0 {
        assert!(since.elapsed() < LIMIT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(matches!(news.next().await, Some(Event::Gap { .. })));
    assert!(matches!(news.next().await, Some(Event::Message(message)) if &*message.payload == b"after"));
}

#[tokio::test]
async fn dead_sentinels_are_passed_over_and_others_are_learnt() {
    let bed = start(1).await;
    let sentinels = bed.sentinels();
    sentinels[0].kill().unwrap();
    // Of those that live only one is known.
    let known = [NodeAddress::tcp("127.0.0.1", 1), address(&sentinels[0]), address(&sentinels[1])];
    let client = Client::new(config(&known, bed.name())).unwrap();
    client.set("k", "v").await.unwrap();

    // Without the other two there is no failover; so the one that was not configured has to be known now.
    run(&bed, |bed| bed.sentinels()[0].restart().unwrap()).await;
    let before = bed.servers()[0].addr();
    let load = Load::start(&client, "n");
    run(&bed, |bed| {
        bed.failover().unwrap();
        bed.sentinels()[1].kill().unwrap();
        bed.sentinels()[0].kill().unwrap();
        bed.servers()[0].kill().unwrap();
    })
    .await;
    let port = bed.servers()[1].port();
    assert_ne!(port, before.port());
    load.reaches(&bed, port).await;
    run(&bed, |bed| bed.servers()[1].client_kill_all().unwrap()).await;
    load.reaches(&bed, port).await;
    load.stop().await;
}

#[tokio::test]
async fn a_wrong_name_is_told_at_once() {
    let bed = start(1).await;
    let sentinels: Vec<_> = bed.sentinels().iter().map(address).collect();
    let client = Client::new(config(&sentinels, "nobody")).unwrap();
    let since = Instant::now();
    let error = client.set("k", "v").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Rejected(_)), "{error}");
    assert!(error.to_string().contains(r#"knows no primary called "nobody""#), "{error}");
    assert_eq!(error.ran(), Ran::NotSent);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
}

#[tokio::test]
async fn without_any_sentinel_the_deadline_says_why() {
    let dead = [NodeAddress::tcp("127.0.0.1", 1), NodeAddress::tcp("127.0.0.1", 2)];
    let client = Client::new(config(&dead, "mymaster")).unwrap();
    let error = client.set("k", "v").timeout(Duration::from_millis(300)).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(r#"no Sentinel leads to "mymaster""#) && text.contains("127.0.0.1:2"), "{text}");
    assert_eq!(error.ran(), Ran::NotSent);
}

/// A Sentinel that wants a password of its own and knows addresses that only it can reach.
#[tokio::test]
async fn credentials_and_address_map() {
    let server = tokio::task::spawn_blocking(|| Server::builder().requirepass("data").start().unwrap()).await.unwrap();
    let hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n";
    let sentinel = ScriptedServer::builder()
        .handshake(Handshake::manual())
        .respond(move |words: Vec<Bytes>| {
            let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
            match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["HELLO", "3", "AUTH", "watcher", "sentinel", ..] => hello.to_owned(),
                ["HELLO", ..] => "-WRONGPASS no\r\n".to_owned(),
                ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"] => "*2\r\n$8\r\n10.9.8.7\r\n$4\r\n7000\r\n".to_owned(),
                ["SENTINEL", ..] => "*0\r\n".to_owned(),
                ["SUBSCRIBE", ..] => String::new(),
                _ => "+OK\r\n".to_owned(),
            }
        })
        .await
        .unwrap();
    let inside = NodeAddress::tcp("10.9.8.7", 7000);
    let map = [(inside.clone(), address(&server))].into_iter().collect();
    let mut topology = SentinelConfig::new("main");
    topology.credentials = Some(Arc::new(Credentials::new("watcher", "sentinel")));
    let config = Config {
        servers: vec![NodeAddress::tcp("127.0.0.1", sentinel.port())],
        topology: Topology::Sentinel(topology),
        address_map: AddressMap::Table(Arc::new(map)),
        ..Config::default()
    };
    let client = Client::new(config.with_credentials(Credentials::password("data"))).unwrap();
    client.set("k", "v").await.unwrap();
    assert_eq!(client.get("k").await.unwrap(), Some(Bytes::from_static(b"v")));
    assert_eq!(*client.stats().lanes[0].node, *inside.to_string());
}
