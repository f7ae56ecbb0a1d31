//! The examples do what they show.

use pilotlight_redis::Commands;
use pilotlight_testkit::Server;

use crate::spare::Kind;

#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/blocking.rs"]
mod blocking;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/caching.rs"]
mod caching;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/cluster.rs"]
mod cluster;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/lock.rs"]
mod lock;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/metrics.rs"]
mod metrics;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/pubsub.rs"]
mod pubsub;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/quickstart.rs"]
mod quickstart;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/structs.rs"]
mod structs;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/transaction.rs"]
mod transaction;
#[expect(dead_code, reason = "its main is for those who run it")]
#[path = "../../examples/worker.rs"]
mod worker;

async fn server() -> Server {
    tokio::task::spawn_blocking(|| Server::start().unwrap()).await.unwrap()
}

#[tokio::test]
async fn quickstart() {
    let server = server().await;
    quickstart::run(&server.url()).await.unwrap();
    assert_eq!(server.command(&["GET", "quickstart:visits"]).unwrap().integer(), Some(1));
}

#[tokio::test]
async fn cluster() {
    let bed = tokio::task::spawn_blocking(|| Kind::of(3, 0).start()).await.unwrap();
    let url = bed.nodes()[0].server().url().replace("redis://", "redis+cluster://");
    cluster::run(&url).await.unwrap();
    let (node, _) = bed.node_for_key("user:1").unwrap();
    assert_eq!(node.server().command(&["GET", "{user:1}:visits"]).unwrap().integer(), Some(2));
}

#[tokio::test]
async fn structs() {
    let server = server().await;
    let user = structs::run(&server.url()).await.unwrap().unwrap();
    assert!(format!("{user:?}").contains("visits: 1, status: Gone"), "{user:?}");
}

#[test]
fn blocking() {
    assert!(blocking::run(&Server::start().unwrap().url()).unwrap() >= 100);
}

#[tokio::test]
async fn pubsub() {
    let server = server().await;
    assert_eq!(pubsub::run(&server.url()).await.unwrap(), 5);
}

#[tokio::test]
async fn transaction() {
    let server = server().await;
    assert_eq!(transaction::run(&server.url()).await.unwrap(), 20);
    assert_eq!(server.command(&["LLEN", "{account:1}:log"]).unwrap().integer(), Some(11));
}

#[tokio::test]
async fn caching() {
    let server = server().await;
    let (hits, greeting) = caching::run(&server.url()).await.unwrap();
    assert!(hits >= 999, "{hits}");
    assert_eq!(greeting.as_deref(), Some("good evening"));
}

#[tokio::test]
async fn metrics() {
    let server = server().await;
    let text = metrics::run(pilotlight_redis::Config::from_url(&server.url()).unwrap()).await.unwrap();
    let port = server.port();
    let operation = |name: &str, more: &str, count: u32| {
        format!(
            "db_client_operation_duration_seconds_count{{db_system_name=\"redis\",db_operation_name=\"{name}\",db_namespace=\"0\"\
             {more}}} {count}"
        )
    };
    let at = format!(",server_address=\"127.0.0.1\",server_port=\"{port}\"");
    let failed = at.clone() + ",db_response_status_code=\"ERR\",error_type=\"server\"";
    let pool = format!("db_client_connection_pool_name=\"127.0.0.1:{port}\"");
    let expected = [
        operation("SET", &at, 1),
        operation("GET", &at, 3),
        operation("INCR", &failed, 1),
        operation("PIPELINE SADD", "", 1),
        format!("db_client_connection_count{{{pool},db_client_connection_state=\"idle\",lane=\"0\"}} 1"),
        format!("pilotlight_redis_commands_total{{{pool},lane=\"0\"}} 10"),
    ];
    for line in expected {
        assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn worker() {
    let server = server().await;
    let client = pilotlight_redis::Client::connect(&server.url()).await.unwrap();
    for number in 0..20 {
        client.xadd("worker:orders", "*", [("number", number)]).await.unwrap();
    }
    assert_eq!(worker::run(&client, 20).await.unwrap(), 20);
    assert_eq!(server.command(&["XPENDING", "worker:orders", "billing"]).unwrap().array()[0].integer(), Some(0));
}

#[tokio::test]
async fn lock() {
    let server = server().await;
    let client = pilotlight_redis::Client::connect(&server.url()).await.unwrap();
    assert_eq!(lock::run(&client).await.unwrap(), (true, false));
}
