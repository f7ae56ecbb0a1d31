//! `status`, `info` and `fill` count the keys of every database they are about, and say what they cannot know.

use std::process::Command;

use pilotlight_redis::{Client, Commands};
use pilotlight_testkit::Cluster;

use super::{Json, Tool, failed, port};
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

#[test]
fn a_node_that_refuses_info_is_not_down() {
    let rule = |name: &str, more: &str| format!("{name} on >p ~* &* +@all {more}");
    let cluster = Cluster::builder()
        .masters(3)
        .user(&rule("one", "-info"))
        .user(&rule("both", "-info -cluster|info"))
        .start()
        .unwrap();
    let (tool, at) = (Tool::new(), port(&cluster, 0));
    let login = |user: &'static str| ["-p", at.as_str(), "--username", user, "-a", "p"];
    for (user, state) in [("one", "ok"), ("both", "unknown")] {
        let status = tool.json(&[&["status"], &login(user)[..]].concat());
        for node in status["nodes"].as_array().unwrap() {
            assert_eq!((&node["state"], &node["error"]), (&state.into(), &Json::Null), "{node}");
            assert_eq!(node["keys"], Json::Null, "{node}");
            assert!(node["refused"][0].as_str().unwrap().contains("NOPERM"), "{node}");
        }
        let info = tool.json(&[&["info"], &login(user)[..]].concat());
        assert_eq!(
            (&info["state"], &info["nodes_down"], &info["keys"]),
            (&state.into(), &0.into(), &Json::Null),
            "{info}"
        );
        assert_eq!(info["slots_covered"], 16_384, "{info}");
        let text = tool.run(&[&["info"], &login(user)[..]].concat());
        failed(&text, 0, "refused      INFO: NOPERM");
    }
}

#[test]
fn fill_counts_the_database_that_it_fills() {
    let Some(program) = program("valkey-9") else { return };
    let cluster = Cluster::builder().masters(3).config("cluster-databases 16").program(program).start().unwrap();
    let url = format!("redis+cluster://127.0.0.1:{}", port(&cluster, 0));
    for (database, keys) in [(0, 30), (3, 50)] {
        let arguments = ["fill", "--json", "--count", &keys.to_string(), "--db", &database.to_string(), "--url", &url];
        let filled = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis")).args(arguments).output().unwrap();
        let told: Json = serde_json::from_slice(&filled.stdout).unwrap_or_else(|_| panic!("{filled:?}"));
        assert_eq!((&told["keys_before"], &told["keys_after"]), (&0.into(), &keys.into()), "{told}");
    }
}
