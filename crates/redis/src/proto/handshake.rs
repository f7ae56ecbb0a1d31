//! The handshake of a connection: which commands are sent, in which waves, and what each answer means.
//!
//! ```text
//!  Auto, Resp3:  HELLO 3 [AUTH …] [SETNAME …] ─accepted─▶ setup
//!  Auto:                                      ─refused──▶ [AUTH] ─▶ setup, in RESP2
//!  Resp2, Bare:  [AUTH] ─▶ setup
//!  again:        RESET before whatever comes first
//!  setup:        CLIENT SETNAME, SETINFO, CAPA; INFO; ROLE; NO-EVICT, NO-TOUCH; SELECT; READONLY; the caller's; PING, in one wave
//! ```
//!
//! Invariant: nothing is sent behind an `AUTH` or `HELLO` before its answer (a failing AUTH within a pipeline can lose
//! its reply: redis/redis#15640). `Bare` sends only what was asked for, and `PING`: some proxies close on anything they
//! do not know.

use std::collections::VecDeque;
use std::sync::Arc;

use pilotlight_resp::{Protocol, Value, encode};

mod server;

pub(crate) use server::{Role, ServerInfo, ServerMode};

use crate::config::{Credentials, ProtocolChoice};
use crate::error::ServerError;
use crate::error::table::{About, judge_own};

/// What `CLIENT SETINFO LIB-NAME` says.
const LIB_NAME: &[u8] = b"pilotlight-redis";
const LIB_VER: &[u8] = env!("CARGO_PKG_VERSION").as_bytes();

/// What a handshake is to reach.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) style: Style,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) client_name: Option<Arc<str>>,
    /// The connection was used, and is to be as good as new: begins with `RESET` (6.2).
    pub(crate) resets: bool,
    /// 0 is not selected: every connection starts with it.
    pub(crate) database: u16,
    pub(crate) read_only: ReadOnly,
    /// Says that `REDIRECT` is understood (Valkey 8, standalone).
    pub(crate) follows_redirects: bool,
    /// Asks for the availability zone if `HELLO` does not tell it.
    pub(crate) wants_zone: bool,
    /// Asks for the role if `HELLO` does not tell it.
    pub(crate) wants_role: bool,
    /// Is spared when the server is short of memory for clients.
    pub(crate) no_evict: bool,
    /// Its commands do not count as uses of keys.
    pub(crate) no_touch: bool,
    /// Ends with `PING`, whose answer shows a server that is loading.
    pub(crate) checks_readiness: bool,
    /// The caller's commands, named and encoded. Each has to succeed.
    pub(crate) extra: Vec<(&'static str, Vec<u8>)>,
}

/// How the protocol is negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// RESP3, or RESP2 if it is refused.
    Auto,
    Resp3,
    Resp2,
    /// RESP2 without any optional command.
    Bare,
}

/// Whether `READONLY` is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOnly {
    No,
    /// It may fail: servers outside of a cluster know no `READONLY`, or need none.
    Tried,
    Required,
}

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandshakeError {
    AuthMissing,
    AuthRejected { username: Box<str>, error: ServerError },
    NotReady(ServerError),
    Refused { command: &'static str, error: ServerError },
    Unexpected { command: &'static str, found: &'static str },
}

/// The state of one handshake. Call [`Handshake::send`]; give it [`Handshake::awaited`] replies; repeat until `send` is
/// done.
#[derive(Debug)]
pub(crate) struct Handshake {
    plan: Plan,
    phase: Phase,
    /// Commands whose replies are due, oldest first.
    awaited: VecDeque<Sent>,
    server: ServerInfo,
}

/// What to send next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Hello,
    Auth,
    Setup,
    Done,
}

/// A command that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Hello,
    Auth,
    /// Its answer does not matter.
    Optional,
    Info,
    Role,
    Ping,
    /// A command that has to succeed.
    Required(&'static str),
}

impl Handshake {
    pub(crate) fn new(plan: Plan) -> Self {
        let phase = match plan.style {
            Style::Auto | Style::Resp3 => Phase::Hello,
            Style::Resp2 | Style::Bare => Phase::Auth,
        };
        Self { plan, phase, awaited: VecDeque::new(), server: ServerInfo::new(Protocol::Resp2) }
    }

