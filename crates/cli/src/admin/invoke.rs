//! `pilotlight invoke`: a function of AWS Lambda with an event.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pilotlight_printable::{printable, printable_lines, without_mark};
use serde_json::{Value, json};

use super::arguments::Running;
use super::client::{Client, Failure, encoded};
use super::options::Effect;
use super::report::{Report, json_text};
use crate::config::commands::Outcome;

/// How long it may take: longer than an invocation, and its wait for an instance.
const TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Bytes of an event that are read; the service has a limit of its own.
const MAX_EVENT: u64 = 256 << 20;

/// Examples for the help.
pub const INVOKE_EXAMPLES: &str = "Examples:
  pilotlight invoke hello event.json        prints the result
  echo '{\"id\": 7}' | pilotlight invoke hello -
  pilotlight invoke hello                   with the event {}

Exit code 1 if the function fails; its error goes to the standard error.";

/// The arguments of `pilotlight invoke`.
#[derive(Args, Clone, Debug)]
pub struct InvokeArguments {
    /// The service
    service: String,
    /// The file with the event, in JSON; `-` for the standard input
    event: Option<PathBuf>,
    #[command(flatten)]
    gateway: Running,
}

impl InvokeArguments {
    /// `pilotlight invoke`.
    ///
    /// # Errors
    /// Only if the output cannot be written.
    pub fn run(self) -> io::Result<Outcome> {
        let Self { service, event, gateway } = self;
        gateway.run(Effect::Changes, |client, report, out| invoke(client, &service, event.as_deref(), report, out))
    }
}

/// `event` is a file, or `-`.
fn invoke(
    client: &Client,
    service: &str,
    event: Option<&Path>,
    report: Report,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let event = read(event)?;
    let answer = client.order(&format!("/services/{}/invoke", encoded(service)), Some(&event), TIMEOUT)?;
    let error = &answer["error"];
    match report {
        Report::Json => writeln!(out, "{}", json_text(&answer))?,
        Report::Text if error.is_null() => writeln!(out, "{}", json_text(&answer["result"]))?,
        Report::Text => return Err(Failure::Service(printable(service).into_owned(), failure(error))),
    }
    Ok(if error.is_null() { Outcome::Done } else { Outcome::Failed })
}

fn read(event: Option<&Path>) -> Result<Value, Failure> {
    let mut text = String::new();
    let (name, read) = match event {
        None => return Ok(json!({})),
        Some(path) if path == Path::new("-") => {
            ("the standard input".into(), io::stdin().take(MAX_EVENT).read_to_string(&mut text))
        }
        Some(path) => {
            let file = std::fs::File::open(path);
            (path.to_string_lossy(), file.and_then(|file| file.take(MAX_EVENT).read_to_string(&mut text)))
        }
    };
    let wrong = |why: String| Failure::Refused {
        status: 400,
        detail: format!("cannot read the event: {}: {why}", printable(&name)),
    };
    read.map_err(|e| wrong(e.to_string()))?;
    serde_json::from_str(without_mark(&text)).map_err(|e| wrong(format!("it is not JSON: {e}")))
}

/// What the function says of its failure.
fn failure(error: &Value) -> String {
    let text = |name: &str| error[name].as_str().unwrap_or_default();
    let mut said = format!("its function failed: {}: {}", text("type"), text("message"));
    for line in error["trace"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        said.push('\n');
        said.push_str(line);
    }
    printable_lines(&said).into_owned()
}
