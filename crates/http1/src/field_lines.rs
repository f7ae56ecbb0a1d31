//! Fields that were copied out of a head, in the form in which they are sent.

use std::ops::Range;

use crate::names::Names;

/// Field lines, `name: value` and CRLF, one behind the other; names are in lower case. Unlike [`crate::Fields`] they
/// own their bytes, so they outlive the buffer that they were read into, and they are written in one piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldLines {
    bytes: Vec<u8>,
    names: Names,
}

/// What stands between name and value, and behind the value.
const SEPARATORS: usize = 4;

impl FieldLines {
    /// No fields yet, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), names: Names::default() }
    }

    /// Adds a field behind the others. Name and value are the caller's, and are not checked again: they come from a
    /// parsed message or from types that hold valid ones.
    #[inline]
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        let begin = self.bytes.len();
        self.names.add(name);
        self.bytes.reserve(name.len() + value.len() + SEPARATORS);
        self.bytes.extend_from_slice(name);
        self.bytes[begin..].make_ascii_lowercase();
        self.bytes.extend_from_slice(b": ");
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Adds lines as they were received, whose names are among `names`. `lengths` are those of each name and its line.
    #[inline]
    pub(crate) fn push_lines(&mut self, lines: &[u8], names: Names, lengths: impl Iterator<Item = (usize, usize)>) {
        let mut begin = self.bytes.len();
        self.names.add_all(names);
        self.bytes.extend_from_slice(lines);
        for (name, line) in lengths {
            self.bytes[begin..begin + name].make_ascii_lowercase();
            begin += line;
        }
    }

    /// Names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.ranges().map(|(name, value)| (&self.bytes[name], &self.bytes[value]))
    }

    /// Where each name and its value are. No name has a colon, and no value a CR.
    fn ranges(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        let mut begin = 0;
        std::iter::from_fn(move || {
            let line = self.bytes.get(begin..)?;
            let name = memchr::memchr(b':', line)?;
            let end = memchr::memchr(b'\r', line)?;
            let found = (begin..begin + name, begin + name + 2..begin + end);
            begin += end + 2;
            Some(found)
        })
    }

    /// Values of the fields with this name, which is in lower case, in their order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.iter().filter(move |(one, _)| *one == name.as_bytes()).map(|(_, value)| value)
    }

    /// The first value of the fields with this name, which is in lower case.
    #[inline]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        if !self.names.may_have(name.as_bytes()) {
            return None;
        }
        self.all(name).next()
    }

    /// Takes all fields with this name away, which is in lower case.
    pub fn remove(&mut self, name: &str) {
        if !self.names.may_have(name.as_bytes()) {
            return;
        }
        let is_one = |(one, _): &(Range<usize>, Range<usize>)| self.bytes[one.clone()] == *name.as_bytes();
        let gone: Vec<_> = self.ranges().filter(is_one).map(|(name, value)| name.start..value.end + 2).collect();
        for line in gone.into_iter().rev() {
            self.bytes.drain(line);
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ranges().count()
    }

    /// All lines as they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(fields: &[(&str, &str)]) -> FieldLines {
        let mut lines = FieldLines::default();
        fields.iter().for_each(|(name, value)| lines.push(name.as_bytes(), value.as_bytes()));
        lines
    }

    #[test]
    fn they_are_written_as_they_came_but_for_the_case_of_names() {
        let lines = lines(&[("Accept", "*/*"), ("X-Empty", ""), ("accept", "Text/HTML")]);
        assert_eq!(lines.as_bytes(), b"accept: */*\r\nx-empty: \r\naccept: Text/HTML\r\n");
        assert_eq!(lines.all("accept").collect::<Vec<_>>(), [&b"*/*"[..], b"Text/HTML"]);
        assert_eq!((lines.get("x-empty"), lines.get("x")), (Some(&b""[..]), None));
        let all: Vec<_> = lines.iter().map(|(name, _)| name).collect();
        assert_eq!(all, [&b"accept"[..], b"x-empty", b"accept"]);
    }

    #[test]
    fn what_is_removed_leaves_the_rest() {
        let mut lines = lines(&[("a", "1"), ("b", "22"), ("a", "3"), ("c", "4")]);
        lines.remove("a");
        assert_eq!(lines.as_bytes(), b"b: 22\r\nc: 4\r\n");
        assert_eq!((lines.get("b"), lines.get("c"), lines.count()), (Some(&b"22"[..]), Some(&b"4"[..]), 2));
        lines.remove("x");
        assert_eq!(lines.count(), 2);
    }
}
