//! In the steady state a small command allocates nothing: not on its caller's path, not on the driver's. The server is
//! another process, so the count is the client's and the runtime's.
//!
//! The allocator of this test program counts every thread, so each test here runs itself again in a process of its own.

use std::alloc::System;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pilotlight_redis::config::{NodeAddress, Probe};
use pilotlight_redis::metrics::Durations;
use pilotlight_redis::{Client, Commands, Config};
use pilotlight_testkit::Server;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Set in the process that runs one test only.
const ALONE: &str = "PILOTLIGHT_TEST_ALONE";

/// Runs `test`, whose name in this file is `name`, in a process without other tests.
#[track_caller]
fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    let name = format!("{}::{name}", module_path!().split_once("::").unwrap().1);
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", &name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "no test is called {name}: {text}");
}

/// Of each round.
const COMMANDS: usize = 10_000;

fn config(server: &Server) -> Config {
    let probe = Probe { idle_ping: None, ..Probe::default() };
    Config { probe, ..Config::standalone(NodeAddress::tcp("127.0.0.1", server.port())) }
}

fn client(server: &Server) -> Client {
    Client::new(config(server)).unwrap()
}

/// In the first rounds buffers find their sizes. On a busy machine a thread may rest with a reply in its hands, so that
/// one more is needed than before.
const MAX_ROUNDS: usize = 6;

/// Allocations in each round of so many tasks that do GETs and SETs, up to the first round without any.
async fn allocations(client: Client, tasks: usize, value_bytes: usize) -> Vec<usize> {
    let barrier = Arc::new(Barrier::new(tasks + 1));
    let is_over = Arc::new(AtomicBool::new(false));
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (client, barrier, is_over) = (client.clone(), Arc::clone(&barrier), Arc::clone(&is_over));
        running.spawn(async move {
            let (key, value) = (format!("key:{task}"), vec![b'v'; value_bytes]);
            loop {
                barrier.wait().await;
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                for call in 0..COMMANDS / tasks {
                    if call % 2 == 0 {
                        client.set(&key, &value).await.unwrap();
                    } else {
                        assert_eq!(client.get(&key).await.unwrap().map(|value| value.len()), Some(value_bytes));
                    }
                }
                barrier.wait().await;
            }
        });
    }
    let mut counted = Vec::with_capacity(MAX_ROUNDS);
    while counted.len() < MAX_ROUNDS && counted.last() != Some(&0) {
        let region = Region::new(ALLOCATOR);
        barrier.wait().await;
        barrier.wait().await;
        let change = region.change();
        counted.push(change.allocations + change.reallocations);
    }
    is_over.store(true, Ordering::Relaxed);
    barrier.wait().await;
    running.join_all().await;
    counted
}

fn check(runtime: &tokio::runtime::Runtime, tasks: usize, value_bytes: usize) {
    let server = Server::start().unwrap();
    let counted = runtime.block_on(allocations(client(&server), tasks, value_bytes));
    let text = format!(
        "allocations for rounds of {COMMANDS} commands of {tasks} tasks with values of {value_bytes} bytes: {counted:?}"
    );
    assert_eq!(counted.last(), Some(&0), "{text}");
    assert!(counted[1..].iter().all(|&count| count <= 16), "{text}");
}

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn small_commands_of_one_task_take_nothing_from_the_heap() {
    alone("small_commands_of_one_task_take_nothing_from_the_heap", || {
        for value_bytes in [10, 1024] {
            check(&current_thread(), 1, value_bytes);
            check(&two_threads(), 1, value_bytes);
        }
    });
}

#[test]
fn small_commands_of_many_tasks_take_nothing_from_the_heap() {
    alone("small_commands_of_many_tasks_take_nothing_from_the_heap", || {
        for value_bytes in [10, 1024] {
            check(&current_thread(), 64, value_bytes);
            check(&two_threads(), 64, value_bytes);
        }
    });
}

/// What a command that is observed owns: the record of its beginning, and the trail of what is sent again.
const OBSERVED: usize = 2;

#[test]
fn histograms_of_durations_take_nothing_from_the_heap() {
    alone("histograms_of_durations_take_nothing_from_the_heap", || {
        let server = Server::start().unwrap();
        let counted = current_thread().block_on(async {
            let observer = Some(Arc::new(Durations::default()) as _);
            let client = Client::new(Config { observer, ..config(&server) }).unwrap();
            let mut counted = Vec::new();
            while counted.len() < MAX_ROUNDS && counted.last() != Some(&(OBSERVED * COMMANDS)) {
                let region = Region::new(ALLOCATOR);
                for _ in 0..COMMANDS {
                    client.get("key").await.unwrap();
                }
                let change = region.change();
                counted.push(change.allocations + change.reallocations);
            }
            counted
        });
        assert!(counted.iter().any(|&count| count <= OBSERVED * COMMANDS), "{counted:?}");
    });
}

