//! What a mock answers.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A reply, in the forms that RESP2 and RESP3 share: a map is a flat array. What else there is goes by
/// [`Expect::raw`](super::Expect::raw).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MockReply {
    /// No value (`$-1`).
    Null,
    /// A number.
    Integer(i64),
    /// A bulk string.
    Bulk(Bytes),
    /// A simple string, such as `OK`.
    Status(String),
    /// An error: a code, a blank, a text.
    Error(String),
    /// Replies in order.
    Array(Vec<MockReply>),
}

impl MockReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let line = |text: &str| text.replace(['\r', '\n'], " ");
        match self {
            Self::Null => out.extend_from_slice(b"$-1\r\n"),
            Self::Integer(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
            Self::Bulk(bytes) => {
                out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Status(text) => out.extend_from_slice(format!("+{}\r\n", line(text)).as_bytes()),
            Self::Error(text) => out.extend_from_slice(format!("-{}\r\n", line(text)).as_bytes()),
            Self::Array(elements) => {
                out.extend_from_slice(format!("*{}\r\n", elements.len()).as_bytes());
                elements.iter().for_each(|element| element.encode(out));
            }
        }
    }
}

impl From<&str> for MockReply {
    fn from(text: &str) -> Self {
        Self::Bulk(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for MockReply {
    fn from(text: String) -> Self {
        Self::Bulk(text.into())
    }
}

impl From<Bytes> for MockReply {
    fn from(bytes: Bytes) -> Self {
        Self::Bulk(bytes)
    }
}

impl From<i64> for MockReply {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl<T: Into<Self>> From<Option<T>> for MockReply {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for MockReply {
    fn from(elements: Vec<T>) -> Self {
        Self::Array(elements.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for MockReply {
    fn from(elements: [T; N]) -> Self {
        Self::Array(elements.into_iter().map(Into::into).collect())
    }
}

impl<K: Into<Self>, V: Into<Self>> From<BTreeMap<K, V>> for MockReply {
    fn from(map: BTreeMap<K, V>) -> Self {
        Self::Array(map.into_iter().flat_map(|(key, value)| [key.into(), value.into()]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reply: impl Into<MockReply>, expected: &str) {
        let mut bytes = Vec::new();
        reply.into().encode(&mut bytes);
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn values_are_what_they_look_like() {
        check("v", "$1\r\nv\r\n");
        check(7, ":7\r\n");
        check(None::<&str>, "$-1\r\n");
        check(Some("v"), "$1\r\nv\r\n");
        check(["a", "b"], "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
        check(vec![MockReply::Null, 1.into()], "*2\r\n$-1\r\n:1\r\n");
        check(BTreeMap::from([("k", 1)]), "*2\r\n$1\r\nk\r\n:1\r\n");
        check(MockReply::Error("ERR two\r\nlines".to_owned()), "-ERR two  lines\r\n");
        check(MockReply::Status("OK".to_owned()), "+OK\r\n");
    }
}
