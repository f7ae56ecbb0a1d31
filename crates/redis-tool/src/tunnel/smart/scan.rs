//! `SCAN` over all nodes of a cluster, with cursors that say which node is next.
//!
//! A cursor of the tunnel is that of a node, times [`MAX_PRIMARIES`], plus the node's place in the order of first
//! slots. Nothing is kept between two calls.

use bytes::Bytes;

/// Primaries of a cluster that can be told apart in a cursor.
const MAX_PRIMARIES: u64 = 1024;

/// Where a cursor points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The node's place.
    pub(super) node: usize,
    /// Its own cursor.
    pub(super) within: u64,
}

impl Cursor {
    /// `None`: it is no number.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let number: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        Some(Self { node: usize::try_from(number % MAX_PRIMARIES).ok()?, within: number / MAX_PRIMARIES })
    }

    /// What the client is given when the node has answered with `next`, its own cursor.
    fn after(self, next: u64, primaries: usize) -> u64 {
        let node = self.node as u64;
        match next {
            0 if self.node + 1 < primaries => node + 1,
            0 => 0,
            next => next.wrapping_mul(MAX_PRIMARIES) + node,
        }
    }

    /// The node's reply with the tunnel's cursor in it; the keys are not looked at. `None`: it is no such reply.
    pub(super) fn rewrite(self, frame: &Bytes, primaries: usize) -> Option<(Vec<u8>, Bytes)> {
        let rest = frame.strip_prefix(b"*2\r\n$")?;
        let header = rest.iter().position(|byte| *byte == b'\n')? + 1;
        let end = header + rest[header..].iter().position(|byte| *byte == b'\r')?;
        let next: u64 = std::str::from_utf8(&rest[header..end]).ok()?.parse().ok()?;
        let cursor = self.after(next, primaries).to_string();
        let begin = format!("*2\r\n${}\r\n{cursor}\r\n", cursor.len()).into_bytes();
        let keys = frame.slice_ref(rest.get(end + 2..)?);
        Some((begin, keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cursor: &[u8], reply: &'static [u8], expected: &str) {
        let (mut begin, keys) = Cursor::parse(cursor).unwrap().rewrite(&Bytes::from_static(reply), 3).unwrap();
        begin.extend_from_slice(&keys);
        assert_eq!(String::from_utf8(begin).unwrap(), expected);
    }

    #[test]
    fn a_scan_goes_from_node_to_node() {
        check(b"0", b"*2\r\n$2\r\n17\r\n*1\r\n$1\r\na\r\n", "*2\r\n$5\r\n17408\r\n*1\r\n$1\r\na\r\n");
        check(b"17408", b"*2\r\n$1\r\n0\r\n*0\r\n", "*2\r\n$1\r\n1\r\n*0\r\n");
        check(b"1", b"*2\r\n$1\r\n5\r\n*0\r\n", "*2\r\n$4\r\n5121\r\n*0\r\n");
        check(b"2", b"*2\r\n$1\r\n0\r\n*0\r\n", "*2\r\n$1\r\n0\r\n*0\r\n");
        assert_eq!(Cursor::parse(b"17409"), Some(Cursor { node: 1, within: 17 }));
        assert_eq!(Cursor::parse(b"x"), None);
    }
}
