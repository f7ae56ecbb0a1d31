//! Transactions: what is queued stays here until `EXEC`, and then goes to the node of its keys in one piece.
//!
//! So a transaction that a node refuses because its slot has moved can be sent to another one: nothing of it has run.
//! `WATCH` has a connection of its own until the end of its transaction; when that is lost, `EXEC` answers null, as if
//! a watched key had been changed.

use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::Slot;
use pilotlight_redis::command::Flags;
use pilotlight_redis::raw::{self, RawClient, RawConnection, RawReply};
use pilotlight_redis::{Error, Ran, Route};

use super::replies::{CROSS_SLOT, error_text};
use crate::tunnel::differences;
use crate::tunnel::request::Request;

pub(super) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
pub(super) const DISCARD: &[u8] = b"*1\r\n$7\r\nDISCARD\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Pauses before a transaction is sent again.
const MIN_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Between `MULTI` and its end.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The commands, one after the other.
    queued: Vec<u8>,
    len: usize,
    slot: Option<Slot>,
    /// A command was refused: there will be no transaction.
    is_dirty: bool,
}

/// Keys that are watched.
#[derive(Debug)]
pub(super) struct Watch {
    connection: RawConnection,
    slot: Option<Slot>,
}

/// What `EXEC` or `WATCH` is answered with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Frame(Bytes),
    Error(String),
    /// A watched key was changed.
    Null,
}

/// What came of one attempt.
enum Attempt {
    Done(Answer),
    /// Nothing ran; it may at another node, or later.
    Again(String),
}

impl Transaction {
    /// Queues a command.
    ///
    /// # Errors
    /// It cannot be in a transaction: what the client is told.
    pub(super) fn queue(&mut self, request: &Request<'_>, is_cluster: bool, max_bytes: usize) -> Result<(), String> {
        let queued = self.check(request, is_cluster, max_bytes);
        match &queued {
            Ok(()) => {
                self.queued.extend_from_slice(request.bytes);
                self.len += 1;
            }
            Err(_) => self.refuse(),
        }
        queued
    }

    /// Commands that are queued.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A command was not accepted.
    pub(super) fn refuse(&mut self) {
        self.is_dirty = true;
        (self.queued, self.len) = (Vec::new(), 0);
    }

    fn check(&mut self, request: &Request<'_>, is_cluster: bool, max_bytes: usize) -> Result<(), String> {
        if self.queued.len() + request.bytes.len() > max_bytes {
            return Err(format!("ERR the tunnel: a transaction of more than {max_bytes} bytes (--max-command-mib)"));
        }
        if request.spec().flags.has(Flags::CONNECTION_STATE) && request.name() != "UNWATCH" {
            let name = request.name().to_ascii_lowercase();
            let why = differences::IN_TRANSACTION;
            return Err(format!("ERR the tunnel: {name} is about the connection, and {why}"));
        }
        if is_cluster {
            for slot in raw::slots(&request.command()) {
                if *self.slot.get_or_insert(slot) != slot {
                    return Err(CROSS_SLOT.to_owned());
                }
            }
        }
        Ok(())
    }

