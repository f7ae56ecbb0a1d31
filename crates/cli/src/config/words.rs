//! A command written as one string, split into words as a POSIX shell would split it. No shell ever sees it, so what
//! only a shell could do is refused by name instead of being passed on as text.

use super::shown::shown;
use super::value::Rejected;

/// Splits `text` by blanks, with `'…'`, `"…"` and `\` as in POSIX.1-2024 XCU §2.2.
pub(super) fn split(text: &str) -> Result<Vec<String>, Rejected> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => single_quoted(&mut rest, word.get_or_insert_default())?,
            '"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            '\\' => match rest.next() {
                Some('\n') => {}
                Some(c) => word.get_or_insert_default().push(c),
                None => {
                    return Err(Rejected::help("the command ends with a lone `\\`", "take it away or write `\\\\`"));
                }
            },
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' => return Err(needs_a_shell(&c.to_string())),
            '#' | '~' if word.is_none() => return Err(needs_a_shell(&c.to_string())),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn single_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), Rejected> {
    for c in rest {
        if c == '\'' {
            return Ok(());
        }
        word.push(c);
    }
    Err(unclosed("'"))
}

fn double_quoted(rest: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), Rejected> {
    while let Some(c) = rest.next() {
        match c {
            '"' => return Ok(()),
            '$' | '`' => return Err(needs_a_shell(&c.to_string())),
            '\\' => match rest.next() {
                Some(c @ ('$' | '`' | '"' | '\\')) => word.push(c),
                Some('\n') => {}
                Some(c) => word.extend(['\\', c]),
                None => break,
            },
            c => word.push(c),
        }
    }
    Err(unclosed("\""))
}

fn unclosed(quote: &str) -> Rejected {
    Rejected::help(
        format!("the command has a quote {quote} that is never closed"),
        "close it, or write the command as a list of strings",
    )
}

fn needs_a_shell(what: &str) -> Rejected {
    Rejected::help(
        format!("{} means something to a shell, but no shell reads this command", shown(what)),
        "quote it to pass it on as text, or ask for a shell: [\"sh\", \"-c\", \"…\"]",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(split(text).unwrap(), expected, "{text:?}");
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        let reason = split(text).unwrap_err().reason;
        assert!(reason.contains(expected), "{text:?}: {reason}");
    }

    #[test]
    fn words_quotes_and_escapes() {
        check("./app --flag  x\ty", &["./app", "--flag", "x", "y"]);
        check("a 'b c' \"d e\" f\\ g", &["a", "b c", "d e", "f g"]);
        check("a'b'\"c\"d ''", &["abcd", ""]);
        check(r#""a\"b\\c\d" '\n'"#, &[r#"a"b\c\d"#, "\\n"]);
        check(r"'$HOME' \$x a#b a~", &["$HOME", "$x", "a#b", "a~"]);
        check("", &[]);
        check("  ", &[]);
    }

    #[test]
    fn what_only_a_shell_can_do_is_refused() {
        for text in ["a && b", "a | b", "a; b", "a > b", "echo $HOME", "\"$x\"", "`id`", "a # b", "~/app", "(a)"] {
            check_refused(text, "no shell reads this command");
        }
        check_refused("a 'b", "never closed");
        check_refused("a \"b", "never closed");
        check_refused("a \"b\\", "never closed");
        check_refused("a \\", "lone");
    }

    proptest! {
        #[test]
        fn quoted_words_come_back(words in prop::collection::vec("[^']{0,12}", 0..6)) {
            let text: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(split(&text.join(" ")), Ok(words));
        }

        #[test]
        fn no_text_is_too_odd(text in any::<String>()) {
            let _ = split(&text);
        }
    }
}
