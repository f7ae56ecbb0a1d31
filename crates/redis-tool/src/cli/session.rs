//! What the commands of one user run on. Outside of a cluster that is one connection, as with `redis-cli`: its state
//! (database, `MULTI`, subscriptions) is the user's own. In a cluster it is the client, which routes, splits and
//! follows, and a connection of its own for what has state: to the node of the first key of a transaction or `WATCH`,
//! else to any primary.
//!
//! Invariant: a command is sent again only where it certainly did not run: the connection was known to be closed before
//! it was written.

use std::fmt;

use bytes::Bytes;
use pilotlight_redis::command::{CommandSpec, Flags};
use pilotlight_redis::config::{Credentials, ProtocolChoice, Topology};
use pilotlight_redis::{Client, Command, Commands, Config, Error, ErrorKind, Misuse, Route, ServerError};
use pilotlight_resp::{Frame, Value};

use super::command_rules::confirmations;
use crate::advice;
use crate::refusal::{self, Refusal};
use crate::spec::{command, spec_of};
use crate::wire::Wire;

/// See the module.
pub(super) struct Session {
    config: Config,
    client: Client,
    wire: Option<Wire>,
    transaction: Transaction,
    /// In a cluster: one of its nodes has answered.
    is_reached: bool,
    /// The user knows that the server is a node of a cluster.
    is_hinted: bool,
    /// What is to be shown to the user, apart from replies.
    pub(super) warnings: Vec<String>,
    /// What came unasked, or before the last reply to a command with several.
    pub(super) pushes: Vec<Vec<Value>>,
}

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transaction {
    /// There is none.
    None,
    /// Keys are watched.
    Watching,
    /// In a cluster, `MULTI` waits for the first key, which says whom to send it to.
    Waiting,
    /// The server queues commands.
    Queueing,
}

/// Whether a connection is to be made while there is none and nothing is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    Wanted,
    Kept,
}

/// What happened between two commands.
#[derive(Debug)]
pub(super) enum Meanwhile {
    Connected,
    NotConnected(Failure),
    Pushed(Vec<Value>),
    Disconnected,
}

/// Why a command has no reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// No connection could be made: nothing was sent.
    NotConnected(String),
    /// The server refuses this client: nothing was sent.
    Refused { why: String, refusal: Refusal },
    /// The connection was lost.
    Lost(String),
    /// The client says what is wrong.
    Client(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected(why) | Self::Client(why) => f.write_str(why),
            Self::Refused { why, refusal } => {
                f.write_str(&refusal::advised(why, refusal))?;
                let can_log_in = matches!(refusal, Refusal::PasswordMissing);
                f.write_str(if can_log_in { "; or AUTH password, AUTH user password" } else { "" })
            }
            Self::Lost(why) => write!(f, "connection lost: {why}; the command may have been executed"),
        }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// Whether nothing was sent as there is no connection.
    pub(super) fn is_of_connecting(&self) -> bool {
        matches!(self, Self::NotConnected(_) | Self::Refused { .. })
    }
}