    fn send_reset(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.plan.resets) {
            encode::command(out, &[b"RESET"]);
            self.awaited.push_back(Sent::Required("RESET"));
        }
    }

    /// Appends the next wave of commands. False: the handshake is done, nothing was appended.
    pub(crate) fn send(&mut self, out: &mut Vec<u8>) -> bool {
        debug_assert!(self.awaited.is_empty(), "the last wave is not answered");
        while self.awaited.is_empty() {
            match self.phase {
                Phase::Hello => {
                    self.phase = Phase::Setup;
                    self.send_reset(out);
                    self.send_hello(out);
                }
                Phase::Auth => {
                    self.phase = Phase::Setup;
                    self.send_reset(out);
                    self.send_auth(out);
                }
                Phase::Setup => {
                    self.phase = Phase::Done;
                    self.send_setup(out);
                }
                Phase::Done => return false,
            }
        }
        true
    }

    /// The number of replies that are due.
    pub(crate) fn awaited(&self) -> usize {
        self.awaited.len()
    }

    /// Takes the next reply.
    pub(crate) fn receive(&mut self, reply: Value) -> Result<(), HandshakeError> {
        let Some(sent) = self.awaited.pop_front() else {
            return Err(HandshakeError::Unexpected { command: "nothing", found: reply.type_name() });
        };
        match reply {
            Value::Error(text) => self.refused(sent, ServerError::parse(redacted(&text))),
            value => self.accepted(sent, &value),
        }
    }

    /// Whether a server that closes the connection now deserves another try with [`Style::Bare`].
    pub(crate) fn may_be_bare(&self) -> bool {
        matches!(self.plan.style, Style::Auto | Style::Resp2) && self.server.protocol == Protocol::Resp2
    }

    /// Who the server was told that the client is.
    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        self.plan.credentials.as_ref()
    }

    /// What the server said of itself.
    pub(crate) fn into_server(self) -> ServerInfo {
        self.server
    }

    fn send_hello(&mut self, out: &mut Vec<u8>) {
        let mut words: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(credentials) = &self.plan.credentials {
            // HELLO knows no short form: the default user has to be named.
            let username = credentials.username().unwrap_or(DEFAULT_USER);
            words.extend([b"AUTH".as_slice(), username.as_bytes(), credentials.secret().as_bytes()]);
        }
        if let Some(name) = &self.plan.client_name {
            words.extend([b"SETNAME".as_slice(), name.as_bytes()]);
        }
        encode::command(out, &words);
        self.awaited.push_back(Sent::Hello);
    }

    fn send_auth(&mut self, out: &mut Vec<u8>) {
        if let Some(credentials) = &self.plan.credentials {
            encode_auth(out, credentials);
            self.awaited.push_back(Sent::Auth);
        }
    }

    fn send_setup(&mut self, out: &mut Vec<u8>) {
        let mut send = |sent: Sent, words: &[&[u8]]| {
            encode::command(out, words);
            self.awaited.push_back(sent);
        };
        if self.plan.style != Style::Bare {
            // HELLO has set the name already.
            if let (Protocol::Resp2, Some(name)) = (self.server.protocol, &self.plan.client_name) {
                send(Sent::Optional, &[b"CLIENT", b"SETNAME", name.as_bytes()]);
            }
            send(Sent::Optional, &[b"CLIENT", b"SETINFO", b"LIB-NAME", LIB_NAME]);
            send(Sent::Optional, &[b"CLIENT", b"SETINFO", b"LIB-VER", LIB_VER]);
            if self.plan.follows_redirects {
                send(Sent::Optional, &[b"CLIENT", b"CAPA", b"redirect"]);
            }
            if self.plan.wants_zone && self.server.availability_zone.is_none() {
                send(Sent::Info, &[b"INFO", b"server"]);
            }
            if self.plan.wants_role && self.server.role.is_none() {
                send(Sent::Role, &[b"ROLE"]);
            }
        }
        for (wanted, name, word) in [
            (self.plan.no_evict, "CLIENT NO-EVICT", b"NO-EVICT".as_slice()),
            (self.plan.no_touch, "CLIENT NO-TOUCH", b"NO-TOUCH"),
        ] {
            if wanted {
                send(Sent::Required(name), &[b"CLIENT", word, b"ON"]);
            }
        }
        if self.plan.database > 0 {
            send(Sent::Required("SELECT"), &[b"SELECT", self.plan.database.to_string().as_bytes()]);
        }
        match self.plan.read_only {
            ReadOnly::Required => send(Sent::Required("READONLY"), &[b"READONLY"]),
            ReadOnly::Tried if self.plan.style != Style::Bare => send(Sent::Optional, &[b"READONLY"]),
            ReadOnly::Tried | ReadOnly::No => {}
        }
        for (name, command) in &self.plan.extra {
            out.extend_from_slice(command);
            self.awaited.push_back(Sent::Required(name));
        }
        if self.plan.checks_readiness || self.plan.style == Style::Bare {
            encode::command(out, &[b"PING"]);
            self.awaited.push_back(Sent::Ping);
        }
    }

    fn accepted(&mut self, sent: Sent, value: &Value) -> Result<(), HandshakeError> {
        match sent {
            Sent::Hello => {
                let unexpected = HandshakeError::Unexpected { command: sent.name(), found: value.type_name() };
                self.server = ServerInfo::from_hello(value).ok_or(unexpected)?;
                Ok(())
            }
            Sent::Auth | Sent::Ping if !matches!(value, Value::Simple(_) | Value::Bulk(_)) => {
                Err(HandshakeError::Unexpected { command: sent.name(), found: value.type_name() })
            }
            Sent::Info => {
                self.server.add_info(value);
                Ok(())
            }
            Sent::Role => {
                self.server.add_role(value);
                Ok(())
            }
            Sent::Auth | Sent::Ping | Sent::Optional | Sent::Required(_) => Ok(()),
        }
    }

    fn refused(&mut self, sent: Sent, error: ServerError) -> Result<(), HandshakeError> {
        let about = judge_own(&error).about;
        match about {
            // Sent to a new connection before anything is read, and then it is closed: no answer to `sent` at all.
            About::Connection => return Err(HandshakeError::Refused { command: "the connection", error }),
            About::Readiness => return Err(HandshakeError::NotReady(error)),
            About::WrongCredentials => return Err(self.auth_rejected(error)),
            About::NoCredentials if self.plan.credentials.is_none() => return Err(HandshakeError::AuthMissing),
            _ => {}
        }
        match sent {
            // A bad name is the configuration's mistake. RESP2 would only hide it: its CLIENT SETNAME is optional.
            Sent::Hello if error.message().starts_with("Client names") => {
                Err(HandshakeError::Refused { command: sent.name(), error })
            }
            Sent::Hello if self.plan.style == Style::Auto => {
                self.phase = Phase::Auth;
                Ok(())
            }
            Sent::Auth => Err(self.auth_rejected(error)),
            _ if about == About::NoCredentials => Err(self.auth_rejected(error)),
            Sent::Optional | Sent::Info | Sent::Role => Ok(()),
            // A server busy with a script, or a user without the right to PING: commands will tell.
            Sent::Ping if matches!(about, About::Busy | About::Permission) => {
                self.server.is_busy = about == About::Busy;
                Ok(())
            }
            Sent::Ping | Sent::Hello | Sent::Required(_) => {
                Err(HandshakeError::Refused { command: sent.name(), error })
            }
        }
    }

    fn auth_rejected(&self, error: ServerError) -> HandshakeError {
        let username = self.plan.credentials.as_ref().and_then(Credentials::username).unwrap_or(DEFAULT_USER);
        HandshakeError::AuthRejected { username: username.into(), error }
    }
}

