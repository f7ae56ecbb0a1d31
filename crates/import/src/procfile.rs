//! `NAME: COMMAND` lines. The process `web` gets the requests; another one that listens on `$PORT` gets a path by its
//! name, which is a guess.

use crate::document::{Section, Value};
use crate::model::{Became, Draft};

/// Processes that Heroku runs once or at other times.
const NOT_A_SERVER: &str = "it answers no requests: have a service manager run it beside Pilotlight";

pub(crate) fn read(text: &str) -> Draft {
    let mut draft = Draft::default();
    for (at, line) in text.lines().enumerate() {
        let (line_number, line) = (at + 1, line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let process = line.split_once(':').filter(|(name, command)| {
            let is_good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
            !name.is_empty() && name.chars().all(is_good) && !command.trim().is_empty()
        });
        let Some((name, command)) = process else {
            draft.note(line_number, line, Became::NotMapped("no line of the form NAME: COMMAND".to_owned()));
            continue;
        };
        let command = command.trim();
        if name == "release" {
            let why = "it runs once before a deploy: have the deploy run it".to_owned();
            draft.note(line_number, name, Became::NotMapped(why));
        } else if name == "web" || command.contains("$PORT") || command.contains("${PORT") {
            service(&mut draft, line_number, name, command);
        } else {
            draft.note(line_number, name, Became::NotMapped(NOT_A_SERVER.to_owned()));
        }
    }
    draft
}

fn service(draft: &mut Draft, line: usize, name: &str, command: &str) {
    let service = draft.service_name(name);
    let (variables, command) = leading_variables(command);
    let mut section = Section::default();
    section.set("command", Value::List(words_or_shell(command)));
    section.text("transport", "http");
    section.text("socket", "port");
    for (name, value) in variables.into_iter().filter(|(name, _)| *name != "PORT") {
        section.entry("env", name, value);
    }
    let path = if name == "web" { "/".to_owned() } else { format!("/{service}") };
    let route = Section::default().with("path", path.clone()).with("service", service.clone());
    draft.services.push((service.clone(), section));
    draft.route(route);
    let guess = if name == "web" { "" } else { ", which is a guess" };
    draft.note(line, name, Became::Mapped(format!("[services.{service}] at {path}{guess}")));
}

/// `NAME=value` words in front of the program.
fn leading_variables(command: &str) -> (Vec<(&str, &str)>, &str) {
    let (mut variables, mut rest) = (Vec::new(), command);
    while let Some((word, after)) = rest.split_once(' ') {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        match word.split_once('=') {
            Some((name, value)) if is_name(name) && !value.contains(['"', '\'', '$', '`', '\\']) => {
                variables.push((name, value));
                rest = after.trim_start();
            }
            _ => break,
        }
    }
    (variables, rest)
}

/// The words of a command, or a shell that reads it.
pub(crate) fn words_or_shell(command: &str) -> Vec<String> {
    let needs_shell =
        command.contains(['$', '`', '|', '&', ';', '<', '>', '(', ')', '"', '\'', '\\', '*', '?', '~', '#', '{']);
    if !needs_shell {
        return command.split_whitespace().map(str::to_owned).collect();
    }
    // The program takes the place of the shell, so that it gets the signals, unless there is more than one.
    let several = command.contains(['|', '&', ';', '(']);
    let line = if several { command.to_owned() } else { format!("exec {command}") };
    vec!["sh".to_owned(), "-c".to_owned(), line]
}
