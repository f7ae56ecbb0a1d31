//! rustis. `wave=N`: `max_messages_per_wave`.
use bytes::Bytes;
use harness::{Options, Peer, run};
use rustis::client::{BatchPreparedCommand, Client, IntoConfig};
use rustis::commands::StringCommands;
use rustis::resp::BulkString;

#[derive(Clone)]
struct RedisClient(Client);

impl Peer for RedisClient {
    async fn get(&mut self, key: &'static str) -> usize {
        let value: Option<BulkString> = self.0.get(key).await.expect("GET");
        value.map_or(0, |value| value.len())
    }

    async fn set(&mut self, key: &'static str, value: &'static [u8]) {
        self.0.set(key, BulkString::from(Bytes::from_static(value))).await.expect("SET");
    }

    async fn batch(&mut self, keys: Vec<&'static str>, wanted: usize) -> usize {
        let mut pipeline = self.0.create_pipeline();
        for key in keys {
            pipeline.get::<BulkString>(key).queue();
        }
        let values: Vec<BulkString> = pipeline.execute().await.expect("GETs");
        values.iter().filter(|value| value.len() == wanted).count()
    }
}

fn main() {
    run(async |options: Options| {
        let url = format!("redis+cluster://{}", options.addresses().join(","));
        let mut config = url.into_config().expect("a configuration");
        if let Some(wave) = options.tuned_number("wave") {
            config.max_messages_per_wave = wave;
        }
        RedisClient(Client::connect(config).await.expect("a connection"))
    });
}
