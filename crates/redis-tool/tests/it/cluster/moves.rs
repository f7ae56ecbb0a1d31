//! Slots move with the keys of every database, on each kind of server, while clients write.

use std::collections::BTreeMap;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use pilotlight_redis::{Client, Commands};
use pilotlight_testkit::{Cluster, ClusterBuilder, Server};

use super::{Json, LIMIT, Tool, failed, port, text};
use crate::servers::program;

/// Keys of each database that are there before anything moves.
const BEFORE: u32 = 600;

/// A kind of server, and what the test of it needs.
struct Bed {
    cluster: Cluster,
    /// Databases that clients may use: several only in a Valkey 9 cluster.
    databases: Vec<u16>,
}

impl Bed {
    /// Three primaries, of which one is drained in a moment. `None` where there is no such program.
    fn start(kind: &str) -> Option<Self> {
        let builder = Cluster::builder().masters(3).last_master_slots(600);
        let (builder, databases) = match kind {
            "installed" => (builder, vec![0]),
            "databases" => (builder.config("cluster-databases 16").program(program("valkey-9")?), vec![0, 1, 2, 3]),
            _ => (builder.program(program(kind)?), vec![0]),
        };
        Some(Self { cluster: builder.start().unwrap(), databases })
    }

    fn url(&self, database: u16) -> String {
        format!("redis+cluster://127.0.0.1:{}?db={database}", self.cluster.nodes()[0].port())
    }

    /// Runs the command while each database gets new keys, and returns its output once every key was read back.
    async fn moving(&self, tool: &Tool, round: &str, arguments: &[&str]) -> Output {
        let mut clients = BTreeMap::new();
        for database in &self.databases {
            clients.insert(database, Client::connect(&self.url(*database)).await.unwrap());
        }
        let mut moving = tool.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut written: u32 = 0;
        let mut is_running = true;
        while is_running {
            // Write once more after its end, so that a short command has concurrent writes, too.
            is_running = moving.try_wait().unwrap().is_none();
            for client in clients.values() {
                client.set(format!("{round}:{written}"), written).await.unwrap();
            }
            written += 1;
        }
        for (database, client) in &clients {
            for (prefix, count) in [("before", BEFORE), (round, written)] {
                for number in 0..count {
                    let key = format!("{prefix}:{number}");
                    let value = client.get(&key).read_as::<Option<u32>>().await.unwrap();
                    assert_eq!(value, Some(number), "{key} of database {database}, after {arguments:?}");
                }
            }
        }
        moving.wait_with_output().unwrap()
    }

