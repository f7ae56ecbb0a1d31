//! A JSON string, decoded as it arrives, or only brought to its end.

/// Bytes of a value that is given out; of a longer one it is only known that it is longer.
pub const MAX_VALUE: usize = 1024;

/// A string that is being read, behind its opening quote.
#[derive(Debug)]
pub(crate) struct Text {
    kept: Vec<u8>,
    /// More is not kept.
    max: usize,
    is_longer: bool,
    escape: Escape,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    No,
    /// Behind a backslash.
    Begun,
    /// Behind `\u` and so many of four digits.
    Unicode {
        digits: u8,
        value: u16,
    },
}

/// What a byte was to a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Inside,
    /// The closing quote.
    End,
    Wrong,
}

impl Text {
    /// One that is kept up to so many bytes.
    pub(crate) fn kept(max: usize) -> Self {
        Self { kept: Vec::new(), max, is_longer: false, escape: Escape::No, high: None }
    }

    /// One of which only the end counts.
    pub(crate) fn skipped() -> Self {
        Self::kept(0)
    }

    pub(crate) fn step(&mut self, byte: u8) -> Step {
        match self.escape {
            Escape::No => self.plain(byte),
            Escape::Begun => self.escaped(byte),
            Escape::Unicode { digits, value } => self.digit(byte, digits, value),
        }
    }

    /// The text; `None` if it is longer than what is kept.
    ///
    /// # Errors
    /// It is no UTF-8.
    pub(crate) fn finish(self) -> Result<Option<String>, ()> {
        if self.is_longer {
            return Ok(None);
        }
        String::from_utf8(self.kept).map(Some).map_err(|_| ())
    }

    fn plain(&mut self, byte: u8) -> Step {
        if self.high.is_some() && byte != b'\\' {
            return Step::Wrong;
        }
        match byte {
            b'"' => return Step::End,
            b'\\' => self.escape = Escape::Begun,
            ..0x20 => return Step::Wrong,
            byte => self.push(&[byte]),
        }
        Step::Inside
    }

    fn escaped(&mut self, byte: u8) -> Step {
        if self.high.is_some() && byte != b'u' {
            return Step::Wrong;
        }
        let meant = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.escape = Escape::Unicode { digits: 0, value: 0 };
                return Step::Inside;
            }
            _ => return Step::Wrong,
        };
        self.escape = Escape::No;
        self.push(&[meant]);
        Step::Inside
    }

    fn digit(&mut self, byte: u8, digits: u8, value: u16) -> Step {
        let Some(digit) = char::from(byte).to_digit(16) else { return Step::Wrong };
        let value = value << 4 | digit as u16;
        if digits < 3 {
            self.escape = Escape::Unicode { digits: digits + 1, value };
            return Step::Inside;
        }
        self.escape = Escape::No;
        let units = [self.high.take().unwrap_or(value), value];
        let is_pair = units[0] != value;
        match char::decode_utf16(if is_pair { units.to_vec() } else { vec![value] }).next() {
            Some(Ok(meant)) => self.push(meant.encode_utf8(&mut [0; 4]).as_bytes()),
            _ if !is_pair && (0xD800..0xDC00).contains(&value) => self.high = Some(value),
            _ => return Step::Wrong,
        }
        Step::Inside
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.kept.len() + bytes.len() > self.max {
            self.is_longer = true;
        } else if !self.is_longer {
            self.kept.extend_from_slice(bytes);
        }
    }
}
