//! From a file to a configuration or a report.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::address::written;
use super::diagnostic::{Code, Diagnostic, Severity};
use super::environment;
use super::listeners::Ports;
use super::model::Config;
use super::report::Report;
use super::root;
use super::shown::counted;
use super::syntax::Syntax;
use super::tilde;

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "pilotlight.toml";
/// Most bytes of a configuration file.
pub const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// A configuration that can be used, and a report that has at most warnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What the file says.
    pub config: Config,
    /// What is odd about it.
    pub warnings: Report,
}

impl Loaded {
    /// One line that says what the file is about.
    #[must_use]
    pub fn summary(&self) -> String {
        let addresses: Vec<String> = self.config.listen.iter().map(|listener| written(&listener.address)).collect();
        format!(
            "{} is valid: {}, {}, listening on {}",
            self.warnings.file(),
            counted(self.config.services.len(), "service"),
            counted(self.config.routes.len(), "route"),
            addresses.join(", ")
        )
    }
}

/// Reads a configuration from a text. Looks at nothing but its arguments; paths in the text are joined to the folder
/// part of `file`, which is otherwise only the name in reports.
///
/// # Errors
/// The report of everything that is wrong, if anything is an error.
pub fn parse(text: &str, file: &Path) -> Result<Loaded, Report> {
    let folder = file.parent().unwrap_or(Path::new(""));
    read(text, file, folder, |_| Vec::new(), finish)
}

/// Reads a configuration file and checks that this machine can run it: programs, scripts and folders exist, addresses
/// are free. Paths in the file are made absolute.
///
/// # Errors
/// The report of everything that is wrong, the file itself included, if anything is an error.
pub fn load(file: &Path, ports: Ports) -> Result<Loaded, Report> {
    load_for(file, ports, |loaded| loaded)
}

/// Reads as [`load`] does for `user`, during which what the file was read with is still there. The tree of a file takes
/// many times what it says: freed before, it would leave pages that whoever uses the configuration fills with a little
/// that stays.
pub fn load_for<R>(file: &Path, ports: Ports, user: impl FnOnce(Result<Loaded, Report>) -> R) -> R {
    load_with(file, ports, |text| text, user)
}

/// The same for what `more` makes of the file's text. The file is read once: it may be a pipe.
pub(crate) fn load_with<R>(
    file: &Path,
    ports: Ports,
    more: impl FnOnce(String) -> String,
    user: impl FnOnce(Result<Loaded, Report>) -> R,
) -> R {
    match read_text(file).map(more) {
        Ok(text) => read_in_place(&text, file, |config| environment::check(config, ports), user),
        Err((text, diagnostic)) => user(Err(Report::new(file.display().to_string(), text, vec![*diagnostic]))),
    }
}

/// Reads a text as [`load`] reads that of a file of this name, which need not be there.
///
/// # Errors
/// The report of everything that is wrong, if anything is an error.
pub fn load_text(text: &str, file: &Path, ports: Ports) -> Result<Loaded, Report> {
    read_in_place(text, file, |config| environment::check(config, ports), |loaded| loaded)
}

/// Reads a text that [`load`] has read from this file before.
///
/// # Errors
/// The report of what is wrong: nothing, if the text is the same and the current folder as well.
pub fn reread(text: &str, file: &Path) -> Result<Config, Report> {
    read_in_place(text, file, |_| Vec::new(), |loaded| loaded).map(|loaded| loaded.config)
}

/// With absolute paths.
fn read_in_place<R>(
    text: &str,
    file: &Path,
    machine: impl FnOnce(&Config) -> Vec<Diagnostic>,
    user: impl FnOnce(Result<Loaded, Report>) -> R,
) -> R {
    let absolute = match std::path::absolute(file) {
        Ok(absolute) => absolute,
        Err(error) => {
            let message = format!("the current folder cannot be found: {error}");
            let diagnostic =
                Diagnostic::whole_file(Severity::Error, Code::File, message).help("change to a folder that exists");
            return user(Err(Report::new(file.display().to_string(), text.to_owned(), vec![diagnostic])));
        }
    };
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    read(text, file, folder, machine, |config, report| user(finish(config, report)))
}

fn finish(config: Config, report: Report) -> Result<Loaded, Report> {
    if report.error_count() > 0 { Err(report) } else { Ok(Loaded { config, warnings: report }) }
}

/// The part of the configuration that is right, and everything that is wrong.
fn read<R>(
    text: &str,
    file: &Path,
    folder: &Path,
    machine: impl FnOnce(&Config) -> Vec<Diagnostic>,
    user: impl FnOnce(Config, Report) -> R,
) -> R {
    let (tree, syntax) = Syntax::parse(text);
    let mut found = Vec::new();
    let config = root::read(&tree, folder, &mut found);
    found.extend(machine(&config));
    tilde::explain(text, std::env::var("HOME").ok().as_deref(), &mut found);
    let partial = syntax.is_partial();
    let mut report = Report::new(file.display().to_string(), text.to_owned(), syntax.merge(found));
    report.partial = partial;
    let result = user(config, report);
    drop(tree); // not before: see `load_for`
    result
}

fn read_text(file: &Path) -> Result<String, (String, Box<Diagnostic>)> {
    let wrong = |message: String, help: &str| {
        (String::new(), Box::new(Diagnostic::whole_file(Severity::Error, Code::File, message).help(help)))
    };
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(match error.kind() {
            ErrorKind::NotFound => wrong(
                "there is no such file".to_owned(),
                "`pilotlight init` writes one to start from; `--config FILE` names another",
            ),
            ErrorKind::IsADirectory => wrong("this is a folder".to_owned(), "name the file in it"),
            ErrorKind::PermissionDenied => wrong(
                "the file may not be read by this user".to_owned(),
                "change its permissions, for example with chmod u+r",
            ),
            _ => wrong(format!("the file cannot be read: {error}"), "check the disk and the path"),
        });
    }
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(wrong(format!("the file has more than {MAX_FILE_BYTES} bytes"), "is it the right file?"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let start = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let diagnostic = Diagnostic::error(Code::File, start..start + 1, "the file is not UTF-8 from here on");
        (text, Box::new(diagnostic.help("save it as UTF-8")))
    })
}
