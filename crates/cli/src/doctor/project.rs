//! The project: whether its file is right, and whether Python and Node find the SDK for services on the pipe.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pilotlight_supervisor::{ServiceSpec, Transport};

use super::bounded;
use super::finding::{Area, Finding, counted};
use crate::config::{self, Config, Diagnostic, Ports, Report, Severity};

/// The file as `check` sees it, and what it says; that also where a program or a folder of it is missing.
pub(super) fn configuration(file: &Path, is_named: bool) -> (Vec<Finding>, Option<Config>) {
    let shown = file.display();
    if !is_named && !file.exists() {
        let fact = format!("there is no {shown} here: only the machine is looked at");
        return (
            vec![Area::Configuration.note(fact, "`pilotlight dev` needs none; `pilotlight init` writes one")],
            None,
        );
    }
    // Ports are looked at apart, with who has them.
    match config::load(file, Ports::Skip) {
        Ok(loaded) => {
            let mut findings = vec![Area::Configuration.ok(loaded.summary())];
            findings.extend(of_report(&loaded.warnings));
            (findings, Some(loaded.config))
        }
        Err(report) => (of_report(&report), config::reread(report.text(), file).ok()),
    }
}

fn of_report(report: &Report) -> Vec<Finding> {
    let one = |found: &Diagnostic| {
        let line =
            found.span.as_ref().and_then(|span| Some(report.text().get(..span.start)?.matches('\n').count() + 1));
        let place = line.map_or_else(|| report.file().to_owned(), |line| format!("{}:{line}", report.file()));
        let remedy = found.help.clone().unwrap_or_else(|| "`pilotlight check` shows the place".to_owned());
        match found.severity {
            Severity::Error => Area::Configuration.problem(format!("{place}: {}", found.message), remedy),
            Severity::Warning => Area::Configuration.note(format!("{place}: {}", found.message), remedy),
        }
    };
    report.diagnostics().iter().map(one).collect()
}

/// Whether the interpreters of services on the pipe find the SDK.
pub(super) fn services(config: &Config) -> Vec<Finding> {
    let specs: Vec<&ServiceSpec> = config.services.iter().filter_map(|service| service.spec()).collect();
    let others = match config.services.len() - specs.len() {
        0 => String::new(),
        count => format!("; {count} run elsewhere"),
    };
    let mut findings =
        vec![Area::Services.ok(format!("the gateway starts {}{others}", counted(specs.len(), "service")))];
    findings.extend(specs.into_iter().filter(|spec| spec.transport == Transport::Pipe).filter_map(sdk));
    findings
}

/// A way to try whether an interpreter finds the SDK.
struct Trial {
    /// None: a module.
    script: Option<String>,
    arguments: Vec<String>,
    /// What is said to be missing, and how it comes.
    missing: &'static str,
    remedy: &'static str,
}

fn sdk(spec: &ServiceSpec) -> Option<Finding> {
    // Not as this user what is to run as another, or in bounds.
    if !spec.isolation.is_none() {
        return None;
    }
    let program = Path::new(spec.argv.first()?);
    let trial = trial(program, &spec.argv[1..])?;
    let mut command = Command::new(program);
    command.args(&trial.arguments).envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(dir) = &spec.dir {
        command.current_dir(dir);
    }
    let name = &spec.name;
    // A program that cannot be started is `check`'s to tell.
    let (status, _) = bounded::ended(&mut command)?;
    match status.success() {
        true => Some(Area::Services.ok(format!("{name}: its interpreter finds the SDK"))),
        false if trial.is_needed(spec) => {
            Some(Area::Services.problem(format!("{name}: {} {}", program.display(), trial.missing), trial.remedy))
        }
        // It may come from elsewhere, or the program speaks the protocol itself.
        false => None,
    }
}

