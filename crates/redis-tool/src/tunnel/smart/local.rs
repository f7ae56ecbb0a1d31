//! What the tunnel answers by itself: commands about the client's own connection, which it has only to the tunnel.

use bytes::Bytes;
use pilotlight_redis::raw::RawReply;
use pilotlight_redis::{Route, Value};
use pilotlight_resp::Protocol;

use super::identity::Mute;
use super::replies::{OK, error_text};
use super::session::Session;
use crate::tunnel::differences;
use crate::tunnel::request::Request;

impl Session {
    /// `HELLO [2|3 [AUTH user password] [SETNAME name]]`
    pub(super) async fn hello(&mut self, request: &Request<'_>) {
        let protocol = match request.word(1) {
            b"" => self.client.protocol,
            b"2" => Protocol::Resp2,
            b"3" if self.upstream.has_resp3() => Protocol::Resp3,
            word if std::str::from_utf8(word).is_ok_and(|text| text.parse::<i64>().is_ok()) => {
                return self.wire.error("NOPROTO unsupported protocol version");
            }
            _ => return self.wire.error("ERR Protocol version is not an integer or out of range"),
        };
        let (mut at, mut name, mut is_known) = (2, None, self.client.is_known);
        while at < request.len() {
            if request.is(at, "AUTH") && at + 2 < request.len() {
                is_known = self.shared.is_password(request.word(at + 2));
                if !is_known {
                    return self.wire.error(WRONG_PASSWORD);
                }
                at += 3;
            } else if request.is(at, "SETNAME") && at + 1 < request.len() {
                name = Some(Bytes::copy_from_slice(request.word(at + 1)));
                at += 2;
            } else {
                let option = String::from_utf8_lossy(request.word(at));
                return self.wire.error(&format!("ERR Syntax error in HELLO option '{option}'"));
            }
        }
        if !is_known {
            return self.wire.error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
        }
        if name.as_ref().is_some_and(|name| !is_name(name)) {
            return self.wire.error(WRONG_NAME);
        }
        match self.upstream.end(protocol, self.client.database) {
            Ok(end) => self.end = end,
            Err(text) => return self.wire.error(&text),
        }
        (self.client.protocol, self.client.is_known) = (protocol, true);
        if let Some(name) = name {
            self.client.name = name;
        }
        let facts = self.upstream.facts().await;
        let text = |text: &str| Value::Bulk(Bytes::copy_from_slice(text.as_bytes()));
        let version = if protocol == Protocol::Resp3 { 3 } else { 2 };
        let pairs = vec![
            (text("server"), text(&facts.server)),
            (text("version"), text(&facts.version)),
            (text("proto"), Value::Integer(version)),
            (text("id"), Value::Integer(i64::try_from(self.entry.id).unwrap_or(i64::MAX))),
            (text("mode"), text("standalone")),
            (text("role"), text("master")),
            (text("modules"), Value::Array(Vec::new())),
        ];
        self.wire.value(&Value::Map(pairs), protocol);
    }

    /// `AUTH [user] password`: for the tunnel, never for the servers.
    pub(super) fn auth(&mut self, request: &Request<'_>) {
        if request.len() > 3 {
            return self.wire.error("ERR syntax error");
        }
        if !self.shared.is_password(request.word(request.len() - 1)) {
            return self.wire.error(WRONG_PASSWORD);
        }
        self.client.is_known = true;
        self.wire.frame(OK);
    }

    /// `SELECT number`: another database has other connections.
    pub(super) async fn select(&mut self, request: &Request<'_>) {
        let number = std::str::from_utf8(request.word(1)).ok().and_then(|text| text.parse::<i32>().ok());
        let Some(number) = number else {
            return self.wire.error("ERR value is not an integer or out of range");
        };
        if self.upstream.is_cluster() && number != 0 {
            return self.wire.error("ERR SELECT is not allowed in cluster mode");
        }
        let Ok(number) = u16::try_from(number) else {
            return self.wire.error("ERR DB index is out of range");
        };
        if number != self.client.database {
            if let Some(refused) = self.refused_database(request.bytes).await {
                return self.wire.error(&refused);
            }
            match self.upstream.end(self.client.protocol, number) {
                Ok(end) => self.end = end,
                Err(text) => return self.wire.error(&text),
            }
            self.client.database = number;
        }
        self.wire.frame(OK);
    }

