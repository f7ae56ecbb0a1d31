//! The servers' errors: whether the command was delivered to be run, what helps, and what the error is about. The only
//! table of them; whatever is decided by an error of a server is decided by [`judge`].
//!
//! A code alone does not tell who speaks. A script, a function or a module's command may answer with any code after it
//! has written (`redis.error_reply('TRYAGAIN x')`); such an answer counts as the server's own refusal only if it reads
//! like one.

use super::outcome::{Advice, Ran};
use super::server::ServerError;
use crate::command::{CommandSpec, Flags};

/// What an error of a server means for the command that it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Whether the command was run.
    pub(crate) ran: Ran,
    /// What helps.
    pub(crate) remedy: Remedy,
    /// What is amiss.
    pub(crate) about: About,
}

/// What is known about one error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// The first word of the error.
    pub(crate) code: &'static str,
    /// How the text after it begins; empty: in any way.
    pub(crate) begins: &'static str,
    /// [`Ran::NotSent`]: the server refuses before it runs anything. [`Ran::Executed`]: it may have begun.
    pub(crate) ran: Ran,
    /// What helps.
    pub(crate) remedy: Remedy,
    /// What is amiss.
    pub(crate) about: About,
    /// How the server refuses to run a script at all.
    before_scripts: Refusal,
}

/// What helps against an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Nothing: the same command fails again.
    GiveUp,
    /// The node that the error names.
    Redirect,
    /// Time, at the same node.
    Wait,
    /// Time; but only a reader waits for a script that keeps the server busy.
    WaitIfReading,
    /// Time and a new topology.
    Refresh,
    /// The server became a replica, or another one has its address: a new connection, perhaps elsewhere.
    Reconnect,
    /// A new connection presents the credentials; once.
    ReconnectOnce,
}

/// What is amiss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// The slot: it is elsewhere, on its way, nobody's, or there are several.
    Slot,
    /// The server has become another one's replica.
    Role,
    /// The server is not ready for anything: it loads, or has lost its primary.
    Readiness,
    /// A script keeps the server busy.
    Busy,
    /// It wants credentials, and was given none.
    NoCredentials,
    /// It does not accept those that it was given.
    WrongCredentials,
    /// The user may not do this.
    Permission,
    /// The connection itself is refused.
    Connection,
    /// The server does not know the script.
    UnknownScript,
    /// The whole transaction is refused; the text may say why.
    Transaction,
    /// The command, or what it met.
    Command,
}

/// How a server words a refusal that precedes a script, a function or a module's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// It has none with this code: the answer is the script's.
    None,
    /// With one of these words.
    Worded(&'static [&'static str]),
    /// With a slot and an address, or an address alone.
    Redirect,
}

const fn refused(code: &'static str, remedy: Remedy, about: About) -> Row {
    Row { code, begins: "", ran: Ran::NotSent, remedy, about, before_scripts: Refusal::None }
}

impl Row {
    /// Before it runs a script, the server says so with one of these words.
    const fn worded(mut self, words: &'static [&'static str]) -> Self {
        self.before_scripts = Refusal::Worded(words);
        self
    }

    /// Before it runs a script, the server redirects as it does any command.
    const fn redirects(mut self) -> Self {
        self.before_scripts = Refusal::Redirect;
        self
    }

    const fn begins(mut self, text: &'static str) -> Self {
        self.begins = text;
        self
    }
}

