//! What `pilotlight redis cli` is asked to do.

use std::path::Path;

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task<'a> {
    Command,
    /// Commands from the terminal or the standard input.
    Lines,
    Eval(&'a Path),
    Pipe,
    Scan,
    Keys(Question),
    /// Those with most elements, then those with most memory.
    KeyStats,
    Stat,
    Latency(LatencyReport),
    IntrinsicLatency(u64),
    Snapshot(SnapshotContent, &'a Path),
}

/// What the keys that are looked for have most of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Elements or bytes.
    Big,
    /// Memory.
    Memory,
    /// Accesses, as the servers count them with an LFU policy.
    Hot,
}

/// What is shown of the time of `PING`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LatencyReport {
    Summary,
    History,
    Distribution,
}

/// What is wanted of the server in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SnapshotContent {
    /// All databases and functions.
    Everything,
    /// Functions alone.
    Functions,
}
