//! The services under measurement: one handler in each language, over the pipe and over HTTP.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;

use super::built;
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
    /// C99, by the C compiler of the machine.
    C,
    /// .NET, by Mono.
    #[value(name = "dotnet")]
    #[serde(rename = "dotnet")]
    DotNet,
    /// .NET, by Microsoft's runtime.
    #[value(name = "coreclr")]
    #[serde(rename = "coreclr")]
    CoreClr,
    /// Go.
    Go,
    /// Haskell, by GHC.
    Haskell,
    /// Java, 17 or later.
    Java,
    /// PHP, 8.1 or later.
    Php,
    /// Ruby, 3.1 or later.
    Ruby,
}

impl Language {
    /// As it is written in tables.
    #[must_use]
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Node => "Node",
            Self::Rust => "Rust",
            Self::C => "C",
            Self::DotNet => ".NET",
            Self::CoreClr => "CoreCLR",
            Self::Go => "Go",
            Self::Haskell => "Haskell",
            Self::Java => "Java",
            Self::Php => "PHP",
            Self::Ruby => "Ruby",
        }
    }
}

/// The name of the server of every service over the pipe.
pub(crate) const SDK: &str = "SDK";

/// How a server that is no SDK is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    /// It listens on descriptor 3, or on the path that is its last argument.
    InheritedOrPath,
    /// It listens on descriptor 3.
    Inherited,
    /// It listens on the port in `PORT`.
    Port,
    /// It takes FastCGI on descriptor 0.
    FastCgi,
}

/// A program that answers, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The SDK or the HTTP server.
    pub(crate) name: &'static str,
    /// How it is reached; of no meaning over the pipe.
    pub(crate) socket: Socket,
    /// The folder of the scripts, if it runs some by FastCGI.
    pub(crate) scripts: Option<PathBuf>,
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
    /// The `lab/peers` of a checkout, with what is built there of other languages.
    pub(crate) peers: Option<PathBuf>,
}

impl Interpreters {
    fn peers(&self) -> &Path {
        self.peers.as_deref().unwrap_or(Path::new("lab/peers"))
    }
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
        Language::Python => python(&interpreters.python, files, interpreters.peers()),
        Language::Node => node(&interpreters.node, files).map(|service| (service, Vec::new())),
        Language::Rust => rust().map(|service| (service, Vec::new())),
        other => built::find(other, interpreters.peers()),
    }
}

fn python(program: &Path, files: &Path, peers: &Path) -> Result<(Service, Vec<Skipped>), Skipped> {
    let mut runtime =
        runtime(program, &["-c", "import sys; print(sys.executable, 'Python ' + sys.version.split()[0], sep='\\t')"])
            .ok_or_else(|| {
            Skipped::new("Python services", &format!("`{}` does not run", program.display()), "apt install python3")
        })?;
    let core = Path::new("sdk/python/pilotlight/_native.abi3.so");
    // As in the package that people install; of a checkout, where lab/setup.sh has built it.
    let has_core = fs::copy(peers.join("../..").join(core), files.join(core)).is_ok();
    runtime.version +=
        if has_core { ", the SDK with its compiled core" } else { ", the SDK without its compiled core" };
    let server = |name, file: &str| server(name, &runtime.program, &files.join(file));
    let mut http = vec![server("http.server", "lab/peers/http/services/httpserver.py")];
    let mut skipped = Vec::new();
    for (name, module, socket, file) in PYTHON_SERVERS {
        if processes::first_line(runtime.program.as_os_str(), &["-c", &format!("import {module}")]).is_some() {
            http.push(Server { socket, ..server(name, file) });
        } else {
            let what = format!("Python over HTTP with {name}");
            let why = format!("`{}` cannot import it", runtime.program.display());
            let install = format!("pip install {module}, or name a Python that has it: --python");
            skipped.push(Skipped::new(&what, &why, &install));
        }
    }
    let pipe = server(SDK, "lab/peers/http/pipe/service.py");
    Ok((Service { language: Language::Python, runtime, pipe, http }, skipped))
}

/// Servers of Python beside its own: the module that has to be there, and the service.
const PYTHON_SERVERS: [(&str, &str, Socket, &str); 4] = [
    ("uvicorn", "uvicorn", Socket::InheritedOrPath, "lab/peers/http/services/asgi.py"),
    ("gunicorn", "gunicorn", Socket::Inherited, "lab/peers/http/services/gunicorn_wsgi.py"),
    ("Granian", "granian", Socket::Port, "lab/peers/http/services/granian_wsgi.py"),
    ("Hypercorn", "hypercorn", Socket::Inherited, "lab/peers/http/services/hypercorn_asgi.py"),
];

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
        socket: Socket::InheritedOrPath,
        scripts: None,
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
    Server { name, socket: Socket::InheritedOrPath, scripts: None, command: vec![program.into(), file.into()] }
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
        let nowhere =
            Interpreters { python: "/nonexistent/python".into(), node: "/nonexistent/node".into(), peers: None };
        for (language, install) in [(Language::Python, "python3"), (Language::Node, "nodejs")] {
            let skipped = find(language, &nowhere, Path::new("/")).expect_err("it is not there");
            assert!(skipped.why.contains("/nonexistent/") && skipped.install.contains(install), "{skipped:?}");
        }
    }

    #[test]
    fn rust_needs_nothing() {
        let nowhere = Interpreters { python: "".into(), node: "".into(), peers: None };
        let (service, skipped) = find(Language::Rust, &nowhere, Path::new("/")).expect("this binary");
        assert_eq!((service.http.len(), skipped.len()), (1, 0));
        assert_eq!(service.pipe.command[1], SERVICE);
    }
}
