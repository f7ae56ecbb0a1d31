//! Checks that replies are those of the commands that were sent: a token behind them that the server has to repeat
//! in its place.
//!
//! The protocol numbers nothing: the n-th reply is taken for that of the n-th command. If a server or a proxy ever
//! drops or doubles one, all that follow belong to others. With [`verify_replies`](crate::Config::verify_replies) that
//! is noticed before anybody gets one of them.

use crate::config::Config;
use crate::engine::lane::Lane;
use crate::engine::submission::{Kind, Outcome, Submission, SubmissionError};
use crate::error::{ErrorKind, Ran, ServerError};
use crate::out::Out;
use crate::reply::Value;

const TOKEN_BYTES: usize = 16;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplyCheck([u8; TOKEN_BYTES]);

impl ReplyCheck {
    /// A new one, if replies are to be verified.
    #[inline]
    pub(crate) fn wanted(config: &Config) -> Option<Self> {
        config.verify_replies.then(Self::new)
    }

    fn new() -> Self {
        let number = fastrand::u64(..);
        Self(std::array::from_fn(|at| b"0123456789abcdef"[(number >> (4 * at) & 0xf) as usize]))
    }

    /// The submission with the check as its last reply.
    pub(crate) fn of(submission: Submission) -> Submission {
        Submission { replies: submission.replies + 1, kind: Kind::Many, ..submission }
    }

    pub(crate) fn encode(&self, out: &mut Out) {
        let page = out.page();
        page.extend_from_slice(b"*2\r\n$4\r\nECHO\r\n$16\r\n");
        page.extend_from_slice(&self.0);
        page.extend_from_slice(b"\r\n");
    }

    /// The outcome without the check, gathered as `kind` says. Without a valid check no reply is given out, and the
    /// connection is given up.
    pub(crate) fn check(&self, outcome: Outcome, kind: Kind, lane: &Lane) -> Outcome {
        let checked = self.verified(outcome, kind);
        if let Outcome::Failed(failure) = &checked
            && let ErrorKind::Protocol(reason) = &failure.kind
        {
            lane.reconnect(reason, std::time::Instant::now());
        }
        checked
    }

    fn verified(&self, outcome: Outcome, kind: Kind) -> Outcome {
        let mut values = match outcome {
            Outcome::Many(values) => values,
            Outcome::One(value) => vec![value],
            // What came before the loss is not verified.
            Outcome::Failed(mut failure) => {
                failure.replies.clear();
                return Outcome::Failed(failure);
            }
        };
        let reason = match values.pop() {
            Some(Value::Bulk(token)) if token == self.0[..] => {
                return match kind {
                    Kind::One => Outcome::One(values.pop().unwrap_or(Value::Null)),
                    Kind::Many => Outcome::Many(values),
                };
            }
            Some(Value::Error(text)) => {
                format!("verify_replies: the server answered ECHO with {}", ServerError::parse(&text).code())
            }
            _ => "verify_replies: a reply is not that of its command".to_owned(),
        };
        let kind = ErrorKind::Protocol(reason.into());
        Outcome::Failed(Box::new(SubmissionError {
            kind,
            ran: Ran::MaybeExecuted,
            replies: Vec::new(),
            sent_bytes: usize::MAX,
        }))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn token(check: &ReplyCheck) -> Value {
        Value::Bulk(Bytes::copy_from_slice(&check.0))
    }

    #[test]
    fn what_is_proven_is_as_before() {
        let check = ReplyCheck::new();
        let one = check.verified(Outcome::Many(vec![Value::Integer(1), token(&check)]), Kind::One);
        assert!(matches!(one, Outcome::One(Value::Integer(1))));
        let many = check.verified(Outcome::Many(vec![Value::Integer(1), Value::Null, token(&check)]), Kind::Many);
        assert!(matches!(many, Outcome::Many(values) if values == [Value::Integer(1), Value::Null]));
    }

    #[test]
    fn nothing_else_is_given_out() {
        let check = ReplyCheck::new();
        let refused = Value::Error(Bytes::from_static(b"NOPERM no"));
        for last in [Value::Integer(1), token(&ReplyCheck::new()), refused, Value::Null] {
            let Outcome::Failed(failure) = check.verified(Outcome::Many(vec![Value::Integer(1), last]), Kind::One)
            else {
                panic!()
            };
            assert!(matches!(failure.kind, ErrorKind::Protocol(_)) && failure.ran == Ran::MaybeExecuted);
            assert!(failure.replies.is_empty());
        }
    }

    #[test]
    fn no_two_are_alike() {
        let checks: std::collections::HashSet<_> = (0..1000).map(|_| ReplyCheck::new().0).collect();
        assert_eq!(checks.len(), 1000);
    }
}
