//! Files of variables: `NAME=value` lines. Pure.

use pilotlight_printable::without_mark;

/// What is wrong with a file of variables. Its contents are never part of the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct EnvFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Reads variables, in their order, as tools for `.env` files do: empty lines and lines that begin with `#` are
/// skipped, `export ` before a name and spaces around `=` are allowed, `#` at the beginning of a value or behind a
/// space begins a comment. A value may stand in single quotes (taken as it is) or double quotes (`\n`, `\t`, `\"`,
/// `\\`, `\$` are understood), then it may have several lines. Nothing is expanded.
///
/// # Errors
/// A line is not `NAME=value`, a quote is not closed, or a name belongs to Pilotlight.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, EnvFileError> {
    let text = without_mark(text).replace("\r\n", "\n");
    let mut variables = Vec::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let line = text[..text.len() - rest.len()].matches('\n').count() + 1;
        let (first, below) = rest.split_once('\n').unwrap_or((rest, ""));
        if first.trim().is_empty() || first.trim_start().starts_with('#') {
            rest = below;
            continue;
        }
        let (variable, behind) = variable(rest).map_err(|reason| EnvFileError { line, reason })?;
        variables.push(variable);
        rest = behind;
    }
    Ok(variables)
}

/// Whether Pilotlight itself sets this variable, so that nobody else may. What its SDKs read to be told something, the
/// service's author may set.
#[must_use]
pub fn is_own_variable(name: &str) -> bool {
    match name {
        "LISTEN_FDS" | "LISTEN_PID" | "LISTEN_FDNAMES" => true,
        "PILOTLIGHT_PURE" => false,
        _ => name.starts_with("PILOTLIGHT_"),
    }
}

/// The variable that a text begins with, and the lines below it.
fn variable(text: &str) -> Result<((String, String), &str), &'static str> {
    const FORM: &str = "it is not NAME=value";
    let text = text.trim_start();
    let text = match text.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])) {
        Some(rest) if !rest.trim_start_matches(BLANK).starts_with('=') => rest.trim_start_matches(BLANK),
        _ => text,
    };
    let first = text.split('\n').next().unwrap_or(text);
    let (name, _) = first.split_once('=').ok_or(FORM)?;
    let behind = text.get(name.len() + 1..).ok_or(FORM)?;
    let name = name.trim_end();
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '\0') {
        return Err("its name is empty or has a space in it");
    }
    if is_own_variable(name) {
        return Err("its variable is set by Pilotlight itself");
    }
    let (value, rest) = unquoted(behind.trim_start_matches(BLANK))?;
    if value.contains('\0') {
        return Err("a zero byte cannot stand in a variable");
    }
    Ok(((name.to_owned(), value), rest))
}

/// What may stand around `=` and before a comment.
const BLANK: [char; 2] = [' ', '\t'];

/// A value without its quotes, and the lines below it.
fn unquoted(value: &str) -> Result<(String, &str), &'static str> {
    const OPEN: &str = "its quote is not closed";
    if let Some(rest) = value.strip_prefix('\'') {
        let (inner, after) = rest.split_once('\'').ok_or(OPEN)?;
        return Ok((inner.to_owned(), below(after)?));
    }
    let Some(rest) = value.strip_prefix('"') else {
        let (line, below) = value.split_once('\n').unwrap_or((value, ""));
        let begins_comment = |at: &usize| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
        let end = line.match_indices('#').map(|(at, _)| at).find(begins_comment).unwrap_or(line.len());
        return Ok((line[..end].trim_end().to_owned(), below));
    };
    let mut inner = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next().ok_or(OPEN)? {
            '"' => return Ok((inner, below(chars.as_str())?)),
            '\\' => match chars.next().ok_or(OPEN)? {
                'n' => inner.push('\n'),
                't' => inner.push('\t'),
                c @ ('"' | '\\' | '$') => inner.push(c),
                other => inner.extend(['\\', other]),
            },
            c => inner.push(c),
        }
    }
}

/// The lines below a closing quote, behind which there is nothing but a comment.
fn below(text: &str) -> Result<&str, &'static str> {
    let (line, below) = text.split_once('\n').unwrap_or((text, ""));
    let line = line.trim_start();
    let is_over = line.is_empty() || line.starts_with('#');
    is_over.then_some(below).ok_or("something follows its closing quote")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&[(&str, &str)], (usize, &str)>) {
        let got = parse(text).map_err(|error| (error.line, error.reason));
        let owned =
            |list: &[(&str, &str)]| list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect::<Vec<_>>();
        assert_eq!(got, expected.map(owned), "{text:?}");
    }

    #[test]
    fn files() {
        check("", Ok(&[]));
        check("# comment\n\nA=1\nexport B = 2", Ok(&[("A", "1"), ("B", "2")]));
        check("A B=1", Err((1, "its name is empty or has a space in it")));
        check("=1", Err((1, "its name is empty or has a space in it")));
        check("\u{feff}A=1\r\nB=2\r\n", Ok(&[("A", "1"), ("B", "2")]));
        check("A=   # note\nB=\nC=#x\nD=x#y", Ok(&[("A", ""), ("B", ""), ("C", ""), ("D", "x#y")]));
        check("A=one\t# why\nB\t=\t2 \t # why", Ok(&[("A", "one"), ("B", "2")]));
        check("export=1\nexport\tA=2", Ok(&[("export", "1"), ("A", "2")]));
        let key = "KEY=\"-----BEGIN\nabc\n-----END\" # x\nB='l1\n\n l3'\nC=1";
        check(key, Ok(&[("KEY", "-----BEGIN\nabc\n-----END"), ("B", "l1\n\n l3"), ("C", "1")]));
        check("A=\"1\n2\nB=3", Err((1, "its quote is not closed")));
        check("A=\"1\n2\"\n\nB", Err((4, "it is not NAME=value")));
        check("A=1\nexport B=two words # why\nC=", Ok(&[("A", "1"), ("B", "two words"), ("C", "")]));
        check("URL=postgres://u:p@h/d?x=1#top", Ok(&[("URL", "postgres://u:p@h/d?x=1#top")]));
        check("A='$x \"y\"' # c\nB=\"l1\\nl2 \\\"q\\\" \\$x\"", Ok(&[("A", "$x \"y\""), ("B", "l1\nl2 \"q\" $x")]));
        check("A='open", Err((1, "its quote is not closed")));
        check("A=\"open", Err((1, "its quote is not closed")));
        check("A=\"x\"y", Err((1, "something follows its closing quote")));
        check("\n\nnot a variable", Err((3, "it is not NAME=value")));
        check("PILOTLIGHT_TOKEN=x", Err((1, "its variable is set by Pilotlight itself")));
        check("LISTEN_FDS=1", Err((1, "its variable is set by Pilotlight itself")));
        check("PILOTLIGHT_PURE=1", Ok(&[("PILOTLIGHT_PURE", "1")]));
    }

    proptest! {
        #[test]
        fn a_quoted_value_is_read_back(value in "[^\0\n\r]{0,40}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assert_eq!(parse(&format!("A=\"{quoted}\"")), Ok(vec![("A".to_owned(), value)]));
        }

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,80}") {
            let _ = parse(&text);
        }
    }
}
