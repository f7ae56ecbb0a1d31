//! From an address to a stream: names are resolved anew at each attempt, and all of a host's addresses are tried (RFC
//! 8305).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::connect_error::ConnectErrorKind;
use super::transport::Transport;
use crate::config::{Config, Keepalive, NodeAddress};

/// RFC 8305 §5: a further address is tried when the last has not answered for this long.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of one host that are tried, at most.
const MAX_ADDRESSES: usize = 32;

/// Dials the address. The caller bounds the time.
///
/// # Cancel safety
/// Dropping the future ends all of its attempts.
pub(super) async fn dial(config: &Config, address: &NodeAddress) -> Result<Transport, ConnectErrorKind> {
    if let Some(connector) = &config.connector {
        let stream = connector.connect(address).await.map_err(ConnectErrorKind::Connector)?;
        return Ok(Transport::Custom(stream));
    }
    match address {
        NodeAddress::Unix(path) => dial_unix(path).await,
        NodeAddress::Tcp { host, port } => {
            let addresses = resolve(host, *port).await.map_err(ConnectErrorKind::Resolve)?;
            Ok(Transport::Tcp(race(&addresses, SocketOptions::from(config)).await?))
        }
    }
}

#[cfg(unix)]
async fn dial_unix(path: &Path) -> Result<Transport, ConnectErrorKind> {
    let dial_error = |source| ConnectErrorKind::Dial { tried: 1, source };
    tokio::net::UnixStream::connect(path).await.map(Transport::Unix).map_err(dial_error)
}

#[cfg(not(unix))]
async fn dial_unix(_: &Path) -> Result<Transport, ConnectErrorKind> {
    let source = io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets");
    Err(ConnectErrorKind::Dial { tried: 1, source })
}

async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let mut addresses = interleaved(lookup_host((host, port)).await?);
    addresses.truncate(MAX_ADDRESSES);
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(addresses)
}

/// RFC 8305 §4: the resolver's order, but with the two families in turn.
fn interleaved(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addresses = addresses.into_iter().peekable();
    let first_is_v6 = addresses.peek().is_some_and(SocketAddr::is_ipv6);
    let (preferred, other): (Vec<_>, Vec<_>) = addresses.partition(|address| address.is_ipv6() == first_is_v6);
    let mut sorted = Vec::with_capacity(preferred.len() + other.len());
    for index in 0..preferred.len().max(other.len()) {
        sorted.extend(preferred.get(index).copied());
        sorted.extend(other.get(index).copied());
    }
    sorted
}

/// Dials the addresses one after the other, not waiting longer than [`ATTEMPT_DELAY`] before the next; the first to
/// answer wins.
async fn race(addresses: &[SocketAddr], options: SocketOptions) -> Result<TcpStream, ConnectErrorKind> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = JoinSet::new();
    let mut last_error = None;
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(options.connect(address));
        }
        // The next attempt starts when this one has failed, or after the delay; after the last there is only waiting.
        let outcome = tokio::select! {
            outcome = attempts.join_next() => outcome,
            () = sleep(ATTEMPT_DELAY), if waiting.len() > 0 => continue,
        };
        match outcome {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => last_error = Some(error),
            Some(Err(error)) => last_error = Some(io::Error::other(error)),
            None => {
                let source = last_error.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
                return Err(ConnectErrorKind::Dial { tried: addresses.len(), source });
            }
        }
    }
}

/// Options of a TCP socket, set before it is connected.
#[derive(Debug, Clone, Copy)]
struct SocketOptions {
    no_delay: bool,
    keepalive: Option<Keepalive>,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux has TCP_USER_TIMEOUT"))]
    user_timeout: Option<Duration>,
}

impl From<&Config> for SocketOptions {
    fn from(config: &Config) -> Self {
        Self { no_delay: config.no_delay, keepalive: config.keepalive, user_timeout: config.tcp_user_timeout }
    }
}

impl SocketOptions {
    async fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        self.apply(&socket)?;
        socket.connect(address).await
    }

    fn apply(self, socket: &TcpSocket) -> io::Result<()> {
        socket.set_nodelay(self.no_delay)?;
        let socket = SockRef::from(socket);
        if let Some(Keepalive { idle, interval, probes }) = self.keepalive {
            let keepalive = TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(probes);
            socket.set_tcp_keepalive(&keepalive)?;
        }
        #[cfg(target_os = "linux")]
        if let Some(timeout) = self.user_timeout {
            socket.set_tcp_user_timeout(Some(timeout))?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests;
