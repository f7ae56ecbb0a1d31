//! `pilotlight import`: a `pilotlight.toml` out of another server's configuration (`crates/import`). What the result
//! says and `check` would refuse is commented out, and named like what could not be mapped.

use std::fs;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use pilotlight_import::{Became, Draft, Kind, MAX_BYTES, Noted, Origin, import_from};
use pilotlight_printable::{bytes_without_mark, printable_lines};
use serde_json::{Value, json};

use crate::config::commands::Outcome;
use crate::config::{DEFAULT_FILE, Severity, parse};

/// How often a result is looked at again after lines of it were commented out.
const MAX_ROUNDS: usize = 64;
/// Nobody has access.
const CLOSED: &str = "\ndeny = { networks = [\"0.0.0.0/0\", \"::/0\"] }";
/// Names that are looked for in a folder, in this order.
const NAMES: [&str; 10] = [
    "Procfile",
    "uwsgi.ini",
    "app.ini",
    "unit.json",
    "unit-config.json",
    "config.json",
    "gunicorn.conf.py",
    "gunicorn.py",
    "Caddyfile",
    "nginx.conf",
];

/// Examples for the help.
pub const EXAMPLES: &str = "Examples:
  pilotlight import                          a Procfile, uwsgi.ini, unit.json, Caddyfile … of this folder
  pilotlight import uwsgi.ini -o -           to the standard output
  pilotlight import /etc/nginx/sites-enabled/shop
  pilotlight import --from unit conf.json    the kind, where the name or the text does not say it

What could not be mapped is named with its line and the reason, and stands at the beginning of the result.";

/// What is imported.
#[derive(Args, Debug)]
pub struct ImportArguments {
    /// The file, or the folder that it is in
    #[arg(default_value = ".", value_name = "FILE|DIR")]
    source: PathBuf,
    /// Whose file it is [default: by its name or text]
    #[arg(long, value_name = "KIND", value_parser = kind)]
    from: Option<Kind>,
    /// The file to write; `-` for the standard output
    #[arg(long, short, default_value = DEFAULT_FILE, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
    /// What became of each option, as JSON on the standard output
    #[arg(long)]
    json: bool,
}

fn kind(text: &str) -> Result<Kind, String> {
    let names: Vec<&str> = Kind::NAMES.iter().map(|(name, _)| *name).collect();
    let found = Kind::NAMES.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind);
    found.ok_or_else(|| format!("it is one of {}", names.join(", ")))
}

/// A finished file, and what became of the options.
#[derive(Debug)]
pub struct Imported {
    /// The file. `check` has no objection to it but for what the machine lacks.
    pub toml: String,
    /// Each option of the file that was read; what `check` refused comes last, with line 0.
    pub options: Vec<Noted>,
}

/// Makes a file that `check` takes out of what was read of `source`.
#[must_use]
pub fn finished(draft: &Draft, source: &str) -> Imported {
    let mut toml = draft.to_toml(source);
    let mut options = draft.options().to_vec();
    for _ in 0..MAX_ROUNDS {
        let Err(report) = parse(&toml, Path::new(DEFAULT_FILE)) else { break };
        let errors = report.diagnostics().iter().filter(|found| found.severity == Severity::Error);
        let mut wrong: Vec<(usize, String)> = errors
            .filter_map(|found| {
                let before = toml.get(..found.span.as_ref()?.start)?;
                Some((before.matches('\n').count(), found.message.clone()))
            })
            .collect();
        wrong.sort();
        wrong.dedup_by_key(|(line, _)| *line);
        if !without(&mut toml, &wrong, &mut options) {
            break;
        }
    }
    Imported { toml, options }
}

/// Comments out these lines, a whole section if it is the heading's; whether any was. A route without its rule of
/// access is closed: nobody gets what not everybody got.
fn without(toml: &mut String, wrong: &[(usize, String)], options: &mut Vec<Noted>) -> bool {
    let mut lines: Vec<String> = toml.lines().map(str::to_owned).collect();
    let is_key = |line: &str| !line.is_empty() && !line.starts_with('#');
    let mut changed = false;
    for (at, message) in wrong {
        let Some(line) = lines.get(*at).filter(|line| is_key(line)).cloned() else { continue };
        let own = if line.starts_with('[') {
            lines[at + 1..].iter().take_while(|line| !line.starts_with('[')).count()
        } else {
            0
        };
        for line in lines[*at..=at + own].iter_mut().filter(|line| is_key(line)) {
            line.insert_str(0, "# ");
        }
        if ["allow = ", "deny = "].iter().any(|key| line.starts_with(key)) {
            close(&mut lines, *at);
        }
        let why = format!("`check` refuses it: {}", message.replace('\n', " "));
        options.push(Noted { line: 0, option: line, became: Became::NotMapped(why) });
        changed = true;
    }
    *toml = lines.join("\n") + "\n";
    changed
}

/// Puts a `deny` for everybody into the section of a line, in the place of its own.
fn close(lines: &mut [String], at: usize) {
    let is_heading = |line: &String| line.starts_with('[');
    let first = lines[..at].iter().rposition(is_heading).map_or(0, |heading| heading + 1);
    let end = lines[at..].iter().position(is_heading).map_or(lines.len(), |length| at + length);
    for line in lines[first..end].iter_mut().filter(|line| line.starts_with("deny = ")) {
        line.insert_str(0, "# ");
    }
    lines[at].push_str(CLOSED);
}

