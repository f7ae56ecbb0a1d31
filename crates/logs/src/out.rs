//! The end of a log: a stream, a file or a socket.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, poll};

use crate::destination::Destination;
use crate::file::LogFile;
use crate::link::{Link, Server};
use crate::shape::split;

/// What a log is written to. Writing may block: it is for a thread of its own.
#[derive(Debug)]
pub struct Out(Kind);

#[derive(Debug)]
enum Kind {
    Stdout,
    Stderr,
    File(LogFile),
    Link(Box<Link>),
}

/// What was not written.
#[derive(Debug)]
pub struct Lost {
    /// How many lines.
    pub lines: u64,
    /// Why.
    pub cause: io::Error,
}

impl Out {
    /// Opens it. A file beyond `max_size` bytes is moved to the same name with `.1`, and begun anew.
    ///
    /// # Errors
    /// The file cannot be opened, or nobody is at the socket; servers in the network may come later.
    pub fn open(destination: &Destination, max_size: Option<u64>) -> io::Result<Self> {
        Ok(Self(match destination {
            Destination::Stdout => Kind::Stdout,
            Destination::Stderr => Kind::Stderr,
            Destination::File(path) => Kind::File(LogFile::open(path, max_size)?),
            Destination::Journal(path) => Kind::Link(Box::new(Link::open(Server::Journal(path.clone()))?)),
            Destination::Syslog(peer) => Kind::Link(Box::new(Link::open(Server::Syslog(peer.clone()))?)),
        }))
    }

    /// Writes so many whole lines, or messages as [`Shape::encode`](crate::Shape::encode) makes them.
    ///
    /// # Errors
    /// What was not written, and why.
    pub fn write(&mut self, bytes: &[u8], lines: u64) -> Result<(), Lost> {
        let written = match &mut self.0 {
            Kind::Stdout => write_all(&mut io::stdout().lock(), &rustix::stdio::stdout(), bytes),
            Kind::Stderr => write_all(&mut io::stderr().lock(), &rustix::stdio::stderr(), bytes),
            Kind::File(file) => file.write(bytes),
            Kind::Link(link) => return send_all(link, bytes),
        };
        written.map_err(|cause| Lost { lines, cause })
    }

    /// Opens a file anew, after somebody has moved it.
    ///
    /// # Errors
    /// It cannot be opened; the old one goes on.
    pub fn reopen(&mut self) -> io::Result<()> {
        if let Kind::File(file) = &mut self.0 { file.reopen() } else { Ok(()) }
    }
}

fn send_all(link: &mut Link, bytes: &[u8]) -> Result<(), Lost> {
    let mut lost: Option<Lost> = None;
    for message in split(bytes) {
        if let Err(cause) = link.send(message) {
            // The first cause says more than those after it.
            lost.get_or_insert(Lost { lines: 0, cause }).lines += 1;
        }
    }
    lost.map_or(Ok(()), Err)
}

/// Writes to a stream, also if somebody who shares it has made it non-blocking.
fn write_all(stream: &mut impl Write, descriptor: &impl std::os::fd::AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(descriptor, PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    stream.flush()
}
