//! Listening sockets: one for each worker, bound together.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockRef, Socket, Type};

use crate::descriptors;
use crate::options::{Inherited, ListenAddr};

/// Connections that the kernel holds for us before they are accepted.
const BACKLOG: i32 = 4096;

/// A listener that is not yet part of an event loop.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(std::net::TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Another descriptor of the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(listener) => Self::Tcp(listener.try_clone()?),
            Self::Unix(listener) => Self::Unix(listener.try_clone()?),
        })
    }

    fn address(&self) -> io::Result<Option<ListenAddr>> {
        Ok(match self {
            Self::Tcp(listener) => Some(ListenAddr::Tcp(listener.local_addr()?)), // or TLS, as it is configured
            Self::Unix(listener) => listener.local_addr()?.as_pathname().map(|path| ListenAddr::Unix(path.to_owned())),
        })
    }

    fn into_fd(self) -> OwnedFd {
        match self {
            Self::Tcp(listener) => listener.into(),
            Self::Unix(listener) => listener.into(),
        }
    }
}

/// One address that is listened on, with its sockets for as long as it is.
#[derive(Debug)]
pub(crate) struct Bound {
    /// As configured: a port may be 0.
    pub(crate) configured: ListenAddr,
    /// With its real port.
    pub(crate) address: ListenAddr,
    /// One for each worker. Workers have clones; this one keeps the socket, and who waits in it, when it is handed
    /// over.
    sockets: Vec<Listener>,
    /// The file of a Unix socket, which goes with it.
    file: Option<SocketFile>,
}

/// The file of a Unix socket, removed when this is dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // somebody else may have removed it
    }
}

impl Bound {
    /// A listener for each worker.
    pub(crate) fn listeners(&self) -> io::Result<Vec<Listener>> {
        self.sockets.iter().map(Listener::try_clone).collect()
    }

    /// The same sockets, at which something else is spoken.
    pub(crate) fn speaking(&self, configured: &ListenAddr) -> Result<Self, ListenError> {
        let failed = |cause| ListenError { addr: configured.clone(), hint: hint(&cause), cause };
        let address = as_configured(configured, self.address.socket());
        Ok(Self { configured: configured.clone(), address, sockets: self.listeners().map_err(failed)?, file: None })
    }

    /// For another process.
    pub(crate) fn hand_over(&self) -> io::Result<Inherited> {
        let sockets = self.listeners()?.into_iter().map(Listener::into_fd).collect();
        Ok(Inherited { configured: Some(self.configured.clone()), sockets })
    }

    /// Another process has it now: its file stays.
    pub(crate) fn leave(&mut self) {
        if let Some(file) = self.file.take() {
            std::mem::forget(file);
        }
    }
}

/// Listening sockets that were bound by somebody else.
#[derive(Default)]
pub(crate) struct Legacy(Vec<(Option<ListenAddr>, ListenAddr, Vec<Listener>)>);

impl Legacy {
    /// Takes what is a listening socket; what is none is said and closed.
    pub(crate) fn new(inherited: Vec<Inherited>) -> Self {
        let mut all = Vec::new();
        for Inherited { configured, sockets } in inherited {
            let listeners: Vec<Listener> = sockets.into_iter().filter_map(adopted).collect();
            match listeners.first().map(Listener::address) {
                Some(Ok(Some(address))) => all.push((configured, address, listeners)),
                Some(other) => tracing::warn!("an inherited socket has no address that can be used: {other:?}"),
                None => {}
            }
        }
        Self(all)
    }

    /// Those for an address as it is configured.
    fn take(&mut self, addr: &ListenAddr) -> Option<(ListenAddr, Vec<Listener>)> {
        let is_it = |configured: &Option<ListenAddr>, address: &ListenAddr| {
            configured.as_ref().unwrap_or(address).socket() == addr.socket()
        };
        let at = self.0.iter().position(|(configured, address, _)| is_it(configured, address))?;
        let (_, address, listeners) = self.0.swap_remove(at);
        Some((as_configured(addr, address), listeners))
    }
}

impl Legacy {
    /// One that is left, at the port of an address.
    fn at_port(&self, addr: &ListenAddr) -> Option<&ListenAddr> {
        let port = addr.port()?;
        self.0.iter().map(|(_, address, _)| address).find(|address| address.port() == Some(port))
    }
}

fn adopted(socket: OwnedFd) -> Option<Listener> {
    let socket = Socket::from(socket);
    if !listens(&socket) || socket.set_nonblocking(true).is_err() {
        tracing::warn!("an inherited descriptor is no listening socket; it is closed");
        return None;
    }
    match socket.local_addr().map(|address| address.domain()) {
        Ok(Domain::UNIX) => Some(Listener::Unix(OwnedFd::from(socket).into())),
        Ok(Domain::IPV4 | Domain::IPV6) => Some(Listener::Tcp(OwnedFd::from(socket).into())),
        other => {
            tracing::warn!("an inherited socket is neither TCP nor Unix ({other:?}); it is closed");
            None
        }
    }
}

#[cfg(target_os = "linux")]
fn listens(socket: &Socket) -> bool {
    socket.is_listener().unwrap_or(false)
}

