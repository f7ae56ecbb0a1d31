//! What waits for the end of the turn.
//!
//! ```text
//!   bytes:     [ message 0 | message 1 | message 2 |  …        ] at most MAX_BYTES
//!   messages:   socket,     socket,     socket                   at most MAX_MESSAGES
//!               range,      range,      range
//!               waker       waker       waker
//! ```
//!
//! A message is known by its [`Ticket`]: the turn and its place in it. Of a turn that is over only what did not go
//! whole is kept, until its stream asks for it or is dropped.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::each;
use crate::message::{MAX_BYTES, MAX_MESSAGE_BYTES, MAX_MESSAGES, Message};
use crate::ring::Ring;

/// What is kept of their memory from turn to turn.
const KEPT_BYTES: usize = 64 * 1024;

/// A message of a certain turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket {
    turn: u64,
    index: usize,
}

/// What became of a message that did not go whole.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// The socket took no more.
    Rest(Vec<u8>),
    /// It takes nothing any more.
    Failed(io::Error),
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum State {
    Waiting,
    Sent,
    Unfinished(Unfinished),
}

/// The messages of one thread that go to the kernel together.
#[derive(Clone)]
pub struct Batch(Rc<RefCell<Waiting>>);

struct Waiting {
    /// None: each message is sent by itself.
    ring: Option<Ring>,
    bytes: Vec<u8>,
    messages: Vec<Message>,
    turn: u64,
    unfinished: Vec<(Ticket, Unfinished)>,
    /// The task of [`Batch::send_each_turn`].
    turn_end: Option<Waker>,
}

impl Batch {
    /// A batch that is sent by io_uring.
    ///
    /// # Errors
    /// The system has no io_uring that can send, or does not let this process use it.
    pub fn with_io_uring() -> io::Result<Self> {
        Ok(Self::new(Some(Ring::new()?)))
    }

    /// A batch whose messages are sent one by one.
    #[must_use]
    pub fn without_io_uring() -> Self {
        Self::new(None)
    }

    fn new(ring: Option<Ring>) -> Self {
        Self(Rc::new(RefCell::new(Waiting {
            ring,
            bytes: Vec::new(),
            messages: Vec::new(),
            turn: 0,
            unfinished: Vec::new(),
            turn_end: None,
        })))
    }

    /// Whether io_uring is used. Ends when the kernel refuses to go on.
    #[must_use]
    pub fn has_io_uring(&self) -> bool {
        self.0.borrow().ring.is_some()
    }

    /// Sends what waits at the end of every turn, for as long as it is polled. Must be a task of its own on the thread
    /// that puts messages in: the first message of a turn wakes it, so it runs when all have run that were ready then.
    ///
    /// # Cancel safety
    /// Dropping it sends what waits. From then on nothing is put in any more.
    pub async fn send_each_turn(self) {
        let batch = Running(self);
        poll_fn(|cx| {
            batch.0.wake_at_turn_end(cx);
            batch.0.send();
            Poll::<()>::Pending
        })
        .await;
    }

    fn wake_at_turn_end(&self, cx: &Context<'_>) {
        let turn_end = &mut self.0.borrow_mut().turn_end;
        if !turn_end.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *turn_end = Some(cx.waker().clone());
        }
    }

    /// Sends what waits.
    pub fn send(&self) {
        let Some(Sent { mut messages, unfinished }) = self.0.borrow_mut().send() else { return };
        // Nothing is borrowed here: what a waker does when it is used or dropped is its runtime's business.
        for index in unfinished {
            messages[index].waker.wake_by_ref();
        }
        messages.clear();
        self.0.borrow_mut().reuse(messages);
    }

    /// `None`: nobody would send it, or it is too long.
    pub(crate) fn put(&self, socket: BorrowedFd<'_>, message: &[u8], cx: &Context<'_>) -> Option<Ticket> {
        if message.len() > MAX_MESSAGE_BYTES || self.0.borrow().turn_end.is_none() {
            return None;
        }
        if !self.0.borrow().has_room(message.len()) {
            self.send();
        }
        Some(self.0.borrow_mut().put(socket.as_raw_fd(), message, cx))
    }

    /// Whether it is still to be sent.
    pub(crate) fn waits(&self, ticket: Ticket) -> bool {
        ticket.turn == self.0.borrow().turn
    }

    /// What became of a message; what did not go whole is told once.
    pub(crate) fn state(&self, ticket: Ticket) -> State {
        self.0.borrow_mut().state(ticket)
    }
}

/// A batch that has gone.
struct Sent {
    messages: Vec<Message>,
    /// Those that did not go whole.
    unfinished: Vec<usize>,
}

impl Waiting {
    fn has_room(&self, more_bytes: usize) -> bool {
        self.messages.len() < MAX_MESSAGES && self.bytes.len() + more_bytes <= MAX_BYTES
    }

    fn put(&mut self, socket: RawFd, message: &[u8], cx: &Context<'_>) -> Ticket {
        if self.messages.is_empty()
            && let Some(turn_end) = &self.turn_end
        {
            turn_end.wake_by_ref();
        }
        let from = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.messages.push(Message { socket, range: from..self.bytes.len(), waker: cx.waker().clone() });
        Ticket { turn: self.turn, index: self.messages.len() - 1 }
    }

    fn state(&mut self, ticket: Ticket) -> State {
        if ticket.turn == self.turn {
            return State::Waiting;
        }
        // Mostly there is none.
        match self.unfinished.iter().position(|(of, _)| *of == ticket) {
            Some(place) => State::Unfinished(self.unfinished.swap_remove(place).1),
            None => State::Sent,
        }
    }

    fn send(&mut self) -> Option<Sent> {
        if self.messages.is_empty() {
            return None;
        }
        let messages = std::mem::take(&mut self.messages);
        let mut unfinished = Vec::new();
        let mut done = |index: usize, sent: io::Result<usize>| {
            if !sent.as_ref().is_ok_and(|sent| *sent == messages[index].range.len()) {
                unfinished.push((index, sent));
            }
        };
        // One alone is cheaper by itself.
        let by_ring = match &mut self.ring {
            Some(ring) if messages.len() > 1 => match ring.send(&mut self.bytes, &messages, &mut done) {
                Ok(()) => messages.len(),
                Err(tried) => {
                    self.ring = None;
                    tried
                }
            },
            _ => 0,
        };
        for (index, message) in messages.iter().enumerate().skip(by_ring) {
            done(index, each::send(&self.bytes, message));
        }
        let indices = unfinished.iter().map(|(index, _)| *index).collect();
        for (index, sent) in unfinished {
            let range = messages[index].range.clone();
            let what = match sent {
                Ok(sent) => Unfinished::Rest(self.bytes[range.start + sent..range.end].to_vec()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Unfinished::Rest(self.bytes[range].to_vec()),
                Err(e) => Unfinished::Failed(e),
            };
            self.unfinished.push((Ticket { turn: self.turn, index }, what));
        }
        self.turn += 1;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        Some(Sent { messages, unfinished: indices })
    }

    /// Keeps the memory of messages that have gone, unless others wait by now.
    fn reuse(&mut self, empty: Vec<Message>) {
        if self.messages.is_empty() {
            self.messages = empty;
        }
    }
}

/// Nobody sends what is put in when this is gone.
struct Running(Batch);

impl Drop for Running {
    fn drop(&mut self) {
        let turn_end = self.0.0.borrow_mut().turn_end.take();
        drop(turn_end);
        self.0.send();
    }
}
