//! What a peer does, what callers do, and what comes of it.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_redis::config::{Backoff, BoxFuture, ByteStream, Connector, NodeAddress, Probe};
use pilotlight_redis::{Client, Command, Commands, Config, Error, ErrorKind, LaneStats, Ran, Snapshot, Value};
use pilotlight_testkit::{Handshake, Script, ScriptedServer, Signal};

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Where a scenario is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    Tcp,
    Unix,
}

/// See the module.
pub(crate) struct Scenario {
    script: Script,
    handshake: Handshake,
    config: Config,
    acts: Vec<Act>,
}

enum Act {
    Start(Caller),
    When(Signal),
    Raise(Signal),
    Drop(String),
    Settle(String),
    /// Waits, while nobody looks at replies.
    Until(fn(&Snapshot) -> bool),
    NothingBehind(&'static str),
    Pause,
}

/// One caller: what it asks for, and what it is to get.
pub(crate) struct Caller {
    name: String,
    /// A name and its arguments each.
    commands: Vec<Words>,
    is_pipeline: bool,
    timeout: Option<Duration>,
    is_retryable: bool,
    expected: Vec<Expected>,
}

type Words = (&'static str, Vec<Bytes>);

#[derive(Debug, Clone)]
pub(crate) enum Expected {
    Value(Value),
    Fails(Ran, Kind),
    /// Either, as it happens.
    ValueOr(Value, Kind),
}

/// The name of an [`ErrorKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Server,
    Protocol,
    Connect,
    Rejected,
    Connection,
    Timeout,
    Overloaded,
    Closed,
    Other,
}

impl From<&ErrorKind> for Kind {
    fn from(kind: &ErrorKind) -> Self {
        match kind {
            ErrorKind::Server(_) => Self::Server,
            ErrorKind::Protocol(_) => Self::Protocol,
            ErrorKind::Connect(_) => Self::Connect,
            ErrorKind::Rejected(_) => Self::Rejected,
            ErrorKind::Connection(_) => Self::Connection,
            ErrorKind::Timeout(_) => Self::Timeout,
            ErrorKind::Overloaded { .. } => Self::Overloaded,
            ErrorKind::Closed => Self::Closed,
            _ => Self::Other,
        }
    }
}

/// The reply that carries its command's key.
pub(crate) fn own(key: &str) -> Vec<u8> {
    let value = format!("value-of-{key}");
    format!("${}\r\n{value}\r\n", value.len()).into_bytes()
}

fn own_value(key: &str) -> Value {
    Value::Bulk(Bytes::from(format!("value-of-{key}")))
}

/// A caller of `GETDEL key`, which is not repeated, and expects its own reply.
pub(crate) fn take(key: &str) -> Caller {
    asks(key, "GETDEL", &[key])
}

/// A caller of `GET key`, which may be repeated.
pub(crate) fn get(key: &str) -> Caller {
    asks(key, "GET", &[key])
}

/// A caller of any command.
pub(crate) fn asks(name: &str, command: &'static str, args: &[&str]) -> Caller {
    asks_shared(name, command, args.iter().map(|arg| Bytes::copy_from_slice(arg.as_bytes())).collect())
}

/// The same, with shared arguments.
pub(crate) fn asks_shared(name: &str, command: &'static str, args: Vec<Bytes>) -> Caller {
    Caller {
        name: name.to_owned(),
        commands: vec![(command, args)],
        is_pipeline: false,
        timeout: None,
        is_retryable: false,
        expected: vec![Expected::Value(own_value(name))],
    }
}

/// A caller of a pipeline of `GETDEL`.
pub(crate) fn pipeline(name: &str, keys: &[&str]) -> Caller {
    let commands = keys.iter().map(|key| ("GETDEL", vec![Bytes::copy_from_slice(key.as_bytes())])).collect();
    let expected = keys.iter().map(|key| Expected::Value(own_value(key))).collect();
    Caller { commands, is_pipeline: true, expected, ..asks(name, "PING", &[]) }
}

impl Caller {
    pub(crate) fn fails(mut self, ran: Ran, kind: Kind) -> Self {
        self.expected = vec![Expected::Fails(ran, kind); self.commands.len()];
        self
    }

    /// Of a pipeline, the commands at these places fail.
    pub(crate) fn fails_at(mut self, places: std::ops::Range<usize>, ran: Ran, kind: Kind) -> Self {
        self.expected[places].fill(Expected::Fails(ran, kind));
        self
    }

