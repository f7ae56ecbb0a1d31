//! A connection with a client: what came, and what may be sent.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::task::{Context, Waker};

use bytes::BytesMut;

use crate::error::{ErrorCode, Gone, Violation};
use crate::fields::{FieldTable, Fields};
use crate::frame::{
    FRAME_HEADER, FrameHeader, MAX_FRAME, PREFACE, kind, put_frame, put_goaway, put_header, put_reset,
    put_window_update,
};
use crate::hpack::decoder::Decoder;
use crate::limits::{DEFAULT_WINDOW, Limits, MAX_REMEMBERED, MAX_WINDOW};
use crate::stream::{Stream, register};

mod control;
mod headers;
mod receive;
pub(crate) mod send;
#[cfg(test)]
mod tests;

/// By which its answer to a PING is known that says that GOAWAY has reached the client.
const LEAVING: [u8; 8] = *b"\x0bleaving";

/// What came.
#[derive(Debug)]
pub enum Received<'b> {
    /// Nothing more without more bytes.
    Incomplete,
    /// A frame, of which nothing is left to do.
    Frame,
    /// A request, which is to be answered ([`ServerConnection::respond`]) or opened ([`ServerConnection::open`]).
    Request(Request, Fields<'b>),
}

/// A request whose head has come.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    stream: u32,
    ends: bool,
    content_length: Option<u64>,
}

impl Request {
    /// The number of its stream.
    pub fn stream(&self) -> u32 {
        self.stream
    }

    /// Whether it has neither a body nor trailers.
    pub fn ends(&self) -> bool {
        self.ends
    }
}

/// What happened on a connection that its caller counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    /// Streams that were reset because of what the client sent on them: those whose requests were malformed
    /// (CVE-2019-9514), and those on which somebody was at work, which cost as much as streams that the client resets
    /// itself (CVE-2025-8671).
    pub faults: u32,
    /// Requests whose header section was too large, which were answered with 431.
    pub too_large: u32,
}

/// How far the end of a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// The client was told, and may have sent requests before it knew.
    Told,
    /// It knows: nothing behind this stream is answered.
    Known(u32),
}

/// A header block that goes on in CONTINUATION.
#[derive(Debug)]
struct Block {
    header: FrameHeader,
    /// The stream that it says it depends on is its own (RFC 7540 §5.3.1).
    depends_on_itself: bool,
    bytes: Vec<u8>,
    continuations: u32,
}

/// The server's side of a connection.
#[derive(Debug)]
pub struct ServerConnection {
    limits: Limits,
    /// Bytes of the preface that are still to come.
    preface: usize,
    has_settings: bool,
    decoder: Decoder,
    block: Option<Box<Block>>,
    streams: BTreeMap<u32, Stream>,
    /// Those of them that count as open.
    open: u32,
    last: u32,
    /// The streams between the last one and the one before, which never begin.
    skipped: Range<u32>,
    /// Streams that were reset here, the latest last.
    reset: VecDeque<u32>,
    send_window: i64,
    receive_window: i64,
    unannounced: u32,
    /// What the client's SETTINGS say of the windows of new streams.
    initial_window: i64,
    /// The client's table is smaller than the standard's, and the next block is to say that none is used (RFC 7541
    /// §4.2).
    owes_table_size: bool,
    out: BytesMut,
    /// Streams that wait for room, first come first.
    waiting: VecDeque<u32>,
    driver: Option<Waker>,
    leaving: Leaving,
    is_over: bool,
    events: Events,
}