impl Trial {
    /// Whether the program plainly needs it: it is a module of the SDK, or a script that imports it as installed.
    fn is_needed(&self, spec: &ServiceSpec) -> bool {
        const MAX_SCRIPT: u64 = 64 * 1024;
        let Some(script) = &self.script else {
            return spec.argv.iter().any(|word| word.to_str().is_some_and(|word| word.starts_with("pilotlight.")));
        };
        let file = spec.dir.as_deref().unwrap_or(Path::new("")).join(script);
        let mut text = String::new();
        let read = File::open(file).and_then(|file| file.take(MAX_SCRIPT).read_to_string(&mut text));
        let imports = ["import pilotlight", "from pilotlight", "\"pilotlight\"", "'pilotlight'"];
        read.is_ok() && imports.iter().any(|import| text.contains(import)) && !text.contains("sys.path")
    }
}

/// As the interpreter would look for it: beside the script, or in the folder of the service.
fn trial(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Option<Trial> {
    let name = program.file_name()?.to_str()?;
    let words: Vec<&str> = arguments.iter().map(|word| word.as_ref().to_str().unwrap_or_default()).collect();
    let script = words.iter().find(|word| !word.starts_with('-') || matches!(**word, "-m" | "-c" | "-e"))?;
    let folder = PathBuf::from(script).parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    let is_script = Path::new(script).extension().is_some();
    let script_file = is_script.then(|| (*script).to_owned());
    let is_python = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') == "python";
    if is_python && (is_script || *script == "-m") {
        let look = "import sys, importlib.util as u; sys.path.insert(0, sys.argv[1]); sys.exit(u.find_spec('pilotlight') is None)";
        return Some(Trial {
            script: script_file,
            arguments: ["-B", "-c", look, &folder].map(str::to_owned).to_vec(),
            missing: "does not find the SDK (no module `pilotlight`)",
            remedy: "name its folder in `env.PYTHONPATH`, or install the wheel of `make wheels` by its file; what a registry has under this name is not ours",
        });
    }
    if name == "node" && is_script && !script.ends_with(".ts") {
        let look = "require.resolve('pilotlight', { paths: [require('path').resolve(process.argv[1] || '.')] })";
        return Some(Trial {
            script: script_file,
            arguments: ["-e", look, &folder].map(str::to_owned).to_vec(),
            missing: "does not find the SDK (no package `pilotlight`)",
            remedy: "`npm install` the files of `make npm` in its folder; what a registry has under this name is not ours",
        });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn only_interpreters_are_tried() {
        let arguments = |words: &[&str]| words.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
        let tried =
            |program: &str, words: &[&str]| trial(Path::new(program), &arguments(words)).map(|trial| trial.arguments);
        assert_eq!(tried("python3", &["-u", "app/main.py"]).unwrap()[3], "app");
        assert_eq!(tried("/usr/bin/python3.12", &["-m", "pilotlight.wsgi", "a:b"]).unwrap()[3], "");
        assert_eq!(tried("node", &["srv/app.js"]).unwrap()[2], "srv");
        assert_eq!(tried("./users", &["--db", "x.db"]), None);
        assert_eq!(tried("python3", &["-c", "x"]), None);
        assert_eq!(tried("node", &[]), None);
    }

    #[test]
    fn mistakes_of_the_file_have_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        std::fs::write(&file, "listen = \"127.0.0.1:0\"\n\n[services.a]\ncomand = [\"x\"]\n").unwrap();
        let (findings, config) = configuration(&file, true);
        assert!(config.is_none());
        let first = findings.iter().find(|one| one.fact.contains("comand")).unwrap();
        assert!(first.level == Level::Problem && first.fact.contains("a.toml:4: "), "{first:?}");
        let (findings, config) = configuration(&dir.path().join("b.toml"), false);
        assert!(config.is_none() && findings[0].level == Level::Note, "{findings:?}");
        assert_eq!(configuration(&dir.path().join("b.toml"), true).0[0].level, Level::Problem);
    }

    #[test]
    fn a_program_that_is_missing_leaves_the_rest_to_be_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        let text = "[services.a]\ncommand = [\"./gone\"]\n[[routes]]\npath = \"/\"\nservice = \"a\"\n";
        std::fs::write(&file, text).unwrap();
        let (findings, config) = configuration(&file, true);
        assert_eq!(config.unwrap().services.len(), 1);
        assert!(findings[0].level == Level::Problem && findings[0].fact.contains("gone"), "{findings:?}");
    }
}
