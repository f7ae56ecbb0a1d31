//! Moves bytes between lanes and sockets.
use crate::lane::{Cell, Lane};
use futures_util::task::AtomicWaker;
use harness::scan;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::yield_now;

const INPUT_BYTES: usize = 256 * 1024;
/// A read gets at least as much room.
const MIN_ROOM_BYTES: usize = 64 * 1024;

/// Drives the lanes of some nodes.
pub struct Driver {
    nodes: Vec<(u16, Arc<Lane>)>,
    wake: Arc<AtomicWaker>,
    gather: bool,
}

impl Driver {
    pub fn for_nodes(ports: &[u16], gather: bool) -> Self {
        let wake = Arc::new(AtomicWaker::new());
        let nodes = ports.iter().map(|port| (*port, Arc::new(Lane::new(Arc::clone(&wake))))).collect();
        Self { nodes, wake, gather }
    }

    pub fn lanes(&self) -> Vec<Arc<Lane>> {
        self.nodes.iter().map(|(_, lane)| Arc::clone(lane)).collect()
    }

    pub fn run_on_this_thread(self) {
        let runtime = Builder::new_current_thread().enable_io().build().expect("an event queue");
        runtime.block_on(self.run());
    }

    pub async fn run(self) {
        let mut connections = Vec::new();
        for (port, lane) in self.nodes {
            connections.push(Connection::open(port, lane).await);
        }
        loop {
            poll_fn(|context| {
                self.wake.register(context.waker());
                let mut ready = false;
                for connection in &connections {
                    ready |= connection.poll_ready(context); // each of them, so that each will wake
                }
                if ready { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            connections.iter_mut().for_each(Connection::read);
            if self.gather {
                yield_now().await;
            }
            for connection in &mut connections {
                connection.write().await;
            }
        }
    }
}

struct Connection {
    socket: TcpStream,
    lane: Arc<Lane>,
    output: Vec<u8>,
    /// What was read and not yet scanned is `input[begin..end]`.
    input: Vec<u8>,
    begin: usize,
    end: usize,
    waiting: VecDeque<Arc<Cell>>,
}

impl Connection {
    async fn open(port: u16, lane: Arc<Lane>) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).await.expect("the cluster runs");
        socket.set_nodelay(true).expect("a TCP socket");
        let (output, waiting) = (Vec::new(), VecDeque::new());
        Self { socket, lane, output, input: vec![0; INPUT_BYTES], begin: 0, end: 0, waiting }
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> bool {
        let readable = self.socket.poll_read_ready(context).is_ready();
        readable || self.lane.has_output()
    }

    /// Reads what there is and hands out the replies.
    fn read(&mut self) {
        loop {
            self.make_room();
            let room = self.input.len() - self.end;
            let count = match self.socket.try_read(&mut self.input[self.end..]) {
                Ok(0) => panic!("the node closed the connection"),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("read: {error}"),
            };
            self.end += count;
            while let Some((reply, length)) = scan(&self.input[self.begin..self.end]) {
                let cell = self.waiting.pop_front().expect("a reply to a command");
                cell.complete(reply.payload().to_vec());
                self.begin += length;
            }
            if self.begin == self.end {
                (self.begin, self.end) = (0, 0);
            }
            if count < room {
                return;
            }
        }
    }

    fn make_room(&mut self) {
        if self.begin > 0 && self.input.len() - self.end < MIN_ROOM_BYTES {
            self.input.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
    }

    async fn write(&mut self) {
        self.output.clear();
        self.lane.take(&mut self.output, &mut self.waiting);
        let mut sent = 0;
        while sent < self.output.len() {
            match self.socket.try_write(&self.output[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.socket.writable().await.expect("a socket can be polled");
                }
                Err(error) => panic!("write: {error}"),
            }
        }
    }
}