    /// Runs it.
    pub(super) async fn exec(self, client: &RawClient, watch: Option<Watch>, timeout: Duration) -> Answer {
        if self.is_dirty {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return Answer::Error(text.to_owned());
        }
        let bytes = [MULTI, &self.queued, EXEC].concat();
        let replies = u32::try_from(self.len).unwrap_or(u32::MAX).saturating_add(2);
        let since = Instant::now();
        if let Some(watch) = watch {
            if self.slot.is_some() && watch.slot.is_some() && self.slot != watch.slot {
                return Answer::Error(CROSS_SLOT.to_owned());
            }
            let mut connection = watch.connection;
            return match attempt(&mut connection, &bytes, replies, timeout).await {
                Attempt::Done(answer) => answer,
                // Whatever was watched, nobody watches it any more.
                Attempt::Again(_) => Answer::Null,
            };
        }
        let mut pause = MIN_PAUSE;
        loop {
            let remaining = timeout.saturating_sub(since.elapsed());
            let again = match client.dedicated(route(self.slot)).await {
                Ok(mut connection) => match attempt(&mut connection, &bytes, replies, remaining).await {
                    Attempt::Done(answer) => return answer,
                    Attempt::Again(text) => text,
                },
                Err(error) => return Answer::Error(error_text(&error)),
            };
            if remaining <= pause {
                return Answer::Error(again);
            }
            client.refresh();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

impl Watch {
    /// Watches keys, on the connection that watches already, if there is one.
    pub(super) async fn begin(
        before: Option<Self>,
        request: &Request<'_>,
        client: &RawClient,
        is_cluster: bool,
        timeout: Duration,
    ) -> (Option<Self>, Answer) {
        let slots = if is_cluster { raw::slots(&request.command()) } else { Vec::new() };
        let slot = slots.first().copied();
        let known = before.as_ref().and_then(|watch| watch.slot).or(slot);
        if slots.iter().any(|slot| Some(*slot) != known) {
            return (before, Answer::Error(CROSS_SLOT.to_owned()));
        }
        if let Some(mut watch) = before {
            return match watch.connection.exchange(request.bytes, 1, Some(timeout)).await {
                Ok(replies) => (Some(watch), first(replies)),
                Err(error) => (Some(watch), Answer::Error(error_text(&error))),
            };
        }
        let since = Instant::now();
        let mut pause = MIN_PAUSE;
        loop {
            let mut connection = match client.dedicated(route(slot)).await {
                Ok(connection) => connection,
                Err(error) => return (None, Answer::Error(error_text(&error))),
            };
            connection.spoil();
            let remaining = timeout.saturating_sub(since.elapsed());
            let answer = match connection.exchange(request.bytes, 1, Some(remaining)).await {
                Ok(replies) => first(replies),
                Err(error) => Answer::Error(error_text(&error)),
            };
            match answer {
                Answer::Error(text) => {
                    if !is_elsewhere(text.as_bytes()) || remaining <= pause {
                        return (None, Answer::Error(text));
                    }
                }
                answer => return (Some(Self { connection, slot }), answer),
            }
            client.refresh();
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}

async fn attempt(connection: &mut RawConnection, bytes: &[u8], replies: u32, timeout: Duration) -> Attempt {
    match connection.exchange(bytes, replies, Some(timeout)).await {
        Ok(replies) => judge(replies),
        Err(error) => lost(&error),
    }
}

fn lost(error: &Error) -> Attempt {
    if error.ran() == Ran::NotSent {
        Attempt::Again(error_text(error))
    } else {
        Attempt::Done(Answer::Error(error_text(error)))
    }
}

/// `+OK`, `+QUEUED` for each command, and what `EXEC` says.
fn judge(mut replies: Vec<RawReply>) -> Attempt {
    let exec = replies.pop();
    let refused = replies.into_iter().find_map(|reply| match reply {
        RawReply::Error(text) => Some(text),
        RawReply::Frame(_) => None,
    });
    match (exec, refused) {
        (Some(RawReply::Frame(frame)), _) => Attempt::Done(Answer::Frame(frame)),
        (Some(RawReply::Error(text)), refused) => {
            let cause = refused.as_ref().unwrap_or(&text);
            let cause_text = String::from_utf8_lossy(cause).into_owned();
            if is_elsewhere(cause) {
                return Attempt::Again(cause_text);
            }
            let told = match refused {
                Some(_) => format!("EXECABORT Transaction discarded because of previous errors: {cause_text}"),
                None => cause_text,
            };
            Attempt::Done(Answer::Error(told))
        }
        (None, _) => Attempt::Done(Answer::Error("ERR the tunnel: no reply".to_owned())),
    }
}

fn first(replies: Vec<RawReply>) -> Answer {
    let none = || Answer::Error("ERR the tunnel: no reply".to_owned());
    replies.into_iter().next().map_or_else(none, answer)
}

/// A reply as it is passed on.
pub(super) fn answer(reply: RawReply) -> Answer {
    match reply {
        RawReply::Frame(frame) => Answer::Frame(frame),
        RawReply::Error(text) => Answer::Error(String::from_utf8_lossy(&text).into_owned()),
    }
}

/// Whether the error says that nothing ran, and that it may elsewhere or later.
fn is_elsewhere(text: &[u8]) -> bool {
    const CODES: [&[u8]; 8] =
        [b"MOVED", b"ASK", b"TRYAGAIN", b"CLUSTERDOWN", b"MASTERDOWN", b"LOADING", b"READONLY", b"REDIRECT"];
    let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    CODES.contains(&code)
}

fn route(slot: Option<Slot>) -> Route {
    slot.map_or(Route::Any, Route::Primary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tunnel::request::Requests;

    fn queue(transaction: &mut Transaction, words: &[&[u8]]) -> Result<(), String> {
        transaction.queue(&Requests::of_words(words).get(0).unwrap(), true, 100)
    }

    #[test]
    fn what_cannot_be_in_a_transaction_ends_it() {
        let mut transaction = Transaction::default();
        assert_eq!(queue(&mut transaction, &[b"SET", b"{a}1", b"x"]), Ok(()));
        assert_eq!(queue(&mut transaction, &[b"PING"]), Ok(()));
        assert_eq!(queue(&mut transaction, &[b"MGET", b"{a}1", b"{a}2"]), Ok(()));
        assert_eq!(queue(&mut transaction, &[b"GET", b"b"]), Err(CROSS_SLOT.to_owned()));
        assert!(transaction.is_dirty);
        let mut transaction = Transaction::default();
        assert!(queue(&mut transaction, &[b"SUBSCRIBE", b"c"]).is_err_and(|text| text.contains("subscribe")));
        assert!(queue(&mut Transaction::default(), &[b"SET", b"k", &[0; 100]]).is_err());
    }

    #[test]
    fn only_what_did_not_run_is_sent_again() {
        let error = |text: &'static str| RawReply::Error(Bytes::from_static(text.as_bytes()));
        let ok = || RawReply::Frame(Bytes::from_static(b"+OK\r\n"));
        let judged = |replies: Vec<RawReply>| match judge(replies) {
            Attempt::Done(Answer::Frame(frame)) => String::from_utf8_lossy(&frame).into_owned(),
            Attempt::Done(Answer::Error(text)) => text,
            Attempt::Done(Answer::Null) => "null".to_owned(),
            Attempt::Again(text) => format!("again: {text}"),
        };
        assert_eq!(judged(vec![ok(), ok(), RawReply::Frame(Bytes::from_static(b"*0\r\n"))]), "*0\r\n");
        assert_eq!(judged(vec![ok(), error("MOVED 1 a:1"), error("EXECABORT x")]), "again: MOVED 1 a:1");
        assert_eq!(judged(vec![ok(), ok(), error("MOVED 1 a:1")]), "again: MOVED 1 a:1");
        let text = judged(vec![ok(), error("ERR wrong number"), error("EXECABORT x")]);
        assert_eq!(text, "EXECABORT Transaction discarded because of previous errors: ERR wrong number");
    }
}
