//! With the redis crate.
use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::AsyncCommands;
use rest_peers::Keys;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone)]
enum Redis {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Keys for Redis {
    async fn get(&self, key: &str) -> Option<Bytes> {
        match self.clone() {
            Self::One(mut one) => one.get(key).await.ok().flatten(),
            Self::Cluster(mut cluster) => cluster.get(key).await.ok().flatten(),
        }
    }
    async fn set(&self, key: &str, value: Bytes, ms: u64) {
        let _: Result<(), _> = match self.clone() {
            Self::One(mut one) => one.pset_ex(key, &value[..], ms).await,
            Self::Cluster(mut cluster) => cluster.pset_ex(key, &value[..], ms).await,
        };
    }
    async fn del(&self, key: String) {
        let _: Result<i64, _> = match self.clone() {
            Self::One(mut one) => one.del(key).await,
            Self::Cluster(mut cluster) => cluster.del(key).await,
        };
    }
}

fn main() {
    rest_peers::serve(|port, cluster| async move {
        let url = format!("redis://127.0.0.1:{port}");
        if cluster {
            Redis::Cluster(ClusterClient::new(vec![url]).unwrap().get_async_connection().await.unwrap())
        } else {
            Redis::One(redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap())
        }
    });
}
