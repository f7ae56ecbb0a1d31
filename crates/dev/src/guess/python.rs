//! Python: where the application object is, whether it is one of WSGI or ASGI, and what can serve it.

use std::path::{Path, PathBuf};

use super::model::{Guess, Look, NoGuess, Over, Process, over, text, words};
use crate::machine::Machine;

/// Most files that are looked into.
const MAX_FILES: usize = 64;
/// Files that say that this is Python.
const SIGNS: [&str; 5] = ["pyproject.toml", "requirements.txt", "setup.py", "Pipfile", "manage.py"];
/// Where applications are, the likeliest first.
const LIKELY: [&str; 12] = [
    "wsgi.py",
    "asgi.py",
    "app.py",
    "main.py",
    "server.py",
    "api.py",
    "application.py",
    "run.py",
    "app/__init__.py",
    "app/main.py",
    "src/app.py",
    "src/main.py",
];
/// Modules whose presence decides.
const MODULES: [&str; 7] = ["pilotlight", "flask", "django", "gunicorn", "waitress", "uvicorn", "hypercorn"];

/// Calls that make an application, what it is called by, and whose it is.
const MAKERS: [(&str, Interface, &str); 13] = [
    ("Flask(", Interface::Wsgi, "Flask"),
    ("Bottle(", Interface::Wsgi, "Bottle"),
    ("falcon.App(", Interface::Wsgi, "Falcon"),
    ("get_wsgi_application(", Interface::Wsgi, "Django"),
    ("make_wsgi_app(", Interface::Wsgi, "Pyramid"),
    ("FastAPI(", Interface::Asgi, "FastAPI"),
    ("Starlette(", Interface::Asgi, "Starlette"),
    ("Litestar(", Interface::Asgi, "Litestar"),
    ("Quart(", Interface::Asgi, "Quart"),
    ("BlackSheep(", Interface::Asgi, "BlackSheep"),
    ("falcon.asgi.App(", Interface::Asgi, "Falcon"),
    ("get_asgi_application(", Interface::Asgi, "Django"),
    ("create_app(", Interface::Wsgi, "WSGI"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Wsgi,
    Asgi,
}

/// Names of functions that make an application.
const FACTORIES: [&str; 6] = ["create_app", "make_app", "get_app", "create_application", "build_app", "app_factory"];

/// An application object.
#[derive(Debug, PartialEq, Eq)]
struct Application {
    interface: Interface,
    framework: &'static str,
    /// `package.module:name`.
    object: String,
    /// Where it is defined.
    file: String,
    /// The object is a function that makes it.
    is_made: bool,
    /// Its package is in the folder `src`.
    is_in_src: bool,
}

/// A project of Django, which may have a `package.json` for its assets.
pub(super) fn django(folder: &Path, machine: &dyn Machine) -> Look {
    folder.join("manage.py").is_file().then(|| look(folder, machine)).flatten()
}

pub(super) fn look(folder: &Path, machine: &dyn Machine) -> Look {
    let files = files(folder);
    let is_python = SIGNS.iter().any(|sign| folder.join(sign).is_file()) || !files.is_empty();
    if !is_python {
        return None;
    }
    let python = interpreter(folder, machine);
    let mut program = None;
    let mut made = None;
    for file in &files {
        let Some(source) = text(&folder.join(file)) else { continue };
        made = made.or_else(|| factory(file, &source));
        if let Some(application) = application(file, &source) {
            return Some(serve(folder, machine, &python, &application));
        }
        if program.is_none() && source.contains("pilotlight") && over(&source) == Some(Over::Pipe) {
            program = Some(file);
        }
    }
    if let Some(application) = made {
        return Some(serve(folder, machine, &python, &application));
    }
    if let Some(file) = program {
        let process = Process::web(words(&[&python, file]), Over::Pipe).env("PYTHONDONTWRITEBYTECODE", "1");
        return Some(Ok(Guess::of("Python program", format!("{file} uses the SDK"), process)));
    }
    // Something else may know the folder, if nothing says that Python is all that is in it.
    let why = "no application object was found (`app = Flask(…)`, `application`, …); say what to run: pilotlight dev -- python3 FILE";
    let is_only_that = SIGNS.iter().any(|sign| folder.join(sign).is_file());
    is_only_that.then(|| Err(NoGuess::Unclear { kind: "Python project", why: why.into() }))
}

/// The likely ones, then what Django calls its own, then everything at the top.
fn files(folder: &Path) -> Vec<String> {
    let mut files: Vec<String> = LIKELY.iter().map(|file| (*file).to_owned()).collect();
    let mut others: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(4 * MAX_FILES)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name == "src" => Some(packages(&folder.join("src"))),
                Ok(kind) if kind.is_dir() => Some(in_package(&name)),
                Ok(_) if name.ends_with(".py") => Some(vec![name]),
                _ => None,
            }
        })
        .flatten()
        .collect();
    others.sort_by_key(|file| (file.ends_with("__init__.py"), file.clone()));
    files.extend(others);
    let mut seen: Vec<String> = Vec::new();
    for file in files {
        if seen.len() < MAX_FILES && !seen.contains(&file) && folder.join(&file).is_file() {
            seen.push(file);
        }
    }
    seen
}