impl Session {
    /// Connects to nothing yet.
    pub(super) fn new(config: Config) -> Result<Self, Error> {
        let client = Client::new(config.clone())?;
        Ok(Self {
            config,
            client,
            wire: None,
            transaction: Transaction::None,
            is_reached: false,
            is_hinted: false,
            warnings: Vec::new(),
            pushes: Vec::new(),
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.config.topology, Topology::Cluster)
    }

    pub(super) fn database(&self) -> u16 {
        self.config.database
    }

    pub(super) fn transaction(&self) -> Transaction {
        self.transaction
    }

    pub(super) fn is_connected(&self) -> bool {
        self.wire.is_some()
    }

    /// Whether there is a connection, or, in a cluster, was one.
    pub(super) fn has_contact(&self) -> bool {
        self.wire.is_some() || (self.is_cluster() && self.is_reached)
    }

    /// Who is spoken to, as far as is known: the node, else the first server of the configuration.
    pub(super) fn place(&self) -> String {
        match (&self.wire, self.config.servers.first()) {
            (Some(wire), _) if !self.is_cluster() => wire.node().to_string(),
            (_, Some(server)) => server.to_string(),
            (_, None) => String::new(),
        }
    }

    /// Connects, if there is no connection yet: outside of a cluster to the primary, in a cluster by asking for its
    /// map. A password that the server has no use for is left away, as `redis-cli` does it, with a warning.
    pub(super) async fn connect(&mut self) -> Result<(), Failure> {
        match self.try_connect().await {
            Err(Failure::Refused { refusal: Refusal::NoPasswordWanted(answer), .. }) => {
                self.warnings.push(format!("Warning: AUTH failed: {answer} Going on without a password."));
                self.change(|config| config.credentials = None);
                self.try_connect().await
            }
            done => done,
        }
    }

    async fn try_connect(&mut self) -> Result<(), Failure> {
        if self.is_cluster() {
            return self.reach().await;
        }
        self.wire(Route::Any).await.map(|_| ())
    }

    /// Sees that a node of the cluster answers, and gives its map.
    async fn reach(&mut self) -> Result<(), Failure> {
        if self.is_reached {
            return Ok(());
        }
        match self.client.stream(Route::Any).await {
            Ok(_) => self.is_reached = true,
            Err(error) => return Err(not_connected(&self.config, &error).await),
        }
        Ok(())
    }

    /// Connects as another user, for a command that says who: the server asks for a password before anything else.
    async fn log_in(&mut self, words: &[Vec<u8>], credentials: Credentials) -> Result<Value, Failure> {
        let before = self.config.credentials.take();
        self.change(|config| config.credentials = Some(std::sync::Arc::new(credentials)));
        let failure = match self.try_connect().await {
            Ok(()) => return self.run_own(words, Route::Any).await,
            Err(failure) => failure,
        };
        self.change(|config| config.credentials = before);
        match failure {
            Failure::Refused {
                refusal: Refusal::WrongPassword(answer) | Refusal::NoPasswordWanted(answer), ..
            } => Ok(Value::Error(Bytes::copy_from_slice(answer.text().as_bytes()))),
            failure => Err(failure),
        }
    }

    /// Runs a command and waits for its reply, errors of the server among them. Dropped in its middle, it leaves the
    /// session without connection.
    pub(super) async fn run(&mut self, words: &[Vec<u8>]) -> Result<Value, Failure> {
        let spec = spec_of(words);
        if let Some(credentials) = login(words).filter(|_| !self.has_contact()) {
            return self.log_in(words, credentials).await;
        }
        if !self.has_contact() {
            self.connect().await?;
        }
        if self.is_cluster() && !self.needs_own(spec) {
            return self.run_routed(words).await;
        }
        match (spec.name, self.is_cluster(), self.transaction) {
            ("MULTI", true, Transaction::None) => {
                self.transaction = Transaction::Waiting;
                return Ok(Value::Simple(Bytes::from_static(b"OK")));
            }
            ("DISCARD", true, Transaction::Waiting) => {
                self.transaction = Transaction::None;
                return Ok(Value::Simple(Bytes::from_static(b"OK")));
            }
            (_, true, Transaction::Waiting) => {
                self.wire = None;
                let reply = self.run_own(&[b"MULTI".to_vec()], route_of(words)).await?;
                if matches!(reply, Value::Error(_)) {
                    return Ok(reply);
                }
            }
            ("WATCH", true, Transaction::None) => self.wire = None,
            _ => {}
        }
        let reply = self.run_own(words, route_of(words)).await;
        if matches!(spec.name, "QUIT") {
            self.wire = None;
        }
        reply
    }

    /// Runs a command on the session's own connection.
    async fn run_own(&mut self, words: &[Vec<u8>], route: Route) -> Result<Value, Failure> {
        self.drop_if_closed().await;
        let mut wire = self.take_wire(route).await?;
        let lost = |error: std::io::Error| Failure::Lost(error.to_string());
        // The connection is out of the session's hands meanwhile: a command that is given up closes it.
        let confirmations = confirmations(words);
        let reply = async {
            wire.send(words).await?;
            let mut confirmed = 0;
            loop {
                let frame = wire.frame().await?;
                let is_confirmation = confirmations > 0 && is_confirmation(&frame);
                confirmed += usize::from(is_confirmation);
                match frame {
                    Frame::Push(items) if is_confirmation && confirmed == confirmations => {
                        return Ok(Value::Push(items));
                    }
                    Frame::Reply(Value::Array(items)) if is_confirmation && confirmed < confirmations => {
                        self.pushes.push(items);
                    }
                    Frame::Reply(value) => return Ok(value),
                    Frame::Push(push) => self.pushes.push(push),
                }
            }
        };
        let reply = reply.await;
        if let Err(error) = reply {
            self.transaction = Transaction::None;
            return Err(lost(error));
        }
        self.wire = Some(wire);
        let reply = reply.map_err(lost)?;
        self.note(words, &reply);
        Ok(reply)
    }

    /// Runs a command wherever it belongs in the cluster.
    async fn run_routed(&self, words: &[Vec<u8>]) -> Result<Value, Failure> {
        match self.client.run::<Value>(command(words)).await {
            Ok(value) => Ok(value),
            Err(error) => as_reply(&error),
        }
    }

    /// Runs a command on certain nodes, and tells each answer.
    pub(super) async fn run_on(
        &mut self,
        route: Route,
        words: &[Vec<u8>],
    ) -> Result<Vec<(String, Result<Value, Failure>)>, Failure> {
        if self.is_cluster() {
            self.reach().await?;
        }
        let answers = self.client.on_all(route, command(words)).await;
        let answers = answers.map_err(|error| Failure::Client(advice::text(&error)))?;
        let answer = |answer: pilotlight_redis::NodeReply| {
            (answer.node.to_string(), answer.reply.or_else(|error| as_reply(&error)))
        };
        Ok(answers.into_iter().map(answer).collect())
    }

    /// Sends a command that is answered by messages without end (`SUBSCRIBE`, `MONITOR`), and hands its connection
    /// over.
    pub(super) async fn listen(&mut self, words: &[Vec<u8>], route: Option<Route>) -> Result<Wire, Failure> {
        self.drop_if_closed().await;
        if self.is_cluster() || route.is_some() {
            self.wire = None;
        }
        let mut wire = self.take_wire(route.unwrap_or_else(|| route_of(words))).await?;
        wire.send(words).await.map_err(|error| Failure::Lost(error.to_string()))?;
        Ok(wire)
    }

    /// A connection that was lent is back, in its ordinary state.
    pub(super) fn put_back(&mut self, wire: Wire) {
        self.wire = Some(wire);
    }

    /// Connects, if that is wanted, and waits for what comes unasked: a push, or the end of the connection. In a
    /// cluster connections come and go with commands.
    ///
    /// # Cancel safety
    /// Nothing is lost; a connection that is being made is given up.
    pub(super) async fn meanwhile(&mut self, connection: Connection) -> Meanwhile {
        if !self.has_contact() && connection == Connection::Wanted {
            return match self.connect().await {
                Ok(()) => Meanwhile::Connected,
                Err(failure) => Meanwhile::NotConnected(failure),
            };
        }
        let Some(wire) = &mut self.wire else { return std::future::pending().await };
        match wire.frame().await {
            Ok(Frame::Push(push)) => Meanwhile::Pushed(push),
            Ok(Frame::Reply(value)) => Meanwhile::Pushed(vec![value]),
            Err(_) => {
                self.disconnect();
                Meanwhile::Disconnected
            }
        }
    }

    /// The connection is of no more use.
    pub(super) fn disconnect(&mut self) {
        self.wire = None;
        self.transaction = Transaction::None;
    }

    /// Lends the connection; a new one if there is none.
    async fn take_wire(&mut self, route: Route) -> Result<Wire, Failure> {
        self.wire(route).await?;
        self.wire.take().ok_or_else(|| Failure::NotConnected("there is no connection".to_owned()))
    }

    async fn wire(&mut self, route: Route) -> Result<&mut Wire, Failure> {
        if self.wire.is_none() {
            let route = if self.is_cluster() { route } else { Route::Any };
            let opened = Wire::open(&self.client, route, self.config.reply_limits).await;
            self.wire = Some(match opened {
                Ok(wire) => {
                    tracing::debug!(server.address = %wire.node(), database = self.config.database, "connected");
                    wire
                }
                Err(error) => return Err(not_connected(&self.config, &error).await),
            });
            if matches!(self.config.topology, Topology::Sentinel(_)) {
                // The client listens to a Sentinel from its own first command on. If that fails, the next one will say
                // why.
                let _ = self.client.run::<Value>(Command::raw("PING")).await;
            }
        }
        self.wire.as_mut().ok_or_else(|| Failure::NotConnected("there is no connection".to_owned()))
    }

    /// Whether Sentinels name another primary than the one that is spoken to. The client has heard of it: it has moved
    /// its own connection, or is about to.
    async fn is_left_behind(&self) -> bool {
        let is_watched = matches!(self.config.topology, Topology::Sentinel(_)) && self.transaction == Transaction::None;
        let Some(wire) = self.wire.as_ref().filter(|_| is_watched) else { return false };
        if self.client.stats().lanes.iter().any(|lane| !lane.snapshot.is_connected) {
            // It waits for the connection to whoever is the primary now.
            let _ = self.client.run::<Value>(Command::raw("PING")).await;
        }
        let (lanes, node) = (self.client.stats().lanes, wire.node().to_string());
        lanes.iter().any(|lane| lane.snapshot.is_connected && *lane.node != *node)
    }

    /// Looks whether the server has closed the connection meanwhile, or is not the primary any more.
    async fn drop_if_closed(&mut self) {
        if self.is_left_behind().await {
            self.disconnect();
        }
        loop {
            let looked = tokio::select! {
                biased;
                looked = self.meanwhile(Connection::Kept) => looked,
                () = std::future::ready(()) => return,
            };
            match looked {
                Meanwhile::Pushed(push) => self.pushes.push(push),
                _ => return,
            }
        }
    }

    /// Whether a command has to run on a connection of the session's own.
    fn needs_own(&self, spec: &CommandSpec) -> bool {
        self.transaction != Transaction::None
            || spec.flags.has(Flags::CONNECTION_STATE)
            || matches!(
                spec.name,
                "WAIT" | "WAITAOF" | "CLIENT ID" | "CLIENT INFO" | "CLIENT GETNAME" | "QUIT" | "RESET"
            )
    }

    /// Says, once, what follows redirects.
    fn hint_at_clusters(&mut self, reply: &Value) {
        let is_redirect =
            matches!(reply, Value::Error(text) if text.starts_with(b"MOVED ") || text.starts_with(b"ASK "));
        if is_redirect && !self.is_cluster() && !std::mem::replace(&mut self.is_hinted, true) {
            self.warnings.push(
                "Hint: the server is a node of a cluster; -c follows redirects (in a URL: redis+cluster://)."
                    .to_owned(),
            );
        }
    }

    /// What a command changed, so that it is the same after the connection was lost.
    fn note(&mut self, words: &[Vec<u8>], reply: &Value) {
        let word = |at: usize| words.get(at).map(Vec::as_slice).unwrap_or_default();
        let name = spec_of(words).name;
        // `EXEC` and `DISCARD` end a transaction whatever they answer.
        match name {
            "EXEC" | "DISCARD" => self.transaction = Transaction::None,
            _ if matches!(reply, Value::Error(_)) => {
                if is_demoted(reply) && self.transaction == Transaction::None {
                    self.wire = None;
                }
                self.hint_at_clusters(reply);
                return;
            }
            "MULTI" => self.transaction = Transaction::Queueing,
            "WATCH" if self.transaction == Transaction::None => self.transaction = Transaction::Watching,
            "UNWATCH" if self.transaction == Transaction::Watching => self.transaction = Transaction::None,
            "RESET" => self.reset(),
            _ => {}
        }
        if self.transaction == Transaction::Queueing {
            return;
        }
        match name {
            "SELECT" => {
                if let Ok(database) = String::from_utf8_lossy(word(1)).parse() {
                    self.change(|config| config.database = database);
                }
            }
            "AUTH" => {
                if let Some(credentials) = login(words) {
                    self.change(|config| config.credentials = Some(std::sync::Arc::new(credentials)));
                }
            }
            "HELLO" => {
                let protocol = match word(1) {
                    b"3" => ProtocolChoice::Resp3,
                    b"2" => ProtocolChoice::Resp2,
                    _ => return,
                };
                self.change(|config| {
                    config.protocol = protocol;
                    if let Some(credentials) = login(words) {
                        config.credentials = Some(std::sync::Arc::new(credentials));
                    }
                });
            }
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.transaction = Transaction::None;
        self.change(|config| {
            config.database = 0;
            config.protocol = ProtocolChoice::Resp2;
        });
    }

    /// Changes what further connections are made with.
    fn change(&mut self, change: impl FnOnce(&mut Config)) {
        let mut config = self.config.clone();
        change(&mut config);
        // Settings of a session cannot be refused that the server has accepted; if they are, the client stays as it
        // was.
        if let Ok(client) = Client::new(config.clone()) {
            (self.config, self.client) = (config, client);
        }
    }
}

fn is_confirmation(frame: &Frame) -> bool {
    let (Frame::Push(items) | Frame::Reply(Value::Array(items))) = frame else { return false };
    matches!(items.first(), Some(Value::Bulk(kind)) if kind.ends_with(b"unsubscribe"))
}

/// The primary of the first key; without a key any.
fn route_of(words: &[Vec<u8>]) -> Route {
    let shard_channel = || {
        let is_sharded = words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"SSUBSCRIBE"));
        is_sharded.then(|| words.get(1).map(Route::primary_of)).flatten()
    };
    command(words).slot().map(Route::Primary).or_else(shard_channel).unwrap_or(Route::Any)
}

