//! `CLIENT LIST`, `KILL`, `UNBLOCK`: about the clients of this tunnel, by its own numbers.

use pilotlight_redis::Value;

use super::local::report;
use super::replies::OK;
use super::session::Session;
use crate::tunnel::clients::{Filter, Unblock};
use crate::tunnel::request::Request;

const SYNTAX: &str = "ERR syntax error";
const NO_NUMBER: &str = "ERR value is not an integer or out of range";
const WRONG_ID: &str = "ERR client-id should be greater than 0";

impl Session {
    /// `CLIENT LIST [TYPE type] [ID id …]`
    pub(super) fn list_clients(&mut self, request: &Request<'_>) {
        let clients = &self.shared.clients;
        let text = match request.len() {
            2 => clients.list(|_| true),
            4 if request.is(2, "TYPE") => match kind(request.word(3)) {
                Ok(kind) => clients.list(|client| client.kind() == kind),
                Err(text) => return self.wire.error(&text),
            },
            4.. if request.is(2, "ID") => {
                let ids: Option<Vec<u64>> = request.words_from(3).map(number).collect();
                match ids {
                    Some(ids) => clients.list(|client| ids.contains(&client.id)),
                    None => return self.wire.error("ERR Invalid client ID"),
                }
            }
            _ => return self.wire.error(SYNTAX),
        };
        self.wire.value(&report(text), self.client.protocol);
    }

    /// `CLIENT KILL addr:port`, `CLIENT KILL [ID id] [ADDR addr:port] …`
    pub(super) fn kill_clients(&mut self, request: &Request<'_>) {
        let own = self.entry.id;
        let is_old = request.len() == 3;
        let filter = match is_old {
            true => Ok(Filter { addr: Some(text(request.word(2))), ..Filter::default() }),
            false => filter(request, own),
        };
        let filter = match filter {
            Ok(filter) => filter,
            Err(text) => return self.wire.error(&text),
        };
        let (count, is_self) = self.shared.clients.kill(&filter, own);
        match (is_old, count) {
            (true, 0) => self.wire.error("ERR No such client"),
            (true, _) => self.wire.frame(OK),
            (false, count) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                self.wire.value(&Value::Integer(count), self.client.protocol);
            }
        }
        self.is_closing |= is_self;
    }

    /// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`
    pub(super) fn unblock_client(&mut self, request: &Request<'_>) {
        let how = match request.len() {
            3 => Unblock::Timeout,
            4 if request.is(3, "TIMEOUT") => Unblock::Timeout,
            4 if request.is(3, "ERROR") => Unblock::Error,
            4 => return self.wire.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
            _ => return self.wire.error("ERR wrong number of arguments for 'client|unblock' command"),
        };
        match number(request.word(2)) {
            Some(id) => {
                let was_blocked = self.shared.clients.unblock(id, how);
                self.wire.value(&Value::Integer(was_blocked.into()), self.client.protocol);
            }
            None => self.wire.error(NO_NUMBER),
        }
    }
}

fn filter(request: &Request<'_>, own: u64) -> Result<Filter, String> {
    if request.len() < 4 || !request.len().is_multiple_of(2) {
        return Err(SYNTAX.to_owned());
    }
    let mut filter = Filter { skipped: Some(own), ..Filter::default() };
    for at in (2..request.len()).step_by(2) {
        let value = request.word(at + 1);
        match request.word(at).to_ascii_uppercase().as_slice() {
            b"ID" => filter.id = Some(number(value).filter(|id| *id > 0).ok_or(WRONG_ID)?),
            b"ADDR" => filter.addr = Some(text(value)),
            b"LADDR" => filter.local = Some(text(value)),
            b"USER" if value != b"default" => return Err(format!("ERR No such user '{}'", text(value))),
            b"USER" => filter.user = Some(text(value)),
            b"TYPE" => filter.kind = Some(kind(value)?),
            b"MAXAGE" => filter.min_age = Some(number(value).ok_or(NO_NUMBER)?),
            b"SKIPME" if value.eq_ignore_ascii_case(b"yes") => filter.skipped = Some(own),
            b"SKIPME" if value.eq_ignore_ascii_case(b"no") => filter.skipped = None,
            _ => return Err(SYNTAX.to_owned()),
        }
    }
    Ok(filter)
}

/// A kind of clients, as servers know them.
fn kind(word: &[u8]) -> Result<String, String> {
    let kind = text(word).to_lowercase();
    match kind.as_str() {
        "normal" | "pubsub" | "master" | "primary" | "replica" | "slave" => Ok(kind),
        _ => Err(format!("ERR Unknown client type '{}'", text(word))),
    }
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}
