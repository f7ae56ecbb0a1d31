//! The grammar once more, as simply as it can be written: recursive, on a whole slice, without limits.

use bytes::Bytes;
use pilotlight_resp::{Attributed, Frame, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Incomplete,
    Malformed,
}

/// The frames of a stream, and why it stopped unless it ends between two frames.
pub(crate) fn parse(stream: &[u8]) -> (Vec<Frame>, Result<(), Stop>) {
    let mut parser = Parser { rest: stream, frames: Vec::new() };
    let end = parser.stream();
    (parser.frames, end)
}

struct Parser<'a> {
    rest: &'a [u8],
    frames: Vec<Frame>,
}

/// How many elements an aggregate has.
#[derive(Clone, Copy)]
enum Count {
    Null,
    Known(u64),
    Streamed,
}

impl<'a> Parser<'a> {
    fn stream(&mut self) -> Result<(), Stop> {
        while let Some(first) = self.rest.first() {
            if *first == b'>' {
                self.push()?;
            } else {
                let value = self.value()?;
                self.frames.push(Frame::Reply(value));
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value, Stop> {
        while self.peek()? == b'>' {
            self.push()?;
        }
        let kind = self.take(1)?[0];
        Ok(match kind {
            b'_' => match self.line()? {
                [] => Value::Null,
                _ => return Err(Stop::Malformed),
            },
            b':' => Value::Integer(integer(self.line()?)?),
            b'#' => match self.line()? {
                b"t" => Value::Boolean(true),
                b"f" => Value::Boolean(false),
                _ => return Err(Stop::Malformed),
            },
            b',' => Value::Double(double(self.line()?)?),
            b'(' => Value::BigNumber(owned(big_number(self.line()?)?)),
            b'+' => Value::Simple(owned(self.line()?)),
            b'-' => Value::Error(owned(self.line()?)),
            b'$' => match self.count()? {
                Count::Null => Value::Null,
                Count::Known(len) => Value::Bulk(owned(self.body(len)?)),
                Count::Streamed => Value::Bulk(self.chunks()?),
            },
            b'!' => Value::Error(owned(self.blob()?)),
            b'=' => match self.blob()? {
                [a, b, c, b':', text @ ..] => Value::Verbatim { format: [*a, *b, *c], text: owned(text) },
                _ => return Err(Stop::Malformed),
            },
            b'*' => match self.count()? {
                Count::Null => Value::Null,
                count => Value::Array(self.items(count)?),
            },
            b'~' => match self.count()? {
                Count::Null => return Err(Stop::Malformed),
                count => Value::Set(self.items(count)?),
            },
            b'%' => match self.count()? {
                Count::Null => return Err(Stop::Malformed),
                count => Value::Map(self.pairs(count)?),
            },
            b'|' => {
                let Count::Known(n) = self.count()? else { return Err(Stop::Malformed) };
                let attributes = self.pairs(Count::Known(n))?;
                Value::Attributed(Box::new(Attributed { attributes, value: self.value()? }))
            }
            // The end of what did not begin: known as such when its line is whole.
            b'.' => {
                self.line()?;
                return Err(Stop::Malformed);
            }
            _ => return Err(Stop::Malformed),
        })
    }

    fn push(&mut self) -> Result<(), Stop> {
        self.take(1)?;
        let Count::Known(n) = self.count()? else { return Err(Stop::Malformed) };
        let items = self.items(Count::Known(n))?;
        self.frames.push(Frame::Push(items));
        Ok(())
    }

    fn items(&mut self, count: Count) -> Result<Vec<Value>, Stop> {
        let mut items = Vec::new();
        while self.goes_on(count, items.len())? {
            items.push(self.value()?);
        }
        Ok(items)
    }

    fn pairs(&mut self, count: Count) -> Result<Vec<(Value, Value)>, Stop> {
        let mut pairs = Vec::new();
        while self.goes_on(count, pairs.len())? {
            pairs.push((self.value()?, self.value()?));
        }
        Ok(pairs)
    }

    fn goes_on(&mut self, count: Count, have: usize) -> Result<bool, Stop> {
        match count {
            Count::Null => Ok(false),
            Count::Known(n) => Ok((have as u64) < n),
            Count::Streamed => {
                while self.peek()? == b'>' {
                    self.push()?;
                }
                if self.peek()? != b'.' {
                    return Ok(true);
                }
                self.take(1)?;
                if self.line()?.is_empty() { Ok(false) } else { Err(Stop::Malformed) }
            }
        }
    }

    fn chunks(&mut self) -> Result<Bytes, Stop> {
        let mut text = Vec::new();
        loop {
            if self.take(1)? != b";" {
                return Err(Stop::Malformed);
            }
            match digits(self.line()?)? {
                0 => return Ok(text.into()),
                len => text.extend_from_slice(self.body(len)?),
            }
        }
    }

    fn blob(&mut self) -> Result<&'a [u8], Stop> {
        let len = digits(self.line()?)?;
        self.body(len)
    }

    fn body(&mut self, len: u64) -> Result<&'a [u8], Stop> {
        let len = usize::try_from(len).map_err(|_| Stop::Incomplete)?;
        let data = self.take(len)?;
        if self.take(2)? == b"\r\n" { Ok(data) } else { Err(Stop::Malformed) }
    }

    fn count(&mut self) -> Result<Count, Stop> {
        match self.line()? {
            b"-1" => Ok(Count::Null),
            b"?" => Ok(Count::Streamed),
            text => Ok(Count::Known(digits(text)?)),
        }
    }

    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let end = self.rest.iter().position(|byte| *byte == b'\r' || *byte == b'\n').ok_or(Stop::Incomplete)?;
        let line = self.take(end)?;
        if self.peek()? == b'\n' || self.take(2)? != b"\r\n" { Err(Stop::Malformed) } else { Ok(line) }
    }

    fn peek(&self) -> Result<u8, Stop> {
        self.rest.first().copied().ok_or(Stop::Incomplete)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Stop> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(Stop::Incomplete)?;
        self.rest = rest;
        Ok(taken)
    }
}

fn owned(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn text(bytes: &[u8]) -> Result<&str, Stop> {
    std::str::from_utf8(bytes).map_err(|_| Stop::Malformed)
}

fn digits(bytes: &[u8]) -> Result<u64, Stop> {
    if bytes.is_empty() || bytes.len() > 19 || !bytes.iter().all(u8::is_ascii_digit) {
        return Err(Stop::Malformed);
    }
    text(bytes)?.parse().map_err(|_| Stop::Malformed)
}

fn integer(bytes: &[u8]) -> Result<i64, Stop> {
    digits(bytes.strip_prefix(b"-").or(bytes.strip_prefix(b"+")).unwrap_or(bytes))?;
    text(bytes)?.parse().map_err(|_| Stop::Malformed)
}

fn big_number(bytes: &[u8]) -> Result<&[u8], Stop> {
    let unsigned = bytes.strip_prefix(b"-").or(bytes.strip_prefix(b"+")).unwrap_or(bytes);
    if !unsigned.is_empty() && unsigned.iter().all(u8::is_ascii_digit) { Ok(bytes) } else { Err(Stop::Malformed) }
}

fn double(bytes: &[u8]) -> Result<f64, Stop> {
    let is_word = matches!(bytes, b"inf" | b"+inf" | b"-inf" | b"nan" | b"+nan" | b"-nan");
    if !is_word && bytes.iter().any(|byte| !b"0123456789+-.eE".contains(byte)) {
        return Err(Stop::Malformed);
    }
    text(bytes)?.parse().map_err(|_| Stop::Malformed)
}
