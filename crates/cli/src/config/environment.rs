//! What only this machine can say about a configuration: whether its programs, scripts and folders are there and may be
//! used.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pilotlight_supervisor::ServiceSpec;
use rustix::fs::Access;

use super::access::may;
use super::acme;
use super::admission;
use super::balance;
use super::diagnostic::{Code, Diagnostic, Span};
use super::error_pages;
use super::files;
use super::isolation;
use super::keys;
use super::listeners::{self, Ports};
use super::logs;
use super::model::{Config, ServiceSpans, joined};
use super::operate;
use super::releases;
use super::schedules;
use super::server_tls;
use super::shown::shown;
use super::tls;
use super::traces;
use super::value::nearest;

/// Checks a configuration against this machine.
#[must_use]
pub fn check(config: &Config, ports: Ports) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    listeners::check(config, ports, &mut found);
    operate::check(config, ports, &mut found);
    logs::check(config, &mut found);
    files::check(&config.file_roots, &mut found);
    error_pages::check(config, &mut found);
    admission::check(&config.admission_files, &mut found);
    tls::check(config, &mut found);
    traces::check(config, &mut found);
    acme::check(config, &mut found);
    keys::check(config, |name| std::env::var_os(name), &mut found);
    schedules::check(config, &mut found);
    let path = std::env::var_os("PATH");
    for service in &config.services {
        balance::check(service, &mut found);
        server_tls::check(service, &mut found);
        if let Some(spec) = service.spec() {
            check_managed(Managed { spec, at: &service.at }, path.as_ref(), &mut found);
            isolation::check(&spec.isolation, &service.at.isolation, &mut found);
        }
    }
    found
}

/// A service that Pilotlight starts.
#[derive(Clone, Copy)]
struct Managed<'a> {
    spec: &'a ServiceSpec,
    at: &'a ServiceSpans,
}

impl<'a> Managed<'a> {
    fn program(self) -> &'a Path {
        self.spec.argv.first().map_or(Path::new(""), Path::new)
    }

    /// The words behind the program.
    fn args(self) -> impl Iterator<Item = &'a str> {
        self.spec.argv.iter().skip(1).map(|word| word.to_str().unwrap_or_default())
    }

    fn dir(self) -> &'a Path {
        self.spec.dir.as_deref().unwrap_or(Path::new(""))
    }
}

fn check_managed(managed: Managed<'_>, path: Option<&OsString>, found: &mut Vec<Diagnostic>) {
    if managed.spec.container.is_some() {
        return; // what is in it, its engine knows
    }
    if let (Some(folder), Some(at)) = (&managed.spec.releases, &managed.at.releases) {
        found.extend(releases::check(folder, at, &managed.spec.name));
        // What is in a release is tried when it is deployed.
        if managed.program().starts_with(managed.dir()) {
            return;
        }
    }
    let missing =
        |at: &Span, message: String, help: String| Diagnostic::error(Code::Missing, at.clone(), message).help(help);
    // Without `dir` it is the folder of the file, which is there; relative programs and scripts hang on it.
    let dir = managed.dir();
    if !managed.at.dir.is_empty() && !dir.is_dir() {
        let (message, help) = if dir.exists() {
            ("is not a folder", "name a folder".to_owned())
        } else {
            ("does not exist", format!("mkdir -p {}", dir.display()))
        };
        found.push(missing(&managed.at.dir, format!("the folder {} {message}", dir.display()), help));
        if managed.program().starts_with(dir) {
            return;
        }
    }
    let own_path = managed.spec.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| OsString::from(value));
    match find_program(managed, own_path.as_ref().or(path)) {
        Ok(program) => {
            found.extend(missing_interpreter(&program, managed));
            found.extend(missing_script(managed));
        }
        Err((message, help)) => found.push(missing(&managed.at.program, message, help)),
    }
}

/// The file that would be executed, found as execvp(3) finds it; or what is wrong and what to do.
fn find_program(managed: Managed<'_>, path: Option<&OsString>) -> Result<PathBuf, (String, String)> {
    let (program, dir) = (managed.program(), managed.dir());
    if program.as_os_str().as_bytes().contains(&b'/') {
        return match Candidate::look(program) {
            Candidate::Good => Ok(program.to_owned()),
            bad => Err(bad.complaint(program)),
        };
    }
    let path = path.map_or_else(|| OsString::from("/usr/bin:/bin"), OsString::clone);
    let mut refused = None;
    for folder in std::env::split_paths(&path) {
        // An empty entry is the current folder, which is that of the service.
        let file = dir.join(folder).join(program);
        match Candidate::look(&file) {
            Candidate::Good => return Ok(file),
            Candidate::NotExecutable => refused = refused.or(Some(file)),
            Candidate::Absent | Candidate::Folder => {}
        }
    }
    if let Some(file) = refused {
        return Err(Candidate::NotExecutable.complaint(&file));
    }
    let name = program.display().to_string();
    let help = match Candidate::look(&dir.join(program)) {
        Candidate::Good => format!("it is in {}: write \"./{name}\"", dir.display()),
        _ => "install it, or write its path".to_owned(),
    };
    Err((format!("the program {} is in no folder of PATH", shown(&name)), help))
}

