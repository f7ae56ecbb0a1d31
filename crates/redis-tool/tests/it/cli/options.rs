//! All that `redis-cli` takes is taken here, or answered with what to use instead.

use std::collections::BTreeSet;
use std::net::TcpListener;

use pilotlight_testkit::Server;

use super::compare::redis_cli;
use super::terminal::Terminal;
use super::{Tool, at, with};

/// `option | words | outcome`
fn known() -> Vec<(&'static str, Vec<&'static str>, &'static str)> {
    let lines = include_str!("redis-cli-options.txt").lines().filter(|line| !line.starts_with('#'));
    let fields = lines.map(|line| line.splitn(3, " | ").collect::<Vec<_>>());
    fields.map(|fields| (fields[0], fields[1].split(' ').collect(), fields[2])).collect()
}

/// A port where nobody listens.
fn closed_port() -> String {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port().to_string()
}

#[test]
fn every_option_of_redis_cli_has_an_answer() {
    let (tool, port) = (Tool::new(), closed_port());
    for (option, words, outcome) in known() {
        let names_server = words.iter().any(|word| matches!(*word, "-s" | "-u" | "--cluster"));
        let place = if names_server { vec![] } else { vec!["-p", &port] };
        let output = tool.run(&[&place, &words[..]].concat(), "");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        match outcome.strip_prefix("instead ") {
            Some(words) => {
                assert_eq!(output.status.code(), Some(2), "{option}: {told}");
                assert!(told.contains(words), "{option}: {told}");
            }
            None => {
                assert_eq!(outcome, "taken");
                let is_about_server = output.status.code() == Some(1) && told.contains("could not connect");
                assert!(is_about_server || output.status.success(), "{option}: {output:?}");
            }
        }
    }
}

/// None is forgotten, as far as the installed program tells.
#[test]
fn the_list_has_what_the_installed_redis_cli_has() {
    let Some(mut reference) = redis_cli() else { return };
    let output = reference.arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let shown = help.lines().filter(|line| line.len() - line.trim_start().len() < 4).map(str::trim);
    let options: BTreeSet<&str> =
        shown.filter(|line| line.starts_with('-')).filter_map(|line| line.split(' ').next()).collect();
    assert!(options.len() > 50, "{help}");
    let known: BTreeSet<&str> = known().iter().map(|(option, ..)| *option).collect();
    let missing: Vec<_> = options.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn a_hash_has_one_form_at_the_prompt_and_in_one_command() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    server.command(&["HSET", "h", "f", "v", "g", "w"]).unwrap();
    let own = at(&server);
    for flag in ["-2", "-3"] {
        let once = tool.text(&with(&own, &[flag, "--no-raw", "HGETALL", "h"])).replace('\n', "\r\n");
        let mut programs = vec![Terminal::start(&tool, &with(&own, &[flag]))];
        if redis_cli().is_some() {
            programs.push(Terminal::run(&tool, "redis-cli", &with(&own, &[flag]), &[]));
        }
        for mut terminal in programs {
            terminal.wait_for("> ");
            terminal.enter("HGETALL h");
            terminal.wait_for(&once);
        }
    }
    // A format brings what it needs, and takes it away.
    let mut terminal = Terminal::start(&tool, &own.iter().map(String::as_str).collect::<Vec<_>>());
    for (format, option) in [("json", "--json"), ("table", "--table"), ("human", "--no-raw"), ("csv", "--csv")] {
        let once = tool.text(&with(&own, &[option, "HGETALL", "h"])).replace('\n', "\r\n");
        terminal.enter(&format!(":format {format}"));
        terminal.enter("HGETALL h");
        terminal.wait_for(&once);
    }
}

#[test]
fn settings_of_a_redisclirc_are_taken() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    server.command(&["HSET", "h", "f", "v"]).unwrap();
    std::fs::write(tool.home.path().join(".redisclirc"), ":set nohints\n# of no use\n:format json\n").unwrap();
    let own = at(&server);
    let mut terminal = Terminal::start(&tool, &own.iter().map(String::as_str).collect::<Vec<_>>());
    terminal.enter("HGETALL h");
    terminal.wait_for("{\"f\":\"v\"}");
}

#[test]
fn key_statistics_are_both_looks() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    server.command(&["RPUSH", "l", "a", "b", "c"]).unwrap();
    let text = tool.text(&with(&at(&server), &["--keystats"]));
    assert!(text.contains("list: 1 keys, 3 items") && text.contains(" bytes"), "{text}");
}
