//! Which commands the tunnel answers or arranges by itself. All others go to a server as they are.

use pilotlight_redis::command::Flags;

use crate::tunnel::differences;
use crate::tunnel::request::Request;

/// What is done with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A server answers it.
    Server,
    Hello,
    Auth,
    Select,
    Quit,
    Reset,
    Client,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Subscribe,
    Unsubscribe,
    Ping,
    Scan,
    /// What a server says of itself and the other nodes.
    Facts,
    /// There is no connection that it could be about, or no reply that would be true.
    Refused(&'static str),
}

/// What kind of command this is.
#[inline]
pub(super) fn kind(request: &Request<'_>) -> Kind {
    let spec = request.spec();
    // Nearly every command: what has keys and leaves its connection as it was is the servers'.
    if !spec.keys.is_empty() && !spec.flags.has(Flags::CONNECTION_STATE) {
        return Kind::Server;
    }
    by_name(request.name())
}

fn by_name(name: &str) -> Kind {
    match name {
        "HELLO" => Kind::Hello,
        "AUTH" => Kind::Auth,
        "SELECT" => Kind::Select,
        "QUIT" => Kind::Quit,
        "RESET" => Kind::Reset,
        "MULTI" => Kind::Multi,
        "EXEC" => Kind::Exec,
        "DISCARD" => Kind::Discard,
        "WATCH" => Kind::Watch,
        "UNWATCH" => Kind::Unwatch,
        "SUBSCRIBE" | "PSUBSCRIBE" | "SSUBSCRIBE" => Kind::Subscribe,
        "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" => Kind::Unsubscribe,
        "PING" => Kind::Ping,
        "SCAN" => Kind::Scan,
        "INFO" | "ROLE" => Kind::Facts,
        "MONITOR" | "SYNC" | "PSYNC" | "REPLCONF" => Kind::Refused(differences::STREAMS),
        "WAIT" | "WAITAOF" => Kind::Refused(differences::WAIT),
        "READONLY" | "READWRITE" | "ASKING" => Kind::Refused("This instance has cluster support disabled"),
        name if name.starts_with("CLIENT") => match name {
            "CLIENT HELP" | "CLIENT PAUSE" | "CLIENT UNPAUSE" => Kind::Server,
            _ => Kind::Client,
        },
        // A client that learnt the nodes would go past the tunnel.
        name if name == "CLUSTER" || name.starts_with("CLUSTER ") => {
            Kind::Refused("This instance has cluster support disabled")
        }
        _ => Kind::Server,
    }
}

#[cfg(test)]
mod tests {
    use pilotlight_redis::commands::spec;

    use super::*;
    use crate::tunnel::request::Requests;

    #[test]
    fn what_has_keys_needs_no_look_at_its_name() {
        for spec in spec::ALL {
            let words: Vec<&[u8]> = spec.name.split(' ').map(str::as_bytes).collect();
            assert_eq!(kind(&Requests::of_words(&words).get(0).unwrap()), by_name(spec.name), "{}", spec.name);
        }
        assert_eq!(kind(&Requests::of_words(&[b"NOSUCH"]).get(0).unwrap()), Kind::Server);
    }
}
