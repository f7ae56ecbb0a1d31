//! HTTP/1.1 to the admin socket: one request on each connection, answers whole or as they come.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pilotlight_printable::printable;
use serde_json::{Value, json};

use crate::config::commands::Outcome;
use crate::presence::Record;

/// How long the gateway may take to answer; output that is followed has no such time.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a whole answer: far more than 4096 services need.
const MAX_ANSWER: u64 = 256 * 1024 * 1024;
/// Bytes of a line of an answer's head.
const MAX_LINE: u64 = 64 * 1024;

/// Why a command did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No gateway answers, or none is meant.
    #[error("{0}")]
    NoGateway(String),
    /// The gateway did not answer as it should.
    #[error("the gateway at {} did not answer: {cause}; look at its log", socket.display())]
    Broken {
        /// Its socket.
        socket: PathBuf,
        /// What happened.
        cause: io::Error,
    },
    /// The gateway refused.
    #[error("{detail}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it says.
        detail: String,
    },
    /// The service did not do what it was told.
    #[error("service {0}: {1}")]
    Service(String, String),
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            // It was asked for what is not there, or in words that mean nothing.
            Self::Refused { status: 400 | 404 | 422, .. } => Outcome::Misconfigured,
            _ => Outcome::Failed,
        }
    }
}

/// Which gateway: what people tell them apart by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gateway {
    /// Its configuration file.
    config: String,
    pid: u64,
}

impl Gateway {
    /// As its status says.
    pub(super) fn from_answer(gateway: &Value) -> Self {
        let config = gateway["config"].as_str().unwrap_or_default().to_owned();
        Self { config, pid: gateway["pid"].as_u64().unwrap_or_default() }
    }

    pub(super) fn with_pid(&self, pid: u64) -> Self {
        Self { pid, ..self.clone() }
    }

    pub(super) fn is_of(&self, file: &Path) -> bool {
        let config = Path::new(&self.config);
        let meant = |path: &Path| path.canonicalize().ok();
        config == file || meant(config).is_some_and(|known| Some(known) == meant(file))
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "config": self.config, "pid": self.pid })
    }
}

impl From<&Record> for Gateway {
    fn from(record: &Record) -> Self {
        Self { config: record.config.to_string_lossy().into_owned(), pid: record.pid.into() }
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", printable(&self.config), self.pid)
    }
}

/// A way to a gateway.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    gateway: Gateway,
    served_by: ServedBy,
}

/// Whose gateway is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServedBy {
    /// Whoever listens on the socket that a person has named.
    Anybody,
    /// This user, or root: the socket was found.
    ThisUser,
}

impl Client {
    pub(super) fn new(socket: &Path, gateway: Gateway) -> Self {
        Self { socket: socket.to_owned(), gateway, served_by: ServedBy::Anybody }
    }

    /// Speaks to nobody but this user and root.
    pub(super) fn of_this_user(socket: &Path, gateway: Gateway) -> Self {
        Self { socket: socket.to_owned(), gateway, served_by: ServedBy::ThisUser }
    }

    pub(super) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    pub(super) fn get(&self, target: &str) -> Result<Value, Failure> {
        self.whole(Request::get(target), TIMEOUT)
    }

    /// What may take longer.
    pub(super) fn order(&self, target: &str, body: Option<&Value>, timeout: Duration) -> Result<Value, Failure> {
        self.whole(Request { method: "POST", target, body }, timeout)
    }

    pub(super) fn post(&self, target: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.order(target, body, TIMEOUT)
    }

    /// An answer's body as it comes.
    pub(super) fn stream(&self, target: &str) -> Result<impl Read + use<>, Failure> {
        let body = self.send(Request::get(target), TIMEOUT)?;
        body.get_ref().set_read_timeout(None).map_err(|cause| self.broken(cause))?;
        Ok(body)
    }

