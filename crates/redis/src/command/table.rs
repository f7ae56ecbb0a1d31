//! The words in which the generated table of commands is written.

use super::{BeginSearch, Blocking, CommandSpec, FindKeys, Flags, KeySpec, RequestPolicy, ResponsePolicy};

/// A command without flags, keys and policies yet.
pub(crate) const fn command(
    name: &'static str,
    preamble: &'static [u8],
    words: u8,
    arity: i8,
    needs: &'static str,
) -> CommandSpec {
    CommandSpec {
        name,
        preamble,
        words,
        arity,
        needs,
        flags: Flags(0),
        keys: &[],
        request: RequestPolicy::Default,
        response: ResponsePolicy::Default,
        blocking: Blocking::No,
    }
}

/// Keys from argument `begin` on.
pub(crate) const fn index(begin: u8, last: i8, step: u8, limit: u8) -> KeySpec {
    KeySpec { begin: BeginSearch::Index(begin), find: FindKeys::Range { last, step, limit } }
}

/// One key at argument `begin`, unless that is empty.
pub(crate) const fn unless_empty(begin: u8) -> KeySpec {
    KeySpec { begin: BeginSearch::UnlessEmpty(begin), find: FindKeys::Range { last: 0, step: 1, limit: 0 } }
}

/// Keys after `word`, which is searched from argument `start` on.
pub(crate) const fn keyword(word: &'static str, start: i8, last: i8, step: u8, limit: u8) -> KeySpec {
    KeySpec { begin: BeginSearch::Keyword(word, start), find: FindKeys::Range { last, step, limit } }
}

/// As many keys as an argument says.
pub(crate) const fn keynum(begin: u8, number: u8, first: u8, step: u8) -> KeySpec {
    KeySpec { begin: BeginSearch::Index(begin), find: FindKeys::KeyNum { number, first, step } }
}

impl CommandSpec {
    pub(crate) const fn flags(mut self, flags: Flags) -> Self {
        self.flags = flags;
        self
    }

    pub(crate) const fn keys(mut self, keys: &'static [KeySpec]) -> Self {
        self.keys = keys;
        self
    }

    pub(crate) const fn across(mut self, request: RequestPolicy, response: ResponsePolicy) -> Self {
        self.request = request;
        self.response = response;
        self
    }

    pub(crate) const fn blocking(mut self, blocking: Blocking) -> Self {
        self.blocking = blocking;
        self
    }
}
