//! A line of a `package.json` for a shell: which of its commands is the server that takes requests, and where its port
//! is said.
//!
//! `vite build && node server.js`, `vite & node api.js` and `concurrently "vite" "node api.js"` are several commands.
//! Arguments belong to the one that they are for, wherever it stands; the others must not take its port.

/// Programs that take their port by an argument, and the argument.
const PORT_ARGUMENTS: [(&str, &str); 16] = [
    ("astro", "--port $PORT --host 127.0.0.1"),
    ("docusaurus", "--port $PORT --host 127.0.0.1 --no-open"),
    ("eleventy", "--port $PORT"),
    ("ng", "--port $PORT --host 127.0.0.1"),
    ("parcel", "--port $PORT"),
    ("quasar", "--port $PORT --hostname 127.0.0.1"),
    ("react-router", "--port $PORT --host 127.0.0.1"),
    ("rsbuild", "--port $PORT --host 127.0.0.1"),
    ("rspack", "--port $PORT --host 127.0.0.1"),
    ("storybook", "--port $PORT --host 127.0.0.1 --ci"),
    ("vinxi", "--port $PORT --host 127.0.0.1"),
    ("vite", "--port $PORT --strictPort --host 127.0.0.1"),
    ("vitepress", "--port $PORT --host 127.0.0.1"),
    ("vue-cli-service", "--port $PORT --host 127.0.0.1"),
    ("webpack", "--port $PORT"),
    ("wrangler", "--port $PORT --ip 127.0.0.1"),
];
/// Commands of such programs that serve nothing.
const NO_SERVER: [&str; 14] = [
    "build",
    "build-storybook",
    "check",
    "deploy",
    "generate",
    "info",
    "init",
    "inspect",
    "lint",
    "optimize",
    "sync",
    "test",
    "typegen",
    "--watch",
];
/// Programs that serve only if one of their words says so.
const SERVES_IF: [(&str, &[&str]); 3] =
    [("webpack", &["serve"]), ("eleventy", &["--serve"]), ("rspack", &["serve", "dev"])];
/// Programs that run the commands in their quotes, all at once.
const RUNNERS: [&str; 2] = ["concurrently", "conc"];
/// Programs that make files and serve nothing.
const BUILDERS: [&str; 9] =
    ["tailwindcss", "@tailwindcss/cli", "postcss", "sass", "tsc", "esbuild", "rollup", "lessc", "webpack"];

/// A command of a line, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part<'a> {
    start: usize,
    text: &'a str,
}

/// A line with the port of its server said; `None` if it needs no more than the variable `PORT`.
pub(super) fn with_port(line: &str) -> Option<String> {
    let parts = parts(line);
    let (at, arguments) = parts.iter().enumerate().find_map(|(at, part)| Some((at, arguments(part.text)?)))?;
    let mut written = line.to_owned();
    // From the end, so that places stay what they are.
    for (other, part) in parts.iter().enumerate().rev() {
        let range = part.start..part.start + part.text.len();
        if other == at {
            written.replace_range(range, &said(part.text, arguments));
        } else if !serves_nothing(part.text) {
            written.insert_str(part.start, "env -u PORT ");
        }
    }
    Some(written)
}

/// Whether all that a line runs makes files, and none of it serves them.
pub(super) fn only_builds(line: &str) -> bool {
    let is_builder = |part: &Part<'_>| {
        let is_one = BUILDERS.iter().any(|program| names(part.text, program));
        is_one && arguments(part.text).is_none() && !words(part.text).any(|word| word.starts_with("--serve"))
    };
    let parts = parts(line);
    !parts.is_empty() && parts.iter().all(is_builder)
}

/// Whether a line has more than one command.
pub(super) fn has_several(line: &str) -> bool {
    parts(line).len() > 1
}

/// The commands of a line, those within the quotes of a runner in its place.
fn parts(line: &str) -> Vec<Part<'_>> {
    let mut all = Vec::new();
    for part in split(line) {
        let inner = quoted(part);
        match RUNNERS.iter().any(|runner| names(part.text, runner)) && !inner.is_empty() {
            true => all.extend(inner),
            false => all.push(part),
        }
    }
    all
}

/// A line at `&&`, `||`, `;`, `&` and `|` outside of quotes.
fn split(line: &str) -> Vec<Part<'_>> {
    let mut all = Vec::new();
    let (mut start, mut quote) = (0, None);
    // `2>&1` and `&>` are no ends of a command.
    let redirects = |at: usize| line[..at].ends_with('>') || line[at + 1..].starts_with('>');
    for (at, c) in line.char_indices() {
        match (c, quote) {
            ('&', None) if redirects(at) => {}
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('&' | '|' | ';', None) => {
                all.extend(trimmed(line, start, at));
                start = at + 1;
            }
            _ => {}
        }
    }
    all.extend(trimmed(line, start, line.len()));
    all
}

/// What stands in the quotes of a command.
fn quoted(part: Part<'_>) -> Vec<Part<'_>> {
    let mut all = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (at, c) in part.text.char_indices() {
        match (c, open) {
            ('"' | '\'', None) => open = Some((at + 1, c)),
            (c, Some((start, quote))) if c == quote => {
                let inner = trimmed(part.text, start, at);
                all.extend(inner.map(|inner| Part { start: part.start + inner.start, ..inner }));
                open = None;
            }
            _ => {}
        }
    }
    all
}

/// A part of a line without the space around it; nothing where nothing is.
fn trimmed(line: &str, start: usize, end: usize) -> Option<Part<'_>> {
    let whole = line.get(start..end)?;
    let text = whole.trim();
    let start = start + (whole.len() - whole.trim_start().len());
    // A backslash before a quote is what JSON or a shell needed for it.
    let text = text.strip_suffix('\\').unwrap_or(text);
    (!text.is_empty()).then_some(Part { start, text })
}

