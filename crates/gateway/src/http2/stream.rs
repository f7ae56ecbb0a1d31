//! One stream: a request of HTTP/2 as an exchange sees its client.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, StatusCode};
use pilotlight_http2::{encode_field, encode_status};

use super::session::Session;
use crate::downstream::{Downstream, TakesInterim};
use crate::fields::is_hop_by_hop;
use crate::options::Settings;
use crate::outbound::InterimSink;
use crate::peer_address::PeerAddress;
use crate::record::Record;
use crate::upstream::Upgraded;

/// Interim responses to one request; further ones are left out.
const MAX_INTERIM: u32 = 32;
/// Bytes of the fields of one interim response; a larger one is left out.
const MAX_INTERIM_BYTES: usize = 16 * 1024;

/// The stream of a request. Dropped before its response is whole, it is reset.
pub(super) struct Stream {
    session: Rc<Session>,
    /// Its number.
    id: u32,
    /// Set by an exchange in which the service has switched protocols.
    upgraded: RefCell<Option<Box<Upgraded>>>,
    /// Interim responses that may still be sent.
    interim_left: Cell<u32>,
}

impl Stream {
    /// A stream that was opened.
    pub(super) fn new(session: &Rc<Session>, id: u32) -> Rc<Self> {
        Rc::new(Self {
            session: Rc::clone(session),
            id,
            upgraded: RefCell::default(),
            interim_left: Cell::new(MAX_INTERIM),
        })
    }

    pub(super) fn session(&self) -> &Rc<Session> {
        &self.session
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Ready when the client has given the stream up, or its connection is gone.
    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.session.h2.borrow_mut().poll_gone(self.id, cx).map(drop)
    }

    /// Tells the client to send the body of its request (RFC 9110 §10.1.1).
    pub(super) fn send_continue(&self) {
        self.send_1xx(StatusCode::CONTINUE, &HeaderMap::new());
    }

    pub(super) fn take_upgraded(&self) -> Option<Box<Upgraded>> {
        self.upgraded.borrow_mut().take()
    }

    fn send_1xx(&self, status: StatusCode, fields: &HeaderMap) {
        let Some(left) = self.interim_left.get().checked_sub(1) else { return };
        self.interim_left.set(left);
        let crosses = |name: &HeaderName| *name != CONTENT_LENGTH && !is_hop_by_hop(name);
        let mut block = Vec::new();
        encode_status(status.as_u16(), &mut block);
        for (name, value) in fields.iter().filter(|(name, _)| crosses(name)) {
            encode_field(name.as_str().as_bytes(), value.as_bytes(), &mut block);
        }
        // It is help that may be missing; a stream that has ended is found out elsewhere.
        if let Err(e) = self.session.h2.borrow_mut().send_interim(self.id, &block) {
            tracing::debug!(peer = %self.session.peer, "an interim response could not be sent: {e}");
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.session.h2.borrow_mut().drop_sender(self.id);
    }
}

impl InterimSink for Stream {
    fn send_interim(&self, status: StatusCode, headers: &HeaderMap) {
        // RFC 9110 §10.1.1: 100 is between a client and whoever reads its body. RFC 9113 §8.6: there is no 101.
        if matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS) {
            return;
        }
        let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if size <= MAX_INTERIM_BYTES {
            self.send_1xx(status, headers);
        }
    }
}

impl Downstream for Stream {
    fn peer(&self) -> &Rc<PeerAddress> {
        &self.session.peer
    }

    fn settings(&self) -> &Arc<Settings> {
        &self.session.settings
    }

    fn request_began(&self) {}

    fn request_ended(&self, record: Rc<Record>) {
        self.session.unwritten.borrow_mut().push(record);
    }

    fn awaits_response(&self, _: TakesInterim) {}

    fn response_began(&self) {
        self.interim_left.set(0);
    }

    /// What follows on this connection has streams of its own.
    fn skip_body(&self) -> bool {
        true
    }

    fn upgrade_to(&self, upgraded: Box<Upgraded>) {
        *self.upgraded.borrow_mut() = Some(upgraded);
    }
}
