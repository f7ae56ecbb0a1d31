//! A guess as the text of a configuration file, which a developer can save and go on with.

use std::fmt::Write;

use crate::guess::{Guess, Over, Process, Serves};

/// How long open exchanges of an instance that is replaced may go on, and how long it may take to end: a developer
/// does not wait for an old page to be closed.
const DRAIN: &str = "5s";
const GRACE: &str = "2s";

/// The text of `pilotlight.toml`; `hosts` are those that routes are for, `listen` the addresses.
#[must_use]
pub fn render(guess: &Guess, listen: &[String], hosts: &[String]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "# {}: {}",
        guess.kind.replace(char::is_control, " "),
        guess.because.replace(char::is_control, " ")
    );
    let _ = writeln!(out, "listen = {}", list(listen));
    out.push_str("dev = true                # clients see why a service failed; take it away in production\n");
    out.push_str("cache = false             # so that no stored answer hides a change\n");
    let target = match &guess.serves {
        Serves::Processes(processes) => {
            for process in processes {
                service(&mut out, process);
            }
            processes.first().map(|first| format!("service = {}", string(&first.name)))
        }
        Serves::Files(root) => Some(format!("files = {}", string(root))),
    };
    for host in hosts {
        let _ = writeln!(out, "\n[[routes]]\nhost = {}\npath = \"/\"", string(host));
        let _ = writeln!(out, "https = \"allow\"\n{}", target.as_deref().unwrap_or_default());
    }
    out
}

fn service(out: &mut String, process: &Process) {
    let _ = writeln!(out, "\n[services.{}]\ncommand = {}", process.name, list(&process.command));
    out.push_str(match process.over {
        Over::Pipe => "transport = \"pipe\"\n",
        Over::Unix => "transport = \"http\"\nsocket = \"unix\"\n",
        Over::Tcp => "transport = \"http\"\nsocket = \"tcp\"\n",
        Over::Port => "transport = \"http\"\nsocket = \"port\"\n",
    });
    if !process.preload.is_empty() {
        let _ = writeln!(out, "preload = {}", list(&process.preload));
    }
    let env: Vec<String> = process.env.iter().map(|(name, value)| format!("{name} = {}", string(value))).collect();
    if !env.is_empty() {
        let _ = writeln!(out, "env = {{ {} }}", env.join(", "));
    }
    let _ = writeln!(out, "start_timeout = \"{}s\"\nidle_timeout = \"none\"", process.start_timeout_s);
    let _ = writeln!(out, "drain_timeout = \"{DRAIN}\"\nstop_grace = \"{GRACE}\"");
}

fn list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| string(item)).collect::<Vec<_>>().join(", "))
}

/// A basic string (TOML 1.0): as JSON writes it, but for DEL.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
