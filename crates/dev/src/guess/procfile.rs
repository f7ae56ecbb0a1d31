//! `Procfile`: a line `name: command` for each process. `web`, or else the first, is what requests go to.

use std::path::Path;

use super::model::{Follows, Guess, Look, NoGuess, Over, Process, Serves, text};
use crate::machine::Machine;

/// Most processes of a file.
const MAX_PROCESSES: usize = 32;
/// Most characters of a name.
const MAX_NAME: usize = 64;

pub(super) fn look(folder: &Path, _: &dyn Machine) -> Look {
    let name = ["Procfile.dev", "Procfile"].into_iter().find(|name| folder.join(name).is_file())?;
    let lines = text(&folder.join(name))?;
    let mut processes: Vec<(String, String)> = Vec::new();
    let mut notes = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((process, command)) = line.split_once(':').filter(|(_, command)| !command.trim().is_empty()) else {
            notes.push(format!("{name}: `{line}` is no line `NAME: COMMAND` and was left out"));
            continue;
        };
        match service_name(process) {
            Some(process) if processes.iter().any(|(other, _)| *other == process) => {
                notes.push(format!("{name}: `{process}` is defined twice; the first counts"));
            }
            Some(process) if processes.len() < MAX_PROCESSES => processes.push((process, command.trim().to_owned())),
            Some(process) => {
                notes.push(format!("{name}: `{process}` was left out: there are more than {MAX_PROCESSES}"));
            }
            None => notes.push(format!("{name}: `{process}` is no name for a service and was left out")),
        }
    }
    let web = processes.iter().position(|(name, _)| name == "web").unwrap_or(0);
    if processes.is_empty() {
        return Some(Err(NoGuess::Unclear { kind: "Procfile", why: format!("no line of {name} is `NAME: COMMAND`") }));
    }
    processes.swap(0, web);
    let others: Vec<String> = processes.drain(1..).map(|(name, _)| name).collect();
    if !others.is_empty() {
        notes.push(format!(
            "only `{}` takes requests; start the others yourself: {}",
            processes[0].0,
            others.join(", ")
        ));
    }
    let processes = processes.into_iter().map(|(name, line)| process(name, &line)).collect();
    Some(Ok(Guess { kind: "Procfile".into(), because: name.into(), notes, serves: Serves::Processes(processes) }))
}

fn process(name: String, line: &str) -> Process {
    let follows = if super::node::watches_itself(line) { Follows::Itself } else { Follows::Restart };
    let over = if line.contains("pilotlight.wsgi") { Over::Pipe } else { Over::Port };
    let shell = Process { name, follows, start_timeout_s: 120, ..Process::shell(line, over) };
    shell.env("PYTHONDONTWRITEBYTECODE", "1")
}

/// In lower case; `None` if services cannot be named so.
fn service_name(text: &str) -> Option<String> {
    let name = text.trim().to_lowercase();
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    ((1..=MAX_NAME).contains(&name.len()) && name.bytes().all(fits)).then_some(name)
}
