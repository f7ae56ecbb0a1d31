//! A table of folders.

use super::model::words;
use super::*;
use std::fs;
use std::path::PathBuf;

/// A machine on which these Python modules are installed.
struct Has(&'static [&'static str]);

impl Machine for Has {
    fn python_modules(&self, _: &Path, _: &Path, modules: &[&str]) -> Vec<String> {
        modules.iter().filter(|module| self.0.contains(module)).map(|module| (*module).to_owned()).collect()
    }

    fn virtual_env(&self) -> Option<PathBuf> {
        None
    }
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The kind, how it is reached, and the last word of the command.
#[track_caller]
fn check(files: &[(&str, &str)], modules: &'static [&'static str], kind: &str, over: Over, last: &str) -> Process {
    let folder = folder(files);
    let found = guess(folder.path(), &Has(modules)).unwrap();
    let Serves::Processes(processes) = &found.serves else { panic!("{found:?}") };
    let first = processes[0].clone();
    assert!(found.kind.contains(kind), "{found:?}");
    assert_eq!((first.over, first.command.last().map(String::as_str)), (over, Some(last)), "{found:?}");
    first
}

#[track_caller]
fn refused(files: &[(&str, &str)], text: &str) {
    let folder = folder(files);
    let error = guess(folder.path(), &Has(&[])).unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

const FLASK: &str = "from flask import Flask\n\napp = Flask(__name__)\n";

#[test]
fn python_by_what_is_installed() {
    let flask = check(&[("app.py", FLASK)], &["pilotlight", "flask", "gunicorn"], "Flask", Over::Pipe, "app:app");
    assert_eq!((flask.preload, flask.follows), (words(&["flask", "pilotlight"]), Follows::Restart));
    check(&[("app.py", FLASK)], &["gunicorn", "flask"], "Gunicorn", Over::Unix, "app:app");
    let line = "exec python3 -m waitress --listen=127.0.0.1:$PORT shop.wsgi:application";
    let django = "import os\napplication = get_wsgi_application()\n";
    check(&[("manage.py", ""), ("shop/wsgi.py", django)], &["waitress"], "Django", Over::Port, line);
    check(&[("app.py", FLASK)], &[], "flask run", Over::Port, "exec python3 -m flask --app app:app run --port $PORT");
    let fastapi = "from fastapi import FastAPI\napi: FastAPI = FastAPI(title='x')\n";
    check(&[("src/main.py", fastapi)], &["uvicorn"], "FastAPI", Over::Unix, "src.main:api");
    refused(&[("main.py", fastapi)], "pip install uvicorn");
    let plain = "def hello(environ, start_response):\n    pass\n";
    check(&[("service.py", plain)], &["pilotlight"], "WSGI", Over::Pipe, "service:hello");
    let asgi = "async def app(scope, receive, send):\n    pass\n";
    check(&[("x.py", asgi)], &["hypercorn"], "ASGI", Over::Unix, "x:app");
    check(&[("svc.py", "import pilotlight\npilotlight.serve(f)\n")], &[], "Python program", Over::Pipe, "svc.py");
    let venv = check(&[("app.py", FLASK), (".venv/bin/python", "")], &["gunicorn"], "Flask", Over::Unix, "app:app");
    assert_eq!(venv.command[0], ".venv/bin/python");
    refused(&[("requirements.txt", "flask"), ("lib/x.py", "")], "no application object was found");
    // Not what only looks like one.
    refused(
        &[("pyproject.toml", ""), ("app.py", "def f():\n    app = Flask(__name__)\n# app = Flask(x)\n")],
        "no application",
    );
}

#[test]
fn node_by_its_scripts() {
    let path = |line: &str| format!("PATH=\"$PWD/node_modules/.bin:$PATH\"; {line}");
    let script = |line: &str| format!(r#"{{"scripts": {{"dev": {}}}}}"#, serde_json::Value::from(line));
    let node = script("node server.js");
    let plain = check(&[("package.json", &node)], &[], "Node", Over::Port, &path("exec node server.js"));
    assert_eq!(plain.follows, Follows::Restart);
    let inherits = [("package.json", node.as_str()), ("server.js", "app.listen({ fd: 3 })")];
    check(&inherits, &[], "Node", Over::Unix, &path("exec node server.js"));
    let sdk = [("package.json", node.as_str()), ("server.js", "require('pilotlight').serve(app)")];
    check(&sdk, &[], "Node", Over::Pipe, &path("exec node server.js"));
    let vite = script("vite");
    let line = path("exec vite --port $PORT --strictPort --host 127.0.0.1");
    assert_eq!(check(&[("package.json", &vite)], &[], "Node", Over::Port, &line).follows, Follows::Itself);
    let nodemon = script("NODE_ENV=x nodemon a.js");
    let line = path("exec env NODE_ENV=x nodemon a.js");
    assert_eq!(check(&[("package.json", &nodemon)], &[], "Node", Over::Port, &line).follows, Follows::Itself);
    let start = r#"{"scripts": {"start": "a && b"}}"#;
    check(&[("package.json", start)], &[], "Node", Over::Port, &path("a && b"));
    check(&[("package.json", "{}"), ("index.js", "")], &[], "Node", Over::Port, &path("exec node index.js"));
    let sdk = "node_modules/pilotlight/package.json";
    for hono in ["const app = new Hono()\nexport default app", "export default { async fetch(request) {} }"] {
        let files = [("package.json", "{}"), ("index.js", hono), (sdk, "{}")];
        check(&files, &[], "Node", Over::Pipe, &path("exec pilotlight-serve index.js"));
        refused(&files[..2], "install the package `pilotlight`");
    }
    let serves = "import { serve } from '@hono/node-server'\nconst app = new Hono()\nserve(app)\nexport default app";
    check(
        &[("package.json", "{}"), ("index.js", serves), (sdk, "{}")],
        &[],
        "Node",
        Over::Port,
        &path("exec node index.js"),
    );
    refused(&[("package.json", "{}")], "neither a script");
    refused(&[("package.json", "{")], "cannot be read");
    let missing = folder(&[("package.json", r#"{"scripts": {"dev": "next dev"}, "dependencies": {"next": "1"}}"#)]);
    let notes = guess(missing.path(), &Has(&[])).unwrap().notes;
    assert!(notes[0].contains("npm install"), "{notes:?}");
}

#[test]
fn others_by_their_manifests() {
    let cargo = [("Cargo.toml", "[package]\nname = \"x\"\n"), ("src/main.rs", "")];
    check(&cargo, &[], "Rust", Over::Port, "--quiet");
    check(
        &[("Cargo.toml", "[dependencies]\nlistenfd = \"1\"\n"), ("src/main.rs", "")],
        &[],
        "Rust",
        Over::Unix,
        "--quiet",
    );
    check(
        &[("Cargo.toml", "[dependencies]\npilotlight-pipe = \"1\"\n"), ("src/bin/a.rs", "")],
        &[],
        "Rust",
        Over::Pipe,
        "--quiet",
    );
    refused(&[("Cargo.toml", "[workspace]")], "cargo run --package");
    check(&[("go.mod", ""), ("main.go", "os.NewFile(3, \"x\")")], &[], "Go", Over::Unix, ".");
    refused(&[("go.mod", "")], "go run ./PACKAGE");
    let line = "exec php -S 127.0.0.1:$PORT -t public public/index.php";
    assert_eq!(check(&[("public/index.php", "")], &[], "PHP", Over::Port, line).follows, Follows::Itself);
    refused(&[("README.md", "")], "nothing in this folder");
}

#[test]
fn a_folder_of_files() {
    for (file, root) in [("index.html", "."), ("public/index.html", "public")] {
        let folder = folder(&[(file, "")]);
        assert_eq!(guess(folder.path(), &Has(&[])).unwrap().serves, Serves::Files(root.to_owned()));
    }
}

#[test]
fn a_procfile_comes_first() {
    let text = "# processes\nworker: python worker.py\nweb: PORT=$PORT node a.js\nBAD NAME: x\nnothing\nweb: y\n";
    let folder = folder(&[("Procfile", text), ("package.json", "{}")]);
    let found = guess(folder.path(), &Has(&[])).unwrap();
    let Serves::Processes(processes) = &found.serves else { panic!() };
    let names: Vec<&str> = processes.iter().map(|process| process.name.as_str()).collect();
    assert_eq!(names, ["web"]);
    assert_eq!(processes[0].command[2], "exec env PORT=$PORT node a.js");
    assert_eq!(found.notes.len(), 4, "{:?}", found.notes);
    refused(&[("Procfile", "# nothing\n")], "no line of Procfile");
}

#[test]
fn a_command_by_what_it_names() {
    let folder = folder(&[("svc.py", "import pilotlight\npilotlight.serve(f)\n")]);
    let of = |command: &[&str], said| {
        let guess = of_command(folder.path(), &words(command), said);
        let Serves::Processes(processes) = guess.serves else { panic!() };
        (processes[0].over, processes[0].command.clone())
    };
    assert_eq!(of(&["python3", "svc.py"], None).0, Over::Pipe);
    assert_eq!(of(&["python3", "svc.py"], Some(Over::Tcp)).0, Over::Tcp);
    let (over, command) = of(&["serve", "--port", "$PORT"], None);
    assert_eq!((over, command), (Over::Port, words(&["sh", "-c", "exec 'serve' '--port' ''\"$PORT\"''"])));
}

#[test]
fn a_back_end_comes_before_the_package_of_its_assets() {
    let vite = r#"{"scripts": {"dev": "vite", "build": "vite build"}}"#;
    let line = "exec php artisan serve --host=127.0.0.1 --port=$PORT --no-reload";
    check(&[("artisan", ""), ("package.json", vite)], &[], "PHP", Over::Port, line);
    let tailwind = r#"{"scripts": {"dev": "tailwindcss -i a.css -o b.css --watch"}}"#;
    let django = "application = get_wsgi_application()\n";
    let files = [("manage.py", ""), ("shop/wsgi.py", django), ("package.json", vite)];
    check(&files, &["gunicorn"], "Django", Over::Unix, "shop.wsgi:application");
    check(&[("app.py", FLASK), ("package.json", tailwind)], &["gunicorn"], "Flask", Over::Unix, "app:app");
    check(&[("app.py", FLASK), ("package.json", vite)], &["gunicorn"], "Node", Over::Port, VITE);
    check(
        &[("bin/rails", ""), ("package.json", vite)],
        &[],
        "Rails",
        Over::Port,
        "exec bin/rails server -b 127.0.0.1 -p $PORT",
    );
    // One that only builds is better than nothing.
    let line = "PATH=\"$PWD/node_modules/.bin:$PATH\"; exec tailwindcss -i a.css -o b.css --watch";
    check(&[("package.json", tailwind)], &[], "Node", Over::Port, line);
}

const VITE: &str = "PATH=\"$PWD/node_modules/.bin:$PATH\"; exec vite --port $PORT --strictPort --host 127.0.0.1";

#[test]
fn several_commands_of_a_script() {
    let last = |scripts: &str, expected: &str| {
        let manifest = format!("{{\"scripts\": {scripts}}}");
        let line = format!("PATH=\"$PWD/node_modules/.bin:$PATH\"; {expected}");
        check(&[("package.json", &manifest)], &[], "Node", Over::Port, &line);
    };
    let vite = "vite --port $PORT --strictPort --host 127.0.0.1";
    last(r#"{"dev": "vite & node api.js"}"#, &format!("{vite} & env -u PORT node api.js"));
    last(r#"{"start": "vite build && node server.js"}"#, "vite build && node server.js");
    last(
        r#"{"dev": "concurrently \"vite\" \"node api.js\""}"#,
        &format!("exec concurrently \"{vite}\" \"env -u PORT node api.js\""),
    );
    last(
        r#"{"predev": "x", "dev": "vite"}"#,
        "exec npm run --silent dev -- --port $PORT --strictPort --host 127.0.0.1",
    );
    last(r#"{"predev": "x", "dev": "vite & y"}"#, &format!("npm run --silent predev && {vite} & env -u PORT y"));
}

#[test]
fn factories_and_packages_below_src() {
    let flask = "from flask import Flask\n\ndef create_app(config=None):\n    app = Flask(__name__)\n    return app\n";
    check(&[("app/__init__.py", flask)], &["gunicorn"], "Flask", Over::Unix, "app:create_app()");
    check(
        &[("shop/__init__.py", flask)],
        &["pilotlight"],
        "Flask",
        Over::Port,
        "exec python3 -m flask --app shop:create_app run --port $PORT",
    );
    let fastapi = "from fastapi import FastAPI\n\ndef create_app() -> FastAPI:\n    return FastAPI()\n";
    let made = check(&[("src/shop/main.py", fastapi)], &["uvicorn"], "FastAPI", Over::Unix, "shop.main:create_app");
    assert!(made.command.contains(&"--factory".to_owned()));
    assert!(made.env.contains(&("PYTHONPATH".to_owned(), "src".to_owned())), "{made:?}");
    let object = "from fastapi import FastAPI\napp = FastAPI()\n";
    check(
        &[("src/shop/api.py", object), ("pyproject.toml", "")],
        &["hypercorn"],
        "FastAPI",
        Over::Unix,
        "shop.api:app",
    );
    // One that has to be told something cannot be called.
    refused(&[("app.py", &flask.replace("config=None", "config")), ("pyproject.toml", "")], "no application");
}

#[test]
fn other_languages() {
    check(
        &[("config.ru", ""), ("Gemfile", "gem 'puma'")],
        &[],
        "Rack",
        Over::Port,
        "exec bundle exec puma -b tcp://127.0.0.1:$PORT config.ru",
    );
    let deno = "{\n  // tasks\n  \"tasks\": { \"dev\": \"deno run --watch main.ts\" }\n}\n";
    let line = "exec env DENO_SERVE_ADDRESS=tcp:127.0.0.1:$PORT deno task dev";
    assert_eq!(check(&[("deno.json", deno)], &[], "Deno", Over::Port, line).follows, Follows::Itself);
    refused(&[("deno.json", "{}")], "deno run FILE");
    let spring =
        "exec ./mvnw -q spring-boot:run -Dspring-boot.run.arguments=\"--server.port=$PORT --server.address=127.0.0.1\"";
    check(
        &[("pom.xml", "<artifactId>spring-boot-starter-web</artifactId>"), ("mvnw", "")],
        &[],
        "Java",
        Over::Port,
        spring,
    );
    let gradle = "exec gradle -q bootRun --args=\"--server.port=$PORT --server.address=127.0.0.1\"";
    check(&[("build.gradle.kts", "id(\"org.springframework.boot\")")], &[], "Java", Over::Port, gradle);
    refused(&[("pom.xml", "<project/>")], "neither Spring Boot nor Quarkus");
    let web = "<Project Sdk=\"Microsoft.NET.Sdk.Web\">";
    let line = "exec dotnet run --no-launch-profile --project \"shop.csproj\" --urls http://127.0.0.1:$PORT";
    check(&[("shop.csproj", web)], &[], ".NET", Over::Port, line);
    refused(&[("tool.csproj", "<Project Sdk=\"Microsoft.NET.Sdk\">")], "no web project");
    let rsbuild = r#"{"scripts": {"dev": "rsbuild dev --open"}}"#;
    let line = "PATH=\"$PWD/node_modules/.bin:$PATH\"; exec rsbuild dev --open --port $PORT --host 127.0.0.1";
    assert_eq!(check(&[("package.json", rsbuild)], &[], "Node", Over::Port, line).follows, Follows::Itself);
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_manifest() {
    let manifest = "\u{feff}{\"scripts\": {\"dev\": \"next dev\"}}";
    let line = "PATH=\"$PWD/node_modules/.bin:$PATH\"; exec next dev";
    check(&[("package.json", manifest)], &[], "Node", Over::Port, line);
}
