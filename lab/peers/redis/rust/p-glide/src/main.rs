//! Valkey GLIDE, its Rust client.
use glide::{AsyncCommands, GlideClusterClient, GlideClusterClientConfiguration, PipelineExt};
use harness::{Options, Peer, run};

/// Its default of 1,000 would refuse some of the 16 × 64 commands of `w2`.
const MAX_IN_FLIGHT: u32 = 100_000;

#[derive(Clone)]
struct Client(GlideClusterClient);

impl Peer for Client {
    async fn get(&mut self, key: &'static str) -> usize {
        let value: Option<Vec<u8>> = self.0.get(key).await.expect("GET");
        value.map_or(0, |value| value.len())
    }

    async fn set(&mut self, key: &'static str, value: &'static [u8]) {
        let () = self.0.set(key, value).await.expect("SET");
    }

    async fn batch(&mut self, keys: Vec<&'static str>, wanted: usize) -> usize {
        let mut pipeline = glide::pipe();
        for key in keys {
            pipeline.get(key);
        }
        let values: Vec<Vec<u8>> = pipeline.query_async(&self.0).await.expect("GETs");
        values.iter().filter(|value| value.len() == wanted).count()
    }
}

fn main() {
    run(async |options: Options| {
        let config = GlideClusterClientConfiguration::with_address("127.0.0.1", options.ports[0])
            .inflight_requests_limit(MAX_IN_FLIGHT);
        Client(GlideClusterClient::connect(config).await.expect("a connection"))
    });
}