    async fn fill(&self) {
        for database in &self.databases {
            let client = Client::connect(&self.url(*database)).await.unwrap();
            for number in 0..BEFORE {
                client.set(format!("before:{number}"), number).await.unwrap();
            }
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Moves slots in each way that there is, while clients write.
fn no_key_is_lost(kind: &str) {
    let Some(bed) = Bed::start(kind) else { return };
    let tool = Tool::new();
    let (at, to) = (port(&bed.cluster, 0), port(&bed.cluster, 2));
    runtime().block_on(async {
        bed.fill().await;
        let (shrinks, empties) = (format!("{to}=0.08"), format!("{to}=0"));
        let rounds: [(&str, &[&str]); 3] = [
            ("reshard", &["reshard", "-p", &at, "--to", &to, "--slots", "100"]),
            ("rebalance", &["rebalance", "-p", &at, "--threshold", "0", "--weight", &shrinks]),
            ("drain", &["rebalance", "-p", &at, "--weight", &empties]),
        ];
        for (round, arguments) in rounds {
            let output = bed.moving(&tool, round, &[arguments, &["--json"]].concat()).await;
            failed(&output, 0, "\"done\":true");
            let told: Json = serde_json::from_slice(&output.stdout).unwrap();
            let (before, after) = (told["keys_before"].as_u64().unwrap(), told["keys_after"].as_u64().unwrap());
            assert!(after >= before, "{round}: {told}");
            assert!(told["keys_moved"].as_u64().unwrap() > 0, "{round}: {told}");
        }
    });
    // The drained primary becomes a replica, which takes the nodes a moment.
    let begun = Instant::now();
    loop {
        let check = tool.run(&["check", "-p", &at]);
        if check.status.success() {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "{}", text(&check));
    }
}

#[test]
fn no_key_is_lost_on_the_installed_server() {
    no_key_is_lost("installed");
}

#[test]
fn no_key_is_lost_on_redis_8() {
    no_key_is_lost("redis-8");
}

#[test]
fn no_key_is_lost_on_valkey_9() {
    no_key_is_lost("valkey-9");
}

#[test]
fn no_key_of_several_databases_is_lost_on_valkey_9() {
    no_key_is_lost("databases");
}

/// Starts a Valkey 9 cluster whose databases have a key `{t}` each. Returns it, the owner of that slot, and another
/// node.
fn with_a_key_each(builder: ClusterBuilder) -> Option<(Cluster, usize, usize, String)> {
    let cluster = builder.masters(3).config("cluster-databases 16").program(program("valkey-9")?).start().unwrap();
    let (source, slot) = cluster.node_for_key("{t}").unwrap();
    let from = cluster.nodes().iter().position(|node| node.id() == source.id()).unwrap();
    runtime().block_on(async {
        for database in 0..4 {
            let url = format!("redis+cluster://127.0.0.1:{}?db={database}", source.port());
            Client::connect(&url).await.unwrap().set("{t}", database).await.unwrap();
        }
    });
    Some((cluster, from, (from + 1) % 3, slot.to_string()))
}

#[test]
fn a_server_that_does_not_move_slots_by_itself_moves_every_database() {
    // Its user may not use the commands of an atomic migration.
    let rule = "mover on >m ~* &* +@all -cluster|migrateslots -cluster|getslotmigrations";
    let Some((cluster, from, to, slot)) = with_a_key_each(Cluster::builder().user(rule)) else { return };
    let tool = Tool::new();
    let (at, to) = (port(&cluster, from), port(&cluster, to));
    let arguments = ["reshard", "-p", &at, "--username", "mover", "-a", "m", "--to", &to, "--ranges", &slot];
    let told = tool.json(&arguments);
    assert_eq!((told["keys_moved"].as_u64(), told["keys_before"].as_u64()), (Some(4), Some(4)), "{told}");
    assert_eq!(told["keys_after"].as_u64(), Some(4), "{told}");
}

#[test]
fn a_user_that_may_not_look_for_databases_moves_nothing() {
    let rule = "mover on >m ~* &* +@all -info -cluster|migrateslots -cluster|getslotmigrations";
    let Some((cluster, from, to, slot)) = with_a_key_each(Cluster::builder().user(rule)) else { return };
    let tool = Tool::new();
    let (at, to) = (port(&cluster, from), port(&cluster, to));
    let arguments = ["reshard", "-p", &at, "--username", "mover", "-a", "m", "--to", &to, "--ranges", &slot];
    let refused = tool.run(&arguments);
    failed(&refused, 1, "+info");
    failed(&refused, 1, "nothing was moved");
    assert_eq!(tool.json(&["check", "-p", &at])["ok"], true);
}

#[test]
fn what_an_old_tool_left_open_is_finished_with_every_database() {
    let Some((cluster, from, to, slot)) = with_a_key_each(Cluster::builder()) else { return };
    let tool = Tool::new();
    let (source, target) = (&cluster.nodes()[from], &cluster.nodes()[to]);
    target.server().command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", source.id()]).unwrap();
    source.server().command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", target.id()]).unwrap();
    let (at, to) = (port(&cluster, from), port(&cluster, to));
    let done = tool.run(&["reshard", "-p", &at, "--to", &to, "--ranges", &slot]);
    failed(&done, 0, "with 4 keys");
    assert!(text(&done).contains("4 keys before, 4 after"), "{}", text(&done));
}

#[test]
fn slots_that_cannot_move_at_once_stay_with_their_keys() {
    let Some(program) = program("valkey-9") else { return };
    let cluster = Cluster::builder().masters(3).program(program).start().unwrap();
    let (source, slot) = cluster.node_for_key("{t}").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    for number in 0..1000 {
        source.server().command(&["SET", &format!("{{t}}{number}"), &"x".repeat(1000)]).unwrap();
    }
    target.server().config_set("maxmemory", "1").unwrap();
    let tool = Tool::new();
    let (at, to, slot) = (source.port().to_string(), target.port().to_string(), slot.to_string());
    let arguments = ["reshard", "-p", &at, "--to", &to, "--ranges", &slot];
    let refused = tool.run(&arguments);
    failed(&refused, 1, "have not moved");
    failed(&refused, 1, "no key is lost");
    let count = |node: &pilotlight_testkit::Node| {
        node.server().command(&["CLUSTER", "COUNTKEYSINSLOT", &slot]).unwrap().integer().unwrap()
    };
    assert_eq!((count(source), count(target)), (1000, 0), "{}", text(&refused));
    assert_eq!(tool.json(&["check", "-p", &at])["ok"], true);
    target.server().config_set("maxmemory", "0").unwrap();
    failed(&tool.run(&arguments), 0, "with 1000 keys");
    assert_eq!((count(source), count(target)), (0, 1000));
}

/// In an atomic migration the source logs in as a replica does; with `MIGRATE` as the user of the tool does.
#[test]
fn nodes_that_do_not_log_in_at_each_other_move_slots_all_the_same() {
    let Some(program) = program("valkey-9") else { return };
    let cluster = Cluster::builder().masters(3).requirepass("s3cret").program(program).start().unwrap();
    for node in cluster.nodes() {
        node.server().config_set("masteruser", "").unwrap();
        node.server().config_set("masterauth", "").unwrap();
    }
    let (source, slot) = cluster.node_for_key("k").unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    source.server().command(&["SET", "k", "v"]).unwrap();
    let tool = Tool::new();
    let (at, to, slot) = (source.port().to_string(), target.port().to_string(), slot.to_string());
    let mut command = tool.command(&["reshard", "-p", &at, "--to", &to, "--ranges", &slot]);
    let moved = command.env("REDISCLI_AUTH", "s3cret").output().unwrap();
    failed(&moved, 0, "with 1 key in");
    assert_eq!(target.server().command(&["GET", "k"]).unwrap().text(), "v");
}

#[test]
fn a_target_without_the_database_gets_nothing() {
    let Some(program) = program("valkey-9") else { return };
    let start = |databases: &str| {
        let builder = Server::builder().program(&program).config("cluster-enabled yes");
        builder.config(format!("cluster-databases {databases}")).start().unwrap()
    };
    let (source, target) = (start("16"), start("2"));
    let said = |server: &Server, words: &[&str]| server.command(words).unwrap().text().into_owned();
    said(&source, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    said(&source, &["CLUSTER", "MEET", "127.0.0.1", &target.port().to_string()]);
    let begun = Instant::now();
    // Each has heard of the other, and of who has the slots.
    while !said(&target, &["CLUSTER", "NODES"]).contains("0-16383")
        || !said(&source, &["CLUSTER", "INFO"]).contains("cluster_known_nodes:2")
        || said(&source, &["CLUSTER", "NODES"]).contains("handshake")
    {
        assert!(begun.elapsed() < LIMIT, "they do not meet");
        std::thread::sleep(Duration::from_millis(10));
    }
    runtime().block_on(async {
        let client = Client::connect(&format!("redis+cluster://127.0.0.1:{}?db=3", source.port())).await.unwrap();
        client.set("k", "v").await.unwrap();
    });
    let tool = Tool::new();
    let (at, to) = (source.port().to_string(), target.port().to_string());
    let refused = tool.run(&["reshard", "-p", &at, "--to", &to, "--slots", "10"]);
    failed(&refused, 1, "nothing was moved");
    failed(&refused, 1, "cluster-databases");
    assert_eq!(tool.json(&["check", "-p", &at])["ok"], true);
}
