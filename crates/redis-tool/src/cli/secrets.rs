//! Which lines hold secrets, and so are not kept in the history. Pure.

use crate::words;

/// Parameters of `CONFIG SET` whose values are secrets.
const PARAMETERS: [&str; 6] =
    ["requirepass", "masterauth", "primaryauth", "tls-key-file-pass", "tls-client-key-file-pass", "masteruser"];

/// Whether a line has, or may have, a password in it. A line with wrong quotes is looked at blank by blank.
pub(super) fn has_secret(line: &str) -> bool {
    let parsed = words::split(line.as_bytes()).unwrap_or_else(|_| words::blank_separated(line.as_bytes()));
    let parsed: Vec<String> = parsed.iter().map(|word| String::from_utf8_lossy(&word.bytes).to_lowercase()).collect();
    let mut rest: Vec<&str> = parsed.iter().map(|word| word.trim_matches(['"', '\''])).collect();
    // What may precede a command: a number of repetitions, and where it is to run.
    if rest.len() > 1 && rest[0].parse::<u64>().is_ok() {
        rest.remove(0);
    }
    match rest.as_slice() {
        ["on", "node", _, ..] => drop(rest.drain(..3)),
        ["on", _, ..] => drop(rest.drain(..2)),
        _ => {}
    }
    is_secret(&rest)
}

fn is_secret(words: &[&str]) -> bool {
    match words {
        ["auth", ..] => true,
        ["hello" | "migrate", rest @ ..] => rest.iter().any(|word| matches!(*word, "auth" | "auth2")),
        ["acl", "setuser", ..] => true,
        ["config", "set", rest @ ..] => rest.iter().any(|word| PARAMETERS.contains(word)),
        ["sentinel", "set" | "config", rest @ ..] => {
            rest.iter().any(|word| matches!(*word, "auth-pass" | "auth-user" | "sentinel-pass" | "sentinel-user"))
        }
        ["connect", url, ..] => url.contains('@'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_noticed() {
        for line in [
            "auth x",
            " AUTH user x",
            "\"auth\" x",
            "3 auth x",
            "on all auth x",
            "ON NODE h:1 CONFIG SET requirepass x",
            "hello 3 AUTH u p",
            "config set maxmemory 1 RequirePass x",
            "config set masterauth x",
            "CONFIG SET tls-key-file-pass x",
            "acl setuser ada on >x",
            "migrate h 1 k 0 1 AUTH x",
            "migrate h 1 k 0 1 auth2 u x",
            "sentinel set m auth-pass x",
            "sentinel config set sentinel-pass x",
            "auth \"x",
            "acl setuser a '>b",
        ] {
            assert!(has_secret(line), "{line}");
        }
        for line in ["get auth", "hello 3", "config get requirepass", "acl list", "set a b", "", "on", "3"] {
            assert!(!has_secret(line), "{line}");
        }
    }
}
