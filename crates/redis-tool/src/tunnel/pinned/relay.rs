//! One client and one connection to one node: bytes in both directions, neither of which waits for the other.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use pilotlight_redis::config::Config;
use pilotlight_redis::raw::NodeStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};

use super::rewrite::{self, Map, UNKNOWN};
use super::track::{Held, Tracker};
use super::upward::{Step, Upward};
use crate::tunnel::ports::{Ports, Target};
use crate::tunnel::shared::Shared;

/// Most bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// What both directions know.
struct Common {
    tracker: Mutex<Tracker>,
    /// The tunnel has an answer of its own.
    answered: Notify,
}

/// Serves one client until it or the node goes, or the tunnel ends.
pub(crate) async fn serve(
    socket: TcpStream,
    shared: Arc<Shared>,
    config: Arc<Config>,
    target: Target,
    mut ending: watch::Receiver<bool>,
) -> io::Result<()> {
    let opened = NodeStream::open(&config, &target.node, target.kind).await;
    target.ports.note_attempt(&target.node, opened.as_ref().err());
    // Clients that know clusters take a closed connection for what it is: the node cannot be reached. An error they
    // would take for its answer.
    let Ok(node) = opened else { return Ok(()) };
    let here = socket.local_addr()?.ip();
    let common = Common { tracker: Mutex::new(Tracker::new()), answered: Notify::new() };
    let (from_client, to_client) = split(socket);
    let (from_node, to_node) = split(node);
    let addresses = Addresses { ports: &target.ports, asked: &target, here, unknown: false };
    let mut up = pin!(up(from_client, to_node, &common, &shared));
    let mut down = pin!(down(from_node, to_client, &common, addresses));
    tokio::select! {
        done = &mut up => return done,
        done = &mut down => return done,
        _ = ending.wait_for(|ending| *ending) => {}
    }
    // No more commands; what the client is owed still comes, as long as the workers wait.
    common.tracker().close_after();
    common.answered.notify_one();
    down.await
}

async fn up(
    mut client: ReadHalf<TcpStream>,
    mut node: WriteHalf<NodeStream>,
    common: &Common,
    shared: &Shared,
) -> io::Result<()> {
    let mut upward = Upward::new(shared.password.is_none());
    let (mut input, mut steps) = (BytesMut::new(), Vec::new());
    loop {
        input.reserve(READ_BYTES);
        if client.read_buf(&mut input).await? == 0 {
            // The node closes when it has answered, and that ends the other direction.
            node.shutdown().await?;
            return std::future::pending().await;
        }
        upward.feed(&mut input, shared, &mut steps);
        let mut pending: Vec<Bytes> = Vec::new();
        for step in steps.drain(..) {
            if matches!(step, Step::Break(_)) {
                common.tracker().withdraw();
            }
            match step {
                Step::Forward(piece) => pending.push(piece),
                Step::Expect(expect) => {
                    let is_local = matches!(expect, super::track::Expect::Local(_));
                    common.tracker().expect(expect);
                    if is_local {
                        common.answered.notify_one();
                    }
                }
                Step::Close(last) | Step::Break(last) => {
                    common.tracker().expect(super::track::Expect::Local(last));
                    common.tracker().close_after();
                    common.answered.notify_one();
                }
            }
        }
        write_all(&mut node, pending).await?;
    }
}

async fn write_all(node: &mut WriteHalf<NodeStream>, pieces: Vec<Bytes>) -> io::Result<()> {
    match &pieces[..] {
        [] => return Ok(()),
        [one] => node.write_all(one).await?,
        // Pieces of one read: they lay side by side.
        many => node.write_all(&many.concat()).await?,
    }
    node.flush().await
}

async fn down(
    mut node: ReadHalf<NodeStream>,
    mut client: WriteHalf<TcpStream>,
    common: &Common,
    mut addresses: Addresses<'_>,
) -> io::Result<()> {
    let (mut input, mut out) = (BytesMut::new(), Vec::new());
    loop {
        input.reserve(READ_BYTES);
        let read = tokio::select! {
            read = node.read_buf(&mut input) => read?,
            () = common.answered.notified() => {
                common.tracker().locals(&mut out);
                usize::MAX
            }
        };
        while !input.is_empty() {
            let (taken, held) = common.tracker().feed(&input, &mut out);
            let _ = input.split_to(taken);
            if let Some(held) = held {
                addresses.pass(held, &mut out).await;
                common.tracker().locals(&mut out);
            }
        }
        if !out.is_empty() {
            client.write_all(&out).await?;
            out.clear();
            out.shrink_to(READ_BYTES * 4);
        }
        if read == 0 || common.tracker().is_closing() {
            return client.shutdown().await;
        }
    }
}

impl Common {
    fn tracker(&self) -> std::sync::MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ports of the tunnel, as this client sees them.
struct Addresses<'a> {
    ports: &'a Ports,
    asked: &'a Target,
    here: std::net::IpAddr,
    /// A node was named that has no port yet.
    unknown: bool,
}

impl Addresses<'_> {
    /// Appends the frame, with other addresses if there are any to be replaced. A node that is not known yet is asked
    /// for.
    async fn pass(&mut self, held: Held, out: &mut Vec<u8>) {
        self.unknown = false;
        let mut rewritten = self.rewrite(&held);
        if self.unknown && self.ports.refreshed().await {
            rewritten = self.rewrite(&held);
        }
        let (Held::Error(frame) | Held::Topology(_, frame)) = &held;
        out.extend_from_slice(rewritten.as_deref().unwrap_or(frame));
    }

    fn rewrite(&mut self, held: &Held) -> Option<Vec<u8>> {
        match held {
            Held::Error(frame) => rewrite::redirect(frame, self),
            Held::Topology(query, frame) => rewrite::reply(*query, frame, self),
        }
    }
}

impl Map for Addresses<'_> {
    fn local(&mut self, host: &str, port: u16) -> Option<(String, u16)> {
        let found = match host {
            "" => self.ports.local(self.asked.node.host()?, port),
            UNKNOWN => self.ports.only(port),
            host => self.ports.local(host, port),
        };
        self.unknown |= found.is_none();
        let local = found?;
        let ip = if local.ip().is_unspecified() { self.here } else { local.ip() };
        Some((ip.to_string(), local.port()))
    }
}
