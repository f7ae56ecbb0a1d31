//! What is known about a command before it is sent: its name on the wire, where its keys are, how a cluster runs it.
//!
//! The table itself ([`crate::commands::spec`]) is generated from the servers' command descriptions.

/// The description of one command or subcommand. Positions count arguments after the name: 0 is the first.
#[derive(Debug)]
pub struct CommandSpec {
    /// Upper case; a subcommand has two words: `CLIENT SETINFO`.
    pub name: &'static str,
    /// The name as bulk strings, ready to be copied: `$3\r\nGET\r\n`.
    pub preamble: &'static [u8],
    /// How many words (bulk strings) the name has.
    pub words: u8,
    /// Exact number of words and arguments, or, negative, the least.
    pub arity: i8,
    /// What a server has to be, or to have, to know it: `Redis 6.2.0`, `the module RedisJSON …`.
    pub needs: &'static str,
    /// What the command does.
    pub flags: Flags,
    /// Where its keys are; empty for a command without keys.
    pub keys: &'static [KeySpec],
    /// Which nodes of a cluster it is for, when it has no key or is split by key.
    pub request: RequestPolicy,
    /// How the replies of several nodes become one.
    pub response: ResponsePolicy,
    /// Where its own time-out is, if it blocks.
    pub blocking: Blocking,
}

/// A set of [`CommandSpec`] properties.
///
/// ```
/// use pilotlight_redis::command::Flags;
/// use pilotlight_redis::commands::spec;
///
/// assert!(spec::GET.flags.has(Flags::READONLY));
/// assert!(!spec::SET.flags.has(Flags::READONLY));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// Changes nothing: may be repeated, may be served by a replica.
    pub const READONLY: Self = Self(1);
    /// Changes data.
    pub const WRITE: Self = Self(1 << 1);
    /// May wait in the server; needs a connection of its own.
    pub const BLOCKING: Self = Self(1 << 2);
    /// Changes the state of its connection, so it must not run on a shared one (`SUBSCRIBE`, `MULTI`, `MONITOR`, …).
    pub const CONNECTION_STATE: Self = Self(1 << 3);
    /// Administers the server.
    pub const ADMIN: Self = Self(1 << 4);
    /// The keys cannot be told from the specification alone.
    pub const MOVABLE_KEYS: Self = Self(1 << 5);
    /// Answered while a script or function keeps the server busy, on another connection than the script's: it ends the
    /// script, or tells of it.
    pub const WHILE_BUSY: Self = Self(1 << 6);
    /// Runs what somebody else wrote, or is not known: it may answer with any error code after it has written.
    pub const RUNS_CODE: Self = Self(1 << 7);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether anything of `other` is in this set.
    #[must_use]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// One group of keys among the arguments (redis.io, "Key specifications").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpec {
    /// Where the group begins.
    pub begin: BeginSearch,
    /// How the keys go on from there.
    pub find: FindKeys,
}

/// Where a group of keys begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginSearch {
    /// At this argument.
    Index(u8),
    /// At this argument, unless it is empty (`MIGRATE`, whose keys may come later instead).
    UnlessEmpty(u8),
    /// After this word, searched (without regard to case) from an argument on; a negative start counts from the end and
    /// searches backwards.
    Keyword(&'static str, i8),
}

/// How the keys of a group are found from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindKeys {
    /// Keys up to `last`, relative to the beginning (negative: from the end of the arguments), every `step`; `limit` >
    /// 1 takes only that part of what is left.
    Range {
        /// Last key relative to the first; negative counts from the last argument (-1).
        last: i8,
        /// Distance between keys.
        step: u8,
        /// With `last` -1: 0 or 1 no limit, 2 the first half of the rest (`XREAD`), and so on.
        limit: u8,
    },
    /// The number of keys is an argument.
    KeyNum {
        /// The argument that holds the number, relative to the beginning.
        number: u8,
        /// The first key, relative to the beginning.
        first: u8,
        /// Distance between keys.
        step: u8,
    },
}

/// Which nodes of a cluster run a command (redis.io, "Command tips", `request_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPolicy {
    /// The node of its key; without a key, any node.
    Default,
    /// Every node, replicas included.
    AllNodes,
    /// Every primary.
    AllShards,
    /// Split by slot: one command for each slot with its own keys.
    MultiShard,
    /// As the command's own rules say (`SCAN`, `FUNCTION STATS`, …).
    Special,
}

/// How several nodes' replies become one (redis.io, "Command tips", `response_policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponsePolicy {
    /// Without a key: all elements of all replies; with keys: elements in the order of the keys.
    Default,
    /// The first reply that is not an error.
    OneSucceeded,
    /// One reply if none is an error, else an error.
    AllSucceeded,
    /// The logical AND of integers or arrays of them.
    AggLogicalAnd,
    /// The logical OR.
    AggLogicalOr,
    /// The least.
    AggMin,
    /// The greatest.
    AggMax,
    /// The sum.
    AggSum,
    /// As the command's own rules say.
    Special,
}

/// Where a blocking command says how long it waits; 0 is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// It does not block.
    No,
    /// Seconds (a float) in this argument; negative counts from the end.
    Seconds(i8),
    /// Milliseconds in this argument; negative counts from the end.
    Milliseconds(i8),
    /// Milliseconds after this word; without the word it does not block.
    MillisecondsAfter(&'static str),
}

/// The description of a command that the table does not know (a module's, a newer server's): its first argument is
/// taken for its key.
pub static UNKNOWN: CommandSpec = CommandSpec {
    name: "unknown",
    preamble: b"",
    words: 0,
    arity: -1,
    needs: "a newer server, or a module",
    flags: Flags::WRITE.and(Flags::MOVABLE_KEYS).and(Flags::RUNS_CODE),
    keys: &[KeySpec { begin: BeginSearch::Index(1), find: FindKeys::Range { last: 0, step: 1, limit: 0 } }],
    request: RequestPolicy::Default,
    response: ResponsePolicy::Default,
    blocking: Blocking::No,
};