/// All errors that mean something to a client; of any other, the command counts as run and is not repeated.
pub(crate) static TABLE: &[Row] = &[
    refused("MOVED", Remedy::Redirect, About::Slot).redirects(),
    refused("ASK", Remedy::Redirect, About::Slot).redirects(),
    refused("REDIRECT", Remedy::Redirect, About::Role).redirects(),
    refused("TRYAGAIN", Remedy::Wait, About::Slot).worded(&["Multiple keys request during rehashing of slot"]),
    refused("LOADING", Remedy::Wait, About::Readiness).worded(&[" is loading the dataset in memory"]),
    refused("BUSY", Remedy::WaitIfReading, About::Busy).worded(&[" is busy running a "]),
    refused("CLUSTERDOWN", Remedy::Refresh, About::Slot).worded(&["Hash slot not served", "The cluster is down"]),
    refused("MASTERDOWN", Remedy::Refresh, About::Readiness).worded(&["Link with MASTER is down"]),
    // What a script passes on reads otherwise ("You can't write against a read only replica").
    refused("READONLY", Remedy::Reconnect, About::Role)
        .worded(&["Can not run script with write flag on readonly replica"]),
    // A blocked command whose server was demoted or whose slot left, or that somebody has ended: its caller decides.
    refused("UNBLOCKED", Remedy::GiveUp, About::Command),
    refused("NOAUTH", Remedy::ReconnectOnce, About::NoCredentials).worded(&["Authentication required"]),
    refused("WRONGPASS", Remedy::GiveUp, About::WrongCredentials),
    refused("NOPERM", Remedy::GiveUp, About::Permission)
        .worded(&["has no permissions to ", "No permissions to access a "]),
    refused("NOPROTO", Remedy::GiveUp, About::Command),
    refused("DENIED", Remedy::GiveUp, About::Connection),
    // Said to a new connection before anything is read; it passes when another client leaves.
    refused("ERR", Remedy::Wait, About::Connection).begins("max number of clients"),
    refused("OOM", Remedy::GiveUp, About::Command).worded(&["allow-oom flag is not set on the script"]),
    refused("MISCONF", Remedy::GiveUp, About::Command),
    refused("NOREPLICAS", Remedy::GiveUp, About::Command),
    refused("CROSSSLOT", Remedy::GiveUp, About::Slot).worded(&["Keys in request don't hash to the same slot"]),
    refused("NOSCRIPT", Remedy::GiveUp, About::UnknownScript).worded(&["No matching script"]),
    refused("EXECABORT", Remedy::GiveUp, About::Transaction),
    refused("NOTBUSY", Remedy::GiveUp, About::Command),
];

static OTHER: Row = Row { ran: Ran::Executed, ..refused("", Remedy::GiveUp, About::Command) };

/// What `error` means as the answer to a command of this description.
///
/// An error that a script raised says nothing about what the script did before it.
#[must_use]
pub(crate) fn judge(spec: &CommandSpec, error: &ServerError) -> Judgement {
    judged(error, |row| !spec.flags.has(Flags::RUNS_CODE) || is_raised(error) || row.before_scripts.is(error.message()))
}

/// What `error` means as the answer to a command that runs nobody's code.
#[must_use]
pub(crate) fn judge_own(error: &ServerError) -> Judgement {
    judged(error, |_| true)
}

fn judged(error: &ServerError, is_of_server: impl FnOnce(&Row) -> bool) -> Judgement {
    let is_it = |row: &&Row| row.code == error.code() && error.message().starts_with(row.begins);
    let row = TABLE.iter().find(is_it).filter(|row| is_of_server(row)).unwrap_or(&OTHER);
    let ran = match row.ran {
        Ran::NotSent if is_raised(error) => Ran::MaybeExecuted,
        ran => ran,
    };
    Judgement { ran, remedy: row.remedy, about: row.about }
}

/// Whether a command of a script failed, and the script with it: servers from version 7 on append where in the script
/// it happened.
fn is_raised(error: &ServerError) -> bool {
    error.text().contains(" script: ")
}

impl ServerError {
    /// What to do about it, if it is the server's own and not a script's: [`Error::advice`](crate::Error::advice)
    /// knows which command it answers.
    #[must_use]
    pub fn advice(&self) -> Advice {
        judge_own(self).remedy.advice()
    }
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
    pub(crate) fn advice(self) -> Advice {
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
    use crate::command::UNKNOWN;
    use crate::commands::lookup;

    #[track_caller]
    fn check(command: &str, text: &str, ran: Ran, remedy: Remedy) {
        let judgement = judge(lookup(command).unwrap_or(&UNKNOWN), &ServerError::parse(text.as_bytes()));
        assert_eq!((judgement.ran, judgement.remedy), (ran, remedy), "{command}: {text}");
    }

    const SCRIPTS: [&str; 7] = ["EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO", "unknown"];

    #[test]
    fn what_a_script_returns_is_its_reply_whatever_its_code() {
        for command in SCRIPTS {
            for row in TABLE {
                let text = format!("{} {}x", row.code, row.begins);
                check(command, &text, Ran::Executed, Remedy::GiveUp);
                check("SET", &text, row.ran, row.remedy);
            }
            check(command, "READONLY You can't write against a read only replica.", Ran::Executed, Remedy::GiveUp);
        }
    }

    /// The commands that run code are known by their flag, and no other has it.
    #[test]
    fn only_scripts_functions_and_the_unknown_run_code() {
        for spec in crate::commands::spec::ALL {
            assert_eq!(spec.flags.has(Flags::RUNS_CODE), SCRIPTS.contains(&spec.name), "{}", spec.name);
        }
        assert!(UNKNOWN.flags.has(Flags::RUNS_CODE));
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