/// Where the application of a package may be.
fn in_package(package: &str) -> Vec<String> {
    ["wsgi", "asgi", "main", "app", "api", "server", "__init__"].map(|name| format!("{package}/{name}.py")).to_vec()
}

/// The same of the packages in the folder `src`.
fn packages(src: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(src).into_iter().flatten().flatten().take(MAX_FILES);
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.iter().flat_map(|name| in_package(&format!("src/{name}"))).collect()
}

/// An object of a file. A package in `src` is imported from there, a module in it by the name of the folder.
fn object(file: &str, name: &str, interface: Interface, framework: &'static str) -> Application {
    let below = file.strip_prefix("src/").filter(|below| below.contains('/'));
    let module = below.unwrap_or(file).trim_end_matches(".py").trim_end_matches("/__init__").replace('/', ".");
    let object = format!("{module}:{name}");
    Application { interface, framework, object, file: file.to_owned(), is_made: false, is_in_src: below.is_some() }
}

/// A function of a file that makes an application, and has to be told nothing.
fn factory(file: &str, source: &str) -> Option<Application> {
    let is_optional = |parameters: &str| {
        parameters.trim().is_empty()
            || parameters.split(',').all(|one| one.contains('=') || one.trim().starts_with('*'))
    };
    let name = source.lines().find_map(|line| {
        let (name, rest) = line.strip_prefix("def ")?.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        FACTORIES.iter().find(|known| **known == name).filter(|_| is_optional(parameters))
    })?;
    let known = |(maker, interface, framework): &(&str, Interface, &'static str)| {
        (source.contains(maker) && *framework != "WSGI").then_some((*interface, *framework))
    };
    let (interface, framework) = MAKERS.iter().find_map(known)?;
    Some(Application { is_made: true, ..object(file, name, interface, framework) })
}

