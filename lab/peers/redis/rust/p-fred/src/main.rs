//! fred.
use fred::bytes::Bytes;
use fred::prelude::*;
use harness::{Options, Peer, run};

#[derive(Clone)]
struct RedisClient(Client);

impl Peer for RedisClient {
    async fn get(&mut self, key: &'static str) -> usize {
        let value: Option<Bytes> = self.0.get(key).await.expect("GET");
        value.map_or(0, |value| value.len())
    }

    async fn set(&mut self, key: &'static str, value: &'static [u8]) {
        let () = self.0.set(key, Bytes::from_static(value), None, None, false).await.expect("SET");
    }

    async fn batch(&mut self, keys: Vec<&'static str>, wanted: usize) -> usize {
        let pipeline = self.0.pipeline();
        for key in keys {
            let () = pipeline.get(key).await.expect("a pipeline takes commands");
        }
        let values: Vec<Bytes> = pipeline.all().await.expect("GETs");
        values.iter().filter(|value| value.len() == wanted).count()
    }
}

fn main() {
    run(async |options: Options| {
        let nodes: Vec<_> = options.ports.iter().map(|port| ("127.0.0.1", *port)).collect();
        let config = Config { server: ServerConfig::new_clustered(nodes), ..Config::default() };
        let mut builder = Builder::from_config(config);
        builder.with_connection_config(|connection| connection.tcp.nodelay = Some(true));
        let client = builder.build().expect("a configuration");
        client.init().await.expect("a connection");
        RedisClient(client)
    });
}
