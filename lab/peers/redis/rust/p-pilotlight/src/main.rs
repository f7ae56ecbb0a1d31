//! Pilotlight's own client. `lanes=N`: connections to each node.
use harness::{Options, Peer, run};
use pilotlight_redis::{Client, Commands, Value};

#[derive(Clone)]
struct RedisClient(Client);

impl Peer for RedisClient {
    async fn get(&mut self, key: &'static str) -> usize {
        self.0.get(key).await.expect("GET").map_or(0, |value| value.len())
    }

    async fn set(&mut self, key: &'static str, value: &'static [u8]) {
        self.0.set(key, value).await.expect("SET");
    }

    async fn batch(&mut self, keys: Vec<&'static str>, wanted: usize) -> usize {
        let mut pipeline = self.0.pipeline();
        for key in keys {
            pipeline.get(key);
        }
        let values = pipeline.run().await.expect("GETs").into_values();
        values.into_iter().filter(|value| matches!(value, Ok(Value::Bulk(bytes)) if bytes.len() == wanted)).count()
    }
}

fn main() {
    run(async |options: Options| {
        let lanes = options.tuning("lanes").map_or_else(String::new, |lanes| format!("?lanes={lanes}"));
        let url = format!("redis+cluster://{}{lanes}", options.addresses().join(","));
        RedisClient(Client::connect(url.as_str()).await.expect("a connection"))
    });
}
