//! What a connection with subscriptions says, in either protocol: pushes of RESP3, and arrays of RESP2 that look like
//! replies.

use bytes::Bytes;
use pilotlight_resp::Frame;

use crate::error::ServerError;
use crate::proto::subscriptions::{Kind, Topic};
use crate::reply::Value;

/// One frame.
#[derive(Debug, PartialEq)]
pub(super) enum Notice {
    /// A message by a subscription to `topic`; of a pattern, with the channel that it matched.
    Message {
        topic: Topic,
        channel: Option<Bytes>,
        payload: Bytes,
    },
    Subscribed(Topic),
    Unsubscribed(Topic),
    Pong,
    Error(ServerError),
    /// Nothing of ours.
    Other,
}

impl Notice {
    /// What `frame` says; `None`: it is not what such a connection may say.
    pub(super) fn read(frame: Frame) -> Option<Self> {
        match frame {
            Frame::Push(items) => Some(Self::of_items(items).unwrap_or(Self::Other)),
            Frame::Reply(Value::Array(items)) => Self::of_items(items),
            Frame::Reply(Value::Error(text)) => Some(Self::Error(ServerError::parse(&text))),
            Frame::Reply(Value::Simple(text)) if &text[..] == b"PONG" => Some(Self::Pong),
            Frame::Reply(_) => None,
        }
    }

    fn of_items(items: Vec<Value>) -> Option<Self> {
        let mut items = items.into_iter();
        let name = text(items.next()?)?;
        let mut next = || items.next();
        let topic = |kind, name| Topic::new(kind, name);
        Some(match &name[..] {
            b"message" => Self::message(topic(Kind::Channel, text(next()?)?), None, next()?),
            b"smessage" => Self::message(topic(Kind::Sharded, text(next()?)?), None, next()?),
            b"pmessage" => Self::message(topic(Kind::Pattern, text(next()?)?), Some(text(next()?)?), next()?),
            b"subscribe" => Self::Subscribed(topic(Kind::Channel, text(next()?)?)),
            b"psubscribe" => Self::Subscribed(topic(Kind::Pattern, text(next()?)?)),
            b"ssubscribe" => Self::Subscribed(topic(Kind::Sharded, text(next()?)?)),
            b"unsubscribe" => Self::unsubscribed(Kind::Channel, next()?),
            b"punsubscribe" => Self::unsubscribed(Kind::Pattern, next()?),
            b"sunsubscribe" => Self::unsubscribed(Kind::Sharded, next()?),
            b"pong" => Self::Pong,
            _ => return None,
        })
    }

    fn message(topic: Topic, channel: Option<Bytes>, payload: Value) -> Self {
        match text(payload) {
            Some(payload) => Self::Message { topic, channel, payload },
            // Lists of keys on `__redis__:invalidate`.
            None => Self::Other,
        }
    }

    /// Without any subscription the server confirms the end of all with a null.
    fn unsubscribed(kind: Kind, name: Value) -> Self {
        text(name).map_or(Self::Other, |name| Self::Unsubscribed(Topic::new(kind, name)))
    }
}

fn text(value: Value) -> Option<Bytes> {
    match value {
        Value::Bulk(text) | Value::Simple(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &'static str) -> Value {
        Value::Bulk(Bytes::from_static(text.as_bytes()))
    }

    fn topic(kind: Kind, name: &'static str) -> Topic {
        Topic::new(kind, Bytes::from_static(name.as_bytes()))
    }

    /// In RESP3 and in RESP2.
    #[track_caller]
    fn check(items: &[Value], expected: &Notice) {
        assert_eq!(Notice::read(Frame::Push(items.to_vec())).as_ref(), Some(expected));
        assert_eq!(Notice::read(Frame::Reply(Value::Array(items.to_vec()))).as_ref(), Some(expected));
    }

    #[test]
    fn messages_and_confirmations_in_both_protocols() {
        let payload = || Bytes::from_static(b"p");
        let message = |kind, name, channel| Notice::Message { topic: topic(kind, name), channel, payload: payload() };
        check(&[bulk("message"), bulk("a"), bulk("p")], &message(Kind::Channel, "a", None));
        check(&[bulk("smessage"), bulk("a"), bulk("p")], &message(Kind::Sharded, "a", None));
        let channel = Some(Bytes::from_static(b"ab"));
        check(&[bulk("pmessage"), bulk("a*"), bulk("ab"), bulk("p")], &message(Kind::Pattern, "a*", channel));
        for (name, kind) in [("", Kind::Channel), ("p", Kind::Pattern), ("s", Kind::Sharded)] {
            let word = |rest: &str| Value::Bulk(format!("{name}{rest}").into());
            check(&[word("subscribe"), bulk("a"), Value::Integer(1)], &Notice::Subscribed(topic(kind, "a")));
            check(&[word("unsubscribe"), bulk("a"), Value::Integer(0)], &Notice::Unsubscribed(topic(kind, "a")));
            check(&[word("unsubscribe"), Value::Null, Value::Integer(0)], &Notice::Other);
        }
        check(&[bulk("pong"), bulk("")], &Notice::Pong);
    }

    #[test]
    fn pushes_of_others_are_passed_over_and_odd_replies_are_not() {
        assert_eq!(Notice::read(Frame::Push(vec![bulk("invalidate"), Value::Null])), Some(Notice::Other));
        assert_eq!(Notice::read(Frame::Push(vec![])), Some(Notice::Other));
        assert_eq!(Notice::read(Frame::Reply(Value::Integer(1))), None);
        assert_eq!(Notice::read(Frame::Reply(Value::Array(vec![bulk("what")]))), None);
        assert_eq!(Notice::read(Frame::Reply(Value::Simple(Bytes::from_static(b"OK")))), None);
        assert_eq!(Notice::read(Frame::Reply(Value::Simple(Bytes::from_static(b"PONG")))), Some(Notice::Pong));
        let error = Value::Error(Bytes::from_static(b"NOPERM no"));
        assert_eq!(Notice::read(Frame::Reply(error)), Some(Notice::Error(ServerError::parse(b"NOPERM no"))));
    }
}