/// Errors of the server are replies.
fn as_reply(error: &Error) -> Result<Value, Failure> {
    if let Some(server) = error.server() {
        return Ok(Value::Error(Bytes::copy_from_slice(server.text().as_bytes())));
    }
    Err(match error.kind() {
        ErrorKind::Misuse(Misuse::CrossSlot { .. }) => {
            return Ok(Value::Error(Bytes::from(format!("CROSSSLOT {}", error.kind()))));
        }
        ErrorKind::Misuse(Misuse::Unroutable { command: "SCAN", .. }) => Failure::Client(
            "SCAN: a cursor means nothing to another node: ON NODE host:port SCAN …, or --scan for all of them"
                .to_owned(),
        ),
        _ => Failure::Client(advice::text(error)),
    })
}

/// A primary that is none any more: with Sentinel, or several servers, the next connection finds the new one.
fn is_demoted(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if ServerError::parse(text).code() == "READONLY")
}

/// Who a command says that the client is: `AUTH`, `HELLO … AUTH`.
pub(super) fn login(words: &[Vec<u8>]) -> Option<Credentials> {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let credentials = |user: &[u8], password: &[u8]| Credentials::new(text(user), text(password));
    match (spec_of(words).name, words) {
        ("AUTH", [_, password]) => Some(Credentials::password(text(password))),
        ("AUTH", [_, user, password]) => Some(credentials(user, password)),
        ("HELLO", words) => {
            let at = words.iter().position(|word| word.eq_ignore_ascii_case(b"AUTH"))?;
            Some(credentials(words.get(at + 1)?, words.get(at + 2)?))
        }
        _ => None,
    }
}

async fn not_connected(config: &Config, error: &Error) -> Failure {
    let why = match error.kind() {
        // The reason names the node.
        ErrorKind::Connect(_) | ErrorKind::Rejected(_) => format!("could not connect: {}", refusal::why(error)),
        ErrorKind::Misuse(Misuse::Unroutable { .. }) => {
            return Failure::Client("MONITOR and subscriptions are of one node: ON NODE host:port …".to_owned());
        }
        other => format!("could not connect to {config}: {other}"),
    };
    match refusal::find(config, error).await {
        Refusal::Other => Failure::NotConnected(why),
        refusal => Failure::Refused { why, refusal },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_first_key_says_where_to() {
        assert_eq!(route_of(&words("xread streams {a}1 0")), Route::primary_of("a"));
        assert_eq!(route_of(&words("ssubscribe {a}x")), Route::primary_of("a"));
        assert_eq!(route_of(&words("ping")), Route::Any);
        assert_eq!(route_of(&words("foo")), Route::Any);
    }
}
