//! What the replies to `MULTI`, its commands and `EXEC` mean together.

use crate::command::CommandSpec;
use crate::commands::spec;
use crate::error::table::{About, judge, judge_own};
use crate::error::{Aborted, Error, ErrorKind, Ran, ReplyError, ServerError};
use crate::out::Out;
use crate::proto::slot::Slot;
use crate::reply::{Value, skipped};

pub(crate) const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
pub(crate) const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// What a server puts before the reason why it does not run an `EXEC`.
const BECAUSE: &str = "because of: ";

/// A transaction as it is sent.
#[derive(Debug)]
pub(crate) struct Sealed {
    encoded: Out,
    specs: Vec<&'static CommandSpec>,
    slot: Option<Slot>,
}

impl Sealed {
    /// `encoded`: from `MULTI` to `EXEC`.
    pub(crate) fn new(encoded: Out, specs: Vec<&'static CommandSpec>, slot: Option<Slot>) -> Self {
        Self { encoded, specs, slot }
    }

    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    pub(crate) fn out(&self) -> &Out {
        &self.encoded
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.encoded.contiguous(Default::default()).unwrap_or_default()
    }

    /// The descriptions of its commands.
    pub(crate) fn specs(&self) -> &[&'static CommandSpec] {
        &self.specs
    }

    /// One for each command, for `MULTI` and for `EXEC`.
    #[expect(clippy::cast_possible_truncation, reason = "each has bytes, and the bytes are limited")]
    pub(crate) fn replies(&self) -> u32 {
        self.specs.len() as u32 + 2
    }

    /// The commands' replies from all replies, or why it was not run.
    pub(crate) fn settle(&self, mut replies: Vec<Value>) -> Result<Vec<Value>, Error> {
        let (Some(exec), [multi, queued @ ..]) = (replies.pop(), &*replies) else {
            return Err(unexpected("MULTI, its commands and EXEC answered", "less"));
        };
        if let Value::Error(text) = multi {
            return Err(self.without_multi(text, queued));
        }
        let refused = self.specs.iter().zip(queued).enumerate().find_map(|(index, (spec, reply))| match reply {
            Value::Error(text) => Some(Aborted::Refused { index, command: spec.name, error: ServerError::parse(text) }),
            _ => None,
        });
        match (exec, refused) {
            (Value::Array(values), _) if values.len() == self.specs.len() => Ok(values),
            (Value::Null, _) => Err(Error::new(Aborted::Changed { attempts: 1 }, Ran::NotSent, "EXEC")),
            (Value::Error(_), Some(refused)) => Err(Error::new(refused, Ran::NotSent, "EXEC")),
            (Value::Error(text), None) => {
                // The cluster refuses an EXEC as a whole, too: MOVED, ASK, TRYAGAIN, as it would each of its commands.
                let error = ServerError::parse(&text);
                let error = match error.message().split_once(BECAUSE) {
                    Some((_, reason)) if judge_own(&error).about == About::Transaction => {
                        ServerError::parse(reason.trim_start_matches('-').as_bytes())
                    }
                    _ => error,
                };
                Err(Error::answered(&spec::EXEC, error))
            }
            (Value::Skipped(limit), _) => Err(Error::new(skipped(limit), Ran::Executed, "EXEC")),
            (other, _) => Err(unexpected("a reply for each command", other.type_name())),
        }
    }

    /// `MULTI` was refused, so each command was on its own.
    fn without_multi(&self, text: &[u8], queued: &[Value]) -> Error {
        let none_ran = queued.iter().zip(&self.specs).all(|(reply, spec)| match reply {
            Value::Error(text) => judge(spec, &ServerError::parse(text)).ran == Ran::NotSent,
            _ => false,
        });
        let ran = if none_ran { Ran::NotSent } else { Ran::Executed };
        Error::new(ErrorKind::Server(ServerError::parse(text)), ran, "MULTI")
    }
}

fn unexpected(expected: &'static str, found: &'static str) -> Error {
    Error::new(ReplyError { expected, found, server: None, detail: None }, Ran::Executed, "EXEC")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const QUEUED: &str = "QUEUED";

    fn simple(text: &'static str) -> Value {
        match text.strip_prefix('-') {
            Some(error) => Value::Error(Bytes::from_static(error.as_bytes())),
            None => Value::Simple(Bytes::from_static(text.as_bytes())),
        }
    }

    fn settle(multi: &'static str, queued: [&'static str; 2], exec: Value) -> Result<Vec<Value>, Error> {
        let sealed = Sealed::new(Out::contiguous_only(), vec![&spec::SET, &spec::INCR], None);
        sealed.settle(vec![simple(multi), simple(queued[0]), simple(queued[1]), exec])
    }

    #[track_caller]
    fn check(result: Result<Vec<Value>, Error>, ran: Ran, expected: &str) {
        let error = result.unwrap_err();
        assert_eq!((error.ran(), error.kind().to_string()), (ran, expected.to_owned()));
    }

    #[test]
    fn replies_are_those_of_the_commands() {
        let values = vec![simple("OK"), Value::Integer(3)];
        assert_eq!(settle("OK", [QUEUED; 2], Value::Array(values.clone())).unwrap(), values);
    }

    #[test]
    fn what_was_refused_is_named() {
        let refused =
            settle("OK", [QUEUED, "-ERR wrong number of arguments"], simple("-EXECABORT Transaction discarded"));
        check(refused, Ran::NotSent, "the server refused command 1 (INCR): ERR wrong number of arguments");
    }

    #[test]
    fn a_watched_key_that_changed_is_no_reply() {
        check(settle("OK", [QUEUED; 2], Value::Null), Ran::NotSent, "a watched key was changed (1 attempts)");
    }

    #[test]
    fn a_redirect_of_the_whole_or_of_a_part_means_that_it_did_not_run() {
        let part = settle("OK", ["-MOVED 1 a:1", "-MOVED 1 a:1"], simple("-EXECABORT previous errors")).unwrap_err();
        assert_eq!((part.ran(), part.server().unwrap().text()), (Ran::NotSent, "MOVED 1 a:1"));
        check(settle("OK", [QUEUED; 2], simple("-TRYAGAIN wait")), Ran::NotSent, "the server answered: TRYAGAIN wait");
    }

    #[test]
    fn the_reason_is_taken_out_of_an_abort() {
        let exec = simple("-EXECABORT Transaction discarded because of: LOADING the dataset");
        check(settle("OK", [QUEUED; 2], exec), Ran::NotSent, "the server answered: LOADING the dataset");
    }

    #[test]
    fn without_multi_the_commands_have_run_alone() {
        let denied = "the server answered: NOPERM no MULTI";
        let exec = || simple("-ERR EXEC without MULTI");
        check(settle("-NOPERM no MULTI", ["OK", "OK"], exec()), Ran::Executed, denied);
        check(settle("-NOPERM no MULTI", ["-NOPERM no SET", "-NOPERM no INCR"], exec()), Ran::NotSent, denied);
    }

    #[test]
    fn replies_of_another_number_are_an_error() {
        check(
            settle("OK", [QUEUED; 2], Value::Array(vec![])),
            Ran::Executed,
            "expected a reply for each command, the server sent array",
        );
        assert!(Sealed::new(Out::contiguous_only(), vec![&spec::SET], None).settle(vec![]).is_err());
    }
}
