//! All that is not an ordinary command with a key: many keys, many nodes, waiting, state, transactions, scripts, scans.

mod blocking;
mod copy;
mod dedicated;
mod fan_out;
mod monitor;
mod scan;
mod script;
mod split;
mod transaction;

use std::future::Future;
use std::time::{Duration, Instant};

use pilotlight_redis::config::NodeAddress;
use pilotlight_redis::{Client, Config};
use pilotlight_testkit::{Cluster, Node, Server};

use crate::spare::Kind;

const SECOND: Duration = Duration::from_secs(1);

fn standalone() -> (Server, Client) {
    let server = Server::start().unwrap();
    let client = Client::new(Config::standalone(at(&server))).unwrap();
    (server, client)
}

fn cluster(masters: usize) -> (Cluster, Client) {
    let cluster = Kind { needs_all_slots: false, ..Kind::of(masters, 0) }.start();
    let client = client_of(&cluster);
    (cluster, client)
}

fn client_of(cluster: &Cluster) -> Client {
    Client::new(config_of(cluster)).unwrap()
}

fn config_of(cluster: &Cluster) -> Config {
    Config::cluster(cluster.nodes().iter().map(|node| at(node.server())))
}

fn at(server: &Server) -> NodeAddress {
    NodeAddress::tcp("127.0.0.1", server.port())
}

/// Which node of the cluster has a key.
fn owner<'c>(cluster: &'c Cluster, key: &str) -> &'c Node {
    cluster.node_for_key(key).unwrap().0
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key:{number}")).collect()
}

/// Waits, at most ten seconds, until it is so.
async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < 10 * SECOND, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The result of something that must come within ten seconds.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    match tokio::time::timeout(10 * SECOND, what).await {
        Ok(result) => result,
        Err(_) => panic!("nothing came within 10 s"),
    }
}

fn info(server: &Server, name: &str) -> i64 {
    server.info(name).unwrap().parse().unwrap()
}
