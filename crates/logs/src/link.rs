//! A socket to the journal or to a syslog server, whose other end may go away and come back.
//!
//! ```text
//!  connected ─ error ─▶ away: tried every RETRY_PAUSE for HOLD_TIME, while lines wait in the queue
//!      ▲                  │
//!      └──── success ─────┴─▶ gone: messages are refused at once, tried every GONE_PAUSE
//! ```
//! A server that is restarted loses no line so long as the queue has room, and one that stays away delays nobody.

use std::io::{self, IoSlice, Write};
use std::net::{TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use crate::destination::Peer;

/// How long messages are held for a server that has gone away.
const HOLD_TIME: Duration = Duration::from_secs(5);
/// The pause between two tries meanwhile.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The same when it has been away for longer.
const GONE_PAUSE: Duration = Duration::from_secs(1);
/// How long one address may take to answer.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// How long a server may take no message.
const SEND_TIME: Duration = Duration::from_secs(5);

/// What is spoken.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    Journal(PathBuf),
    Syslog(Peer),
}

#[derive(Debug)]
enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
    Tcp(TcpStream),
}

#[derive(Debug)]
pub(crate) struct Link {
    server: Server,
    socket: Option<Socket>,
    away_since: Option<Instant>,
    last_try: Option<Instant>,
}

impl Link {
    /// A server on this machine has to be there; one in the network may come later.
    pub(crate) fn open(server: Server) -> io::Result<Self> {
        let socket = match connect(&server) {
            Ok(socket) => Some(socket),
            Err(_) if matches!(server, Server::Syslog(Peer::Udp(_) | Peer::Tcp(_))) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { server, socket, away_since: None, last_try: None })
    }

    /// Sends one message; waits for a server that is away, but not for one that stays away.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        loop {
            let now = Instant::now();
            let is_gone = self.away_since.is_some_and(|since| now - since >= HOLD_TIME);
            if is_gone && self.last_try.is_some_and(|tried| now - tried < GONE_PAUSE) {
                return Err(io::ErrorKind::NotConnected.into());
            }
            let Err(error) = self.try_send(message) else {
                self.away_since = None;
                return Ok(());
            };
            self.socket = None;
            self.last_try = Some(now);
            let since = *self.away_since.get_or_insert(now);
            if now - since >= HOLD_TIME {
                return Err(error);
            }
            thread::sleep(RETRY_PAUSE);
        }
    }

    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        let had_socket = self.socket.is_some();
        let sent = self.send_connected(message);
        // What a socket of before says of the server that it was connected to is old news: a restarted one has another.
        if sent.is_err() && had_socket {
            self.socket = None;
            return self.send_connected(message);
        }
        sent
    }

    fn send_connected(&mut self, message: &[u8]) -> io::Result<()> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(connect(&self.server)?),
        };
        match (socket, &self.server) {
            (Socket::Unix(socket), Server::Journal(_)) => send_entry(socket, message),
            (Socket::Unix(socket), Server::Syslog(_)) => socket.send(message).map(drop),
            (Socket::Udp(socket), _) => socket.send(message).map(drop),
            (Socket::Tcp(stream), _) => send_counted(stream, message),
        }
    }
}

