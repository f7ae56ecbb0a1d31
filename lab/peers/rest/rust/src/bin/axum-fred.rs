//! With fred.
use bytes::Bytes;
use fred::prelude::*;
use rest_peers::Keys;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone)]
struct Fred(Client);

impl Keys for Fred {
    async fn get(&self, key: &str) -> Option<Bytes> {
        self.0.get::<Option<Bytes>, _>(key).await.ok().flatten()
    }
    async fn set(&self, key: &str, value: Bytes, ms: u64) {
        let _: Result<(), _> = self.0.set(key, value, Some(Expiration::PX(ms as i64)), None, false).await;
    }
    async fn del(&self, key: String) {
        let _: Result<i64, _> = self.0.del(key).await;
    }
}

fn main() {
    rest_peers::serve(|port, cluster| async move {
        let host = "127.0.0.1".to_string();
        let server = if cluster {
            ServerConfig::new_clustered(vec![(host, port)])
        } else {
            ServerConfig::new_centralized(host, port)
        };
        let client = Builder::from_config(Config { server, ..Default::default() }).build().unwrap();
        client.init().await.unwrap();
        Fred(client)
    });
}
