//! The load client: blocking, one request after another on one connection, and nothing allocated for a request.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest that a request may take, a start of its service included.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A head and a body must fit.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// Characters of an answer that an error repeats.
const MAX_SAID: usize = 300;

/// Why a request has no answer that counts.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The connection.
    Io(io::Error),
    /// The connection was closed before the end of the answer.
    Closed,
    /// Not an answer that this client can read.
    Unreadable(&'static str),
    /// Another status than 200, and the beginning of what was said with it.
    Status(u16, String),
    /// 200, but with another body than every service here answers.
    OtherBody,
}

impl std::fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                f.write_str("no answer in time")
            }
            Self::Io(e) => write!(f, "connection: {e}"),
            Self::Closed => f.write_str("the connection was closed before the end of the answer"),
            Self::Unreadable(what) => write!(f, "unreadable answer: {what}"),
            Self::Status(status, said) if said.is_empty() => write!(f, "status {status}"),
            Self::Status(status, said) => write!(f, "status {status}: {said}"),
            Self::OtherBody => f.write_str("another body than the service's"),
        }
    }
}

impl std::error::Error for ExchangeError {}

impl From<io::Error> for ExchangeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A client with one connection that it keeps open.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    limit: Duration,
    connection: Option<TcpStream>,
    request: Vec<u8>,
    body: Vec<u8>,
    buffer: Vec<u8>,
    /// Bytes of the last answer's head in `buffer`.
    head: usize,
}

impl Client {
    /// A client for `GET path` at `address`, answered with 200 and `body`.
    #[must_use]
    pub(crate) fn new(address: SocketAddr, path: &str, body: &str) -> Self {
        Self {
            address,
            limit: REQUEST_TIMEOUT,
            connection: None,
            request: format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\n\r\n").into_bytes(),
            body: body.as_bytes().to_vec(),
            buffer: vec![0; MAX_ANSWER_BYTES],
            head: 0,
        }
    }

    /// The same with one more field, `name: value`, in each request.
    pub(crate) fn with_field(mut self, field: &str) -> Self {
        self.request.truncate(self.request.len() - "\r\n".len());
        self.request.extend_from_slice(format!("{field}\r\n\r\n").as_bytes());
        self
    }

    /// The same with less patience: whoever is asked twice need not be waited for as long as a start.
    pub(crate) fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// One request and its whole answer. After an error the next request has a new connection.
    ///
    /// # Errors
    /// There is no answer, or it is not 200 with the right body.
    pub(crate) fn get(&mut self) -> Result<Duration, ExchangeError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let begin = Instant::now();
        connection.write_all(&self.request)?;
        let (parsed, bytes) = read_answer(&mut connection, &mut self.buffer)?;
        let time = begin.elapsed();
        self.head = parsed.head;
        if parsed.keep {
            self.connection = Some(connection);
        }
        match parsed.status {
            200 if self.buffer[parsed.head..bytes] == self.body => Ok(time),
            200 => Err(ExchangeError::OtherBody),
            status => {
                let said = String::from_utf8_lossy(&self.buffer[parsed.head..bytes]);
                Err(ExchangeError::Status(status, said.trim().chars().take(MAX_SAID).collect()))
            }
        }
    }

    /// The value of a field of the last answer, if it is text; the last one, as a gateway's own comes after the
    /// service's.
    pub(crate) fn field(&self, wanted: &str) -> Option<&str> {
        let values = fields(&self.buffer[..self.head]).filter(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()));
        std::str::from_utf8(values.last()?.1).ok()
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let connection = TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT)?;
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(self.limit))?;
        connection.set_write_timeout(Some(self.limit))?;
        Ok(connection)
    }
}

/// What an answer's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Length of the head.
    pub(crate) head: usize,
    body: usize,
    /// Whether the connection may be used again.
    keep: bool,
}

