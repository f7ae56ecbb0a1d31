//! What a tunnel does not do as a server does it: the one list that is printed (`--differences`), that the guide shows,
//! that refusals take their words from, and that the differential test holds (`tests/it/tunnel/differences.rs`): it has
//! a case for each entry, and nothing else may differ.

use std::io::Write;

use serde::Serialize;

use super::arguments::TunnelMode;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub(super) name: &'static str,
    mode: Mode,
    /// What it is about, as people type it.
    what: &'static str,
    /// What happens instead.
    instead: &'static str,
    /// How the error begins, of what is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<&'static str>,
}

/// Where it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Smart,
    Pinned,
}

pub(super) const STREAMS: &str = "it takes a whole connection to one server; use pilotlight redis tunnel --mode pinned";
pub(super) const WAIT: &str = "it counts the writes of its own connection; use pilotlight redis tunnel --mode pinned";
pub(super) const TRACKING: &str =
    "the tunnel: clients share connections, so there is no tracking; use pilotlight redis tunnel --mode pinned";
pub(super) const IN_TRANSACTION: &str = "cannot be in a transaction here";
pub(super) const RESET: &str = "the tunnel: RESET would end its login at the node; connect again instead";

const fn smart(name: &'static str, what: &'static str, instead: &'static str) -> Difference {
    Difference { name, mode: Mode::Smart, what, instead, reply: None }
}

const fn pinned(name: &'static str, what: &'static str, instead: &'static str) -> Difference {
    Difference { name, mode: Mode::Pinned, what, instead, reply: None }
}

const fn refused(with: Difference, reply: &'static str) -> Difference {
    Difference { reply: Some(reply), ..with }
}

/// All of them.
const ALL: &[Difference] = &[
    refused(smart("streams", "MONITOR, SYNC, PSYNC, REPLCONF", "refused"), STREAMS),
    refused(smart("wait", "WAIT, WAITAOF", "refused"), WAIT),
    refused(smart("tracking", "CLIENT TRACKING ON, CACHING, TRACKINGINFO", "refused"), TRACKING),
    refused(
        smart(
            "connection-in-transaction",
            "SELECT, HELLO, AUTH, CLIENT, SUBSCRIBE, INFO, ROLE and their like after MULTI",
            "refused",
        ),
        IN_TRANSACTION,
    ),
    smart(
        "queue-errors",
        "what a server does not queue for another reason than its words (no memory, no permission)",
        "told of at EXEC, whose EXECABORT has the reason",
    ),
    smart(
        "receivers",
        "how many have received a PUBLISH or SPUBLISH",
        "the tunnel's connections are counted, which its clients share; in a cluster those of the channel's node",
    ),
    smart(
        "own-messages",
        "a client that publishes to a channel of its own, with RESP3",
        "the reply to PUBLISH may come before the message",
    ),
    smart(
        "client-accepted",
        "CLIENT SETINFO, NO-EVICT, NO-TOUCH",
        "accepted, also where the servers do not know them, and not passed on",
    ),
    smart("error-bytes", "bytes of an error that are no UTF-8", "replaced"),
    smart(
        "cross-slot",
        "keys of several slots in one command, script, transaction or WATCH",
        "CROSSSLOT, in a cluster; MGET, MSET, DEL, UNLINK, EXISTS and TOUCH are split",
    ),
    smart("databases", "SELECT, MOVE and SWAPDB of another database than 0", "refused in a cluster, as by its nodes"),
    smart("scan", "SCAN in a cluster", "goes through all nodes, with cursors of the tunnel's own"),
    smart("one-node", "INFO, PUBSUB, RANDOMKEY and keyspace events in a cluster", "are those of one of its nodes"),
    smart(
        "nodes",
        "INFO and ROLE",
        "tell of one primary without replicas that is no node of a cluster, at the tunnel's port: no addresses of servers",
    ),
    smart(
        "auth",
        "AUTH and HELLO … AUTH",
        "about the tunnel (--require-password); without a password, any is accepted",
    ),
    pinned(
        "auth-pinned",
        "AUTH and HELLO … AUTH",
        "about the tunnel (--require-password); without a password, any is accepted",
    ),
    pinned(
        "client-addresses",
        "addresses in CLIENT LIST, INFO and KILL",
        "those of the tunnel's connection to the node",
    ),
    refused(pinned("reset", "RESET", "refused"), RESET),
];

impl TunnelMode {
    fn is(self, mode: Mode) -> bool {
        matches!((self, mode), (Self::Smart, Mode::Smart) | (Self::Pinned, Mode::Pinned))
    }
}

/// Prints the list: as JSON, or for people, mode by mode.
pub(super) fn print(is_json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    if is_json {
        writeln!(out, "{}", serde_json::to_string(ALL)?)?;
        return Ok(());
    }
    let sections = [
        ("`smart` (all clients share connections)", TunnelMode::Smart),
        ("`pinned` (a connection for each client)", TunnelMode::Pinned),
    ];
    for (at, (title, mode)) in sections.into_iter().enumerate() {
        let gap = if at == 0 { "" } else { "\n" };
        writeln!(out, "{gap}{title}")?;
        for Difference { what, instead, .. } in ALL.iter().filter(|entry| mode.is(entry.mode)) {
            writeln!(out, "  {what}: {instead}")?;
        }
    }
    Ok(())
}