/// Runs it.
///
/// # Errors
/// Only if `out` or `err` cannot be written to.
pub fn run(arguments: &ImportArguments, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<Outcome> {
    let Some((file, text)) = read(&arguments.source, err)? else { return Ok(Outcome::Misconfigured) };
    let name = file.display().to_string();
    let file_name = file.file_name().unwrap_or_default().to_string_lossy();
    let Some(kind) = arguments.from.or_else(|| Kind::of(&file_name, &text)) else {
        writeln!(err, "error: whose file {name} is cannot be told from its name or text")?;
        writeln!(err, " = help: name it: --from procfile, uwsgi, unit, gunicorn, nginx or caddy")?;
        return Ok(Outcome::Misconfigured);
    };
    let path = std::path::absolute(&file).ok();
    let variable = |name: &str| std::env::var(name).ok();
    let origin = Origin { file: path.as_deref(), variable: Some(&variable) };
    let draft = match import_from(kind, &text, origin) {
        Ok(draft) => draft,
        Err(error) => {
            writeln!(err, "{name}:{}: error: {}", error.line, error.message)?;
            return Ok(Outcome::Misconfigured);
        }
    };
    let imported = finished(&draft, &file_name);
    let is_stdout = arguments.output == Path::new("-");
    let has_routes = imported.toml.contains("\n[[routes]]\n");
    if !has_routes && !arguments.json {
        summary(&name, &imported, err)?;
        writeln!(err, "error: {name} has nothing that a route can be made of, so nothing was written")?;
        return Ok(Outcome::Failed);
    }
    if has_routes
        && !is_stdout
        && let Some(outcome) = write_file(arguments, &imported.toml, err)?
    {
        return Ok(outcome);
    }
    if arguments.json {
        let document = as_json(&name, arguments.from.unwrap_or(kind), &imported, is_stdout);
        writeln!(out, "{}", serde_json::to_string_pretty(&document).unwrap_or_default())?;
    } else {
        if is_stdout {
            write!(out, "{}", imported.toml)?;
        }
        summary(&name, &imported, err)?;
        if !is_stdout {
            let output = arguments.output.display();
            writeln!(err, "wrote {output}; `pilotlight check --config {output}` says what this machine lacks for it")?;
        }
    }
    out.flush()?;
    Ok(if has_routes { Outcome::Done } else { Outcome::Failed })
}

/// The file and its text; none if that was said on `err`.
fn read(source: &Path, err: &mut dyn Write) -> io::Result<Option<(PathBuf, String)>> {
    let file = if source.is_dir() {
        let Some(file) = NAMES.iter().map(|name| source.join(name)).find(|file| file.is_file()) else {
            writeln!(err, "error: {} has none of {}", source.display(), NAMES.join(", "))?;
            writeln!(err, " = help: name the file, and maybe whose it is: --from uwsgi")?;
            return Ok(None);
        };
        file
    } else {
        source.to_owned()
    };
    let mut bytes = Vec::new();
    let opened = fs::File::open(&file);
    match opened.and_then(|opened| opened.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some((file, String::from_utf8_lossy(bytes_without_mark(&bytes)).into_owned()))),
        Err(error) => {
            writeln!(err, "error: {} cannot be read: {error}", file.display())?;
            Ok(None)
        }
    }
}

/// None if the file is there now.
fn write_file(arguments: &ImportArguments, toml: &str, err: &mut dyn Write) -> io::Result<Option<Outcome>> {
    let file = &arguments.output;
    let written = match arguments.force && file.exists() {
        true => crate::fmt::replace(file, toml),
        false => fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(file)
            .and_then(|mut new| new.write_all(toml.as_bytes())),
    };
    Ok(match written {
        Ok(()) => None,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            writeln!(err, "error: {} exists already and was left as it is", file.display())?;
            writeln!(err, " = help: --force replaces it; -o names another file, or `-` for the standard output")?;
            Some(Outcome::Misconfigured)
        }
        Err(error) => {
            writeln!(err, "error: {} cannot be written: {error}", file.display())?;
            Some(Outcome::Failed)
        }
    })
}

/// How many options became what.
#[must_use]
pub fn counts(options: &[Noted]) -> [usize; 3] {
    let count = |is: fn(&Became) -> bool| options.iter().filter(|noted| is(&noted.became)).count();
    [
        count(|became| matches!(became, Became::Mapped(_))),
        count(|became| matches!(became, Became::NotNeeded(_))),
        count(|became| matches!(became, Became::NotMapped(_))),
    ]
}

fn summary(name: &str, imported: &Imported, err: &mut dyn Write) -> io::Result<()> {
    for noted in &imported.options {
        let Became::NotMapped(why) = &noted.became else { continue };
        let place = if noted.line == 0 { String::new() } else { format!(":{}", noted.line) };
        writeln!(err, "{}", printable_lines(&format!("{name}{place}: not mapped: {}: {why}", noted.option)))?;
    }
    let [mapped, not_needed, not_mapped] = counts(&imported.options);
    writeln!(err, "{name}: {mapped} options mapped, {not_needed} not needed, {not_mapped} not mapped")
}

fn as_json(name: &str, kind: Kind, imported: &Imported, with_text: bool) -> Value {
    let kind = Kind::NAMES.iter().find(|(_, other)| *other == kind).map_or("", |(name, _)| name);
    let options: Vec<Value> = imported
        .options
        .iter()
        .map(|Noted { line, option, became }| match became {
            Became::Mapped(to) => json!({ "line": line, "option": option, "became": "mapped", "to": to }),
            Became::NotNeeded(why) => json!({ "line": line, "option": option, "became": "not-needed", "why": why }),
            Became::NotMapped(why) => json!({ "line": line, "option": option, "became": "not-mapped", "why": why }),
        })
        .collect();
    let [mapped, not_needed, not_mapped] = counts(&imported.options);
    let mut document = json!({
        "file": name, "kind": kind, "mapped": mapped, "not_needed": not_needed, "not_mapped": not_mapped, "options": options,
    });
    if with_text {
        document["toml"] = json!(imported.toml);
    }
    document
}