/// Reads one answer to its end and says how many bytes it has.
pub(crate) fn read_answer(from: &mut impl io::Read, buffer: &mut [u8]) -> Result<(Head, usize), ExchangeError> {
    let mut filled = 0;
    let mut known: Option<Head> = None;
    loop {
        if known.is_none() {
            known = parse_head(&buffer[..filled])?;
        }
        if let Some(head) = known {
            let whole = head.head + head.body;
            if whole > buffer.len() {
                return Err(ExchangeError::Unreadable("too long"));
            }
            if filled == whole {
                return Ok((head, whole));
            }
            if filled > whole {
                return Err(ExchangeError::Unreadable("more than its content-length"));
            }
        }
        if filled == buffer.len() {
            return Err(ExchangeError::Unreadable("too long"));
        }
        match from.read(&mut buffer[filled..]) {
            Ok(0) => return Err(ExchangeError::Closed),
            Ok(count) => filled += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// The head, if it is there to its end.
fn parse_head(bytes: &[u8]) -> Result<Option<Head>, ExchangeError> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let status = bytes.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let (Some(status), true) = (status, bytes.starts_with(b"HTTP/1.")) else {
        return Err(ExchangeError::Unreadable("no HTTP/1 status line"));
    };
    let mut length = None;
    let mut keep = bytes.starts_with(b"HTTP/1.1");
    for (name, value) in fields(&bytes[..end]) {
        if name.eq_ignore_ascii_case(b"content-length") {
            length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        } else if name.eq_ignore_ascii_case(b"connection") {
            keep &= !value.eq_ignore_ascii_case(b"close");
        }
    }
    let body = length.ok_or(ExchangeError::Unreadable("no content-length"))?;
    Ok(Some(Head { status, head: end + 4, body, keep }))
}

/// Names and values of a head's fields.
fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Cache: HIT, here\r\n\r\nabc";

    /// Gives out its pieces one at a time.
    struct Pieces<'a>(Vec<&'a [u8]>);

    impl io::Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn an_answer_is_read_however_it_comes() {
        let wanted = Head { status: 200, head: OK.len() - 3, body: 3, keep: true };
        for cut in 1..OK.len() {
            let mut pieces = Pieces(vec![&OK[..cut], &OK[cut..]]);
            let (head, bytes) = read_answer(&mut pieces, &mut [0; 256]).expect("an answer");
            assert_eq!((head, bytes), (wanted, OK.len()), "cut at {cut}");
        }
    }

    #[track_caller]
    fn refused(answer: &[u8], what: &str) {
        let error = read_answer(&mut Pieces(vec![answer]), &mut [0; 64]).expect_err("not an answer");
        assert!(error.to_string().contains(what), "{error} where {what} was due");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        refused(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "closed");
        refused(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", "content-length");
        refused(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "no content-length");
        refused(b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n", "too long");
        refused(&[b'x'; 64], "too long");
        refused(b"SSH-2.0-x: 200\r\n\r\n", "status line");
    }

    #[test]
    fn a_field_is_added_before_the_end_of_the_head() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let client = Client::new(address, "/", "").with_field("a: b");
        assert_eq!(client.request, b"GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAccept: */*\r\na: b\r\n\r\n");
    }

    #[test]
    fn a_closed_connection_is_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = std::thread::spawn(move || {
            for answer in [OK, b"HTTP/1.1 503 No\r\nContent-Length: 5\r\nConnection: close\r\n\r\nbusy\n", OK] {
                let (mut socket, _) = listener.accept().expect("a client");
                let count = socket.read(&mut [0; 1024]).expect("a request");
                assert!(count > 0);
                socket.write_all(answer).expect("the answer is taken");
                // the second answer says that it closes; the others just do
            }
        });
        let mut client = Client::new(address, "/", "abc");
        client.get().expect("the first");
        assert_eq!((client.field("x-cache"), client.field("x-other")), (Some("HIT, here"), None));
        client.connection = None;
        assert_eq!(client.get().expect_err("not 200").to_string(), "status 503: busy");
        client.get().expect("on a new connection");
        server.join().expect("the server is done");
    }
}
