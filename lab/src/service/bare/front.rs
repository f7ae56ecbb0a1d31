//! The floor of what `pilotlight lab front` asks for: a small answer over TLS, in HTTP/1.1 and HTTP/2, a small file,
//! and a large one, with and without TLS. rustls and ring are those of the gateway.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, ensure};
use rustix::event::epoll::EventFlags;

use super::requests::Requests;
use super::secure::{self, Secure};
use super::turns::{self, Connection};
use super::{answered, http2};
use crate::service::answer_body;

/// As much of a large file as is sent at once.
const PIECE: usize = 1 << 20;

/// What is answered, made before the first request.
pub(super) struct Answers {
    small: Vec<u8>,
    /// Head and body of the small answer in HTTP/2.
    pub(super) small_http2: http2::Answer,
    script: Vec<u8>,
    large_head: Vec<u8>,
    pub(super) large: File,
    pub(super) large_bytes: u64,
}

/// What follows the request that was read.
pub(super) enum Wanted<'a> {
    Bytes(&'a [u8]),
    /// A head, and the large file behind it.
    Large(&'a [u8]),
}

impl Answers {
    fn read(www: &Path, [script, large]: [&str; 2]) -> anyhow::Result<Self> {
        let file = |name: &str| www.join(name.trim_start_matches('/'));
        let compressed = file(&format!("{script}.gz"));
        let compressed =
            std::fs::read_to_string(&compressed).with_context(|| format!("cannot read {}", compressed.display()))?;
        let opened = file(large);
        let opened = File::open(&opened).with_context(|| format!("cannot open {}", opened.display()))?;
        let large_bytes = opened.metadata()?.len();
        Ok(Self {
            small: answered(&answer_body(), "content-type: application/json\r\n"),
            small_http2: http2::Answer::new(&answer_body()),
            script: answered(&compressed, "content-type: text/javascript\r\ncontent-encoding: gzip\r\n"),
            large_head: format!("HTTP/1.1 200 OK\r\ncontent-length: {large_bytes}\r\n\r\n").into_bytes(),
            large: opened,
            large_bytes,
        })
    }

    /// By the first letter of the target, in which the three differ; all requests of a read want the same.
    pub(super) fn of(&self, request: &[u8]) -> Wanted<'_> {
        match request.get("GET /".len()) {
            Some(b'a') => Wanted::Bytes(&self.script),
            Some(b'l') => Wanted::Large(&self.large_head),
            _ => Wanted::Bytes(&self.small),
        }
    }
}

/// Serves on the two addresses, the first with TLS, for ever. The arguments: both addresses, the folder of the files,
/// the names of the small and of the large one, certificate and key.
///
/// # Errors
/// The arguments are wrong, or the system refuses a socket.
pub(in crate::service) fn serve(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let arguments: Vec<OsString> = arguments.collect();
    let texts: Option<Vec<&str>> = arguments.iter().map(|argument| argument.to_str()).collect();
    let texts = texts.context("an argument is not UTF-8")?;
    ensure!(texts.len() == 7, "{} arguments instead of 7", texts.len());
    let listen = |address: &str| -> anyhow::Result<TcpListener> {
        let address: SocketAddr = address.parse().with_context(|| format!("{address:?} is no address"))?;
        TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))
    };
    let listeners = [listen(texts[0])?, listen(texts[1])?];
    let answers = Rc::new(Answers::read(&PathBuf::from(texts[2]), [texts[3], texts[4]])?);
    let configuration = secure::configuration(texts[5].as_ref(), texts[6].as_ref())?;
    let accepted = |number| {
        let answers = Rc::clone(&answers);
        Ok(match number {
            0 => Client::Secure(Box::new(Secure::new(&configuration, answers)?)),
            _ => Client::Plain(Plain { answers, requests: Requests::default(), unsent: Vec::new(), at: None }),
        })
    };
    turns::turn_for_ever(&listeners, accepted, |_| Ok(()))
}

enum Client {
    Plain(Plain),
    Secure(Box<Secure>),
}

impl Connection for Client {
    fn turn(&mut self, socket: &mut TcpStream, flags: EventFlags, room: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Plain(plain) => plain.turn(socket, flags, room),
            Self::Secure(secure) => secure.turn(socket, flags, room),
        }
    }

    fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(plain) => plain.has_unsent(),
            Self::Secure(secure) => secure.has_unsent(),
        }
    }
}

/// A connection without TLS.
struct Plain {
    answers: Rc<Answers>,
    requests: Requests,
    unsent: Vec<u8>,
    /// How far the large file is sent.
    at: Option<u64>,
}

impl Connection for Plain {
    fn turn(&mut self, socket: &mut TcpStream, flags: EventFlags, room: &mut [u8]) -> io::Result<()> {
        if flags.contains(EventFlags::OUT) {
            turns::flush(socket, &mut self.unsent)?;
            self.send_large(socket)?;
        }
        if !turns::is_readable(flags) || self.has_unsent() {
            return Ok(());
        }
        let Some(read) = turns::read(socket, room)? else { return Ok(()) };
        let requests = self.requests.count(&room[..read])?;
        match (requests, self.answers.of(&room[..read])) {
            (0, _) => Ok(()),
            (1, Wanted::Bytes(bytes)) => turns::write(socket, bytes, &mut self.unsent),
            (_, Wanted::Bytes(bytes)) => turns::write(socket, &bytes.repeat(requests), &mut self.unsent),
            (_, Wanted::Large(head)) => {
                turns::write(socket, head, &mut self.unsent)?;
                self.at = Some(0);
                self.send_large(socket)
            }
        }
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.at.is_some()
    }
}

impl Plain {
    /// From the file to the socket, as much as it takes.
    fn send_large(&mut self, socket: &TcpStream) -> io::Result<()> {
        let Some(at) = self.at.as_mut().filter(|_| self.unsent.is_empty()) else { return Ok(()) };
        while *at < self.answers.large_bytes {
            match rustix::fs::sendfile(socket, &self.answers.large, Some(at), PIECE) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        self.at = None;
        Ok(())
    }
}
