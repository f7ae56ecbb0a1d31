//! What may follow a line that is being typed. Pure.

use super::commands::Table;
use crate::words::{Word, split_unfinished};

/// What is to be shown behind the line: the arguments that are still to come.
pub(super) fn hint(table: &Table, line: &str) -> Option<String> {
    let words = split_unfinished(line);
    let (words, last) = match words.split_last() {
        Some((last, rest)) if last.bytes.is_empty() => (after_prefix(rest), ""),
        Some(_) => (after_prefix(&words), " "),
        None => return None,
    };
    let bytes: Vec<&[u8]> = words.iter().map(|word| &*word.bytes).collect();
    let (_, entry, name_words) = table.find(&bytes)?;
    let rest = remaining(&entry.syntax, &bytes[name_words..]);
    (!rest.is_empty()).then(|| format!("{last}{rest}"))
}

/// Words that may come next according to the syntax: options that were not given, and values that have names of their
/// own.
pub(super) fn tokens(syntax: &str, typed: &[&[u8]]) -> Vec<String> {
    let rest = remaining(syntax, typed);
    let mut tokens: Vec<String> = Vec::new();
    let mut goes_on = true;
    for part in parts(&rest) {
        if goes_on {
            let first_words = part.alternatives.iter().filter_map(|words| words.first());
            tokens.extend(first_words.filter(|word| is_token(word)).cloned());
        }
        // What comes after something that must be given is not next.
        goes_on &= part.is_optional;
    }
    tokens.dedup();
    tokens
}

/// The words after what may precede a command: a number of repetitions, `ON ALL`, `ON NODE address`, `HELP`.
pub(super) fn after_prefix(words: &[Word]) -> &[Word] {
    let is = |at: usize, name: &str| words.get(at).is_some_and(|word| word.bytes.eq_ignore_ascii_case(name.as_bytes()));
    let is_number = |word: &Word| !word.bytes.is_empty() && word.bytes.iter().all(u8::is_ascii_digit);
    let skipped = match words.len() {
        length if length > 3 && is(0, "ON") && is(1, "NODE") => 3,
        length if length > 2 && is(0, "ON") && (is(1, "ALL") || is(1, "PRIMARIES")) => 2,
        length if length > 1 && (is_number(&words[0]) || is(0, "HELP")) => 1,
        _ => 0,
    };
    &words[skipped..]
}

/// The part of a syntax that the typed arguments have not used up.
fn remaining(syntax: &str, typed: &[&[u8]]) -> String {
    let parts = parts(syntax);
    let mut is_used = vec![false; parts.len()];
    let mut at = 0;
    let mut open = String::new();
    while at < typed.len() {
        let Some((index, words)) = taker(&parts, &is_used, typed[at]) else { break };
        if parts[index].is_repetition {
            break;
        }
        if !(parts[index].is_optional && parts[index].is_named()) {
            // What might have come before it did not.
            is_used[..index].fill(true);
        }
        is_used[index] = true;
        if let Some(nested) = &parts[index].nested {
            // Its own options come next, beside those that are left.
            let unused = parts.iter().zip(&is_used).filter(|(_, used)| !**used).map(|(part, _)| &*part.text);
            let syntax: Vec<_> = std::iter::once(&**nested).chain(unused).collect();
            return remaining(&syntax.join(" "), &typed[at + 1..]);
        }
        let given = words.len().min(typed.len() - at);
        open = words[given..].join(" ");
        at += words.len();
    }
    let rest = parts.iter().zip(&is_used).filter(|(_, used)| !**used).map(|(part, _)| part.text.clone());
    let rest: Vec<_> = (!open.is_empty()).then_some(open).into_iter().chain(rest).collect();
    rest.join(" ")
}

/// The part that a typed word belongs to, and the words that it has then.
fn taker<'p>(parts: &'p [Part], is_used: &[bool], word: &[u8]) -> Option<(usize, &'p [String])> {
    let unused = || parts.iter().enumerate().filter(|(index, _)| !is_used[*index]);
    let is_required_next = unused().next().is_some_and(|(_, part)| !part.is_optional);
    let named = |(index, part): (usize, &'p Part)| {
        let alternative = part.alternatives.iter().find(|words| {
            words.first().is_some_and(|first| is_token(first) && first.as_bytes().eq_ignore_ascii_case(word))
        });
        alternative.map(|words| (index, &**words))
    };
    if !is_required_next && let Some(found) = unused().filter(|(_, part)| part.is_optional).find_map(named) {
        return Some(found);
    }
    let (index, part) = unused().find(|(_, part)| !part.is_optional || !part.is_named())?;
    named((index, part)).or_else(|| Some((index, part.alternatives.first()?)))
}

/// One element of a syntax.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    text: String,
    is_optional: bool,
    /// It ends in `...`.
    is_repetition: bool,
    /// The words of each way to give it.
    alternatives: Vec<Vec<String>>,
    /// What follows its first word, if there are options in it: `[MAXLEN|MINID [=|~] threshold [LIMIT count]]`.
    nested: Option<String>,
}

