//! One stream: what of it is open, its windows, what was received and not taken.

use std::task::{Context, Waker};

use bytes::BytesMut;

use crate::error::Gone;
use crate::fields::FieldTable;

/// A stream of a request that was not answered at once (RFC 9113 §5.1).
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// What may be sent; below 0 when SETTINGS has made it smaller (§6.9.2).
    pub(crate) send_window: i64,
    /// What the client may send.
    pub(crate) receive_window: i64,
    /// Bytes that were taken and that the client has not been told of.
    pub(crate) unannounced: u32,
    pub(crate) received: BytesMut,
    /// Bytes that somebody who reads the body has, and that count against the windows until he says he took them.
    pub(crate) lent: usize,
    pub(crate) trailers: Option<Box<FieldTable>>,
    /// Bytes that `Content-Length` says are to come.
    pub(crate) expected: Option<u64>,
    pub(crate) has_sent_head: bool,
    /// Our direction is over.
    pub(crate) has_ended: bool,
    /// The client's is.
    pub(crate) client_has_ended: bool,
    pub(crate) gone: Option<Gone>,
    /// Somebody holds the stream to answer it.
    pub(crate) has_sender: bool,
    /// Somebody reads its request's body.
    pub(crate) has_receiver: bool,
    /// It is among those that wait for room.
    pub(crate) waits: bool,
    pub(crate) sender: Option<Waker>,
    pub(crate) receiver: Option<Waker>,
}

impl Stream {
    /// Whether it counts as open.
    pub(crate) fn is_open(&self) -> bool {
        self.gone.is_none() && !(self.has_ended && self.client_has_ended)
    }

    /// Whether nothing of it is needed any more.
    pub(crate) fn is_unused(&self) -> bool {
        !self.is_open() && !self.has_sender && !self.has_receiver
    }

    pub(crate) fn wake_sender(&mut self) {
        if let Some(waker) = self.sender.take() {
            waker.wake();
        }
    }

    pub(crate) fn wake_receiver(&mut self) {
        if let Some(waker) = self.receiver.take() {
            waker.wake();
        }
    }

    /// Nothing more goes over it. Returns the bytes that nobody will take.
    pub(crate) fn end(&mut self, why: Gone) -> usize {
        self.gone.get_or_insert(why);
        self.wake_sender();
        self.wake_receiver();
        let left = self.received.len();
        self.received = BytesMut::new();
        left
    }
}

/// Keeps the waker of whoever waits.
pub(crate) fn register(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *place = Some(cx.waker().clone()),
    }
}