/// The application that a file defines at its top level.
fn application(file: &str, source: &str) -> Option<Application> {
    let made = |interface, framework, name: &str| object(file, name, interface, framework);
    for line in source.lines() {
        if let Some((name, value)) = line.split_once('=').filter(|(name, _)| !name.starts_with([' ', '\t', '#'])) {
            let name = name.split(':').next().unwrap_or_default().trim();
            let value = value.trim_start();
            let maker =
                MAKERS.iter().find(|(maker, ..)| value.starts_with(maker) || value.contains(&format!(".{maker}")));
            if let Some((_, interface, framework)) = maker.filter(|_| is_name(name)) {
                let is_asgi = *framework == "WSGI" && ["fastapi", "starlette"].iter().any(|word| source.contains(word));
                let interface = if is_asgi { Interface::Asgi } else { *interface };
                return Some(made(interface, framework, name));
            }
        }
        let parameters = |line: &str, prefix: &str, named: &str| {
            let (name, rest) = line.strip_prefix(prefix)?.split_once('(')?;
            (is_name(name) && rest.starts_with(named)).then(|| name.to_owned())
        };
        if let Some(name) = parameters(line, "def ", "environ, start_response") {
            return Some(made(Interface::Wsgi, "WSGI", &name));
        }
        if let Some(name) = parameters(line, "async def ", "scope, receive, send") {
            return Some(made(Interface::Asgi, "ASGI", &name));
        }
    }
    None
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// That of the project's environment, or of the one that is active, or what PATH has.
fn interpreter(folder: &Path, machine: &dyn Machine) -> String {
    for environment in [".venv", "venv", "env"] {
        if folder.join(environment).join("bin/python").exists() {
            return format!("{environment}/bin/python");
        }
    }
    let active = machine.virtual_env().map(|path| path.join("bin/python")).filter(|python| python.exists());
    active.map_or_else(|| "python3".to_owned(), |python| python.display().to_string())
}

fn serve(folder: &Path, machine: &dyn Machine, python: &str, application: &Application) -> Result<Guess, NoGuess> {
    let Application { interface, framework, object, file, .. } = application;
    let program = if python.contains('/') { folder.join(python) } else { PathBuf::from(python) };
    let found = machine.python_modules(&program, folder, &MODULES);
    let has = |module: &str| found.iter().any(|one| one == module);
    let process = match interface {
        Interface::Wsgi => Some(wsgi(python, application, &has)),
        Interface::Asgi => asgi(python, application, &has),
    };
    let Some((process, by)) = process else {
        let why = format!("{object} in {file} needs a server for ASGI: `{python} -m pip install uvicorn`, then again");
        return Err(NoGuess::Unclear { kind: "Python project", why });
    };
    let process = process.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
    let process = if application.is_in_src { process.env("PYTHONPATH", "src") } else { process };
    let guess = Guess::of(format!("{framework} application, served by {by}"), format!("{object} in {file}"), process);
    let is_slow = *interface == Interface::Wsgi && !has("pilotlight");
    Ok(if is_slow {
        guess.note("with the SDK of Pilotlight in this environment, a save is answered in a fraction of the time")
    } else {
        guess
    })
}

fn wsgi(python: &str, application: &Application, has: &dyn Fn(&str) -> bool) -> (Process, &'static str) {
    let Application { framework, object, is_made, .. } = application;
    if has("pilotlight") && !is_made {
        let mut process = Process::web(words(&[python, "-m", "pilotlight.wsgi", object]), Over::Pipe);
        // What a save does not change is imported once: an instance is a fork of what has it already.
        process.preload = match *framework {
            "Flask" if has("flask") => words(&["flask"]),
            "Django" if has("django") => words(&["django.core.wsgi", "django.db.models", "django.contrib.auth"]),
            _ => Vec::new(),
        };
        process.preload.push("pilotlight".to_owned());
        return (process, "the SDK");
    }
    if has("gunicorn") {
        let called = if *is_made { format!("{object}()") } else { object.clone() };
        return (Process::web(words(&[python, "-m", "gunicorn", &called]), Over::Unix), "Gunicorn");
    }
    if has("waitress") {
        let call = if *is_made { "--call " } else { "" };
        return (
            Process::shell(&format!("{python} -m waitress --listen=127.0.0.1:$PORT {call}{object}"), Over::Port),
            "Waitress",
        );
    }
    if *framework == "Flask" {
        return (
            Process::shell(&format!("{python} -m flask --app {object} run --port $PORT"), Over::Port),
            "`flask run`",
        );
    }
    let (module, name) = object.split_once(':').unwrap_or((object, "application"));
    let call = if *is_made { "()" } else { "" };
    let script = format!(
        "import os, sys; sys.path.insert(0, \"\"); from wsgiref.simple_server import make_server; \
         from {module} import {name} as app; make_server(\"127.0.0.1\", int(os.environ[\"PORT\"]), app{call}).serve_forever()"
    );
    (Process::web(vec![python.to_owned(), "-c".to_owned(), script], Over::Port), "wsgiref")
}

fn asgi(python: &str, application: &Application, has: &dyn Fn(&str) -> bool) -> Option<(Process, &'static str)> {
    let Application { object, is_made, .. } = application;
    if has("uvicorn") {
        let mut command = words(&[python, "-m", "uvicorn", "--fd", "3", "--forwarded-allow-ips", "*"]);
        command.extend(is_made.then(|| "--factory".to_owned()));
        command.push(object.clone());
        return Some((Process::web(command, Over::Unix), "Uvicorn"));
    }
    let called = if *is_made { format!("{object}()") } else { object.clone() };
    let command = || words(&[python, "-m", "hypercorn", "--bind", "fd://3", &called]);
    has("hypercorn").then(|| (Process::web(command(), Over::Unix), "Hypercorn"))
}