impl Sent {
    fn name(self) -> &'static str {
        match self {
            Self::Hello => "HELLO",
            Self::Auth => "AUTH",
            Self::Optional => "CLIENT",
            Self::Info => "INFO",
            Self::Role => "ROLE",
            Self::Ping => "PING",
            Self::Required(name) => name,
        }
    }
}

impl From<ProtocolChoice> for Style {
    fn from(choice: ProtocolChoice) -> Self {
        match choice {
            ProtocolChoice::Auto => Self::Auto,
            ProtocolChoice::Resp2 => Self::Resp2,
            ProtocolChoice::Resp3 => Self::Resp3,
        }
    }
}

/// The name of the user that a connection is before it authenticates.
const DEFAULT_USER: &str = "default";

/// Appends the `AUTH` of `credentials`, for a new connection or again on a live one.
pub(crate) fn encode_auth(out: &mut Vec<u8>, credentials: &Credentials) {
    let secret = credentials.secret().as_bytes();
    match credentials.username() {
        Some(username) => encode::command(out, &[b"AUTH", username.as_bytes(), secret]),
        // Redis 5 and older know only this form.
        None => encode::command(out, &[b"AUTH", secret]),
    }
}

/// An error's text without the arguments that servers repeat after an unknown command: one of them may be the password.
fn redacted(text: &[u8]) -> &[u8] {
    let end = memchr::memmem::find(text, b", with args beginning with").unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests;
