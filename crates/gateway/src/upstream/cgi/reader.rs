//! What a program sends: its standard output, in order; its standard error, in the service's log.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use pilotlight_cgi::{Decoder, Ended, Found, NotARecord, Piece, Protocol, ProtocolStatus};
use pilotlight_supervisor::{ErrorLog, Service};

use crate::upstream::sockets::Pool;

/// The side of a connection that is read.
pub(super) struct Reader {
    pub(super) protocol: Protocol,
    records: Decoder,
    ended: Option<Ended>,
    is_closed: bool,
    /// What was not taken yet: at most one read of the socket, and the head of a response.
    pub(super) stdout: BytesMut,
    log: Log,
}

/// Where standard error goes.
enum Log {
    /// Of a service that Pilotlight starts: its log is made with the first byte.
    Instance(Arc<Service>, u64),
    Open(ErrorLog),
    /// Of somebody else's: the gateway's own log.
    External(String),
}

impl Reader {
    pub(super) fn new(protocol: Protocol, pool: &Pool, instance: u64) -> Self {
        let log = match pool.service() {
            Some(service) => Log::Instance(Arc::clone(service), instance),
            None => Log::External(pool.service.clone()),
        };
        let (records, stdout) = (Decoder::new(), BytesMut::new());
        Self { protocol, records, ended: None, is_closed: false, stdout, log }
    }

    /// Whether nothing more comes of this request.
    pub(super) fn is_ended(&self) -> bool {
        self.ended.is_some() || self.is_closed
    }

    /// How the program ended it, where it says so.
    pub(super) fn status(&self) -> Option<ProtocolStatus> {
        self.ended.map(|ended| ended.protocol_status)
    }

    /// Whether the end of the connection is that of the response.
    pub(super) fn ends_with_connection(&self) -> bool {
        self.protocol != Protocol::FastCgi
    }

    /// The connection has ended in order.
    pub(super) fn closed(&mut self) {
        self.is_closed = true;
    }

    /// Takes what is in `raw`. What is behind the end of the request stays there.
    pub(super) fn take(&mut self, raw: &mut BytesMut) -> Result<(), NotARecord> {
        if self.protocol != Protocol::FastCgi {
            match self.stdout.is_empty() {
                true => self.stdout = raw.split(),
                false => self.stdout.extend_from_slice(&raw.split()),
            }
            return Ok(());
        }
        while self.ended.is_none() {
            let Found { skip, piece } = self.records.decode(raw)?;
            raw.advance(skip);
            match piece {
                Piece::Stdout(length) if self.stdout.is_empty() => self.stdout = raw.split_to(length),
                Piece::Stdout(length) => {
                    self.stdout.extend_from_slice(&raw[..length]);
                    raw.advance(length);
                }
                Piece::Stderr(length) => self.log.feed(&raw.split_to(length)),
                Piece::End(ended) => self.ended = Some(ended),
                Piece::Incomplete => break,
            }
        }
        Ok(())
    }
}

impl Log {
    fn feed(&mut self, bytes: &[u8]) {
        if let Self::Instance(service, instance) = self {
            *self = Self::Open(service.error_log(*instance));
        }
        match self {
            Self::Open(log) => log.feed(bytes),
            Self::External(service) => {
                tracing::warn!(service = service.as_str(), "standard error: {}", pilotlight_printable::text(bytes));
            }
            Self::Instance(..) => {}
        }
    }
}
