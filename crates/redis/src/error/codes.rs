//! The servers' error codes: whether the command ran, and what helps. The only table of them.
//!
//! A code alone does not tell who speaks. A script, a function or a module's command may answer with any code after it
//! has written (`redis.error_reply('TRYAGAIN x')`); such an answer counts as the server's own refusal only if it reads
//! like one.

use super::{Advice, Ran, ServerError};

/// What is known about one error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The first word of the error.
    pub code: &'static str,
    /// [`Ran::NotSent`]: the server refuses before it runs anything. [`Ran::Executed`]: it may have begun.
    pub ran: Ran,
    /// What helps.
    pub remedy: Remedy,
    /// How the server refuses to run a script at all.
    pub before_scripts: Refusal,
}

/// How a server words a refusal that precedes a script, a function or a module's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has none with this code: the answer is the script's.
    None,
    /// With one of these words.
    Worded(&'static [&'static str]),
    /// With a slot and an address, or an address alone.
    Redirect,
}

/// What helps against an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing: the same command fails again.
    GiveUp,
    /// The node that the error names.
    Redirect,
    /// Time, at the same node.
    Wait,
    /// Time; but only a reader waits for a script that keeps the server busy.
    WaitIfReading,
    /// Time and a new map of the cluster.
    Refresh,
    /// The server became a replica, or another one has its address: a new connection, perhaps elsewhere.
    Reconnect,
    /// A new connection presents the credentials; once.
    ReconnectOnce,
}

const fn refused(code: &'static str, remedy: Remedy, before_scripts: Refusal) -> Row {
    Row { code, ran: Ran::NotSent, remedy, before_scripts }
}

const fn worded(words: &'static [&'static str]) -> Refusal {
    Refusal::Worded(words)
}

/// All codes that mean something to a client; of any other, the command counts as run and is not repeated.
pub static TABLE: &[Row] = &[
    refused("MOVED", Remedy::Redirect, Refusal::Redirect),
    refused("ASK", Remedy::Redirect, Refusal::Redirect),
    refused("REDIRECT", Remedy::Redirect, Refusal::Redirect),
    refused("TRYAGAIN", Remedy::Wait, worded(&["Multiple keys request during rehashing of slot"])),
    refused("LOADING", Remedy::Wait, worded(&[" is loading the dataset in memory"])),
    refused("BUSY", Remedy::WaitIfReading, worded(&[" is busy running a "])),
    refused("CLUSTERDOWN", Remedy::Refresh, worded(&["Hash slot not served", "The cluster is down"])),
    refused("MASTERDOWN", Remedy::Refresh, worded(&["Link with MASTER is down"])),
    // What a script passes on reads otherwise ("You can't write against a read only replica").
    refused("READONLY", Remedy::Reconnect, worded(&["Can not run script with write flag on readonly replica"])),
    // A blocked command whose server was demoted or whose slot left, or that somebody has ended: its caller decides.
    refused("UNBLOCKED", Remedy::GiveUp, Refusal::None),
    refused("NOAUTH", Remedy::ReconnectOnce, worded(&["Authentication required"])),
    refused("WRONGPASS", Remedy::GiveUp, Refusal::None),
    refused("NOPERM", Remedy::GiveUp, worded(&["this user has no permissions to "])),
    refused("NOPROTO", Remedy::GiveUp, Refusal::None),
    refused("DENIED", Remedy::GiveUp, Refusal::None),
    refused("OOM", Remedy::GiveUp, worded(&["allow-oom flag is not set on the script"])),
    refused("MISCONF", Remedy::GiveUp, Refusal::None),
    refused("NOREPLICAS", Remedy::GiveUp, Refusal::None),
    refused("CROSSSLOT", Remedy::GiveUp, worded(&["Keys in request don't hash to the same slot"])),
    refused("NOSCRIPT", Remedy::GiveUp, worded(&["No matching script"])),
    refused("EXECABORT", Remedy::GiveUp, Refusal::None),
    refused("NOTBUSY", Remedy::GiveUp, Refusal::None),
];

static OTHER: Row = Row { code: "", ran: Ran::Executed, remedy: Remedy::GiveUp, before_scripts: Refusal::None };