    /// Of a pipeline, whether the command at this place gets its reply is up to the network.
    pub(crate) fn or_fails_at(mut self, place: usize, kind: Kind) -> Self {
        if let Expected::Value(value) = &self.expected[place] {
            self.expected[place] = Expected::ValueOr(value.clone(), kind);
        }
        self
    }

    /// The same pipeline with another command at this place.
    pub(crate) fn with(mut self, place: usize, mut other: Self) -> Self {
        self.commands[place] = other.commands.remove(0);
        self.expected[place] = other.expected.remove(0);
        self
    }

    pub(crate) fn gets(mut self, value: Value) -> Self {
        self.expected = vec![Expected::Value(value)];
        self
    }

    pub(crate) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    pub(crate) fn retryable(mut self) -> Self {
        self.is_retryable = true;
        self
    }
}

impl Scenario {
    pub(crate) fn new(script: Script) -> Self {
        let config = Config {
            reconnect: Backoff { min: Duration::from_millis(1), max: Duration::from_millis(20), factor: 2.0 },
            probe: Probe { idle_ping: None, stall: None },
            // Those that are about deadlines set their own.
            command_timeout: Some(PATIENCE),
            ..Config::default()
        };
        Self { script, handshake: Handshake::default(), config, acts: Vec::new() }
    }

    pub(crate) fn handshake(mut self, handshake: Handshake) -> Self {
        self.handshake = handshake;
        self
    }

    pub(crate) fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// A caller comes.
    pub(crate) fn start(self, caller: Caller) -> Self {
        self.act(Act::Start(caller))
    }

    /// There is a connection before anything else is asked for, as [`begun`] has it: deadlines of a few milliseconds
    /// are not for connecting.
    pub(crate) fn connects(self) -> Self {
        self.start(take("first")).settle("first")
    }

    /// Callers wait for their replies until then.
    pub(crate) fn when(self, signal: &Signal) -> Self {
        self.act(Act::When(signal.clone()))
    }

    pub(crate) fn raise(self, signal: &Signal) -> Self {
        self.act(Act::Raise(signal.clone()))
    }

    /// A caller drops its future.
    pub(crate) fn drop(self, name: &str) -> Self {
        self.act(Act::Drop(name.to_owned()))
    }

    /// A caller's outcome is awaited now, not at the end.
    pub(crate) fn settle(self, name: &str) -> Self {
        self.act(Act::Settle(name.to_owned()))
    }

    /// All replies have come, and nobody has looked at them.
    pub(crate) fn unfetched(self) -> Self {
        self.act(Act::Until(|lane| lane.queued == 0 && lane.in_flight == 0))
    }

    /// The driver has all commands, and writes them.
    pub(crate) fn taken(self) -> Self {
        self.act(Act::Until(|lane| lane.queued == 0))
    }

    /// The client has noticed that the first connection is lost.
    pub(crate) fn lost(self) -> Self {
        self.act(Act::Until(|lane| lane.counters.disconnects > 0))
    }

    /// The client has a connection.
    pub(crate) fn connected(self) -> Self {
        self.act(Act::Until(|lane| lane.is_connected))
    }

    /// The replies that were sent have come, and callers have done what follows from them.
    pub(crate) fn told(self) -> Self {
        self.act(Act::Pause)
    }

    /// A deadline has passed.
    pub(crate) fn timed_out(self) -> Self {
        self.act(Act::Until(|lane| lane.counters.timeouts > 0))
    }

    /// Nothing came behind the last command, though there was time for it.
    pub(crate) fn nothing_behind(self, command: &'static str) -> Self {
        self.act(Act::NothingBehind(command))
    }

    fn act(mut self, act: Act) -> Self {
        self.acts.push(act);
        self
    }

