//! What a session does with commands that wait for `EXEC`, and with those that are wrong.

use pilotlight_redis::Route;

use super::catalogue::Kind;
use super::replies::error_text;
use super::session::Session;
use super::transaction::{self, Answer, Transaction, Watch};
use crate::tunnel::differences;
use crate::tunnel::request::Request;

impl Session {
    /// Whether a command has the wrong number of words, or lacks the subcommand that it needs. In a transaction, and
    /// for a client that only listens, it may also be that there is no such command. Others are refused by the server
    /// that they go to.
    pub(super) fn is_wrong(&self, request: &Request<'_>, kind: Kind, listens: bool) -> bool {
        if request.is_malformed() {
            return kind != Kind::Server || listens || self.transaction.is_some() || self.encoded(request).is_none();
        }
        request.is_unknown() && (listens || self.transaction.is_some())
    }

    /// What a server says to bytes that have so many replies; the one of this number is wanted.
    async fn said(&mut self, bytes: &[u8], replies: u32, wanted: usize) -> Answer {
        let mut connection = match self.end.raw.dedicated(Route::Any).await {
            Ok(connection) => connection,
            Err(error) => return Answer::Error(error_text(&error)),
        };
        connection.spoil();
        match connection.exchange(bytes, replies, Some(self.upstream.timeout())).await {
            Ok(mut replies) if wanted < replies.len() => transaction::answer(replies.swap_remove(wanted)),
            Ok(_) => Answer::Error("ERR the tunnel: no reply".to_owned()),
            Err(error) => Answer::Error(error_text(&error)),
        }
    }

    /// Has a server refuse a command that is wrong, in its own words.
    pub(super) async fn have_refused(&mut self, request: &Request<'_>, kind: Kind) {
        if self.transaction.is_some() && kind != Kind::Exec {
            return self.queue_unsure(request).await;
        }
        if kind == Kind::Exec {
            (self.transaction, self.watch) = (None, None);
        }
        let answer = self.said(request.bytes, 1, 0).await;
        self.answer(answer);
    }

    /// A command within a transaction that the server may refuse to queue. What it says is known only by trying.
    async fn queue_unsure(&mut self, request: &Request<'_>) {
        let bytes = [transaction::MULTI, request.bytes, transaction::DISCARD].concat();
        match self.said(&bytes, 3, 1).await {
            Answer::Error(text) => {
                self.transaction.iter_mut().for_each(Transaction::refuse);
                self.wire.error(&text);
            }
            Answer::Frame(_) | Answer::Null => self.queue(request, Kind::Server),
        }
    }

    pub(super) fn queue(&mut self, request: &Request<'_>, kind: Kind) {
        let Some(transaction) = &mut self.transaction else { return };
        let queued = match kind {
            Kind::Multi => return self.wire.error("ERR MULTI calls can not be nested"),
            Kind::Watch => return self.wire.error("ERR WATCH inside MULTI is not allowed"),
            Kind::Server | Kind::Ping | Kind::Unwatch => {
                let max_bytes = self.shared.limits.max_command_bytes;
                transaction.queue(request, self.upstream.is_cluster(), max_bytes)
            }
            Kind::Scan if !self.upstream.is_cluster() => {
                transaction.queue(request, false, self.shared.limits.max_command_bytes)
            }
            _ => {
                transaction.refuse();
                let name = request.name().to_ascii_lowercase();
                Err(format!("ERR the tunnel: {name} {}", differences::IN_TRANSACTION))
            }
        };
        match queued {
            Ok(()) => self.wire.bytes(b"+QUEUED\r\n"),
            Err(text) => self.wire.error(&text),
        }
    }

    pub(super) async fn exec(&mut self) {
        let watch = self.watch.take();
        let Some(transaction) = self.transaction.take() else {
            self.watch = watch;
            return self.wire.error("ERR EXEC without MULTI");
        };
        let answer = transaction.exec(&self.end.raw, watch, self.upstream.timeout()).await;
        self.answer(answer);
    }

    pub(super) async fn begin_watch(&mut self, request: &Request<'_>) {
        if request.len() < 2 {
            return self.wire.error("ERR wrong number of arguments for 'watch' command");
        }
        let before = self.watch.take();
        let (cluster, timeout) = (self.upstream.is_cluster(), self.upstream.timeout());
        let (watch, answer) = Watch::begin(before, request, &self.end.raw, cluster, timeout).await;
        self.watch = watch;
        self.answer(answer);
    }
}
