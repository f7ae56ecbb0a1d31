//! .NET: a web project of C#, F# or Visual Basic.

use std::path::Path;

use super::model::{Guess, Look, NoGuess, Over, Process, text};
use crate::machine::Machine;

/// Seconds that the first build may take, with all that it depends on.
const BUILD_S: u32 = 600;
/// Most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 256;

pub(super) fn look(folder: &Path, _: &dyn Machine) -> Look {
    let names = std::fs::read_dir(folder).ok()?.flatten().take(MAX_ENTRIES);
    let is_project = |name: &String| [".csproj", ".fsproj", ".vbproj"].iter().any(|end| name.ends_with(end));
    let mut projects: Vec<String> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).filter(is_project).collect();
    projects.sort();
    let first = projects.first()?;
    let is_web = |name: &&String| text(&folder.join(name)).is_some_and(|text| text.contains("Microsoft.NET.Sdk.Web"));
    let Some(project) = projects.iter().find(is_web) else {
        let why = format!("{first} is no web project; say what to run: pilotlight dev -- dotnet run --project FOLDER");
        return Some(Err(NoGuess::Unclear { kind: ".NET project", why }));
    };
    // The profiles of launchSettings.json have ports of their own.
    let line = format!("dotnet run --no-launch-profile --project \"{project}\" --urls http://127.0.0.1:$PORT");
    let process = Process { start_timeout_s: BUILD_S, ..Process::shell(&line, Over::Port) };
    Some(Ok(Guess::of(".NET project", project.as_str(), process.env("ASPNETCORE_ENVIRONMENT", "Development"))))
}
