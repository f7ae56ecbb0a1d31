//! What is asked for before a command that destroys, at a prompt only. Pure.

/// `KEYS` goes through all keys while everybody else waits: it is asked about above so many.
pub(super) const MAX_KEYS_UNASKED: i64 = 100_000;

/// What a command would do that should not happen by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Danger {
    /// In words.
    Always(&'static str),
    /// It looks at every key: it depends on how many there are.
    LooksAtAllKeys,
}

/// The danger of a command, if it is dangerous.
pub(super) fn danger(words: &[Vec<u8>]) -> Option<Danger> {
    let word = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).to_uppercase()).unwrap_or_default();
    let (name, sub) = (word(0), word(1));
    Some(Danger::Always(match (name.as_str(), sub.as_str()) {
        ("KEYS", _) => return Some(Danger::LooksAtAllKeys),
        ("FLUSHALL", _) => "deletes all keys of all databases",
        ("FLUSHDB", _) => "deletes all keys of this database",
        ("SHUTDOWN", "ABORT") => return None,
        ("SHUTDOWN", _) => "ends the server",
        ("SWAPDB", _) => "exchanges two databases under all clients",
        (
            "DEBUG",
            "OBJECT" | "LISTPACK" | "JMAP" | "HTSTATS" | "HTSTATS-KEY" | "STRINGMATCH-LEN" | "HELP" | "PROTOCOL",
        ) => {
            return None;
        }
        ("DEBUG", "SLEEP") => "stops the server for that time",
        ("DEBUG", _) => "may end the server or lose data",
        ("REPLICAOF" | "SLAVEOF", "NO") => "makes the server a primary",
        ("REPLICAOF" | "SLAVEOF", _) => "replaces the server's data by another server's",
        ("FAILOVER", sub) if sub != "ABORT" => "gives the role of the primary away",
        ("CLUSTER", "RESET") => "makes the node forget the cluster, and its keys with HARD",
        ("CLUSTER", "FLUSHSLOTS" | "DELSLOTS" | "DELSLOTSRANGE") => "leaves slots without a node",
        ("CLUSTER", "FORGET") => "removes a node from the cluster",
        ("CLUSTER", "FAILOVER") => "makes a replica the primary",
        ("CLUSTER", "REPLICATE") => "makes the node a replica, without its data",
        ("SCRIPT" | "FUNCTION", "FLUSH") => "deletes all scripts or functions",
        ("FUNCTION", "DELETE") => "deletes a library of functions",
        ("ACL", "DELUSER") => "deletes users and closes their connections",
        ("MODULE", "UNLOAD") => "removes a module",
        ("XGROUP", "DESTROY") => "deletes a consumer group and what it has pending",
        _ => return None,
    }))
}

/// Whether an answer is a yes.
pub(super) fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_destroys_is_asked_about() {
        let of = |line: &str| danger(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        for line in
            ["flushall", "FLUSHDB async", "shutdown nosave", "debug segfault", "swapdb 0 1", "cluster reset hard"]
        {
            assert!(matches!(of(line), Some(Danger::Always(_))), "{line}");
        }
        assert_eq!(of("keys *"), Some(Danger::LooksAtAllKeys));
        for line in ["get flushall", "del a", "cluster nodes", "debug object a", "config set save x", "failover abort"]
        {
            assert_eq!(of(line), None, "{line}");
        }
        assert!(is_yes(" Yes ") && is_yes("y") && !is_yes("") && !is_yes("ja"));
    }
}
