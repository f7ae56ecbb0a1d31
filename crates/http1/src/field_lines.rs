//! Fields that were copied out of a head, in the form in which they are sent.

use crate::names::Names;

/// Field lines, `name: value` and CRLF, one behind the other; names are in lower case. Unlike [`crate::Fields`] they
/// own their bytes, so they outlive the buffer that they were read into, and they are written in one piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldLines {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    names: Names,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    begin: u32,
    name_length: u32,
    value_length: u32,
}

/// What stands between name and value, and behind the value.
const SEPARATORS: usize = 4;

impl Line {
    fn name<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let begin = self.begin as usize;
        bytes.get(begin..begin + self.name_length as usize).unwrap_or_default()
    }

    fn value<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let begin = self.begin as usize + self.name_length as usize + 2;
        bytes.get(begin..begin + self.value_length as usize).unwrap_or_default()
    }

    fn length(&self) -> usize {
        self.name_length as usize + self.value_length as usize + SEPARATORS
    }
}

impl FieldLines {
    /// No fields yet, with room for `fields` of them in `bytes` bytes.
    pub fn with_capacity(fields: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), lines: Vec::with_capacity(fields), names: Names::default() }
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
        self.lines.push(Line { begin: begin as u32, name_length: name.len() as u32, value_length: value.len() as u32 });
    }

    /// Names and values, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (line.name(&self.bytes), line.value(&self.bytes)))
    }

    /// Values of the fields with this name, which is in lower case, in their order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let same = move |line: &&Line| line.name(&self.bytes) == name.as_bytes();
        self.lines.iter().filter(same).map(|line| line.value(&self.bytes))
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
        while let Some(at) = self.lines.iter().position(|line| line.name(&self.bytes) == name.as_bytes()) {
            let gone = self.lines.remove(at);
            let begin = gone.begin as usize;
            self.bytes.drain(begin..begin + gone.length());
            for line in &mut self.lines[at..] {
                line.begin -= gone.length() as u32;
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All lines as they are sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The first lines as they are sent.
    pub fn first(&self, lines: usize) -> &[u8] {
        let end = self.lines.get(lines).map_or(self.bytes.len(), |line| line.begin as usize);
        &self.bytes[..end]
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
        assert_eq!(lines.first(1), b"accept: */*\r\n");
        assert_eq!(lines.first(3), lines.as_bytes());
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
        assert_eq!((lines.get("b"), lines.get("c"), lines.len()), (Some(&b"22"[..]), Some(&b"4"[..]), 2));
        lines.remove("x");
        assert_eq!(lines.len(), 2);
    }
}
