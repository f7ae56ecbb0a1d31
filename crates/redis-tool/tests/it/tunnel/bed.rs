//! A tunnel as a process of its own, and a client that sends and reads exactly what a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pilotlight_resp::{Decoder, Frame, Limits, Value, encode};

/// Longer than anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running tunnel. Dropping it kills it.
pub(crate) struct Tunnel {
    child: Child,
    /// Nodes and where they are to be found.
    pub(crate) ports: Vec<(String, SocketAddr)>,
}

impl Tunnel {
    /// Starts it on free ports.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::with(args, &[])
    }

    pub(crate) fn with(args: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"))
            .args(["tunnel", "--listen", "0", "--json", "--threads", "2"])
            .args(args)
            .env_remove("REDISCLI_AUTH")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ports: Vec<_> = line.split("{\"node\":\"").skip(1).map(port).collect();
        if ports.is_empty() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("the tunnel does not listen: {line:?} {said}");
        }
        Self { child, ports }
    }

    /// The only port, or the first.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.ports[0].1
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer::connect(self.addr())
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As Ctrl-C: its exit code, and what it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let killed = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

/// `node","local":"address"}…`
fn port(text: &str) -> (String, SocketAddr) {
    let (node, rest) = text.split_once("\",\"local\":\"").unwrap();
    (node.to_owned(), rest.split('"').next().unwrap().parse().unwrap())
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    decoder: Decoder,
    input: BytesMut,
}

impl Peer {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, decoder: Decoder::new(Limits::default()), input: BytesMut::new() }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn send(&mut self, words: &[&str]) {
        self.write(&encoded(words));
    }

    /// The next reply or push.
    pub(crate) fn frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.input).unwrap() {
                return frame;
            }
            assert!(self.read_more(), "the connection was closed");
        }
    }

    fn read_more(&mut self) -> bool {
        let mut bytes = [0; 65536];
        let read = self.stream.read(&mut bytes).unwrap();
        self.input.extend_from_slice(&bytes[..read]);
        read > 0
    }

    pub(crate) fn reply(&mut self) -> Value {
        match self.frame() {
            Frame::Reply(value) => value,
            Frame::Push(push) => panic!("a push: {push:?}"),
        }
    }

    /// A message, or a confirmation, in either protocol.
    pub(crate) fn push(&mut self) -> Vec<String> {
        match self.frame() {
            Frame::Push(items) | Frame::Reply(Value::Array(items)) => items.iter().map(shown).collect(),
            other => panic!("no push: {other:?}"),
        }
    }

    /// Sends a command and reads its reply.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Value {
        self.send(words);
        self.reply()
    }

    /// The same, as redis-cli would show it on one line.
    pub(crate) fn say(&mut self, words: &[&str]) -> String {
        shown(&self.ask(words))
    }

    /// Whether the other side has closed the connection, once everything it sent was read.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.input.clear();
        while self.read_more() {
            self.input.clear();
        }
        true
    }
}

pub(crate) fn encoded(words: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::command(&mut out, &words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    out
}

pub(crate) fn shown(value: &Value) -> String {
    let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
    let list = |items: &[Value]| format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" "));
    match value {
        Value::Null => "nil".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Simple(bytes) | Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => text(bytes),
        Value::Error(bytes) => format!("-{}", text(bytes)),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => list(items),
        Value::Map(pairs) => {
            let pairs: Vec<String> =
                pairs.iter().map(|(key, value)| format!("{}:{}", shown(key), shown(value))).collect();
            format!("{{{}}}", pairs.join(" "))
        }
        other => format!("{other:?}"),
    }
}

/// Looks until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
