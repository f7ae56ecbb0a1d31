//! `status`, `info` and `fill` count the keys of every database they are about.

use pilotlight_redis::{Client, Commands};
use pilotlight_testkit::Cluster;

use super::{Tool, port};
use crate::servers::program;

#[test]
fn keys_of_every_database_count() {
    let Some(program) = program("valkey-9") else { return };
    let cluster = Cluster::builder().masters(3).config("cluster-databases 16").program(program).start().unwrap();
    let (tool, at) = (Tool::new(), port(&cluster, 0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for database in 0..4 {
            let url = format!("redis+cluster://127.0.0.1:{at}?db={database}");
            let client = Client::connect(&url).await.unwrap();
            for number in 0..50 {
                client.set(number, "v").await.unwrap();
            }
        }
    });
    assert_eq!(tool.json(&["info", "-p", &at])["keys"], 200);
    // Whichever database a connection would have by itself.
    let status = tool.json(&["status", "-p", &at, "--db", "3"]);
    let keys = status["nodes"].as_array().unwrap().iter().map(|node| node["keys"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(keys, 200, "{status}");
}
