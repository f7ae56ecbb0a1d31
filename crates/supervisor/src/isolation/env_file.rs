//! Files of variables: `NAME=value` lines. Pure.

/// What is wrong with a file of variables. Its contents are never part of the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct EnvFileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Reads variables, in their order: empty lines and lines that begin with `#` are skipped, `export ` before a name is
/// allowed, a value may stand in single quotes (taken as it is) or double quotes (`\n`, `\t`, `\"`, `\\`, `\$` are
/// understood), nothing is expanded.
///
/// # Errors
/// A line is not `NAME=value`, a quote is not closed, or a name belongs to Pilotlight.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, EnvFileError> {
    let mut variables = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        variables.push(variable(line).map_err(|reason| EnvFileError { line: index + 1, reason })?);
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

fn variable(line: &str) -> Result<(String, String), &'static str> {
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, value) = line.split_once('=').ok_or("it is not NAME=value")?;
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '\0') {
        return Err("its name is empty or has a space in it");
    }
    if is_own_variable(name) {
        return Err("its variable is set by Pilotlight itself");
    }
    let value = unquoted(value.trim_start())?;
    if value.contains('\0') {
        return Err("a zero byte cannot stand in a variable");
    }
    Ok((name.to_owned(), value))
}

fn unquoted(value: &str) -> Result<String, &'static str> {
    if let Some(rest) = value.strip_prefix('\'') {
        let (inner, after) = rest.split_once('\'').ok_or("its quote is not closed")?;
        return if is_rest(after) { Ok(inner.to_owned()) } else { Err("something follows its closing quote") };
    }
    let Some(rest) = value.strip_prefix('"') else {
        return Ok(value.split(" #").next().unwrap_or_default().trim_end().to_owned());
    };
    let mut inner = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next().ok_or("its quote is not closed")? {
            '"' if is_rest(chars.as_str()) => return Ok(inner),
            '"' => return Err("something follows its closing quote"),
            '\\' => match chars.next().ok_or("its quote is not closed")? {
                'n' => inner.push('\n'),
                't' => inner.push('\t'),
                c @ ('"' | '\\' | '$') => inner.push(c),
                other => inner.extend(['\\', other]),
            },
            c => inner.push(c),
        }
    }
}

fn is_rest(text: &str) -> bool {
    let text = text.trim_start();
    text.is_empty() || text.starts_with('#')
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
        check("# comment\n\nA=1\nexport B = 2", Err((4, "its name is empty or has a space in it")));
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
