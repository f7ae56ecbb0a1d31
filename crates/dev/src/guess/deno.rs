//! Deno: a task of its configuration, or the file that it serves.

use std::path::Path;

use serde_json::Value;

use super::model::{Follows, Guess, Look, NoGuess, Over, Process, text};
use crate::machine::Machine;

/// Files that are served if no task says what to run.
const FILES: [&str; 6] = ["main.ts", "server.ts", "mod.ts", "main.tsx", "main.js", "server.js"];
/// Where `Deno.serve` and `deno serve` listen unless a program says otherwise.
const ADDRESS: &str = "DENO_SERVE_ADDRESS=tcp:127.0.0.1:$PORT";

pub(super) fn look(folder: &Path, _: &dyn Machine) -> Look {
    let name = ["deno.json", "deno.jsonc"].into_iter().find(|name| folder.join(name).is_file())?;
    let text = text(&folder.join(name))?;
    let without_comments: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let manifest: Value = serde_json::from_str(&without_comments.join("\n")).unwrap_or_default();
    let task = ["dev", "start"].into_iter().find(|task| !manifest["tasks"][task].is_null());
    let (line, because) = match (task, FILES.into_iter().find(|file| folder.join(file).is_file())) {
        (Some(task), _) => (format!("{ADDRESS} deno task {task}"), format!("task `{task}` of {name}")),
        (None, Some(file)) => (
            format!("{ADDRESS} deno run --allow-net --allow-read --allow-env --watch {file}"),
            format!("{name}, and {file}"),
        ),
        (None, None) => {
            let why = format!("{name} has no task `dev` or `start`; say what to run: pilotlight dev -- deno run FILE");
            return Some(Err(NoGuess::Unclear { kind: "Deno project", why }));
        }
    };
    let watches = task.is_none() || text.contains("--watch");
    let follows = if watches { Follows::Itself } else { Follows::Restart };
    let process = Process { follows, start_timeout_s: 120, ..Process::shell(&line, Over::Port) };
    Some(Ok(Guess::of("Deno project", because, process)))
}