/// A file that may be the program.
#[derive(Clone, Copy)]
enum Candidate {
    Good,
    Absent,
    Folder,
    NotExecutable,
}

impl Candidate {
    fn look(file: &Path) -> Self {
        match fs::metadata(file) {
            Err(_) => Candidate::Absent,
            Ok(metadata) if metadata.is_dir() => Candidate::Folder,
            Ok(_) if may(file, Access::EXEC_OK) => Candidate::Good,
            Ok(_) => Candidate::NotExecutable,
        }
    }

    fn complaint(self, file: &Path) -> (String, String) {
        let name = file.display();
        match self {
            Candidate::Absent => (format!("the program {name} does not exist"), missing_file_help(file)),
            Candidate::Folder => (format!("{name} is a folder"), "name the program in it".to_owned()),
            Candidate::Good | Candidate::NotExecutable => {
                (format!("{name} may not be executed by this user"), format!("chmod +x {name}"))
            }
        }
    }
}

/// What to do about a file that is not there: a similar name beside it, or how such files come to be.
fn missing_file_help(file: &Path) -> String {
    const MAX_ENTRIES: usize = 1000;
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return "check the path".to_owned();
    };
    let Ok(entries) = fs::read_dir(folder) else {
        let built = file.components().any(|part| part.as_os_str() == "target");
        let build = if built { " (is it built? cargo build --release)" } else { "" };
        return format!("the folder {} does not exist either{build}", folder.display());
    };
    let names: Vec<String> =
        entries.take(MAX_ENTRIES).flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {}?", folder.join(near).display()),
        None if file.components().any(|part| part.as_os_str() == "target") => {
            "build it first: cargo build --release".to_owned()
        }
        None => "check the path; it is relative to `dir`, which is relative to this file".to_owned(),
    }
}

/// The kernel answers "no such file" about a script whose `#!` line names a program that is not there, which misleads
/// everybody.
fn missing_interpreter(program: &Path, managed: Managed<'_>) -> Option<Diagnostic> {
    const MAX_LINE: u64 = 256;
    let mut head = Vec::new();
    File::open(program).ok()?.take(MAX_LINE).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let text = String::from_utf8_lossy(line);
    let interpreter = text.split([' ', '\t']).find(|word| !word.is_empty())?;
    let trimmed = interpreter.trim_end_matches('\r');
    if trimmed != interpreter {
        let message = format!("{} has Windows line ends, so its `#!` line names no program", program.display());
        return Some(
            Diagnostic::error(Code::Missing, managed.at.program.clone(), message)
                .help("convert it: sed -i 's/\\r$//' FILE"),
        );
    }
    if Path::new(interpreter).exists() {
        return None;
    }
    let message = format!("the `#!` line of {} names {}, which does not exist", program.display(), shown(interpreter));
    Some(Diagnostic::error(Code::Missing, managed.at.program.clone(), message).help("install it, or correct the line"))
}

/// `python3 app.py`: the script is as much part of the command as the program.
fn missing_script(managed: Managed<'_>) -> Option<Diagnostic> {
    const INTERPRETERS: [&str; 10] = ["python", "node", "deno", "bun", "ruby", "perl", "php", "sh", "bash", "java"];
    const SCRIPTS: [&str; 11] = ["py", "js", "mjs", "cjs", "ts", "rb", "pl", "php", "sh", "jar", "pyz"];
    let name = managed.program().file_name()?.to_str()?.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&name) {
        return None;
    }
    let mut words = managed.args().zip(&managed.at.args);
    // What follows these is no script: a module, a program's text, where the classes of Java are.
    let is_other = |word: &str| matches!(word, "-m" | "-c" | "-e" | "-cp" | "-classpath" | "--class-path");
    let (script, at) = words.find(|(word, _)| !word.starts_with('-') || is_other(word))?;
    let script_path = Path::new(script);
    let is_script = script_path.extension().and_then(|end| end.to_str()).is_some_and(|end| SCRIPTS.contains(&end));
    if !is_script || script.starts_with('-') || managed.spec.releases.is_some() {
        return None;
    }
    let file = joined(managed.dir(), script);
    if file.is_file() {
        return None;
    }
    let message = format!("the script {} does not exist", file.display());
    Some(Diagnostic::error(Code::Missing, at.clone(), message).help(missing_file_help(&file)))
}
