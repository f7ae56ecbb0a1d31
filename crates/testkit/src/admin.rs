//! A blocking connection over the server's Unix socket, apart from anything under test: it works with TLS, behind
//! faults and at `maxclients`.

use crate::error::Error;
use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A server that is silent for longer is reported, not waited for.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);
/// As the server's own `proto-max-bulk-len`.
const MAX_BULK_BYTES: usize = 512 << 20;
const MAX_ELEMENTS: usize = 1 << 20;

/// A RESP2 reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Null,
    /// A number.
    Integer(i64),
    /// A simple or bulk string.
    Text(Vec<u8>),
    /// An error inside of an array; an error alone is an [`Error::Refused`].
    Error(String),
    /// Replies in order.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text (numbers in decimal); empty for null and arrays.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Null | Self::Array(_) => Cow::Borrowed(""),
            Self::Integer(number) => Cow::Owned(number.to_string()),
            Self::Text(text) => String::from_utf8_lossy(text),
            Self::Error(text) => Cow::Borrowed(text),
        }
    }

    /// The number, also if it came as text.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            Self::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            Self::Null | Self::Error(_) | Self::Array(_) => None,
        }
    }

    /// The elements; none if it is no array.
    pub fn array(&self) -> &[Self] {
        if let Self::Array(elements) = self { elements } else { &[] }
    }
}

#[derive(Debug)]
pub(crate) struct Admin(BufReader<UnixStream>);

impl Admin {
    pub(crate) fn connect(socket: &Path) -> Result<Self, Error> {
        let stream = UnixStream::connect(socket).map_err(Error::io("connecting to the server's Unix socket"))?;
        stream.set_read_timeout(Some(SILENCE_LIMIT)).map_err(Error::io("setting a timeout"))?;
        stream.set_write_timeout(Some(SILENCE_LIMIT)).map_err(Error::io("setting a timeout"))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Whether the server closed it meanwhile.
    pub(crate) fn is_stale(&self) -> bool {
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(self.0.get_ref(), &mut [0_u8; 1], flags);
        peeked != Err(rustix::io::Errno::AGAIN)
    }

    pub(crate) fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Reply, Error> {
        let mut out = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args.iter().map(AsRef::as_ref) {
            out.extend(format!("${}\r\n", arg.len()).into_bytes());
            out.extend(arg);
            out.extend(b"\r\n");
        }
        self.0.get_ref().write_all(&out).map_err(Error::io("sending a command"))?;
        match self.read_reply()? {
            Reply::Error(message) => Err(Error::Refused { command: first_words(args), message }),
            reply => Ok(reply),
        }
    }

    fn read_reply(&mut self) -> Result<Reply, Error> {
        let mut line = String::new();
        self.0.read_line(&mut line).map_err(Error::io("reading a reply"))?;
        let broken = || Error::UnexpectedReply { command: "a command".to_owned(), reply: format!("{line:?}") };
        let content = line.strip_suffix("\r\n").ok_or_else(broken)?;
        let (kind, rest) = content.split_at_checked(1).ok_or_else(broken)?;
        let number = || rest.parse::<i64>().map_err(|_| broken());
        let length = |limit: usize| usize::try_from(number()?).ok().filter(|n| *n <= limit).ok_or_else(broken);
        match kind {
            "+" => Ok(Reply::Text(rest.into())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => number().map(Reply::Integer),
            "$" | "*" if rest == "-1" => Ok(Reply::Null),
            "$" => {
                let mut text = vec![0; length(MAX_BULK_BYTES)? + 2];
                self.0.read_exact(&mut text).map_err(Error::io("reading a reply"))?;
                text.truncate(text.len() - 2);
                Ok(Reply::Text(text))
            }
            "*" => (0..length(MAX_ELEMENTS)?).map(|_| self.read_reply()).collect::<Result<_, _>>().map(Reply::Array),
            _ => Err(broken()),
        }
    }
}

/// What an error calls a command: never its values.
pub(crate) fn first_words<A: AsRef<[u8]>>(args: &[A]) -> String {
    let words: Vec<_> = args.iter().take(2).map(|arg| String::from_utf8_lossy(arg.as_ref())).collect();
    words.join(" ")
}