impl ServerConnection {
    /// A connection, and what the server says first.
    pub fn new(limits: Limits) -> Self {
        let mut out = BytesMut::new();
        let settings = [
            (3u16, limits.streams),
            (4, limits.stream_window),
            (6, u32::try_from(limits.header_list).unwrap_or(u32::MAX)),
            (8, 1), // RFC 8441 §3: extended CONNECT
        ];
        let length = settings.len() * 6;
        put_header(FrameHeader { length, kind: kind::SETTINGS, flags: 0, stream: 0 }, &mut out);
        for (name, value) in settings {
            out.extend_from_slice(&name.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        let window = i64::from(limits.connection_window).max(DEFAULT_WINDOW);
        if let Ok(increment @ 1..) = u32::try_from(window - DEFAULT_WINDOW) {
            put_window_update(0, increment, &mut out);
        }
        Self {
            limits,
            preface: PREFACE.len(),
            has_settings: false,
            decoder: Decoder::new(),
            block: None,
            streams: BTreeMap::new(),
            open: 0,
            last: 0,
            skipped: 0..0,
            reset: VecDeque::new(),
            send_window: DEFAULT_WINDOW,
            receive_window: window,
            unannounced: 0,
            initial_window: DEFAULT_WINDOW,
            owes_table_size: false,
            out,
            waiting: VecDeque::new(),
            driver: None,
            leaving: Leaving::No,
            is_over: false,
            events: Events::default(),
        }
    }

    /// What is to be written. [`ServerConnection::written`] is to be called when some of it was.
    pub fn output(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// There may be room again for those that wait for it.
    pub fn written(&mut self) {
        if self.out.len() < self.limits.unwritten {
            self.wake_waiting();
        }
    }

    /// Whether what is to be written is so much that nothing more should be received.
    pub fn is_full(&self) -> bool {
        self.out.len() >= self.limits.unwritten
    }

    /// The task that writes is at work, and need not be woken.
    pub fn begin_turn(&mut self) {
        self.driver = None;
    }

    /// Has the task that writes woken when a stream has something for it.
    pub fn register(&mut self, cx: &Context<'_>) {
        register(&mut self.driver, cx);
    }

    /// Whether the preface has come.
    pub fn has_begun(&self) -> bool {
        self.preface == 0
    }

    /// Whether there are streams.
    pub fn has_streams(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether all that was asked has been answered, and the client knows that nothing more will be.
    pub fn has_left(&self) -> bool {
        matches!(self.leaving, Leaving::Known(_)) && self.open == 0
    }

    /// Tells the client that further requests belong elsewhere (RFC 9113 §6.8). Those that it has sent are answered.
    pub fn leave(&mut self) {
        if self.leaving == Leaving::No && !self.is_over {
            self.leaving = Leaving::Told;
            put_goaway(u32::MAX >> 1, ErrorCode::NO_ERROR, &mut self.out);
            put_frame(kind::PING, 0, 0, &LEAVING, &mut self.out);
        }
    }

    /// Tells the client that the connection is over, and ends all streams.
    pub fn end(&mut self, code: ErrorCode) {
        if !self.is_over {
            // RFC 9113 §6.8: never more than was said before.
            let last = match self.leaving {
                Leaving::Known(last) => last,
                Leaving::No | Leaving::Told => self.last,
            };
            put_goaway(last, code, &mut self.out);
        }
        self.close();
    }

    /// Ends all streams: the connection is gone.
    pub fn close(&mut self) {
        self.is_over = true;
        self.open = 0;
        for stream in self.streams.values_mut() {
            stream.end(Gone::Closed);
        }
        self.streams.retain(|_, stream| !stream.is_unused());
    }

    fn notify(&mut self) {
        if let Some(waker) = self.driver.take() {
            waker.wake();
        }
    }

    fn wake_waiting(&mut self) {
        while let Some(id) = self.waiting.pop_front() {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.waits = false;
                stream.wake_sender();
            }
        }
    }

    /// Resets a stream, whether or not there is an entry for it.
    fn reset_stream(&mut self, id: u32, code: ErrorCode) {
        put_reset(id, code, &mut self.out);
        self.remember(id);
        self.stream_gone(id, Gone::Reset(code));
    }

    /// What happened since the last call and no other method tells.
    #[inline]
    pub fn take_events(&mut self) -> Events {
        std::mem::take(&mut self.events)
    }

    /// Resets a stream for what the client has sent on it.
    fn fault(&mut self, id: u32, code: ErrorCode) {
        let is_at_work = self.streams.get(&id).is_some_and(|stream| stream.gone.is_none());
        self.events.faults += u32::from(is_at_work); // one for a frame that was received
        self.reset_stream(id, code);
    }

    /// Whether frames of a stream that has no entry are to be ignored: it was reset here (§5.1), or the client knows
    /// that it is not answered (§6.8).
    fn is_ignored(&self, id: u32) -> bool {
        self.reset.contains(&id) || matches!(self.leaving, Leaving::Known(last) if id > last)
    }

    /// Frames of this stream that are on their way are to be ignored.
    fn remember(&mut self, id: u32) {
        if self.reset.len() >= MAX_REMEMBERED {
            self.reset.pop_front();
        }
        self.reset.push_back(id);
    }

    /// Nothing more goes over a stream.
    fn stream_gone(&mut self, id: u32, why: Gone) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        self.open -= u32::from(stream.is_open());
        let left = stream.end(why);
        let is_unused = stream.is_unused();
        self.take_back(left);
        if is_unused {
            self.streams.remove(&id);
        }
    }

    /// Bytes were taken that count against the connection's window.
    fn take_back(&mut self, bytes: usize) {
        // Bounded by the window, which fits.
        self.unannounced += bytes as u32;
        if self.unannounced > 0 && self.unannounced >= self.limits.connection_window / 2 {
            put_window_update(0, self.unannounced, &mut self.out);
            self.receive_window += i64::from(self.unannounced);
            self.unannounced = 0;
            self.notify();
        }
    }

    /// Changes a stream that is open, then looks whether it still is.
    fn change<R>(&mut self, id: u32, change: impl FnOnce(&mut Stream) -> R) -> Option<R> {
        let stream = self.streams.get_mut(&id)?;
        let was_open = stream.is_open();
        let result = change(stream);
        let (is_open, is_unused) = (stream.is_open(), stream.is_unused());
        self.open -= u32::from(was_open && !is_open);
        if is_unused {
            self.streams.remove(&id);
        }
        Some(result)
    }
}