/// A batch costs a few, however many commands are in it.
#[test]
fn a_pipeline_takes_as_much_from_the_heap_for_many_commands_as_for_few() {
    alone("a_pipeline_takes_as_much_from_the_heap_for_many_commands_as_for_few", || {
        const BATCHES: usize = 100;
        let server = Server::start().unwrap();
        let counted = current_thread().block_on(async {
            let client = client(&server);
            let mut counted = Vec::new();
            for commands in [8, 64, 512] {
                let mut region = Region::new(ALLOCATOR);
                for batch in 0..2 * BATCHES {
                    if batch == BATCHES {
                        region = Region::new(ALLOCATOR);
                    }
                    let mut pipeline = client.pipeline();
                    for command in 0..commands {
                        let _ = pipeline.set("key", command);
                    }
                    let replies = pipeline.run().await.unwrap();
                    assert_eq!(replies.into_values().filter(Result::is_ok).count(), commands);
                }
                let change = region.change();
                counted.push((change.allocations + change.reallocations) / BATCHES);
            }
            counted
        });
        // Growing buffers are reallocated with the logarithm of the size.
        assert!(counted[2] <= counted[0] + 40 && counted[0] <= 40, "{counted:?}");
    });
}

/// What a hash is read into owns two texts. The reply's own list of fields is used again for the next one.
#[derive(Debug, PartialEq, pilotlight_redis::FromReply)]
struct User {
    name: String,
    city: String,
    age: u8,
    visits: Option<u64>,
}

/// Of a `User`.
const OWNED: usize = 2;

#[test]
fn a_hash_takes_from_the_heap_what_its_struct_owns() {
    alone("a_hash_takes_from_the_heap_what_its_struct_owns", || {
        for protocol in ["resp2", "resp3"] {
            let server = Server::start().unwrap();
            let counted = current_thread().block_on(async {
                let url = format!("{}?protocol={protocol}&idle_ping=none", server.url());
                let client = Client::connect(&url).await.unwrap();
                client
                    .hset("user", [("name", "Ada"), ("city", "London"), ("age", "36"), ("visits", "7")])
                    .await
                    .unwrap();
                let mut counted = Vec::new();
                while counted.len() < MAX_ROUNDS && counted.last() != Some(&(OWNED * COMMANDS)) {
                    let region = Region::new(ALLOCATOR);
                    for _ in 0..COMMANDS {
                        let user: User = client.hgetall("user").read_as().await.unwrap();
                        assert_eq!((&*user.name, &*user.city, user.age), ("Ada", "London", 36));
                    }
                    let change = region.change();
                    counted.push(change.allocations + change.reallocations);
                }
                counted
            });
            assert_eq!(counted.last(), Some(&(OWNED * COMMANDS)), "{protocol}: {counted:?}");
        }
    });
}

/// Size of a large reply.
const LARGE: usize = 64 << 20;

/// What a client may keep of it.
const KEPT: usize = 8 << 20;

fn in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

#[test]
fn nothing_of_a_large_reply_is_kept_when_it_was_dropped() {
    alone("nothing_of_a_large_reply_is_kept_when_it_was_dropped", || {
        let server = Server::start().unwrap();
        current_thread().block_on(async {
            let client = client(&server);
            client.set("small", "s").await.unwrap();
            client.setrange("large", LARGE as u64 - 1, "x").await.unwrap();
            // One that is not shared, too.
            let mut own = client.dedicated().await.unwrap();
            own.ping().await.unwrap();
            let before = in_use();
            let check = |after: &str| {
                let kept = in_use().saturating_sub(before);
                assert!(kept < KEPT, "after {after}: {kept} bytes are kept");
            };

            assert_eq!(client.get("large").await.unwrap().unwrap().len(), LARGE);
            client.get("small").await.unwrap();
            check("one reply");

            let mut pipeline = client.pipeline();
            let large = [(); 4].map(|()| pipeline.get("large"));
            let mut replies = pipeline.run().await.unwrap();
            assert!(in_use() < before + 4 * LARGE + KEPT, "four replies take {} bytes", in_use() - before);
            for queued in large {
                assert_eq!(replies.take(queued).unwrap().unwrap().len(), LARGE);
            }
            drop(replies);
            client.get("small").await.unwrap();
            check("four replies");

            assert_eq!(own.get("large").await.unwrap().unwrap().len(), LARGE);
            drop(own);
            check("the reply of a connection that is idle in the pool");

            client.set("small", vec![b'x'; LARGE]).await.unwrap();
            client.set("small", "s").await.unwrap();
            check("a large command");
        });
    });
}