fn connect(server: &Server) -> io::Result<Socket> {
    match server {
        Server::Journal(path) | Server::Syslog(Peer::Unix(path)) => connect_unix(path).map(Socket::Unix),
        Server::Syslog(Peer::Udp(at)) => {
            let address = at.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
            let socket = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })?;
            socket.connect(address)?;
            socket.set_write_timeout(Some(SEND_TIME))?;
            Ok(Socket::Udp(socket))
        }
        Server::Syslog(Peer::Tcp(at)) => {
            let mut last = io::ErrorKind::NotFound.into();
            for address in at.to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT_TIME) {
                    Ok(stream) => {
                        stream.set_write_timeout(Some(SEND_TIME))?;
                        return Ok(Socket::Tcp(stream));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

fn connect_unix(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(SEND_TIME))?;
    socket.connect(path)?;
    Ok(socket)
}

/// RFC 6587 §3.4.1: MSG-LEN SP SYSLOG-MSG.
fn send_counted(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    // Servers of syslog say nothing: an end is all that can be read, and writing would not show it at once.
    let mut byte = [0];
    match recv(&*stream, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((_, 0)) => return Err(io::ErrorKind::ConnectionReset.into()),
        Ok(_) | Err(Errno::AGAIN) => {}
        Err(error) => return Err(error.into()),
    }
    let mut framed = Vec::with_capacity(message.len() + 8);
    framed.extend_from_slice(format!("{} ", message.len()).as_bytes());
    framed.extend_from_slice(message);
    stream.write_all(&framed)
}

/// Sends without SIGPIPE; on other systems than Linux, Rust's runtime ignores that signal.
#[cfg(target_os = "linux")]
const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: SendFlags = SendFlags::empty();

/// One entry, in a datagram or, if it is too large for one, in a sealed file of memory.
fn send_entry(socket: &UnixDatagram, entry: &[u8]) -> io::Result<()> {
    let mut none = SendAncillaryBuffer::default();
    match sendmsg(socket, &[IoSlice::new(entry)], &mut none, NO_SIGNAL) {
        Ok(_) => Ok(()),
        Err(Errno::MSGSIZE | Errno::NOBUFS) => send_sealed(socket, entry),
        Err(error) => Err(error.into()),
    }
}

#[cfg(target_os = "linux")]
fn send_sealed(socket: &UnixDatagram, entry: &[u8]) -> io::Result<()> {
    use std::fs::File;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    use rustix::net::SendAncillaryMessage;

    let mut file = File::from(memfd_create("journal-entry", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(entry)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("a message has no room for one descriptor"));
    }
    Ok(sendmsg(socket, &[], &mut control, NO_SIGNAL).map(drop)?)
}

/// There is a journal on Linux alone.
#[cfg(not(target_os = "linux"))]
fn send_sealed(_: &UnixDatagram, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{IoSliceMut, Read};
    use std::mem::MaybeUninit;
    use std::net::TcpListener;

    use rustix::fs::SealFlags;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, recvmsg};

    use super::*;

    fn receive(socket: &UnixDatagram) -> Vec<u8> {
        let mut bytes = vec![0; 64 * 1024];
        let length = socket.recv(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn a_server_that_comes_back_gets_the_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        assert_eq!(Link::open(Server::Journal(path.clone())).unwrap_err().kind(), io::ErrorKind::NotFound);
        let server = UnixDatagram::bind(&path).unwrap();
        let mut link = Link::open(Server::Syslog(Peer::Unix(path.clone()))).unwrap();
        link.send(b"1").unwrap();
        assert_eq!(receive(&server), b"1");
        drop(server);
        std::fs::remove_file(&path).unwrap();
        let sender = thread::spawn(move || link.send(b"2").map(|()| link.away_since.is_none()));
        thread::sleep(RETRY_PAUSE);
        let server = UnixDatagram::bind(&path).unwrap();
        assert_eq!(receive(&server), b"2");
        assert!(sender.join().unwrap().unwrap());
    }

    #[test]
    fn a_server_that_stays_away_delays_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        drop(UnixDatagram::bind(&path).unwrap());
        let server = Server::Journal(path.clone());
        let long_ago = Instant::now().checked_sub(HOLD_TIME);
        let mut link = Link { server, socket: None, away_since: long_ago, last_try: None };
        let begun = Instant::now();
        assert_eq!(link.send(b"1").unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        for _ in 0..1000 {
            link.send(b"2").unwrap_err();
        }
        assert!(begun.elapsed() < HOLD_TIME);
    }

    #[test]
    fn what_fits_into_no_datagram_comes_in_a_sealed_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let server = UnixDatagram::bind(&path).unwrap();
        let mut link = Link::open(Server::Journal(path)).unwrap();
        let entry = vec![b'x'; 8 << 20];
        link.send(&entry).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 16];
        let received = recvmsg(&server, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty()).unwrap();
        assert_eq!(received.bytes, 0);
        let Some(RecvAncillaryMessage::ScmRights(mut files)) = control.drain().next() else { panic!("no file") };
        let file = File::from(files.next().unwrap());
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
        assert_eq!(rustix::fs::fcntl_get_seals(&file).unwrap(), seals);
        let mut whole = Vec::new();
        let mut from = io::BufReader::new(file);
        io::Seek::rewind(&mut from).unwrap();
        from.read_to_end(&mut whole).unwrap();
        assert_eq!(whole, entry);
    }

    #[test]
    fn messages_in_a_stream_are_counted_and_an_end_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let mut link = Link::open(Server::Syslog(Peer::Tcp(at))).unwrap();
        let (mut first, _) = listener.accept().unwrap();
        link.send(b"one").unwrap();
        link.send("zwölf".as_bytes()).unwrap();
        let mut bytes = [0; 13];
        first.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes[..], "3 one6 zwölf".as_bytes());
        drop(first);
        // The end is on its way.
        thread::sleep(Duration::from_millis(50));
        link.send(b"three").unwrap();
        let (mut second, _) = listener.accept().unwrap();
        let mut bytes = [0; 7];
        second.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"5 three");
    }
}