/// What is known about `error` as the answer to the command of this name
/// ([`CommandSpec::name`](crate::command::CommandSpec::name)).
#[must_use]
pub fn row(command: &str, error: &ServerError) -> &'static Row {
    let row = TABLE.iter().find(|row| row.code == error.code()).unwrap_or(&OTHER);
    let is_of_server = !runs_code(command) || is_raised(error) || row.before_scripts.is(error.message());
    if is_of_server { row } else { &OTHER }
}

/// Whether a command that was answered with `error` was run.
///
/// An error that a script raised says nothing about what the script did before it.
#[must_use]
pub fn ran(command: &str, error: &ServerError) -> Ran {
    match row(command, error).ran {
        Ran::NotSent if is_raised(error) => Ran::MaybeExecuted,
        ran => ran,
    }
}

/// Whether it runs what somebody else wrote, and may answer with any code. Of a command that is not known, that is not
/// known either.
fn runs_code(command: &str) -> bool {
    matches!(command, "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" | "unknown")
}

/// Whether a command of a script failed, and the script with it: servers from version 7 on append where in the script
/// it happened.
fn is_raised(error: &ServerError) -> bool {
    error.text().contains(" script: ")
}

impl Refusal {
    /// Whether a message is this refusal.
    fn is(self, message: &str) -> bool {
        match self {
            Self::None => false,
            Self::Worded(words) => words.iter().any(|words| message.contains(words)),
            Self::Redirect => {
                let words: Vec<&str> = message.split(' ').collect();
                match *words {
                    [slot, address] => slot.parse::<u16>().is_ok() && address.contains(':'),
                    [address] => address.contains(':'),
                    _ => false,
                }
            }
        }
    }
}

impl Remedy {
    /// The same for who has to decide by himself. That the credentials are not accepted is told after another try.
    pub(super) fn advice(self) -> Advice {
        match self {
            Self::GiveUp | Self::ReconnectOnce => Advice::Never,
            Self::Redirect => Advice::Redirect,
            Self::Wait | Self::WaitIfReading => Advice::Retry,
            Self::Refresh => Advice::RefreshTopology,
            Self::Reconnect => Advice::Reconnect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, text: &str, ran_expected: Ran, remedy: Remedy) {
        let error = ServerError::parse(text.as_bytes());
        assert_eq!((ran(command, &error), row(command, &error).remedy), (ran_expected, remedy), "{command}: {text}");
    }

    const SCRIPTS: [&str; 7] = ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO", "unknown"];

    #[test]
    fn what_a_script_returns_is_its_reply_whatever_its_code() {
        for command in SCRIPTS {
            for row in TABLE {
                check(command, &format!("{} x", row.code), Ran::Executed, Remedy::GiveUp);
                check("SET", &format!("{} x", row.code), row.ran, row.remedy);
            }
            check(command, "READONLY You can't write against a read only replica.", Ran::Executed, Remedy::GiveUp);
        }
    }

    #[test]
    fn what_a_script_raises_may_have_been_preceded_by_writes() {
        let text = "READONLY You can't write against a read only replica. script: 0a1b, on @user_script:1.";
        check("EVAL", text, Ran::MaybeExecuted, Remedy::Reconnect);
    }

    #[test]
    fn refusals_to_run_a_script_are_known_by_their_words() {
        for command in SCRIPTS {
            check(command, "MOVED 5 10.0.0.2:7001", Ran::NotSent, Remedy::Redirect);
            check(command, "ASK 5 host:7001", Ran::NotSent, Remedy::Redirect);
            check(command, "REDIRECT 10.0.0.2:7001", Ran::NotSent, Remedy::Redirect);
            check(command, "TRYAGAIN Multiple keys request during rehashing of slot", Ran::NotSent, Remedy::Wait);
            check(command, "LOADING Redis is loading the dataset in memory", Ran::NotSent, Remedy::Wait);
            check(command, "LOADING Valkey is loading the dataset in memory", Ran::NotSent, Remedy::Wait);
            let busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
            check(command, busy, Ran::NotSent, Remedy::WaitIfReading);
            check(command, "CLUSTERDOWN Hash slot not served", Ran::NotSent, Remedy::Refresh);
            check(command, "NOAUTH Authentication required.", Ran::NotSent, Remedy::ReconnectOnce);
            check(command, "NOSCRIPT No matching script. Please use EVAL.", Ran::NotSent, Remedy::GiveUp);
            let readonly = "READONLY Can not run script with write flag on readonly replica.";
            check(command, readonly, Ran::NotSent, Remedy::Reconnect);
        }
    }
}