    /// A connection to the socket.
    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket)?;
        if self.served_by == ServedBy::ThisUser {
            check_listener(&stream)?;
        }
        Ok(stream)
    }

    pub(super) fn broken(&self, cause: io::Error) -> Failure {
        Failure::Broken { socket: self.socket.clone(), cause }
    }

    fn whole(&self, request: Request<'_>, timeout: Duration) -> Result<Value, Failure> {
        let mut text = String::new();
        let read = self.send(request, timeout)?.take(MAX_ANSWER).read_to_string(&mut text);
        read.map_err(|cause| self.broken(cause))?;
        serde_json::from_str(&text).map_err(|e| self.broken(io::Error::other(e)))
    }

    /// The body of a successful answer.
    fn send(&self, Request { method, target, body }: Request<'_>, timeout: Duration) -> Result<Body, Failure> {
        let failed = |cause| self.broken(cause);
        let mut stream = self.connect().map_err(failed)?;
        stream.set_read_timeout(Some(timeout)).map_err(failed)?;
        stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = body.len();
        let text = format!(
            "{method} {target} HTTP/1.1\r\nhost: pilotlight\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        match stream.write_all(text.as_bytes()) {
            // It has answered before it has read all, and the answer says why.
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.map_err(failed)?,
        }
        let mut stream = BufReader::new(stream);
        let (status, framing) = head(&mut stream).map_err(failed)?;
        let mut body = Body { stream, framing, left: 0 };
        if (200..300).contains(&status) {
            return Ok(body);
        }
        let mut text = String::new();
        body.by_ref().take(MAX_LINE).read_to_string(&mut text).map_err(failed)?;
        let detail =
            serde_json::from_str::<Value>(&text).ok().and_then(|value| Some(value["detail"].as_str()?.to_owned()));
        Err(Failure::Refused { status, detail: detail.unwrap_or_else(|| format!("the gateway answered {status}")) })
    }
}

/// What the gateway is asked.
#[derive(Clone, Copy)]
struct Request<'a> {
    method: &'a str,
    target: &'a str,
    body: Option<&'a Value>,
}

impl<'a> Request<'a> {
    fn get(target: &'a str) -> Self {
        Self { method: "GET", target, body: None }
    }
}

/// Whether this user or root listens at the other end.
fn check_listener(stream: &UnixStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let uid = rustix::net::sockopt::socket_peercred(stream)?.uid;
        if !uid.is_root() && uid != rustix::process::geteuid() {
            let why = format!("user id {} listens on it", uid.as_raw());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream; // its folder was looked at
    Ok(())
}

/// How it is known where a body ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Chunked,
    Close,
    Ended,
}

fn head(stream: &mut BufReader<UnixStream>) -> io::Result<(u16, Framing)> {
    let status = line(stream)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("what answered does not speak HTTP"))?;
    let mut framing = Framing::Close; // `connection: close` was asked for
    loop {
        let field = line(stream)?.to_ascii_lowercase();
        match field.split_once(':') {
            _ if field.is_empty() => return Ok((status, framing)),
            Some(("transfer-encoding", value)) if value.trim() == "chunked" => framing = Framing::Chunked,
            _ => {}
        }
    }
}

fn line(stream: &mut BufReader<UnixStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.take(MAX_LINE).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

struct Body {
    stream: BufReader<UnixStream>,
    framing: Framing,
    /// Of the chunk.
    left: u64,
}

impl Body {
    fn get_ref(&self) -> &UnixStream {
        self.stream.get_ref()
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.framing {
            Framing::Ended => return Ok(0),
            Framing::Close => return self.stream.read(buffer),
            Framing::Chunked => {}
        }
        if self.left == 0 {
            let size = line(&mut self.stream)?;
            let malformed = |_| io::Error::other("the gateway's answer is malformed");
            self.left = u64::from_str_radix(size.split(';').next().unwrap_or_default(), 16).map_err(malformed)?;
            if self.left == 0 {
                self.framing = Framing::Ended;
                return Ok(0);
            }
        }
        let read = (&mut self.stream).take(self.left).read(buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        if self.left == 0 {
            line(&mut self.stream)?; // the end of the chunk
        }
        Ok(read)
    }
}

/// As a part of a target.
pub(super) fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(one).collect()
}
