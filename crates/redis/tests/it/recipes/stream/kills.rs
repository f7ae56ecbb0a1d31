//! Workers that are killed, servers that are killed and replaced: every entry is processed, and no repetition is
//! hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pilotlight_redis::recipes::stream::{Consumer, ConsumerConfig};
use pilotlight_redis::{Client, Commands, Config};
use pilotlight_testkit::{Sentinels, Server};

use super::super::{run, start, until};

const ENTRIES: usize = 4000;
const URL: &str = "RECIPES_WORKER_URL";
const FILE: &str = "RECIPES_WORKER_FILE";

/// Another process than the test: it writes down what it has processed, and acknowledges it.
#[tokio::test]
#[ignore = "the child of the others"]
async fn worker() {
    let (Ok(url), Ok(file)) = (std::env::var(URL), std::env::var(FILE)) else { return };
    let client = Client::new(Config::from_url(&url).unwrap()).unwrap();
    let mut consumer = Consumer::open(&client, config()).await.unwrap();
    let stopper = consumer.stopper();
    // Its parent has gone, or wants it to end.
    std::thread::spawn(move || {
        let _ = std::io::stdin().lines().next();
        stopper.stop();
    });
    let mut file = OpenOptions::new().append(true).create(true).open(file).unwrap();
    while let Some(entry) = consumer.next().await {
        let mut entry = entry.unwrap();
        if fastrand::u8(..50) == 0 {
            continue;
        }
        let line = format!("{} {}\n", String::from_utf8_lossy(entry.id()), entry.deliveries());
        file.write_all(line.as_bytes()).unwrap();
        // A server that is away: it is repeated, and told.
        let _ = entry.ack().await;
    }
    consumer.close(Duration::from_secs(10)).await;
}

fn config() -> ConsumerConfig {
    ConsumerConfig { claim_after: Duration::from_millis(500), max_prefetched: 32, ..ConsumerConfig::new("s", "g") }
}

fn spawn(url: &str, file: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "recipes::stream::kills::worker", "--ignored"])
        .env(URL, url)
        .env(FILE, file)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Adds entries whose ids are known before: one that is added again is refused.
async fn produce(client: Client, numbers: RangeInclusive<usize>) {
    for number in numbers {
        let id = format!("{number}-0");
        until(|| async {
            match client.xadd("s", &id, [("n", number)]).await {
                Ok(_) => true,
                Err(error) => error.server().is_some_and(|server| server.text().contains("equal or smaller")),
            }
        })
        .await;
    }
}

/// The deliveries of each entry that was processed, in their order.
fn processed(file: &Path) -> BTreeMap<String, Vec<u64>> {
    let mut processed = BTreeMap::<_, Vec<_>>::new();
    for line in fs::read_to_string(file).unwrap_or_default().lines() {
        let (id, deliveries) = line.split_once(' ').unwrap();
        processed.entry(id.to_owned()).or_default().push(deliveries.parse().unwrap());
    }
    processed
}

fn ids(numbers: RangeInclusive<usize>) -> BTreeSet<String> {
    numbers.map(|number| format!("{number}-0")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_and_the_server_are_killed_and_each_entry_is_processed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("processed");
    // Written to the kernel before it is acknowledged: a process that is killed loses nothing. With `everysec` writes
    // are put off for up to two seconds while the disk is busy with the last second's.
    let persistent = Server::builder().config("appendonly yes").config("appendfsync no");
    let (server, client) = start(persistent).await;
    let producer = tokio::spawn(produce(client.clone(), 1..=ENTRIES));
    let mut workers: Vec<_> = (0..4).map(|_| spawn(&server.url(), &file)).collect();
    let mut kills = 0;
    while processed(&file).len() < ENTRIES {
        // Each time something has been done since, somebody dies: the server the fifth time.
        let (done, wanted) = (processed(&file).len(), (ENTRIES / 20).min(ENTRIES - processed(&file).len()));
        until(|| async { processed(&file).len() >= done + wanted }).await;
        kills += 1;
        if kills % 5 == 0 {
            run(&server, |server| server.restart().unwrap()).await;
        } else {
            let killed = &mut workers[kills % 4];
            killed.kill().unwrap();
            killed.wait().unwrap();
            *killed = spawn(&server.url(), &file);
        }
    }
    producer.await.unwrap();
    until(|| async { client.xpending("s", "g").await.is_ok_and(|pending| pending.count == 0) }).await;
    for mut worker in workers {
        drop(worker.stdin.take());
        assert!(tokio::task::spawn_blocking(move || worker.wait().unwrap().success()).await.unwrap());
    }
    let processed = processed(&file);
    assert_eq!(processed.keys().cloned().collect::<BTreeSet<_>>(), ids(1..=ENTRIES));
    let repeated: Vec<_> = processed.iter().filter(|(_, deliveries)| deliveries.len() > 1).collect();
    println!("{kills} kills; {} entries were processed more than once, each told", repeated.len());
    for (id, deliveries) in &processed {
        let firsts = deliveries.iter().filter(|&&count| count == 1).count();
        let distinct: BTreeSet<_> = deliveries.iter().collect();
        assert!(firsts <= 1 && distinct.len() == deliveries.len(), "{id}: {deliveries:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_failover_nothing_that_the_new_primary_has_is_left() {
    let bed = Arc::new(tokio::task::spawn_blocking(|| Sentinels::start(1).unwrap()).await.unwrap());
    let sentinels: Vec<_> = bed.sentinels().iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let url = format!("redis+sentinel://{}/{}", sentinels.join(","), bed.name());
    let client = Client::new(Config::from_url(&url).unwrap()).unwrap();
    let mut consumer = Consumer::open(&client, config()).await.unwrap();
    // Replication is behind the reply: a replica that is promoted before it has the group would be without one.
    until(|| {
        let bed = Arc::clone(&bed);
        let has_group = move || bed.servers()[1].command(&["XINFO", "GROUPS", "s"]).is_ok();
        async { tokio::task::spawn_blocking(has_group).await.unwrap() }
    })
    .await;
    // What is added meanwhile may be lost: until it hears of it, the old primary takes it.
    let mut producer = tokio::spawn({
        let (bed, client) = (Arc::clone(&bed), client.clone());
        async move {
            let failover = tokio::task::spawn_blocking(move || bed.failover().map(|_| ()).unwrap());
            produce(client.clone(), 1..=500).await;
            failover.await.unwrap();
            produce(client, 501..=1000).await;
        }
    });
    let (mut processed, mut is_produced) = (BTreeSet::new(), false);
    let deadline = tokio::time::sleep(Duration::from_secs(120));
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            entry = consumer.next() => {
                let mut entry = entry.unwrap().unwrap();
                processed.insert(String::from_utf8(entry.id().to_vec()).unwrap());
                let _ = entry.ack().await;
            }
            produced = &mut producer, if !is_produced => {
                produced.unwrap();
                is_produced = true;
            }
            () = tokio::time::sleep(Duration::from_millis(50)), if is_produced => {
                let is_all = ids(501..=1000).is_subset(&processed);
                if is_all && client.xpending("s", "g").await.unwrap().count == 0 {
                    break;
                }
            }
            () = &mut deadline => panic!(
                "{} were processed; produced: {is_produced}; pending: {:?}; {}",
                processed.len(),
                client.xpending("s", "g").await,
                client.stats(),
            ),
        }
    }
    let there = client.xrange("s", "-", "+").await.unwrap();
    assert!(there.iter().all(|entry| processed.contains(&*String::from_utf8_lossy(&entry.id))));
    assert!(consumer.close(Duration::from_secs(10)).await);
}
