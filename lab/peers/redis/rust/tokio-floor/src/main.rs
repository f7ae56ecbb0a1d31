//! The floor of a client with `async` callers: what the await itself costs on tokio.
//!
//! A multiplexing cluster client without redirects, reconnects, timeouts or limits. Callers encode into the buffer of
//! the key's lane; a driver writes what has gathered, reads, and wakes them. Layouts of the drivers, to be compared:
//! `driver=task` (a task for each node) or `driver=thread` (one thread of its own for all), and `gather=1` (a driver
//! that was woken lets the callers of this scheduler turn write, too, before it sends).
mod driver;
mod lane;

use driver::Driver;
use harness::{Options, Peer, Topology, push_get, push_set, run};
use lane::{Lane, Reply};
use std::sync::Arc;
use std::thread;

#[derive(Clone)]
struct Client {
    lanes: Arc<Vec<Arc<Lane>>>,
    topology: Arc<Topology>,
}

impl Client {
    #[inline]
    fn send(&self, key: &'static str, encode: impl FnOnce(&mut Vec<u8>)) -> Reply {
        self.lanes[self.topology.node(key.as_bytes())].send(encode)
    }

    fn send_get(&self, key: &'static str) -> Reply {
        self.send(key, |output| push_get(output, key.as_bytes()))
    }
}

impl Peer for Client {
    async fn get(&mut self, key: &'static str) -> usize {
        self.send_get(key).payload().await.len()
    }

    async fn set(&mut self, key: &'static str, value: &'static [u8]) {
        let reply = self.send(key, |output| push_set(output, key.as_bytes(), value));
        assert_eq!(reply.payload().await, b"OK");
    }

    async fn batch(&mut self, keys: Vec<&'static str>, wanted: usize) -> usize {
        let replies: Vec<Reply> = keys.into_iter().map(|key| self.send_get(key)).collect();
        let mut right = 0;
        for reply in replies {
            right += usize::from(reply.payload().await.len() == wanted);
        }
        right
    }
}

fn main() {
    run(async |options: Options| {
        let gather = options.tuning("gather") == Some("1");
        let topology = Arc::new(Topology::of(&options.ports));
        if options.tuning("driver") == Some("thread") {
            let driver = Driver::for_nodes(&options.ports, gather);
            let lanes = driver.lanes();
            thread::spawn(|| driver.run_on_this_thread());
            return Client { lanes: Arc::new(lanes), topology };
        }
        let mut lanes = Vec::new();
        for port in &options.ports {
            let driver = Driver::for_nodes(&[*port], gather);
            lanes.extend(driver.lanes());
            tokio::spawn(driver.run());
        }
        Client { lanes: Arc::new(lanes), topology }
    });
}
