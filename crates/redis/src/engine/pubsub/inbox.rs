//! What waits for one subscriber: bounded in messages and in bytes; the oldest messages make room, and leave a mark.
//!
//! ```text
//!  front: what has become of messages that were dropped     queue: messages, and gaps between them
//! ```
//!
//! Invariant: a gap is never dropped. It moves to the front with the messages before it.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::event::{Event, Message};
use crate::config::SubscriptionLimits;
use crate::error::ErrorKind;
use crate::proto::subscriptions::{GapReason, Topic};

/// Counted for each message beside its texts, so that empty messages have a size, too.
const MESSAGE_OVERHEAD_BYTES: usize = 96;

/// Refusals that are kept; more are not of more help.
const MAX_REFUSALS: usize = 16;

#[derive(Debug)]
pub(crate) struct Inbox {
    shared: Mutex<Shared>,
    limits: SubscriptionLimits,
    /// Something that was asked for is answered, or the inbox is closed.
    pub(super) settled: Notify,
}

#[derive(Debug, Default)]
struct Shared {
    dropped: u64,
    gap: Option<GapReason>,
    queue: VecDeque<Event>,
    messages: usize,
    bytes: usize,
    dropped_in_all: u64,
    refusals: usize,
    /// Answers to topics that were asked for and cannot be had.
    failures: Vec<(Topic, ErrorKind)>,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Inbox {
    pub(super) fn new(limits: SubscriptionLimits) -> Self {
        Self { shared: Mutex::default(), limits, settled: Notify::new() }
    }

    /// Appends an event. Whoever is to be woken is returned.
    pub(super) fn push(&self, event: Event) -> Option<Waker> {
        let mut shared = self.shared.lock();
        match event {
            Event::Message(message) => {
                shared.messages += 1;
                shared.bytes += size(&message);
                shared.queue.push_back(Event::Message(message));
                while shared.messages > 1
                    && (shared.messages > self.limits.max_messages || shared.bytes > self.limits.max_bytes)
                {
                    shared.drop_oldest();
                }
            }
            Event::Gap { reason } => shared.push_gap(reason),
            refused @ Event::Refused { .. } => {
                if shared.refusals < MAX_REFUSALS {
                    shared.refusals += 1;
                    shared.queue.push_back(refused);
                }
            }
            Event::Dropped { .. } => {}
        }
        shared.waker.take()
    }

    /// The next event; `None`: there will be no more.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Event>> {
        let mut shared = self.shared.lock();
        match shared.pop() {
            Some(event) => Poll::Ready(Some(event)),
            None if shared.is_closed => Poll::Ready(None),
            None => {
                shared.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next event if it is there.
    pub(crate) fn pop(&self) -> Option<Event> {
        self.shared.lock().pop()
    }

    /// Forgets messages that came by these topics.
    pub(crate) fn forget(&self, topics: &[Topic]) {
        let mut guard = self.shared.lock();
        let shared = &mut *guard;
        shared.queue.retain(|event| {
            let Event::Message(message) = event else { return true };
            let by = message.pattern.as_ref().unwrap_or(&message.channel);
            let is_kept = !topics.iter().any(|topic| topic.name == by);
            if !is_kept {
                shared.messages -= 1;
                shared.bytes -= size(message);
            }
            is_kept
        });
    }

    /// A topic that was asked for cannot be had.
    pub(super) fn fail(&self, topic: Topic, kind: ErrorKind) {
        self.shared.lock().failures.push((topic, kind));
        self.settled.notify_waiters();
    }

    /// The answers since the last call.
    pub(super) fn take_failures(&self) -> Vec<(Topic, ErrorKind)> {
        std::mem::take(&mut self.shared.lock().failures)
    }

    /// What is queued can still be taken.
    pub(super) fn close(&self) {
        let waker = {
            let mut shared = self.shared.lock();
            shared.is_closed = true;
            shared.waker.take()
        };
        self.settled.notify_waiters();
        waker.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared.lock().is_closed
    }

    pub(crate) fn dropped_in_all(&self) -> u64 {
        self.shared.lock().dropped_in_all
    }
}

impl Shared {
    fn pop(&mut self) -> Option<Event> {
        if self.dropped > 0 {
            return Some(Event::Dropped { count: std::mem::take(&mut self.dropped) });
        }
        if let Some(reason) = self.gap.take() {
            // Nothing between this one and the next: they are one.
            if matches!(self.queue.front(), Some(Event::Gap { .. })) {
                self.queue.pop_front();
            }
            return Some(Event::Gap { reason });
        }
        let event = self.queue.pop_front()?;
        match &event {
            Event::Message(message) => {
                self.messages -= 1;
                self.bytes -= size(message);
            }
            Event::Refused { .. } => self.refusals -= 1,
            Event::Gap { .. } | Event::Dropped { .. } => {}
        }
        Some(event)
    }

    fn push_gap(&mut self, reason: GapReason) {
        let is_told =
            matches!(self.queue.back(), Some(Event::Gap { .. })) || (self.queue.is_empty() && self.gap.is_some());
        if !is_told {
            self.queue.push_back(Event::Gap { reason });
        }
    }

    fn drop_oldest(&mut self) {
        let mut refused = Vec::new();
        while let Some(event) = self.queue.pop_front() {
            match event {
                Event::Message(message) => {
                    self.messages -= 1;
                    self.bytes -= size(&message);
                    self.dropped += 1;
                    self.dropped_in_all += 1;
                    break;
                }
                Event::Gap { reason } => self.gap = Some(reason),
                other => refused.push(other),
            }
        }
        refused.into_iter().rev().for_each(|event| self.queue.push_front(event));
    }
}

fn size(message: &Message) -> usize {
    MESSAGE_OVERHEAD_BYTES
        + message.channel.len()
        + message.payload.len()
        + message.pattern.as_ref().map_or(0, |it| it.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn inbox(max_messages: usize, max_bytes: usize) -> Inbox {
        Inbox::new(SubscriptionLimits { max_messages, max_bytes })
    }

    fn send(inbox: &Inbox, text: impl Into<Bytes>) {
        let message = Message { channel: Bytes::from_static(b"c"), pattern: None, payload: text.into() };
        inbox.push(Event::Message(message));
    }

    fn gap(inbox: &Inbox) {
        inbox.push(Event::Gap { reason: GapReason::Moved });
    }

    /// `m` for messages, `G` for gaps, `-n` for dropped ones.
    #[track_caller]
    fn check(inbox: &Inbox, expected: &str) {
        let mut seen = Vec::new();
        while let Some(event) = inbox.pop() {
            seen.push(match event {
                Event::Message(message) => String::from_utf8_lossy(&message.payload[..1]).into_owned(),
                Event::Gap { .. } => "G".to_owned(),
                Event::Dropped { count } => format!("-{count}"),
                Event::Refused { .. } => "R".to_owned(),
            });
        }
        assert_eq!(seen.join(" "), expected);
        let shared = inbox.shared.lock();
        assert_eq!((shared.messages, shared.bytes), (0, 0));
    }

    #[test]
    fn the_oldest_are_dropped_and_counted_in_their_place() {
        let inbox = inbox(3, usize::MAX);
        "abcde".chars().for_each(|letter| send(&inbox, letter.to_string()));
        check(&inbox, "-2 c d e");
        send(&inbox, "f");
        check(&inbox, "f");
        assert_eq!(inbox.dropped_in_all(), 2);
    }

    #[test]
    fn bytes_are_limited_but_one_message_always_fits() {
        let inbox = inbox(100, 1000);
        send(&inbox, "a".repeat(400));
        send(&inbox, "b".repeat(400));
        send(&inbox, "c".repeat(400));
        check(&inbox, "-1 b c");
        send(&inbox, "d".repeat(5000));
        check(&inbox, "d");
    }

    #[test]
    fn gaps_survive_and_are_not_repeated() {
        let inbox = inbox(2, usize::MAX);
        send(&inbox, "a");
        gap(&inbox);
        gap(&inbox);
        send(&inbox, "b");
        check(&inbox, "a G b");
        for _ in 0..1000 {
            send(&inbox, "c");
            gap(&inbox);
        }
        assert!(inbox.shared.lock().queue.len() <= 6);
        check(&inbox, "-998 G c G c G");
        gap(&inbox);
        send(&inbox, "d");
        send(&inbox, "e");
        send(&inbox, "f");
        check(&inbox, "-1 G e f");
    }

    #[test]
    fn messages_of_topics_given_up_are_forgotten() {
        let inbox = inbox(10, usize::MAX);
        send(&inbox, "a");
        gap(&inbox);
        inbox.forget(&[Topic::new(crate::proto::subscriptions::Kind::Channel, Bytes::from_static(b"c"))]);
        check(&inbox, "G");
    }
}
