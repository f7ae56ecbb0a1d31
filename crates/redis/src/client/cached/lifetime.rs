//! Remaining time to live of a key that was read.

use std::time::Duration;

use crate::reply::Value;

/// Remaining time to live of a key, from the reply to `PTTL` that follows a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// It has no expiry, or there is no key.
    Endless,
    /// It expires after this time.
    Ends(Duration),
    /// The key expired or moved between the read and `PTTL`.
    Unknown,
}

impl Lifetime {
    /// Reads the reply to `PTTL`, which was sent after the command that `reply` answers.
    pub(super) fn read(pttl: &Value, reply: &Value) -> Self {
        match *pttl {
            Value::Integer(-1) => Self::Endless,
            Value::Integer(-2) if is_of_no_key(reply) => Self::Endless,
            Value::Integer(milliseconds) => {
                u64::try_from(milliseconds).map_or(Self::Unknown, |left| Self::Ends(Duration::from_millis(left)))
            }
            _ => Self::Unknown,
        }
    }
}

/// Whether a server answers a read of a missing key with this reply.
fn is_of_no_key(reply: &Value) -> bool {
    match reply {
        Value::Null | Value::Integer(0) | Value::Boolean(false) => true,
        Value::Bulk(bytes) | Value::Simple(bytes) => bytes.is_empty() || bytes == "none",
        Value::Array(values) | Value::Set(values) => values.iter().all(is_of_no_key),
        Value::Map(pairs) => pairs.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_the_server_says_is_read() {
        let value = Value::Bulk(Bytes::from_static(b"v"));
        let read = |pttl, reply: &Value| Lifetime::read(&Value::Integer(pttl), reply);
        assert_eq!(read(-1, &value), Lifetime::Endless);
        assert_eq!(read(-2, &Value::Null), Lifetime::Endless);
        assert_eq!(read(-2, &value), Lifetime::Unknown, "it has gone since");
        assert_eq!(read(300, &value), Lifetime::Ends(Duration::from_millis(300)));
        assert_eq!(read(0, &value), Lifetime::Ends(Duration::ZERO));
        assert_eq!(Lifetime::read(&Value::Error(Bytes::from_static(b"MOVED 1 a:1")), &value), Lifetime::Unknown);
    }
}
