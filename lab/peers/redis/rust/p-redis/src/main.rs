//! redis-rs.
use futures_util::future::join_all;
use harness::{Options, Peer, run};
use redis::AsyncCommands;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;

#[derive(Clone)]
struct Client(ClusterConnection);

impl Peer for Client {
    async fn get(&mut self, key: &'static str) -> usize {
        let value: Option<Vec<u8>> = self.0.get(key).await.expect("GET");
        value.map_or(0, |value| value.len())
    }

    async fn set(&mut self, key: &'static str, value: &'static [u8]) {
        let () = self.0.set(key, value).await.expect("SET");
    }

    /// Concurrent commands: a cluster pipeline of this client must stay on one node.
    async fn batch(&mut self, keys: Vec<&'static str>, wanted: usize) -> usize {
        let lengths = keys.into_iter().map(|key| {
            let mut client = self.clone();
            async move { client.get(key).await }
        });
        join_all(lengths).await.into_iter().filter(|length| *length == wanted).count()
    }
}

fn main() {
    run(async |options: Options| {
        let nodes: Vec<String> = options.addresses().iter().map(|address| format!("redis://{address}/")).collect();
        let client = ClusterClient::new(nodes).expect("a configuration");
        Client(client.get_async_connection().await.expect("a connection"))
    });
}