#[cfg(not(target_os = "linux"))]
use has_no_peer as listens;

/// Returns whether a socket is a stream without a peer. Apple's systems do not say whether a socket listens
/// (SO_ACCEPTCONN); such a stream is taken for a listener there.
#[cfg(any(test, not(target_os = "linux")))]
fn has_no_peer(socket: &Socket) -> bool {
    matches!(socket.r#type(), Ok(Type::STREAM)) && socket.peer_addr().is_err()
}

/// So many listeners from those that there are: every socket must have a worker, or who waits in it waits for ever.
fn spread(mut sockets: Vec<Listener>, workers: usize) -> io::Result<Vec<Listener>> {
    let shares = |listener: &Listener| match listener {
        Listener::Tcp(tcp) => SockRef::from(tcp).reuse_port().unwrap_or(false),
        Listener::Unix(_) => false,
    };
    while sockets.len() < workers {
        let Some(first) = sockets.first() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let more = match first {
            Listener::Tcp(tcp) if shares(first) => Listener::Tcp(self::tcp(tcp.local_addr()?, ReusePort::Yes)?),
            _ => first.try_clone()?,
        };
        sockets.push(more);
    }
    Ok(sockets)
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
    pub hint: String,
}

/// Binds `addr` once for each of `workers`, or takes what was inherited for it. There may be more listeners than
/// workers.
pub(crate) fn bind(addr: &ListenAddr, workers: usize, legacy: &mut Legacy) -> Result<Bound, ListenError> {
    let bound = match (legacy.take(addr), addr) {
        (Some((address, sockets)), _) => spread(sockets, workers).map(|sockets| (address, sockets)),
        (None, ListenAddr::Tcp(tcp) | ListenAddr::Tls(tcp)) => {
            bind_tcp(*tcp, workers).map(|(real, l)| (as_configured(addr, ListenAddr::Tcp(real)), l))
        }
        (None, ListenAddr::Unix(path)) => bind_unix(path, workers).map(|l| (addr.clone(), l)),
    };
    let (address, sockets) = bound.map_err(|cause| {
        let in_the_way = Some(&cause).filter(|cause| cause.kind() == io::ErrorKind::AddrInUse);
        let inherited = in_the_way.and_then(|_| legacy.at_port(addr)).map(|other| inherited_hint(addr, other));
        ListenError { addr: addr.clone(), hint: inherited.unwrap_or_else(|| hint(&cause)), cause }
    })?;
    let file = match &address {
        ListenAddr::Unix(path) => Some(SocketFile(path.clone())),
        ListenAddr::Tcp(_) | ListenAddr::Tls(_) => None,
    };
    Ok(Bound { configured: addr.clone(), address, sockets, file })
}

/// A real address, at which is spoken what was configured.
fn as_configured(configured: &ListenAddr, real: ListenAddr) -> ListenAddr {
    match (configured, real) {
        (ListenAddr::Tls(_), ListenAddr::Tcp(real)) => ListenAddr::Tls(real),
        (_, real) => real,
    }
}

fn hint(cause: &io::Error) -> String {
    let hint = match cause.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there: stop it, or change `listen`",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need root or CAP_NET_BIND_SERVICE, sockets a writable folder"
        }
        io::ErrorKind::AddrNotAvailable => "; the address is not one of this machine's",
        _ => return descriptors::hint(cause),
    };
    hint.to_owned()
}

/// What to do about an address that an inherited socket is in the way of. `ListenStream=80` of systemd is `[::]:80`,
/// for IPv4 as well.
fn inherited_hint(addr: &ListenAddr, other: &ListenAddr) -> String {
    let wanted = addr.socket();
    format!(
        "; the socket {other} that the service manager has handed over (LISTEN_FDS) is in the way: write {other} in \
         `listen`, or ListenStream={wanted} in the unit of the socket"
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inherited_socket_that_is_in_the_way_is_named() {
        // As systemd binds `ListenStream=PORT`: for both protocols.
        let socket = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
        socket.set_only_v6(false).unwrap();
        socket.bind(&SocketAddr::from(([0_u16; 8], 0)).into()).unwrap();
        socket.listen(1).unwrap();
        let port = socket.local_addr().unwrap().as_socket().unwrap().port();
        let mut legacy = Legacy::new(vec![Inherited { configured: None, sockets: vec![socket.into()] }]);
        let wanted = ListenAddr::Tcp(SocketAddr::from(([0, 0, 0, 0], port)));
        let said = bind(&wanted, 1, &mut legacy).unwrap_err().to_string();
        assert!(said.contains("LISTEN_FDS") && said.contains(&format!("[::]:{port}")), "{said}");
        assert!(!said.contains("another program"), "{said}");
    }

    #[test]
    fn a_listener_is_told_from_other_sockets() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        // All open until the end: the client's connection lasts as long as the listener.
        let sockets = [(Socket::from(listener), true), (client.into(), false), (datagrams.into(), false)];
        for (socket, expected) in &sockets {
            assert_eq!((listens(socket), has_no_peer(socket)), (*expected, *expected), "{socket:?}");
        }
    }
}
