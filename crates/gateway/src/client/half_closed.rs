//! A client that has ended its own direction behind a whole request may still wait for the response (RFC 9112 §9.6), or
//! it has gone: the end of the stream looks the same. It gets its response; whether it has gone is found out by what
//! the gateway sends.
//!
//! - A reset, or a write that fails, ends the connection, and with it the exchange.
//! - While the head of a response is awaited, a 100 goes to an HTTP/1.1 client after 1, 3, 7, … s. Every such client
//!   has to pass over it (RFC 9110 §15.2); the system of one that has gone answers with a reset.
//! - Within a response nothing can be sent but the response. A client whose response stands still for [`MAX_SILENCE`]
//!   seconds counts as gone: a service that stalls would otherwise be held for a client that is mostly not there.
//! - While an HTTP/1.0 client waits for the head, keep-alive probes of TCP do so, once its system has forgotten the
//!   connection (Linux: 60 s).

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;

use super::{Client, Io};

/// How often a client that has ended its direction is looked at.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Looks in a row within a response, without a byte of it sent between them, after which the client counts as gone.
const MAX_SILENCE: u32 = 3;
/// Between keep-alive probes of TCP to such a client.
const PROBE_EVERY: Duration = Duration::from_secs(15);
/// Probes without a response after which the client has gone.
const MAX_PROBES: u32 = 4;

impl Client {
    /// A part of the response is being written.
    pub(super) fn response_moves(&self) {
        self.half_closed.silence.set(0);
    }

    /// Another request: what is known of the one before does not count.
    pub(super) fn forget_end(&self) {
        self.half_closed.checks.set(None);
    }

    /// Waits for the end of the client's direction while its request is answered; an error when it has gone.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let io = &mut *self.io.borrow_mut();
        if self.half_closed.checks.get().is_some() {
            return self.poll_checks(cx, io);
        }
        // A body is read by whoever wants it; behind a further request the end is not looked for.
        if io.http.is_in_body() || !io.read.is_empty() {
            return Poll::Pending;
        }
        ready!(io.socket.poll_readable(cx));
        match ready!(io.poll_fill(cx, &mut BytesMut::new())) {
            Ok(0) => {
                // Between two requests it is in order.
                let _ = io.http.receive_end(0);
                self.poll_checks(cx, io)
            }
            Ok(_) => Poll::Pending,
            Err(e) => Poll::Ready(e),
        }
    }

    fn poll_checks(&self, cx: &mut Context<'_>, io: &mut Io) -> Poll<io::Error> {
        if self.write_blocked.get() {
            return Poll::Pending; // that write finds out
        }
        loop {
            let checks = match self.half_closed.checks.get() {
                None => {
                    io.socket.probe(PROBE_EVERY, MAX_PROBES);
                    0
                }
                Some(checks) => {
                    ready!(self.deadline.poll(cx));
                    if let Some(error) = io.socket.take_error() {
                        return Poll::Ready(error);
                    }
                    if self.half_closed.is_answered.get() && self.is_silent() {
                        let what = "half-closed, and no more of the answer came";
                        return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, what));
                    }
                    checks + 1
                }
            };
            self.half_closed.checks.set(Some(checks));
            let has_room = io.is_written();
            if checks > 0 && (checks + 1).is_power_of_two() && self.half_closed.takes_interim.get() && has_room {
                // Written at the end of the turn. Behind the head of the response `takes_interim` is not set.
                let _ = io.http.send_interim(100, "Continue", [], &mut io.out);
            }
            self.deadline.set(CHECK_EVERY);
        }
    }

    /// Counts this look; whether there were too many without a byte of the response.
    fn is_silent(&self) -> bool {
        let silence = self.half_closed.silence.get() + 1;
        self.half_closed.silence.set(silence);
        silence >= MAX_SILENCE
    }
}
