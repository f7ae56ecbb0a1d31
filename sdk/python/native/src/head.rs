//! Heads in bytes (spec §3): strings ended by zero bytes.

use memchr::{memchr, memchr_iter};
use pilotlight_pipe::frame::{FrameHeader, FrameType, HEADER_LEN, MAX_FRAME, flags};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Bytes before the strings of a request's or an answer's head.
const FIXED_BYTES: usize = 8;
const FIXED_STRINGS: usize = 7;

/// A request's head, and the body behind it.
pub(crate) struct Head<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) scheme: &'a [u8],
    pub(crate) authority: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) protocol: &'a [u8],
    pub(crate) peer: &'a [u8],
    pub(crate) id: &'a [u8],
    pub(crate) deadline_ms: u32,
    pub(crate) body: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Head<'a> {
    /// `None` if it is malformed (P-8): the code in Python says how.
    pub(crate) fn parse(payload: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = payload.split_first_chunk::<FIXED_BYTES>()?;
        let [a, b, c, d, e, f, g, h] = *fixed;
        let (block, body) = rest.split_at_checked(u32::from_le_bytes([a, b, c, d]) as usize)?;
        let strings = memchr_iter(0, block).count();
        if block.last() != Some(&0) || strings < FIXED_STRINGS || strings.is_multiple_of(2) {
            return None;
        }
        let mut fields = block;
        let mut next = || take(&mut fields);
        let (method, scheme, authority, target) = (next()?, next()?, next()?, next()?);
        let (protocol, peer, id) = (next()?, next()?, next()?);
        let deadline_ms = u32::from_le_bytes([e, f, g, h]);
        Some(Self { method, scheme, authority, target, protocol, peer, id, deadline_ms, body, fields })
    }

    /// Names and values.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.fields;
        std::iter::from_fn(move || Some((take(&mut rest)?, take(&mut rest)?)))
    }

    /// The target up to the question mark, and what is behind it.
    pub(crate) fn path_and_query(&self) -> (&'a [u8], &'a [u8]) {
        match memchr(b'?', self.target) {
            Some(at) => (&self.target[..at], &self.target[at + 1..]),
            None => (self.target, b""),
        }
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let at = memchr(0, rest)?;
    let (string, behind) = (&rest[..at], &rest[at + 1..]);
    *rest = behind;
    Some(string)
}

/// Percent-decodes; what is no escape stays as it is.
pub(crate) fn unquoted(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let digit = |place: usize| rest.get(at + place).and_then(|byte| char::from(*byte).to_digit(16));
        if let (Some(high), Some(low)) = (digit(1), digit(2)) {
            out.push((high * 16 + low) as u8);
            rest = &rest[at + 3..];
        } else {
            out.push(b'%');
            rest = &rest[at + 1..];
        }
    }
    out.extend_from_slice(rest);
    out
}

/// `name:port` or `[address]:port` taken apart; the port may be missing.
pub(crate) fn host_and_port(text: &[u8]) -> (&[u8], &[u8]) {
    let (host, port) = match memchr::memrchr(b':', text) {
        Some(at) if at + 1 < text.len() && text[at + 1..].iter().all(u8::is_ascii_digit) => {
            (&text[..at], &text[at + 1..])
        }
        _ => (text, &b""[..]),
    };
    let host = host.strip_prefix(b"[").unwrap_or(host);
    (host.strip_suffix(b"]").unwrap_or(host), port)
}

/// Bytes as a str, each byte a character.
pub(crate) fn latin1<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.is_ascii() => PyString::new(py, text),
        _ => PyString::new(py, &bytes.iter().map(|byte| char::from(*byte)).collect::<String>()),
    }
}

/// The fields of an answer as they are collected. P-8 and P-9 are held here.
#[derive(Default)]
pub(crate) struct Block(Vec<u8>);

impl Block {
    /// Whether a field of this name, in lower case, crosses the pipe.
    fn crosses(name: &[u8]) -> bool {
        !matches!(
            name,
            b"connection"
                | b"keep-alive"
                | b"proxy-connection"
                | b"te"
                | b"transfer-encoding"
                | b"upgrade"
                | b"expect"
                | b"host"
        )
    }

    /// Appends a field, its name in lower case.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) -> PyResult<()> {
        let start = self.0.len();
        self.0.extend(name.iter().map(u8::to_ascii_lowercase));
        if !Self::crosses(&self.0[start..]) {
            self.0.truncate(start);
            return Ok(());
        }
        let value_at = self.0.len() + 1;
        self.0.push(0);
        self.0.extend_from_slice(value);
        let is_bad = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n');
        if self.0[start..value_at - 1].iter().any(is_bad) || value.iter().any(is_bad) {
            let shown = String::from_utf8_lossy(&self.0[start..]).into_owned();
            return Err(PyValueError::new_err(format!("P-8: a zero byte, CR or LF in {shown:?}")));
        }
        self.0.push(0);
        Ok(())
    }

    /// Appends a field given as Python's strings, which stand for latin-1.
    pub(crate) fn push_text(&mut self, name: &str, value: &str) -> PyResult<()> {
        match (bytes_of(name)?, bytes_of(value)?) {
            (None, None) => self.push(name.as_bytes(), value.as_bytes()),
            (name_bytes, value_bytes) => self.push(
                name_bytes.as_deref().unwrap_or(name.as_bytes()),
                value_bytes.as_deref().unwrap_or(value.as_bytes()),
            ),
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn size(&self, pieces: &[&[u8]]) -> usize {
        FIXED_BYTES + self.0.len() + pieces.iter().map(|piece| piece.len()).sum::<usize>()
    }

    /// Whether an answer with this body fits one frame.
    pub(crate) fn fits(&self, pieces: &[&[u8]]) -> bool {
        self.size(pieces) <= MAX_FRAME
    }

    /// Appends a whole RESPONSE with END, which fits a frame, to `out`.
    pub(crate) fn answer(&self, out: &mut Vec<u8>, exchange: u16, status: u16, pieces: &[&[u8]]) {
        let length = self.size(pieces);
        let header = FrameHeader { length: length as u32, kind: FrameType::RESPONSE, flags: flags::END, exchange };
        out.reserve(HEADER_LEN + length);
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&(self.0.len() as u32).to_le_bytes());
        out.extend_from_slice(&status.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.0);
        for piece in pieces {
            out.extend_from_slice(piece);
        }
    }
}

/// The latin-1 bytes of a text that is not ASCII, `None` for one that is.
fn bytes_of(text: &str) -> PyResult<Option<Vec<u8>>> {
    if text.is_ascii() {
        return Ok(None);
    }
    let wide = |_| PyValueError::new_err(format!("P-8: {text:?} has characters that are not of latin-1"));
    text.chars().map(|one| u8::try_from(u32::from(one))).collect::<Result<_, _>>().map(Some).map_err(wide)
}
