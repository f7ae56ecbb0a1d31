//! What is refused on connections that all share, and what to use instead.

use crate::command::{Command, Flags};
use crate::error::{Error, Misuse, Ran};

/// Whether a command may be sent on a shared connection.
pub(super) fn check(command: &Command<'_>) -> Result<(), Error> {
    let (name, flags) = (command.name(), command.spec().flags);
    if !flags.has(Flags::CONNECTION_STATE) && !matches!(name, "WAIT" | "WAITAOF") {
        return Ok(());
    }
    if let Some(why) = command.refusal() {
        return Err(Error::new(Misuse::Argument(why), Ran::NotSent, name));
    }
    let misuse = Misuse::ConnectionState { command: name, instead: instead(name) };
    Err(Error::new(misuse, Ran::NotSent, name))
}

fn instead(name: &str) -> &'static str {
    match name {
        "MULTI" | "EXEC" | "DISCARD" => "use client.transaction()",
        "WATCH" | "UNWATCH" => "use client.watch(), or client.dedicated()",
        "SUBSCRIBE" | "UNSUBSCRIBE" => "use client.subscribe()",
        "PSUBSCRIBE" | "PUNSUBSCRIBE" => "use client.psubscribe()",
        "SSUBSCRIBE" | "SUNSUBSCRIBE" => "use client.ssubscribe()",
        "SELECT" => "set Config::database, or use client.dedicated()",
        "AUTH" | "HELLO" => "set Config::credentials and Config::protocol, or use client.dedicated()",
        "CLIENT SETNAME" => "set Config::client_name, or use client.dedicated()",
        "CLIENT TRACKING" | "CLIENT CACHING" => "use client.cached()",
        "READONLY" | "READWRITE" => "set Config::read_from, or use call.on(Route::Replica(…))",
        "QUIT" | "RESET" => "use client.close()",
        "ASKING" => "redirects are followed without it",
        "CLIENT" | "SCRIPT" => "name the subcommand, as in Command::raw(\"CLIENT LIST\")",
        "MONITOR" => "use client.monitor()",
        "SYNC" | "PSYNC" | "REPLCONF" | "CLIENT REPLY" => "this client does not support it",
        _ => "use client.dedicated()",
    }
}
