//! Whose a connection is that comes through a load balancer: what the PROXY protocol says ahead of everything else.
//!
//! Only named networks are asked, and have to say it: "the receiver MUST NOT try to guess whether the header is
//! present" (The PROXY protocol, §2). Nothing behind the header is read here.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pilotlight_proxy_protocol::{Announced, MAX_V1, MAX_V2, NotAHeader, Progress, parse};
use tokio::io::{AsyncRead, ReadBuf};

use crate::net::Socket;
use crate::strangers::Stranger;
use crate::worker::Worker;

const MAX_HEADER: usize = if MAX_V1 > MAX_V2 { MAX_V1 } else { MAX_V2 };

/// Why a connection is closed before it is anybody's.
enum Closed {
    /// It was no header.
    Header(NotAHeader),
    /// It was not whole in time.
    Late(Duration),
    /// It has ended by itself, or the gateway stops.
    Gone,
}

/// `address:port` of the client whose connection this is; `None` if it is to be closed.
pub(crate) async fn client_of(worker: &Worker, socket: &mut Socket, peer: String) -> Option<String> {
    let (is_asked, timeout) = {
        let table = worker.common.table.load();
        let settings = table.settings();
        let is_asked = !settings.proxy_protocol.is_empty()
            && peer.parse().is_ok_and(|peer: SocketAddr| settings.proxy_protocol.contain(peer.ip()));
        (is_asked, settings.limits.header_timeout)
    };
    if !is_asked {
        return Some(peer);
    }
    // In a box, so that other connections do not have the place for it.
    match Box::pin(announced(worker, socket, timeout)).await {
        Ok(Announced::Client(client)) => Some(SocketAddr::new(client.ip().to_canonical(), client.port()).to_string()),
        Ok(Announced::Nobody) => Some(peer),
        Err(Closed::Gone) => None,
        Err(Closed::Header(why)) => {
            worker.common.strangers.name(&peer, Stranger::NoProxyHeader(why));
            None
        }
        Err(Closed::Late(after)) => {
            worker.common.strangers.name(&peer, Stranger::LateProxyHeader(after));
            None
        }
    }
}

async fn announced(worker: &Worker, socket: &mut Socket, timeout: Duration) -> Result<Announced, Closed> {
    let deadline = worker.deadlines.deadline();
    deadline.set(timeout);
    let (mut header, mut used) = ([0; MAX_HEADER], 0);
    loop {
        let wants = match parse(&header[..used]).map_err(Closed::Header)? {
            Progress::Done(announced) => return Ok(announced),
            Progress::Wants(bytes) => bytes,
        };
        let Some(room) = header.get_mut(used..used + wants) else { return Err(Closed::Gone) };
        let read = poll_fn(|cx| match poll_read(socket, cx, room) {
            Poll::Ready(read) => Poll::Ready(read.map_err(|_| Closed::Gone)),
            Poll::Pending if worker.is_stopping() => Poll::Ready(Err(Closed::Gone)),
            Poll::Pending => deadline.poll(cx).map(|()| Err(Closed::Late(timeout))),
        });
        match read.await? {
            0 => return Err(Closed::Gone),
            bytes => used += bytes,
        }
    }
}

fn poll_read(socket: &mut Socket, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut room = ReadBuf::new(room);
    ready!(Pin::new(socket).poll_read(cx, &mut room))?;
    Poll::Ready(Ok(room.filled().len()))
}
