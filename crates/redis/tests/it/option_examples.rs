//! The examples of option types are what servers take.

mod calls;
#[path = "../../src/commands/tests/servers.rs"]
mod newer;

use std::collections::BTreeMap;

use pilotlight_redis::{Client, Commands};
use pilotlight_testkit::Server;

/// What ends the server.
const LEFT_OUT: [&str; 1] = ["ShutdownOptions"];
/// What is there before the examples of types whose names begin so. Without the module nothing is asserted of its
/// commands, either.
const BEFORE: [(&str, &[&str]); 5] = [
    ("Ft", &["FT.CREATE index SCHEMA name TEXT", "FT.DICTADD dictionary ada"]),
    ("Tdigest", &["TDIGEST.CREATE a", "TDIGEST.CREATE b"]),
    ("Ts", &["TS.CREATE key"]),
    ("X", &["XADD key 1-0 field value", "XGROUP CREATE key workers 0"]),
    ("Xreadgroup", &["XGROUP CREATE orders workers 0 MKSTREAM", "XGROUP CREATE returns workers 0 MKSTREAM"]),
];
/// What no server of this test can do, and what it says: its words are right.
const ELSEWHERE: [(&str, &str); 6] = [
    ("ClusterscanOptions", "cluster support disabled"),
    ("FailoverOptions", "requires connected replicas"),
    ("ModuleLoadexOptions", "MODULE command not allowed"),
    ("RestoreOptions", "DUMP payload version or checksum are wrong"),
    ("SlotState", "cluster support disabled"),
    ("SlotStatsFilter", "cluster support disabled"),
];
/// What needs a server that is not here: Redis 8.4.
const NOT_HERE: [&str; 1] = ["DelexOptions"];

/// The system's server and newer ones; `None` where there are none for the machine.
fn servers() -> Option<Vec<Server>> {
    let newer: Option<Vec<Server>> = ["redis-8", "valkey-9"].into_iter().map(newer::start).collect();
    Some([Server::start().unwrap()].into_iter().chain(newer?).collect())
}

/// Whether a server takes an example, otherwise what each of them said.
async fn try_everywhere(servers: &[Server], kind: &str, example: calls::Run) -> Result<(), Vec<String>> {
    let mut refusals = Vec::new();
    for server in servers {
        let client = Client::connect(&server.url()).await.unwrap();
        client.flushall().await.unwrap();
        // What creates something itself finds nothing.
        let is_for = |begin: &str| kind.starts_with(begin) && !kind.contains("Create");
        for line in BEFORE.iter().filter(|(begin, _)| is_for(begin)).flat_map(|(_, lines)| *lines) {
            let _ = server.command(&line.split(' ').collect::<Vec<_>>());
        }
        match example(client).await {
            Ok(()) => return Ok(()),
            Err(error) => refusals.push(error.to_string()),
        }
    }
    Err(refusals)
}

#[tokio::test]
async fn a_server_takes_each_of_them() {
    let Some(servers) = tokio::task::spawn_blocking(servers).await.unwrap() else { return };
    let mut refused = BTreeMap::new();
    for &(kind, example) in calls::EXAMPLES.iter().filter(|(kind, _)| !LEFT_OUT.contains(kind)) {
        if let Err(why) = try_everywhere(&servers, kind, example).await {
            refused.insert(kind, why);
        }
    }
    for (kind, words) in ELSEWHERE {
        let why = refused.remove(kind).unwrap_or_default();
        assert!(why.iter().any(|it| it.contains(words)), "{kind}: {why:#?}");
    }
    for kind in NOT_HERE {
        let why = refused.remove(kind).unwrap_or_default();
        assert!(why.iter().all(|it| it.contains("unknown command")) && !why.is_empty(), "{kind}: {why:#?}");
    }
    assert!(refused.is_empty(), "{refused:#?}");
}
