//! What the output of a service that failed says of where: the last traceback in it, the place in the program's own
//! files, the message. Pure; what it takes for a place is what interpreters and compilers print.

use std::ops::Range;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found<'a> {
    /// What is wrong, as the program says it.
    pub(super) message: &'a str,
    file: &'a str,
    line: &'a str,
    /// The lines of the output that belong to it.
    pub(super) lines: Range<usize>,
}

impl Found<'_> {
    /// `file:line`.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// Parts of paths that are not the program's own files.
const FOREIGN: [&str; 13] = [
    "site-packages",
    "dist-packages",
    "/lib/python",
    "<frozen",
    "<string>",
    "node_modules",
    "node:",
    "internal/",
    "/rustc/",
    "/.cargo/registry",
    "/usr/local/go/",
    "/pkg/mod/",
    "vendor/",
];

/// Looks through the last lines of the output.
pub(super) fn find(output: &[String]) -> Option<Found<'_>> {
    python(output).or_else(|| others(output))
}

/// The innermost place of the last traceback that is in a file of the program; the last line is the message.
fn python(output: &[String]) -> Option<Found<'_>> {
    let last = output.iter().rposition(|line| python_place(line).is_some())?;
    let begin = output[..last].iter().rposition(|line| line.starts_with("Traceback (")).unwrap_or(last);
    let places = || output[begin..=last].iter().rev().filter_map(|line| python_place(line));
    let (file, line) = places().find(|(file, _)| is_own(file)).or_else(|| places().next())?;
    let is_message = |text: &String| !text.starts_with(' ') && !text.trim().is_empty();
    let message = last + 1 + output[last + 1..].iter().position(is_message)?;
    Some(Found { message: &output[message], file, line, lines: begin..message + 1 })
}

/// `  File "app.py", line 3`, of any depth.
fn python_place(text: &str) -> Option<(&str, &str)> {
    let (file, rest) = text.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    Some((file, number(rest)?))
}

/// The first `file:line` that is the program's own; the message is the line that says "error" next to it, or the
/// place's.
fn others(output: &[String]) -> Option<Found<'_>> {
    let (at, (file, line)) =
        output.iter().enumerate().find_map(|(at, text)| Some((at, place(text).filter(|(file, _)| is_own(file))?)))?;
    let is_error = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["error", "panic", "exception", "fatal"].iter().any(|word| text.contains(word))
    };
    let near = [at, at.saturating_sub(1), at.saturating_sub(2)].into_iter().chain(at + 1..output.len());
    let message = near.take(REACH).find(|index| output.get(*index).is_some_and(|text| is_error(text))).unwrap_or(at);
    Some(Found { message: output[message].trim(), file, line, lines: at.min(message)..at.max(message) + 1 })
}

/// Lines around a place in which its message may be.
const REACH: usize = 10;

/// `src/main.rs:3:5`, `(/srv/a.js:10:5)`, `in /srv/a.php on line 5`: with a name that has an ending.
fn place(text: &str) -> Option<(&str, &str)> {
    if let Some((before, rest)) = text.split_once(" on line ") {
        return Some((before.rsplit(' ').next().filter(|file| has_ending(file))?, number(rest)?));
    }
    text.split([' ', '\t', '(', ')', '\'', '"', '`']).find_map(|word| {
        let word = word.strip_prefix("file://").unwrap_or(word);
        let (file, rest) = word.split_once(':')?;
        Some((file, number(rest)?)).filter(|(file, _)| has_ending(file))
    })
}

fn number(text: &str) -> Option<&str> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    (1..=9).contains(&digits).then(|| &text[..digits])
}

/// `app.js`, and neither `127.0.0.1` nor `localhost`.
fn has_ending(file: &str) -> bool {
    let ending = file.rsplit_once('.').map_or("", |(_, ending)| ending);
    (1..=5).contains(&ending.len())
        && ending.starts_with(|c: char| c.is_ascii_alphabetic())
        && !file.starts_with('.') | file.starts_with("./")
}

fn is_own(file: &str) -> bool {
    !FOREIGN.iter().any(|part| file.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, place: &str, message: &str) {
        let lines: Vec<String> = output.lines().map(str::to_owned).collect();
        let found = find(&lines).unwrap();
        assert_eq!((found.place().as_str(), found.message), (place, message));
        assert!(found.lines.end <= lines.len() && lines[found.lines].iter().any(|line| line.trim() == message));
    }

    #[test]
    fn tracebacks_of_python() {
        let deep = "starting\nTraceback (most recent call last):\n  File \"/usr/lib/python3.11/runpy.py\", line 196, in _run\n    \
                    return x\n  File \"/srv/app.py\", line 3, in <module>\n    import flaskk\n  File \"/v/site-packages/x.py\", line 9, in f\n    \
                    y\nModuleNotFoundError: No module named 'flaskk'\nbye";
        check(deep, "/srv/app.py:3", "ModuleNotFoundError: No module named 'flaskk'");
        let syntax = "  File \"/srv/app.py\", line 7\n    def x(\n         ^\nSyntaxError: '(' was never closed";
        check(syntax, "/srv/app.py:7", "SyntaxError: '(' was never closed");
    }

    #[test]
    fn what_others_print() {
        let node = "/srv/server.js:3\nconst x = ;\n          ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe (node:internal/modules/cjs/loader:1378:20)";
        check(node, "/srv/server.js:3", "SyntaxError: Unexpected token ';'");
        let thrown =
            "node:events:495\n      throw er;\nError: no\n    at f (node:net:1:2)\n    at g (/srv/a.mjs:10:5)\n";
        check(thrown, "/srv/a.mjs:10", "Error: no");
        check(
            "error[E0425]: cannot find value `x`\n --> src/main.rs:4:5\n  |",
            "src/main.rs:4",
            "error[E0425]: cannot find value `x`",
        );
        check(
            "thread 'main' (1) panicked at src/main.rs:2:5:\nboom",
            "src/main.rs:2",
            "thread 'main' (1) panicked at src/main.rs:2:5:",
        );
        check("# shop\n./main.go:5:2: undefined: x", "./main.go:5", "./main.go:5:2: undefined: x");
        check(
            "PHP Parse error:  syntax error in /srv/a.php on line 5",
            "/srv/a.php:5",
            "PHP Parse error:  syntax error in /srv/a.php on line 5",
        );
    }

    #[test]
    fn what_is_no_place() {
        for text in [
            "listening on 127.0.0.1:8080",
            "http://localhost:80",
            "12:30:01 ok",
            "a.b:c",
            ":",
            "",
            "  File \"",
            "on line 5 on line ",
        ] {
            assert_eq!(find(&[text.to_owned()]), None, "{text}");
        }
        assert_eq!(find(&[]), None);
    }
}