    /// What the server says against a database.
    async fn refused_database(&mut self, select: &[u8]) -> Option<String> {
        let mut connection = match self.end.raw.dedicated(Route::Any).await {
            Ok(connection) => connection,
            Err(error) => return Some(error_text(&error)),
        };
        connection.spoil();
        match connection.exchange(select, 1, Some(self.upstream.timeout())).await {
            Ok(replies) => replies.into_iter().find_map(|reply| match reply {
                RawReply::Error(text) => Some(String::from_utf8_lossy(&text).into_owned()),
                RawReply::Frame(_) => None,
            }),
            Err(error) => Some(error_text(&error)),
        }
    }

    /// `CLIENT …`, as far as it is about the client itself.
    pub(super) fn client(&mut self, request: &Request<'_>) {
        let protocol = self.client.protocol;
        match request.name() {
            "CLIENT SETNAME" if request.len() == 3 => {
                let name = request.word(2);
                if !is_name(name) {
                    return self.wire.error(WRONG_NAME);
                }
                self.client.name = Bytes::copy_from_slice(name);
                self.wire.frame(OK);
            }
            "CLIENT GETNAME" if self.client.name.is_empty() => self.wire.value(&Value::Null, protocol),
            "CLIENT GETNAME" => self.wire.value(&Value::Bulk(self.client.name.clone()), protocol),
            "CLIENT ID" => {
                let id = i64::try_from(self.entry.id).unwrap_or(i64::MAX);
                self.wire.value(&Value::Integer(id), protocol);
            }
            "CLIENT INFO" => self.wire.value(&report(self.entry.line()), protocol),
            "CLIENT LIST" => self.list_clients(request),
            "CLIENT KILL" => self.kill_clients(request),
            "CLIENT UNBLOCK" => self.unblock_client(request),
            "CLIENT NO-EVICT" | "CLIENT NO-TOUCH" if !(request.is(2, "ON") || request.is(2, "OFF")) => {
                self.wire.error("ERR syntax error");
            }
            "CLIENT SETINFO" | "CLIENT NO-EVICT" | "CLIENT NO-TOUCH" => self.wire.frame(OK),
            "CLIENT TRACKING" if request.is(2, "OFF") => self.wire.frame(OK),
            "CLIENT TRACKING" if !request.is(2, "ON") => self.wire.error("ERR syntax error"),
            "CLIENT CACHING" if !(request.is(2, "YES") || request.is(2, "NO")) => {
                self.wire.error("ERR syntax error");
            }
            "CLIENT GETREDIR" => self.wire.value(&Value::Integer(-1), protocol),
            "CLIENT REPLY" if request.is(2, "ON") => {
                self.mute = Mute::No;
                self.wire.is_mute = false;
                self.wire.frame(OK);
            }
            "CLIENT REPLY" if request.is(2, "OFF") => self.mute = Mute::Off,
            "CLIENT REPLY" if request.is(2, "SKIP") => {
                if self.mute == Mute::No {
                    self.mute = Mute::Next;
                }
            }
            "CLIENT TRACKING" | "CLIENT CACHING" | "CLIENT TRACKINGINFO" => {
                self.wire.error(&format!("ERR {}", differences::TRACKING));
            }
            "CLIENT REPLY" => self.wire.error("ERR syntax error"),
            _ => self.wire.error("ERR the tunnel knows of no such subcommand; use --mode pinned"),
        }
    }

    /// `RESET`
    pub(super) fn reset(&mut self) {
        self.forget();
        self.wire.is_mute = false;
        self.client.name = Bytes::new();
        self.client.is_known = self.shared.password.is_none();
        self.client.protocol = Protocol::Resp2;
        self.client.database = self.upstream.database();
        match self.upstream.end(self.client.protocol, self.client.database) {
            Ok(end) => {
                self.end = end;
                self.wire.bytes(b"+RESET\r\n");
            }
            Err(text) => self.wire.error(&text),
        }
    }
}

/// As servers accept names of clients.
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

/// Lines for people, which RESP3 tells apart from data.
pub(super) fn report(text: String) -> Value {
    Value::Verbatim { format: *b"txt", text: text.into() }
}

const WRONG_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
