//! Which kind of project is in a folder, and how it is started. Looks at the project's files, and at the machine only
//! through [`Machine`].
//!
//! The first of these that is there decides: `Procfile`, what a back end has that may have a `package.json` for its
//! assets (`artisan`, `manage.py`, `bin/rails`, `config.ru`), `package.json`, `deno.json`, what a Python project has,
//! `Cargo.toml`, `go.mod`, `pom.xml`, `build.gradle`, `*.csproj`, PHP, `index.html`, and last a `package.json` that
//! only builds. A Procfile comes first because somebody wrote it to say how the project is run.

mod command;
mod compiled;
mod deno;
mod dotnet;
mod jvm;
mod model;
mod node;
mod php;
mod procfile;
mod python;
mod ruby;

use std::path::Path;

use crate::machine::Machine;
use model::Look;
pub use model::{Follows, Guess, NoGuess, Over, Process, Serves};

/// Guesses what is in a folder.
///
/// # Errors
/// Nothing in it is known, or not well enough.
pub fn guess(folder: &Path, machine: &dyn Machine) -> Result<Guess, NoGuess> {
    let looks = [
        procfile::look,
        php::laravel,
        python::django,
        ruby::look,
        node::look,
        deno::look,
        python::look,
        compiled::cargo,
        compiled::go,
        jvm::look,
        dotnet::look,
        php::look,
        files,
        node::look_at_all,
    ];
    looks.into_iter().find_map(|look| look(folder, machine)).unwrap_or(Err(NoGuess::Nothing))
}

/// What follows from a command that the developer names. How it is reached is guessed from the source files that it
/// names, unless the developer says so.
#[must_use]
pub fn of_command(folder: &Path, command: &[String], said: Option<Over>) -> Guess {
    command::guess(folder, command, said)
}

fn files(folder: &Path, _: &dyn Machine) -> Look {
    let root = [".", "public", "static", "dist", "site"]
        .into_iter()
        .find(|sub| folder.join(sub).join("index.html").is_file())?;
    let because = if root == "." { "index.html".to_owned() } else { format!("{root}/index.html") };
    Some(Ok(Guess { kind: "folder of files".into(), because, notes: Vec::new(), serves: Serves::Files(root.into()) }))
}

#[cfg(test)]
mod tests;
