//! `package.json`: its script `dev`, else `start`, else its `main`, which may export a handler for somebody to serve.

mod line;

use std::path::Path;

use serde_json::Value;

use super::model::{Follows, Guess, Look, NoGuess, Over, Process, over, shell_line, text};
use crate::machine::Machine;

/// Programs that follow the files of a project by themselves; a restart would cost what they keep in memory.
const WATCHERS: [&str; 35] = [
    "--watch",
    "air",
    "astro",
    "cargo-watch",
    "concurrently",
    "craco",
    "docusaurus",
    "eleventy",
    "entr",
    "esbuild",
    "flask --debug",
    "gatsby",
    "gulp",
    "ng",
    "next",
    "nodemon",
    "nuxi",
    "nuxt",
    "parcel",
    "quasar",
    "react-router",
    "react-scripts",
    "remix",
    "rsbuild",
    "rspack",
    "runserver",
    "storybook",
    "ts-node-dev",
    "turbo",
    "vinxi",
    "vite",
    "vitepress",
    "vue-cli-service",
    "webpack",
    "wrangler",
];

/// A project whose scripts serve something. Those of a back end's front end may only make files for it.
pub(super) fn look(folder: &Path, machine: &dyn Machine) -> Look {
    look_at(folder, machine, Wanted::Servers)
}

/// A project with whatever scripts it has.
pub(super) fn look_at_all(folder: &Path, machine: &dyn Machine) -> Look {
    look_at(folder, machine, Wanted::All)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Servers,
    All,
}

fn look_at(folder: &Path, _: &dyn Machine, wanted: Wanted) -> Look {
    let manifest = text(&folder.join("package.json"))?;
    let unclear = |why: String| Some(Err(NoGuess::Unclear { kind: "Node project", why }));
    let manifest: Value = match serde_json::from_str(&manifest) {
        Ok(manifest) => manifest,
        Err(error) => return unclear(format!("package.json cannot be read: {error}")),
    };
    let script = |name: &str| manifest["scripts"][name].as_str().map(str::trim).filter(|line| !line.is_empty());
    let named = ["dev", "start"].into_iter().find_map(|name| Some((name, script(name)?)));
    if wanted == Wanted::Servers && named.is_some_and(|(_, line)| line::only_builds(line)) {
        return None;
    }
    let guess = match named {
        Some((name, line)) => {
            let has_before = script(&format!("pre{name}")).is_some();
            let has_hooks = has_before || script(&format!("post{name}")).is_some();
            let run = match (has_hooks, line::has_several(line)) {
                (false, _) => line.to_owned(),
                (true, false) => format!("npm run --silent {name}"),
                // Arguments behind it would be for the last of its commands.
                (true, true) if has_before => format!("npm run --silent pre{name} && {line}"),
                (true, true) => line.to_owned(),
            };
            Guess::of("Node project", format!("script `{name}` of package.json: {line}"), process(folder, line, &run))
        }
        None => {
            let main = manifest["main"].as_str().unwrap_or("index.js");
            let Some(main) = [main, "server.js", "app.js"].into_iter().find(|file| folder.join(file).is_file()) else {
                return unclear("package.json has neither a script `dev` or `start` nor a `main` that is there".into());
            };
            if text(&folder.join(main)).is_some_and(|source| exports_fetch(&source)) {
                if !folder.join("node_modules/pilotlight").is_dir() {
                    let why = format!("{main} exports `fetch` for somebody to serve: install the package `pilotlight`");
                    return unclear(why);
                }
                let line = format!("pilotlight-serve {main}");
                let process = Process { over: Over::Pipe, ..process(folder, &line, &line) };
                Guess::of("Node project", format!("package.json, and `fetch`, which {main} exports"), process)
            } else {
                let line = format!("node {main}");
                Guess::of("Node project", format!("package.json, and {main}"), process(folder, &line, &line))
            }
        }
    };
    let needs = |key: &str| manifest[key].as_object().is_some_and(|all| !all.is_empty());
    let is_missing = (needs("dependencies") || needs("devDependencies")) && !folder.join("node_modules").exists();
    Some(Ok(if is_missing { guess.note("there is no node_modules yet: `npm install` first") } else { guess }))
}

/// Whether a module has a handler of the kind `fetch(request)` for others, and no server of its own.
fn exports_fetch(source: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| source.contains(word));
    let exports = has(&["export default", "module.exports", "exports.fetch", "export function fetch"]);
    let is_handler = has(&["new Hono", "new Elysia", "fetch(req", "fetch(_req", "fetch:", "fetch }", "fetch()"]);
    exports && is_handler && !has(&["listen(", "serve(", "createServer("])
}

fn process(folder: &Path, line: &str, run: &str) -> Process {
    let source = line.split(' ').filter(|word| !word.starts_with('-')).map(|word| folder.join(word));
    let over = source.filter(|path| path.is_file()).find_map(|path| over(&text(&path)?)).unwrap_or(Over::Port);
    let run = match line::with_port(line) {
        Some(with_port) if run.ends_with(line) => format!("{}{with_port}", run.strip_suffix(line).unwrap_or_default()),
        // What npm passes on to a script of one command stands at its end.
        Some(with_port) => match with_port.strip_prefix(line) {
            Some(arguments) => format!("{run} --{arguments}"),
            None => with_port,
        },
        None => run.to_owned(),
    };
    let follows = if watches_itself(line) { Follows::Itself } else { Follows::Restart };
    let path = "PATH=\"$PWD/node_modules/.bin:$PATH\"";
    let command = vec!["sh".into(), "-c".into(), format!("{path}; {}", shell_line(&run))];
    let process = Process { follows, start_timeout_s: 120, ..Process::web(command, over) };
    process.env("NODE_ENV", "development").env("BROWSER", "none")
}

/// Whether what a command runs follows the files by itself.
pub(super) fn watches_itself(line: &str) -> bool {
    WATCHERS
        .iter()
        .any(|program| if program.contains(' ') { line.contains(program) } else { line::names(line, program) })
        || line.contains("tsx watch")
        || line.contains("--reload")
}
