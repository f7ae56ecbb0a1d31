//! One request on a connection, from its first byte to its end.

use std::task::{Context, Waker};

use bytes::BytesMut;
use pilotlight_cgi::{Protocol, abort_request};

use super::reader::Reader;
use crate::client_socket::ServerSocket;
use crate::pump::{BodyFraming, Pump};
use crate::request_body::RequestBody;
use crate::upstream::sockets::{Connection, Pool};
use crate::upstream::turn::Turn;

pub(super) struct Talk {
    pub(super) turn: Turn,
    pub(super) reader: Reader,
    /// Idle connections that the pool keeps.
    keep: usize,
}

impl Talk {
    /// `out` is the request without its body.
    pub(super) fn new(
        connection: Connection,
        out: BytesMut,
        body: Option<Box<RequestBody>>,
        reader: Reader,
        keep: usize,
    ) -> Self {
        let framing = match reader.protocol {
            Protocol::FastCgi => BodyFraming::Records,
            Protocol::Scgi | Protocol::Uwsgi => BodyFraming::Length,
        };
        Self { turn: Turn::new(connection, Pump::new(out, body, framing)), reader, keep }
    }

    /// The request has ended: the connection is kept, or closed.
    pub(super) fn end(mut self, pool: &Pool) {
        let (socket, read) = (ServerSocket::CLOSED, BytesMut::new());
        let nothing = Connection { socket, read, instance: 0, is_of_one: true };
        let nothing = Turn::new(nothing, Pump::new(BytesMut::new(), None, BodyFraming::Length));
        let turn = std::mem::replace(&mut self.turn, nothing);
        if self.keep > 0 && self.reader.status().is_some() {
            turn.recycle(pool, self.keep);
        }
    }
}

impl Drop for Talk {
    /// A request that nobody waits for any more is given up, unless part of a record is on its way.
    fn drop(&mut self) {
        let Turn { connection, pump, .. } = &mut self.turn;
        let is_open = !connection.socket.is_closed() && !self.reader.is_ended();
        if is_open && self.reader.protocol == Protocol::FastCgi && pump.out.is_empty() {
            let mut out = BytesMut::with_capacity(8);
            abort_request(&mut out);
            // Without room for it the end of the connection has to say so.
            let _ = connection.socket.poll_write_all(&mut Context::from_waker(Waker::noop()), &mut out);
        }
    }
}
