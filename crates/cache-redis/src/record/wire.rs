//! Numbers and strings of a record: LEB128 and length-prefixed bytes.

use super::error::RecordError;

/// Appends.
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads from the front; nothing is sized by a number that is larger than what is left.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn number(&mut self) -> Result<u64, RecordError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(RecordError::Damaged)?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(RecordError::Damaged);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(RecordError::Damaged)
    }

    pub(super) fn count(&mut self, max: usize) -> Result<usize, RecordError> {
        let count = usize::try_from(self.number()?).ok();
        count.filter(|count| *count <= max).ok_or(RecordError::Damaged)
    }

    pub(super) fn raw(&mut self, length: u64) -> Result<&'a [u8], RecordError> {
        let length = usize::try_from(length).map_err(|_| RecordError::Damaged)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(RecordError::Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], RecordError> {
        let length = self.number()?;
        self.raw(length)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        self.raw(N as u64)?.try_into().map_err(|_| RecordError::Damaged)
    }
}
