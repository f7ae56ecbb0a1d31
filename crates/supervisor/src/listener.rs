//! Sockets that exist before the service does.
//!
//! Each HTTP instance gets a listening socket of its own, bound before it is spawned: requests wait in the kernel while
//! it starts. It is not kept for the next instance: a request left in the backlog of a dead instance must not be
//! executed by the next one after its client was told that it failed, and an instance that drains must not accept what
//! is meant for its successor.

use crate::instance::Address;
use crate::limits::{BACKLOG, CONNECT_BY_REQUEST_TIMEOUT, PORT_PAUSE};
use crate::spec::HttpSocket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The listening socket of one instance, and its address.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: Address,
    /// The socket that the service inherits; none for `PORT`.
    pub(crate) socket: Option<OwnedFd>,
    file: Option<PathBuf>,
}

impl Listener {
    /// Binds. `file` is the path of a Unix socket.
    pub(crate) fn bind(kind: HttpSocket, file: &Path) -> io::Result<Self> {
        Ok(match kind {
            HttpSocket::Unix => Self {
                socket: Some(bind_unix(file)?.into()),
                address: Address::Unix(file.to_owned()),
                file: Some(file.to_owned()),
            },
            HttpSocket::Tcp => {
                let (socket, address) = bind_tcp()?;
                Self { address: Address::Tcp(address), socket: Some(socket), file: None }
            }
            HttpSocket::Port => {
                let (_, address) = bind_tcp()?; // closed again: the service binds it itself
                Self { address: Address::Tcp(address), socket: None, file: None }
            }
        })
    }

    /// Whether connections wait that nobody accepted.
    pub(crate) fn has_waiting(&self) -> io::Result<bool> {
        self.socket.as_ref().map_or(Ok(false), has_waiting)
    }

    /// Closes our copy of the socket: from now on a dead service refuses instead of letting clients wait.
    pub(crate) fn release(&mut self) {
        self.socket = None;
    }
}

/// Who connects first to a socket that an instance has inherited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Requests that wait for it.
    Requests,
    /// The supervisor, to see when the instance accepts: it finds a connection without a request, as of a health check.
    Itself,
}

/// The look for the first connection that an instance accepts on the socket that it has inherited.
#[derive(Debug)]
pub(crate) struct Acceptance {
    socket: OwnedFd,
    asks: Asks,
    address: Address,
}

impl Acceptance {
    /// `None` without such a socket.
    pub(crate) fn of(listener: &Listener, asks: Asks) -> io::Result<Option<Self>> {
        let Some(socket) = &listener.socket else { return Ok(None) };
        Ok(Some(Self { socket: socket.try_clone()?, asks, address: listener.address.clone() }))
    }

    /// Until a connection that waited no longer does.
    pub(crate) async fn wait(self, instance: u64) -> u64 {
        let begun = Instant::now();
        let (mut pause, longest) = PORT_PAUSE;
        let (mut own, mut has_waited) = (None, false);
        loop {
            // Whoever was to ask may have gone.
            if own.is_none()
                && !has_waited
                && (self.asks == Asks::Itself || begun.elapsed() >= CONNECT_BY_REQUEST_TIMEOUT)
            {
                own = connect(&self.address).await.ok();
                has_waited = own.is_some(); // also if it was taken at once
            }
            match has_waiting(&self.socket) {
                Ok(true) => has_waited = true,
                Ok(false) if has_waited => return instance,
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot look at a service's socket; it counts as ready");
                    return instance;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

/// A connection that asks for nothing, kept open until it is dropped.
enum Silent {
    Unix { _stream: tokio::net::UnixStream },
    Tcp { _stream: tokio::net::TcpStream },
}

async fn connect(address: &Address) -> io::Result<Silent> {
    Ok(match address {
        Address::Unix(path) => Silent::Unix { _stream: tokio::net::UnixStream::connect(path).await? },
        Address::Tcp(address) => Silent::Tcp { _stream: tokio::net::TcpStream::connect(address).await? },
    })
}

fn has_waiting(socket: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(poll(&mut fds, Some(&now))? > 0)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            remove_file(file);
        }
    }
}

/// Binds a Unix socket, replacing a file that an earlier gateway left.
pub(crate) fn bind_unix(file: &Path) -> io::Result<UnixListener> {
    remove_file(file);
    let listener = UnixListener::bind(file)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Removes a socket's file; that it is not there is fine.
pub(crate) fn remove_file(file: &Path) {
    if let Err(error) = std::fs::remove_file(file)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(file = %file.display(), %error, "cannot remove a socket's file");
    }
}

fn bind_tcp() -> io::Result<(OwnedFd, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    rustix::net::listen(listener.as_fd(), BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener.into(), address))
}
