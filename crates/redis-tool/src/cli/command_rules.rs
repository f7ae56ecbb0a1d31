//! What is special about some commands, known by their words. Pure.

use crate::spec::spec_of;

/// A number before a command says how often it is to run: `3 INCR n`.
pub(super) fn repetition(words: &[Vec<u8>]) -> (u64, &[Vec<u8>]) {
    let number = |word: &Vec<u8>| std::str::from_utf8(word).ok()?.parse().ok().filter(|number| *number > 0);
    match words {
        [first, rest @ ..] if !rest.is_empty() => number(first).map_or((1, words), |times| (times, rest)),
        _ => (1, words),
    }
}

/// Whether the command is answered by messages without end.
pub(super) fn is_endless(words: &[Vec<u8>]) -> bool {
    let endless: [&[u8]; 4] = [b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE", b"MONITOR"];
    words.first().is_some_and(|word| endless.iter().any(|name| word.eq_ignore_ascii_case(name)))
}

/// Why a command cannot be sent at all, if so.
pub(super) fn refusal(words: &[Vec<u8>]) -> Option<&'static str> {
    let is = |at: usize, name: &[u8]| words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(name));
    if is(0, b"SYNC") || is(0, b"PSYNC") {
        return Some("the stream of replication is nothing to be read at a terminal: use `redis-cli --rdb FILE`");
    }
    if is(0, b"CLIENT") && is(1, b"REPLY") && !is(2, b"ON") {
        return Some("without replies nothing could be shown: use --pipe for many commands at once");
    }
    None
}

/// How often the server answers the end of subscriptions: for each channel, and as pushes with RESP3. 0: it is another
/// command.
pub(super) fn confirmations(words: &[Vec<u8>]) -> usize {
    match spec_of(words).name {
        "UNSUBSCRIBE" | "PUNSUBSCRIBE" | "SUNSUBSCRIBE" => words.len().saturating_sub(1).max(1),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::split_bytes;

    #[test]
    fn a_number_repeats() {
        let words = |line: &str| split_bytes(line.as_bytes()).unwrap();
        assert_eq!(repetition(&words("3 INCR n")).0, 3);
        assert_eq!(repetition(&words("3")), (1, &words("3")[..]));
        assert_eq!(repetition(&words("INCR 3")).0, 1);
        assert_eq!(repetition(&words("0 PING")).0, 1);
    }
}
