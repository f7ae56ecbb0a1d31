//! What the ancestor's tests state and no other test here does, and whether the table of all of them
//! (`tests/ancestor.md`) tells the truth.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use pilotlight_redis::{Client, Commands, Config, Stats, Value};
use pilotlight_testkit::Server;
use tokio::task::JoinSet;

use crate::bed::{Bed, preimages};

const TABLE: &str = include_str!("../ancestor.md");

/// Of 335 cases.
#[test]
fn every_test_that_the_table_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources: HashMap<&str, String> = HashMap::new();
    let rows: Vec<&str> = TABLE.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| name ")).collect();
    assert_eq!(rows.len(), 335);
    for row in rows {
        let (_, tests) = row.trim_end_matches(" |").rsplit_once(" | ").unwrap();
        for test in tests.split(", ") {
            let (file, name) = test.trim_matches('`').split_once("::").unwrap_or_else(|| panic!("no test: {row}"));
            let source = sources.entry(file).or_insert_with(|| {
                std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
            });
            assert!(source.contains(&format!("fn {name}(")), "{file} has no {name}");
        }
    }
}

/// Commands and connections of each lane.
fn lanes(stats: &Stats) -> Vec<(u64, u64)> {
    stats.lanes.iter().map(|lane| (lane.snapshot.counters.commands, lane.snapshot.counters.connects)).collect()
}

#[tokio::test]
async fn each_node_has_its_own_when_it_is_first_needed() {
    let bed = Bed::start(3, 0).await;
    let client = Client::new(Config { lanes: 2, ..bed.config() }).unwrap();
    assert!(lanes(&client.stats()).iter().all(|lane| *lane == (0, 0)), "nothing is connected ahead");
    let keys: Vec<String> = preimages().into_iter().step_by(63).collect();
    for expected in [1, 2] {
        for key in &keys {
            client.set(key, key).await.unwrap();
        }
        let lanes = lanes(&client.stats());
        assert_eq!(lanes.len(), 6, "two of each node");
        assert!(lanes.iter().all(|(commands, connects)| *commands > 0 && *connects == 1), "{lanes:?}");
        assert!(lanes.iter().map(|(commands, _)| commands).sum::<u64>() >= keys.len() as u64 * expected);
    }
    for key in &keys {
        assert_eq!(client.get(key).await.unwrap().as_deref(), Some(key.as_bytes()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_read_what_they_have_written() {
    let bed = Bed::start(3, 0).await;
    let client = Client::new(Config { lanes: 2, ..bed.config() }).unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let client = client.clone();
        tasks.spawn(async move {
            for number in 0..100 {
                let (key, value) = (format!("k:{task}:{number}"), format!("v:{task}:{number}"));
                client.set(&key, &value).await.unwrap();
                assert_eq!(client.get(&key).await.unwrap().as_deref(), Some(value.as_bytes()));
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn values_that_read_like_redirects_are_values() {
    let bed = Bed::start(3, 0).await;
    let client = bed.client();
    for text in ["MOVED 0 127.0.0.1:1", "-MOVED 0 127.0.0.1:1", "ASK 0 127.0.0.1:1", "-ASK 0 127.0.0.1:1\r\n"] {
        client.set("k", text).await.unwrap();
        assert_eq!(client.get("k").await.unwrap(), Some(Bytes::copy_from_slice(text.as_bytes())));
        let status = client.eval("return {ok = ARGV[1]}", "k", text.trim()).await.unwrap();
        assert_eq!(status, Value::Simple(Bytes::copy_from_slice(text.trim().as_bytes())));
    }
    let stats = client.stats();
    assert_eq!((stats.redirects_moved, stats.redirects_ask, bed.errors("MOVED"), bed.errors("ASK")), (0, 0, 0, 0));
}

#[tokio::test]
async fn a_hundred_commands_in_a_pipeline_and_their_values() {
    let server = Server::start().unwrap();
    let client = Client::new(Config::from_url(&server.url()).unwrap()).unwrap();
    let mut pipeline = client.pipeline();
    let set: Vec<_> = (0..100).map(|n| pipeline.set(format!("k{n}"), format!("v{n}"))).collect();
    let got: Vec<_> = (0..100).map(|n| pipeline.get(format!("k{n}"))).collect();
    let mut replies = pipeline.run().await.unwrap();
    set.into_iter().for_each(|it| replies.take(it).unwrap());
    for (n, it) in got.into_iter().enumerate() {
        assert_eq!(replies.take(it).unwrap(), Some(Bytes::from(format!("v{n}"))));
    }
}
