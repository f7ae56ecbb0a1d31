//! Programs that are compiled before they run: Rust, Go.

use std::path::Path;

use super::model::{Guess, Look, NoGuess, Over, Process, over, text, words};
use crate::machine::Machine;

/// Seconds that the first build may take, with all that it depends on.
const BUILD_S: u32 = 600;

pub(super) fn cargo(folder: &Path, _: &dyn Machine) -> Look {
    let manifest = text(&folder.join("Cargo.toml"))?;
    let has_program =
        ["src/main.rs", "src/bin"].into_iter().any(|path| folder.join(path).exists()) || manifest.contains("[[bin]]");
    if !has_program {
        let why =
            "Cargo.toml has no program of its own; say which one: pilotlight dev -- cargo run --package NAME".into();
        return Some(Err(NoGuess::Unclear { kind: "Rust project", why }));
    }
    let source = text(&folder.join("src/main.rs")).unwrap_or_default();
    // A dependency says it as well as the source does.
    let over =
        if manifest.contains("pilotlight-pipe") { Some(Over::Pipe) } else { over(&manifest).or_else(|| over(&source)) };
    let mut process = Process::web(words(&["cargo", "run", "--quiet"]), over.unwrap_or(Over::Port));
    process.start_timeout_s = BUILD_S;
    Some(Ok(with_port(Guess::of("Rust project", "Cargo.toml, and its program", process), over)))
}

pub(super) fn go(folder: &Path, _: &dyn Machine) -> Look {
    text(&folder.join("go.mod"))?;
    let source = text(&folder.join("main.go"));
    let package = if source.is_some() { "." } else { "./cmd/..." };
    if source.is_none() && !folder.join("cmd").is_dir() {
        let why = "there is no main.go; say which package: pilotlight dev -- go run ./PACKAGE".into();
        return Some(Err(NoGuess::Unclear { kind: "Go project", why }));
    }
    let over = over(&source.unwrap_or_default());
    let mut process = Process::web(words(&["go", "run", package]), over.unwrap_or(Over::Port));
    process.start_timeout_s = BUILD_S;
    Some(Ok(with_port(Guess::of("Go project", "go.mod", process), over)))
}

fn with_port(guess: Guess, over: Option<Over>) -> Guess {
    match over {
        Some(_) => guess,
        None => guess.note("it is told its port by the variable PORT, and has to listen on 127.0.0.1 there"),
    }
}