/// The arguments that a command takes its port by, if it is a server of this kind.
fn arguments(command: &str) -> Option<&'static str> {
    let (program, arguments) = PORT_ARGUMENTS.iter().find(|(program, _)| names(command, program))?;
    let has = |word: &str| words(command).any(|own| own == word);
    let is_server = match SERVES_IF.iter().find(|(name, _)| name == program) {
        Some((_, said)) => said.iter().any(|word| has(word)),
        None => !NO_SERVER.iter().any(|word| has(word)),
    };
    is_server.then_some(arguments)
}

/// Whether a command listens nowhere: one that builds, waits or cleans.
fn serves_nothing(command: &str) -> bool {
    let program = words(command).find(|word| !word.contains('=')).unwrap_or_default();
    let programs =
        ["cd", "cp", "echo", "export", "mkdir", "npm-run-all", "rimraf", "rm", "sleep", "test", "true", "wait"];
    programs.contains(&program)
        || BUILDERS.iter().any(|builder| names(command, builder))
        || PORT_ARGUMENTS.iter().any(|(program, _)| names(command, program)) && arguments(command).is_none()
}

/// A command with its port, in the place of one that it says itself.
fn said(command: &str, arguments: &str) -> String {
    let mut kept = Vec::new();
    let mut words = command.split(' ').peekable();
    while let Some(word) = words.next() {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if matches!(name, "--port" | "-p") && (is_number(value) || value.is_empty()) {
            words.next_if(|next| value.is_empty() && is_number(next));
            continue;
        }
        kept.push(word);
    }
    let kept = kept.join(" ");
    // What the command says itself of its host stays.
    let has_host = ["--host", "--ip", "--hostname"].iter().any(|word| kept.contains(word));
    let arguments = if has_host { arguments.split(" --host").next().unwrap_or(arguments) } else { arguments };
    format!("{kept} {arguments}")
}

fn words(command: &str) -> impl Iterator<Item = &str> {
    command.split([' ', '"', '\'', '\\']).filter(|word| !word.is_empty())
}

/// Whether the program is one of the words of a command, with or without the folder it is in.
pub(super) fn names(command: &str, program: &str) -> bool {
    command
        .split([' ', '"', '\'', ';', '&', '\\'])
        .any(|word| word == program || word.rsplit('/').next() == Some(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_said_to_the_server_alone() {
        const VITE: &str = "--port $PORT --strictPort --host 127.0.0.1";
        for (line, expected) in [
            ("vite", Some(format!("vite {VITE}"))),
            ("vite --port 3000", Some(format!("vite {VITE}"))),
            ("vite -p=3000 --open", Some(format!("vite --open {VITE}"))),
            ("vite & node api.js", Some(format!("vite {VITE} & env -u PORT node api.js"))),
            ("node api.js & vite", Some(format!("env -u PORT node api.js & vite {VITE}"))),
            ("vite build && node server.js", None),
            ("vite build && vite preview", Some(format!("vite build && vite preview {VITE}"))),
            ("tsc && vite", Some(format!("tsc && vite {VITE}"))),
            ("node a.js 2>&1", None),
            ("vite 2>&1 & node a.js", Some(format!("vite 2>&1 {VITE} & env -u PORT node a.js"))),
            ("vite > log.txt", Some(format!("vite > log.txt {VITE}"))),
            ("cross-env NODE_ENV=x vite dev", Some(format!("cross-env NODE_ENV=x vite dev {VITE}"))),
            (
                "concurrently -k \"vite\" \"node api.js\"",
                Some(format!("concurrently -k \"vite {VITE}\" \"env -u PORT node api.js\"")),
            ),
            (
                "concurrently 'node api.js' 'npx vite --host 0.0.0.0'",
                Some(
                    "concurrently 'env -u PORT node api.js' 'npx vite --host 0.0.0.0 --port $PORT --strictPort'"
                        .to_owned(),
                ),
            ),
            ("concurrently npm:client npm:server", None),
            ("rsbuild dev", Some("rsbuild dev --port $PORT --host 127.0.0.1".to_owned())),
            ("wrangler dev", Some("wrangler dev --port $PORT --ip 127.0.0.1".to_owned())),
            ("wrangler deploy", None),
            ("storybook dev -p 6006", Some("storybook dev --port $PORT --host 127.0.0.1 --ci".to_owned())),
            ("webpack --watch", None),
            ("webpack serve", Some("webpack serve --port $PORT".to_owned())),
            ("next dev", None),
            ("node server.js", None),
            ("", None),
        ] {
            assert_eq!(with_port(line), expected, "{line}");
        }
    }

    #[test]
    fn what_only_builds_serves_nothing() {
        for line in
            ["tailwindcss -i a.css -o b.css --watch", "npx @tailwindcss/cli -w", "sass a:b & postcss c -w", "tsc -w"]
        {
            assert!(only_builds(line), "{line}");
        }
        for line in ["vite", "tsc && node a.js", "esbuild --serve=8000", "webpack serve", "node build.js", ""] {
            assert!(!only_builds(line), "{line}");
        }
    }
}
