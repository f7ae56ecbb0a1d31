//! Listening sockets: one for each worker, bound together.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use socket2::{Domain, Socket, Type};

use crate::options::ListenAddr;

/// Connections that the kernel holds for us before they are accepted.
const BACKLOG: i32 = 4096;

/// A listener that is not yet part of an event loop.
pub(crate) enum Listener {
    Tcp(std::net::TcpListener),
    Unix(UnixListener),
}

/// Why the gateway cannot listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr}: {cause}{hint}")]
pub struct ListenError {
    /// The address as configured.
    pub addr: ListenAddr,
    /// What the system says.
    pub cause: io::Error,
    /// What to do about it.
    pub hint: &'static str,
}

/// Binds `addr` once for each of `workers`; says where (a port of 0 has become a real one).
pub(crate) fn bind(addr: &ListenAddr, workers: usize) -> Result<(ListenAddr, Vec<Listener>), ListenError> {
    let bound = match addr {
        ListenAddr::Tcp(addr) => bind_tcp(*addr, workers).map(|(addr, l)| (ListenAddr::Tcp(addr), l)),
        ListenAddr::Unix(path) => bind_unix(path, workers).map(|l| (addr.clone(), l)),
    };
    bound.map_err(|cause| ListenError { addr: addr.clone(), hint: hint(&cause), cause })
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there: stop it, or change `listen`",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE, sockets a writable folder"
        }
        io::ErrorKind::AddrNotAvailable => "; the address is not one of this machine's",
        _ => "",
    }
}

fn bind_tcp(addr: SocketAddr, workers: usize) -> io::Result<(SocketAddr, Vec<Listener>)> {
    // With SO_REUSEPORT the kernel would let two gateways share a port without a word, so the first look is without it.
    drop(tcp(addr, ReusePort::No)?);
    let first = tcp(addr, ReusePort::Yes)?;
    let addr = first.local_addr()?;
    let mut all = vec![Listener::Tcp(first)];
    for _ in 1..workers {
        all.push(Listener::Tcp(tcp(addr, ReusePort::Yes)?));
    }
    Ok((addr, all))
}

#[derive(Clone, Copy, PartialEq)]
enum ReusePort {
    Yes,
    No,
}

fn tcp(addr: SocketAddr, reuse_port: ReusePort) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if reuse_port == ReusePort::Yes {
        socket.set_reuse_port(true)?;
    }
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    if reuse_port == ReusePort::Yes {
        socket.listen(BACKLOG)?;
    }
    Ok(socket.into())
}

fn bind_unix(path: &Path, workers: usize) -> io::Result<Vec<Listener>> {
    // A socket file outlives its program; one that nobody answers on is removed.
    if path.exists() {
        match UnixStream::connect(path) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            _ => return Err(io::ErrorKind::AddrInUse.into()),
        }
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    let mut all = Vec::new();
    for _ in 1..workers {
        all.push(Listener::Unix(listener.try_clone()?));
    }
    all.push(Listener::Unix(listener));
    Ok(all)
}