    pub(crate) async fn play(self, place: Place) {
        let name = format!("{place:?}");
        let Self { script, handshake, mut config, acts } = self;
        let server = serve(place, script, handshake, &mut config).await;
        let mut stage =
            Stage { server: Arc::clone(&server), client: Client::new(config).unwrap(), running: Vec::new(), name };
        for act in acts {
            stage.act(act).await;
        }
        let names: Vec<_> = stage.running.iter().map(|running| running.name.clone()).collect();
        for name in names {
            stage.settle(&name).await;
        }
        let after = tokio::time::timeout(PATIENCE, stage.client.get("after")).await.expect("the client goes on");
        assert_eq!(after.unwrap().as_deref(), Some(&b"value-of-after"[..]), "{}", stage.name);
        calm(&stage.client).await;
        server.finish().await.unwrap_or_else(|error| panic!("{}: {error}", stage.name));
    }
}

/// A server, and the configuration that leads there.
pub(crate) async fn serve(
    place: Place,
    script: Script,
    handshake: Handshake,
    config: &mut Config,
) -> Arc<ScriptedServer> {
    let builder = ScriptedServer::builder().handshake(handshake);
    let builder = match place {
        Place::Memory => builder.memory(),
        Place::Tcp => builder,
        Place::Unix => builder.unix(),
    };
    let server = Arc::new(builder.play(script).await.unwrap());
    match place {
        Place::Memory => config.connector = Some(Arc::new(InMemory(Arc::clone(&server)))),
        Place::Tcp => config.servers = vec![NodeAddress::tcp("127.0.0.1", server.port())],
        Place::Unix => config.servers = vec![NodeAddress::unix(server.unix_path().unwrap())],
    }
    server
}

/// Plays a scenario in memory, over TCP and over a Unix socket.
pub(crate) async fn everywhere(scenario: impl Fn() -> Scenario) {
    for place in [Place::Memory, Place::Tcp, Place::Unix] {
        scenario().play(place).await;
    }
}

/// Waits until nothing is accounted for in any lane.
pub(crate) async fn calm(client: &Client) {
    let is_calm = |lane: &LaneStats| {
        lane.snapshot.cells_in_use == 0 && lane.snapshot.budget_used_bytes == 0 && lane.snapshot.queued == 0
    };
    let begin = Instant::now();
    while !client.stats().lanes.iter().all(is_calm) {
        assert!(begin.elapsed() < PATIENCE, "something is left over: {:?}", client.stats());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Connections to a scripted server in memory.
pub(crate) struct InMemory(pub(crate) Arc<ScriptedServer>);

impl Connector for InMemory {
    fn connect<'a>(&'a self, _: &'a NodeAddress) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async { self.0.dial().map(|stream| Box::new(stream) as Box<dyn ByteStream>) })
    }
}

type Outcomes = Vec<Result<Value, Error>>;

struct Stage {
    server: Arc<ScriptedServer>,
    client: Client,
    running: Vec<Running>,
    name: String,
}

struct Running {
    name: String,
    future: Option<Pin<Box<dyn Future<Output = Outcomes> + Send>>>,
    outcomes: Option<Outcomes>,
    expected: Vec<Expected>,
}

impl Stage {
    async fn act(&mut self, act: Act) {
        match act {
            Act::Start(caller) => {
                self.running.push(start(self.client.clone(), caller));
                self.poll_once().await;
            }
            Act::When(signal) => self.drive(signal.wait()).await,
            Act::Raise(signal) => signal.raise(),
            Act::Drop(name) => {
                let at = self.find(&name);
                let running = self.running.remove(at);
                assert!(running.outcomes.is_none(), "{}: {name} has its outcome already", self.name);
            }
            Act::Settle(name) => self.settle(&name).await,
            // What follows within the client is not to be seen from outside.
            Act::Pause => self.drive(tokio::time::sleep(Duration::from_millis(30))).await,
            Act::NothingBehind(command) => {
                // That nothing happens takes time to see.
                tokio::time::sleep(Duration::from_millis(20)).await;
                let last = self.server.commands().pop().expect("a command came");
                assert_eq!(String::from_utf8_lossy(&last.words[0]), command, "{}", self.name);
            }
            Act::Until(is_so) => {
                let seen = async {
                    while !self.client.stats().lanes.iter().all(|lane| is_so(&lane.snapshot)) {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                };
                tokio::time::timeout(PATIENCE, seen).await.unwrap_or_else(|_| panic!("{:?}", self.client.stats()));
            }
        }
    }

    fn find(&self, name: &str) -> usize {
        self.running.iter().position(|running| running.name == name).expect("this caller runs")
    }

    async fn settle(&mut self, name: &str) {
        let at = self.find(name);
        let arrived = async {
            poll_fn(|cx| {
                self.running.iter_mut().for_each(|running| running.poll(cx));
                if self.running[at].outcomes.is_some() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        };
        let is_settled = tokio::time::timeout(PATIENCE, arrived).await.is_ok();
        assert!(is_settled, "{}: {name} waits for ever: {:?}", self.name, self.client.stats());
        let running = self.running.remove(at);
        running.judge(|| {
            let heard = self.server.commands();
            let heard: Vec<_> = heard.iter().map(|it| (it.connection, it.words.join(&b' '))).collect();
            let heard =
                heard.iter().map(|(connection, words)| format!("{connection}: {}", String::from_utf8_lossy(words)));
            format!("{} (heard {:?})", self.name, heard.collect::<Vec<_>>())
        });
    }

    async fn poll_once(&mut self) {
        poll_fn(|cx| {
            self.running.iter_mut().for_each(|running| running.poll(cx));
            Poll::Ready(())
        })
        .await;
    }

    /// Callers wait until then.
    async fn drive(&mut self, until: impl Future<Output = ()>) {
        let mut until = pin!(until);
        let driven = poll_fn(|cx| {
            self.running.iter_mut().for_each(|running| running.poll(cx));
            until.as_mut().poll(cx)
        });
        tokio::time::timeout(PATIENCE, driven).await.expect("the script gets there");
    }
}

impl Running {
    fn poll(&mut self, cx: &mut std::task::Context<'_>) {
        if let Some(future) = &mut self.future
            && let Poll::Ready(outcomes) = future.as_mut().poll(cx)
        {
            self.future = None;
            self.outcomes = Some(outcomes);
        }
    }

    /// `place`: where, and what was heard there, for who reads of a failure.
    fn judge(self, place: impl Fn() -> String) {
        let Self { name, outcomes, expected, .. } = self;
        let outcomes = outcomes.expect("it is settled");
        assert_eq!(outcomes.len(), expected.len(), "{}: {name}", place());
        for (at, (outcome, expected)) in outcomes.into_iter().zip(expected).enumerate() {
            match (&outcome, &expected) {
                (Ok(value), Expected::Value(wanted)) if value == wanted => {}
                (Ok(value), Expected::ValueOr(wanted, _)) if value == wanted => {}
                (Err(error), Expected::ValueOr(_, kind)) if Kind::from(error.kind()) == *kind => {}
                (Err(error), Expected::Fails(ran, kind))
                    if error.ran() == *ran && Kind::from(error.kind()) == *kind => {}
                _ => panic!("{}: {name}.{at} expected {expected:?} and got {outcome:?}", place()),
            }
        }
    }
}

fn start(client: Client, caller: Caller) -> Running {
    let Caller { name, commands, is_pipeline, timeout, is_retryable, expected } = caller;
    let future: Pin<Box<dyn Future<Output = Outcomes> + Send>> = if is_pipeline {
        Box::pin(async move {
            let mut pipeline = client.pipeline();
            for command in &commands {
                let _ = (&mut pipeline).run::<Value>(built(command));
            }
            if let Some(timeout) = timeout {
                pipeline = pipeline.timeout(timeout);
            }
            if is_retryable {
                pipeline = pipeline.retryable();
            }
            pipeline.run().await.unwrap().into_values().collect()
        })
    } else {
        Box::pin(async move {
            let mut call = client.run::<Value>(built(&commands[0]));
            if let Some(timeout) = timeout {
                call = call.timeout(timeout);
            }
            if is_retryable {
                call = call.retryable();
            }
            vec![call.await]
        })
    };
    Running { name, future: Some(future), outcomes: None, expected }
}

fn built((name, args): &Words) -> Command<'_> {
    Command::raw(name).args(args)
}

/// The beginning of a script for [`Scenario::connects`].
pub(crate) fn begun() -> Script {
    Script::new().answers("first")
}

/// What scripts here are made of.
pub(crate) trait ScriptExt: Sized {
    /// `GETDEL key` comes.
    fn takes(self, key: &str) -> Self;
    /// It is answered.
    fn gives(self, key: &str) -> Self;
    /// Both.
    fn answers(self, key: &str) -> Self;
    /// The command that shows that the client goes on working.
    fn after(self) -> Self;
}

impl ScriptExt for Script {
    fn takes(self, key: &str) -> Self {
        self.expect(["GETDEL", key])
    }

    fn gives(self, key: &str) -> Self {
        self.send(own(key))
    }

    fn answers(self, key: &str) -> Self {
        self.takes(key).gives(key)
    }

    fn after(self) -> Self {
        self.expect(["GET", "after"]).send(own("after"))
    }
}
