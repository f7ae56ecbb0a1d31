//! Ctrl-C. The test runs itself again, as a process of its own: a signal is for a whole process.

use std::env;
use std::process::{Command, Stdio};
use std::thread::yield_now;

use clap::Parser;
use pilotlight_redis_tool::load::Outcome;
use pilotlight_redis_tool::{bench, fill};
use pilotlight_testkit::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

/// The child's command line.
const LINE: &str = "PILOTLIGHT_TEST_INTERRUPT_LINE";

#[derive(Parser)]
enum Line {
    Bench(Box<bench::BenchArgs>),
    Fill(Box<fill::FillArgs>),
}

#[test]
#[ignore = "the child of the others"]
fn interrupt_child() {
    let Ok(line) = env::var(LINE) else { return };
    let mut out = Vec::new();
    let outcome = match Line::try_parse_from(["line"].into_iter().chain(line.split(' '))).unwrap() {
        Line::Bench(args) => bench::run(&args, &mut out),
        Line::Fill(args) => fill::run(&args, &mut out),
    };
    assert_eq!(outcome.unwrap(), Outcome::Failed);
    println!("{}", String::from_utf8(out).unwrap());
}

/// Runs a mode, interrupts it when the server has been asked often enough, and reads what it says then.
#[track_caller]
fn interrupted(server: &Server, line: &str) -> Json {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "interrupt::interrupt_child", "--ignored", "--nocapture"])
        .env(LINE, format!("{line} --json --url {}", server.url()))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let keys = || server.command(&["DBSIZE"]).unwrap().integer().unwrap();
    while keys() < 3000 {
        yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (begin, end) = (text.find('{').unwrap(), text.rfind('}').unwrap());
    serde_json::from_str(&text[begin..=end]).unwrap()
}

#[test]
fn interrupt_ends_fill_which_says_what_was_done() {
    let server = Server::start().unwrap();
    let json = interrupted(&server, "fill --count 100000000 --key-size 20 --value-size 20");
    assert_eq!((json["interrupted"].as_bool(), json["complete"].as_bool()), (Some(true), Some(false)));
    assert_eq!(json["written"].as_i64(), server.command(&["DBSIZE"]).unwrap().integer());
    assert_eq!((json["failed"].as_u64(), json["missing"].as_u64()), (Some(0), Some(0)));
}

#[test]
fn interrupt_ends_bench_which_says_what_was_measured() {
    let server = Server::start().unwrap();
    let line = "bench --operation set,get --warmup 0 --duration 600 --keys 100000";
    let json = interrupted(&server, line);
    assert_eq!(json["results"].as_array().unwrap().len(), 1, "{json}");
    let result = &json["results"][0];
    assert!(result["operations"].as_u64().unwrap() >= 3000 && result["seconds"].as_f64().unwrap() < 60.0, "{json}");
    assert_eq!((result["errors"].as_u64(), result["interrupted"].as_bool()), (Some(0), Some(true)));
}
