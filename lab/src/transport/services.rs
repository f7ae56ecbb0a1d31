//! The services under measurement: one handler in three languages, over the pipe and over HTTP.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use crate::experiment::model::Skipped;
use crate::processes;
use crate::service::SERVICE;

/// The language of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Language {
    /// The Python of `--python`, 3.9 or later.
    Python,
    /// The Node.js of `--node`, 18.15 or later.
    Node,
    /// This binary itself.
    Rust,
}

impl Language {
    /// As it is written in tables.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Node => "Node",
            Self::Rust => "Rust",
        }
    }
}

/// The name of the server of every service over the pipe.
pub(crate) const SDK: &str = "SDK";

/// A program that answers, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The SDK or the HTTP server.
    pub(crate) name: &'static str,
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
}

/// A service in one language.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// Its language.
    pub(crate) language: Language,
    /// The interpreter and its version.
    pub(crate) runtime: Runtime,
    /// Over the pipe, with the SDK.
    pub(crate) pipe: Server,
    /// Over HTTP: one or more servers, as HTTP is no one program.
    pub(crate) http: Vec<Server>,
}

/// What executes a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Runtime {
    /// The program, wrappers of version managers looked through: they would be part of every cold start.
    pub(crate) program: PathBuf,
    /// What it says about itself.
    pub(crate) version: String,
}

/// Which interpreters to use.
#[derive(Clone, Debug)]
pub(crate) struct Interpreters {
    /// A Python.
    pub(crate) python: PathBuf,
    /// A Node.js.
    pub(crate) node: PathBuf,
}

/// Finds what a service in this language needs. `files` is where the embedded files are.
///
/// # Errors
/// It is not installed; what to install.
pub(crate) fn find(
    language: Language,
    interpreters: &Interpreters,
    files: &Path,
) -> Result<(Service, Vec<Skipped>), Skipped> {
    match language {
        Language::Python => python(&interpreters.python, files),
        Language::Node => node(&interpreters.node, files).map(|service| (service, Vec::new())),
        Language::Rust => rust().map(|service| (service, Vec::new())),
    }
}

fn python(program: &Path, files: &Path) -> Result<(Service, Vec<Skipped>), Skipped> {
    let runtime =
        runtime(program, &["-c", "import sys; print(sys.executable, 'Python ' + sys.version.split()[0], sep='\\t')"])
            .ok_or_else(|| {
            Skipped::new("Python services", &format!("`{}` does not run", program.display()), "apt install python3")
        })?;
    let server = |name, file: &str| server(name, &runtime.program, &files.join(file));
    let mut http = vec![server("http.server", "lab/peers/http/services/httpserver.py")];
    let mut skipped = Vec::new();
    if processes::first_line(runtime.program.as_os_str(), &["-c", "import uvicorn"]).is_some() {
        http.push(server("uvicorn", "lab/peers/http/services/asgi.py"));
    } else {
        let why = format!("`{}` cannot import it", runtime.program.display());
        skipped.push(Skipped::new(
            "Python over HTTP with uvicorn",
            &why,
            "pip install uvicorn, or name a Python that has it: --python",
        ));
    }
    let pipe = server(SDK, "lab/peers/http/pipe/service.py");
    Ok((Service { language: Language::Python, runtime, pipe, http }, skipped))
}

fn node(program: &Path, files: &Path) -> Result<Service, Skipped> {
    let runtime = runtime(program, &["-p", "process.execPath + '\\tNode ' + process.version"]).ok_or_else(|| {
        Skipped::new("Node services", &format!("`{}` does not run", program.display()), "apt install nodejs")
    })?;
    let server = |name, file: &str| server(name, &runtime.program, &files.join(file));
    let pipe = server(SDK, "lab/peers/http/pipe/service.js");
    let http = vec![server("node:http", "lab/peers/http/services/http.js")];
    Ok(Service { language: Language::Node, runtime, pipe, http })
}

fn rust() -> Result<Service, Skipped> {
    let program = processes::own_program()
        .map_err(|e| Skipped::new("Rust services", &format!("{e:#}"), "start pilotlight-lab by its path"))?;
    let server = |name, transport: &str| Server {
        name,
        command: vec![program.clone().into(), SERVICE.into(), transport.into()],
    };
    Ok(Service {
        language: Language::Rust,
        pipe: server(SDK, "pipe"),
        http: vec![server("hyper", "http")],
        runtime: Runtime { program, version: format!("this build, {}", env!("CARGO_PKG_VERSION")) },
    })
}

fn server(name: &'static str, program: &Path, file: &Path) -> Server {
    Server { name, command: vec![program.into(), file.into()] }
}

/// Asks an interpreter for its own path and version, in one line with a tab between.
fn runtime(program: &Path, question: &[&str]) -> Option<Runtime> {
    let line = processes::first_line(OsStr::new(program), question)?;
    let (program, version) = line.split_once('\t')?;
    Some(Runtime { program: program.into(), version: version.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interpreter_is_said_with_what_to_install() {
        let nowhere = Interpreters { python: "/nonexistent/python".into(), node: "/nonexistent/node".into() };
        for (language, install) in [(Language::Python, "python3"), (Language::Node, "nodejs")] {
            let skipped = find(language, &nowhere, Path::new("/")).expect_err("it is not there");
            assert!(skipped.why.contains("/nonexistent/") && skipped.install.contains(install), "{skipped:?}");
        }
    }

    #[test]
    fn rust_needs_nothing() {
        let nowhere = Interpreters { python: "".into(), node: "".into() };
        let (service, skipped) = find(Language::Rust, &nowhere, Path::new("/")).expect("this binary");
        assert_eq!((service.http.len(), skipped.len()), (1, 0));
        assert_eq!(service.pipe.command[1], SERVICE);
    }
}