impl Part {
    /// Whether it is recognised by a word of its own.
    fn is_named(&self) -> bool {
        self.alternatives.iter().all(|words| words.first().is_some_and(|word| is_token(word)))
    }
}

fn parts(syntax: &str) -> Vec<Part> {
    split_at(syntax, ' ').into_iter().map(part).collect()
}

fn part(text: &str) -> Part {
    let within = |open, close| text.strip_prefix(open).and_then(|text: &str| text.strip_suffix(close));
    let is_optional = within('[', ']').is_some();
    let inner = within('[', ']').or_else(|| within('<', '>')).unwrap_or(text);
    let is_repetition = inner.ends_with("...");
    let words = |alternative: &str| -> Vec<String> {
        let words = split_at(alternative, ' ').into_iter();
        words.filter(|word| !word.starts_with('[') && *word != "...").map(str::to_owned).collect()
    };
    let (first, rest) = match &split_at(inner, ' ')[..] {
        [first, rest @ ..] if is_optional && rest.iter().any(|part| part.starts_with('[')) => (*first, rest.join(" ")),
        _ => (inner, String::new()),
    };
    let is_nested = !rest.is_empty() && split_at(first, '|').into_iter().all(is_token);
    let (inner, nested) = if is_nested { (first, Some(rest)) } else { (inner, None) };
    let alternatives = split_at(inner, '|').into_iter().map(words).filter(|words| !words.is_empty()).collect();
    Part { text: text.to_owned(), is_optional, is_repetition, alternatives, nested }
}

/// Splits outside of brackets.
fn split_at(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, character) in text.char_indices() {
        match character {
            '[' | '<' => depth += 1,
            ']' | '>' => depth -= 1,
            other if other == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether a word of a syntax stands for itself.
fn is_token(word: &str) -> bool {
    let is_name =
        word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_');
    (is_name && word.bytes().any(|byte| byte.is_ascii_uppercase())) || matches!(word, "*" | "=" | "~" | "+" | "-" | "$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        assert_eq!(hint(&Table::built_in(), line).unwrap_or_default(), expected, "{line}");
    }

    #[test]
    fn what_was_typed_is_left_out() {
        check("", "");
        check("ge", "");
        check("get", " key");
        check("get ", "key");
        check("get a", "");
        check(
            "set a ",
            "value [NX|XX|IFEQ comparison-value] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
        );
        check(
            "set a 1 nx ",
            "[GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
        );
        check("set a 1 EX ", "seconds [NX|XX|IFEQ comparison-value] [GET]");
        check("set a 1 EX 10 ", "[NX|XX|IFEQ comparison-value] [GET]");
        check(
            "set get ",
            "value [NX|XX|IFEQ comparison-value] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]",
        );
        check("mset a 1", " [key value ...]");
        check("mset a 1 b 2 ", "[key value ...]");
        check("zadd z gt ", "[NX|XX] [CH] [INCR] score member [score member ...]");
        check("config set", " parameter value [parameter value ...]");
        check("3 incr ", "key");
        check("on node h:1 get ", "key");
        check("scan 0 match a* ", "[COUNT count] [TYPE type]");
        let entry = "*|id field value [field value ...]";
        check("xadd s ", &format!("[NOMKSTREAM] [MAXLEN|MINID [=|~] threshold [LIMIT count]] {entry}"));
        check("xadd s maxlen ", &format!("[=|~] threshold [LIMIT count] [NOMKSTREAM] {entry}"));
        check("xadd s nomkstream MINID ~ ", &format!("threshold [LIMIT count] {entry}"));
        check("xadd s maxlen 10 ", &format!("[LIMIT count] [NOMKSTREAM] {entry}"));
        check("xadd s maxlen ~ 10 limit ", &format!("count [NOMKSTREAM] {entry}"));
        check("xadd s maxlen ~ 10 limit 5 ", &format!("[NOMKSTREAM] {entry}"));
        check(
            "sort k get p ",
            "[GET pattern ...] [BY pattern] [LIMIT offset count] [ASC|DESC] [ALPHA] [STORE destination]",
        );
        check("nonsense a ", "");
        check("get \"a b", "");
    }

    #[test]
    fn options_can_be_completed() {
        let table = Table::built_in();
        let of = |line: &[&[u8]]| tokens(&table.find(line).unwrap().1.syntax, &line[1..]);
        assert_eq!(of(&[b"set", b"a", b"1"]), ["NX", "XX", "IFEQ", "GET", "EX", "PX", "EXAT", "PXAT", "KEEPTTL"]);
        assert_eq!(of(&[b"lmove", b"a", b"b"]), ["LEFT", "RIGHT"]);
        assert!(of(&[b"get"]).is_empty());
        assert_eq!(of(&[b"xadd", b"s"]), ["NOMKSTREAM", "MAXLEN", "MINID", "*"]);
        assert_eq!(of(&[b"xadd", b"s", b"maxlen"]), ["=", "~"]);
        assert_eq!(of(&[b"xadd", b"s", b"maxlen", b"5"]), ["LIMIT", "NOMKSTREAM", "*"]);
    }
}
