//! A floor's connection over TLS: rustls between the socket and the answers.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context as _;
use rustix::event::epoll::EventFlags;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use super::front::{Answers, Wanted};
use super::http2::Streams;
use super::requests::Requests;
use super::turns::{Connection, is_readable};

/// As much of a large file as is encrypted at once.
const PIECE: usize = 64 * 1024;
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// What all connections share. Nothing is resumed, so no tickets are made.
///
/// # Errors
/// A file cannot be read, or is none.
pub(super) fn configuration(certificate: &Path, key: &Path) -> anyhow::Result<Arc<ServerConfig>> {
    let read = |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    let certificate = CertificateDer::from_pem_slice(&read(certificate)?).context("the certificate")?;
    let key = PrivateKeyDer::from_pem_slice(&read(key)?).context("the key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut configuration = builder.with_no_client_auth().with_single_cert(vec![certificate], key)?;
    configuration.alpn_protocols = [HTTP2, HTTP1].map(<[u8]>::to_vec).to_vec();
    configuration.send_tls13_tickets = 0;
    Ok(Arc::new(configuration))
}

/// What the client speaks.
enum Spoken {
    Http1(Requests),
    Http2(Streams),
}

/// A connection.
pub(super) struct Secure {
    tls: ServerConnection,
    spoken: Option<Spoken>,
    answers: Rc<Answers>,
    /// How far the large file is sent.
    at: Option<u64>,
    /// Answers of HTTP/2 that are put together.
    frames: Vec<u8>,
}

impl Secure {
    pub(super) fn new(configuration: &Arc<ServerConfig>, answers: Rc<Answers>) -> anyhow::Result<Self> {
        let tls = ServerConnection::new(Arc::clone(configuration))?;
        Ok(Self { tls, spoken: None, answers, at: None, frames: Vec::new() })
    }
}

impl Connection for Secure {
    fn turn(&mut self, socket: &mut TcpStream, flags: EventFlags, room: &mut [u8]) -> io::Result<()> {
        if is_readable(flags) && !self.has_unsent() {
            match self.tls.read_tls(socket) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            self.tls.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.answer(room)?;
        }
        loop {
            while self.tls.wants_write() {
                match self.tls.write_tls(socket) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    written => written?,
                };
            }
            if !self.encrypt_large(room)? {
                return Ok(());
            }
        }
    }

    fn has_unsent(&self) -> bool {
        self.tls.wants_write() || self.at.is_some()
    }
}

impl Secure {
    /// Answers what was decrypted.
    fn answer(&mut self, room: &mut [u8]) -> io::Result<()> {
        loop {
            let read = match self.tls.reader().read(room) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let is_http2 = self.tls.alpn_protocol() == Some(HTTP2);
            let spoken = self.spoken.get_or_insert_with(|| match is_http2 {
                true => Spoken::Http2(Streams::default()),
                false => Spoken::Http1(Requests::default()),
            });
            let mut writer = self.tls.writer();
            match spoken {
                Spoken::Http2(streams) => {
                    streams.take(&room[..read], &self.answers.small_http2, &mut self.frames)?;
                    writer.write_all(&self.frames)?;
                    self.frames.clear();
                }
                Spoken::Http1(requests) => {
                    let counted = requests.count(&room[..read])?;
                    match self.answers.of(&room[..read]) {
                        Wanted::Bytes(bytes) => (0..counted).try_for_each(|_| writer.write_all(bytes))?,
                        Wanted::Large(head) if counted > 0 => {
                            writer.write_all(head)?;
                            self.at = Some(0);
                        }
                        Wanted::Large(_) => {}
                    }
                }
            }
        }
    }

    /// The next piece of the large file; `false`: there is none.
    fn encrypt_large(&mut self, room: &mut [u8]) -> io::Result<bool> {
        let Some(at) = &mut self.at else { return Ok(false) };
        let piece = room.len().min(PIECE);
        let read = self.answers.large.read_at(&mut room[..piece], *at)?;
        self.tls.writer().write_all(&room[..read])?;
        *at += read as u64;
        if *at >= self.answers.large_bytes || read == 0 {
            self.at = None;
        }
        Ok(true)
    }
}
