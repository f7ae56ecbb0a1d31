//! `pilotlight check` and `pilotlight init` as programs: output, exit codes, files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const VALID: &str = "listen = \"127.0.0.1:0\"\n[services.a]\nurl = \"http://127.0.0.1:9000\"\n[[routes]]\npath = \"/\"\nservice = \"a\"\n";

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pilotlight")).args(arguments).current_dir(folder).output().unwrap()
}

#[track_caller]
fn check(output: &Output, code: i32, out: &[&str], err: &[&str]) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}{stderr}");
    for (text, parts) in [(&stdout, out), (&stderr, err)] {
        assert_eq!(text.is_empty(), parts.is_empty(), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert!(!text.contains('\x1b'), "no colours without a terminal");
    }
}

fn folder_with(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("pilotlight.toml"), text).unwrap();
    folder
}

#[test]
fn a_valid_file() {
    let here = folder_with(VALID);
    check(
        &run(here.path(), &["check"]),
        0,
        &["pilotlight.toml is valid: 1 service, 1 route, listening on 127.0.0.1:0\n"],
        &[],
    );
}

#[test]
fn warnings_do_not_fail() {
    let here = folder_with("listen = \"127.0.0.1:0\"\n");
    check(&run(here.path(), &["check"]), 0, &["is valid"], &["warning: there is no route"]);
}

#[test]
fn every_mistake_is_on_the_standard_error() {
    let here = folder_with(&format!("dve = true\nworkers = \"x\"\n{VALID}"));
    check(
        &run(here.path(), &["check"]),
        2,
        &[],
        &["pilotlight.toml:1:1: error:", "pilotlight.toml:2:11: error:", "2 errors"],
    );
}

#[test]
fn json_for_programs() {
    let here = folder_with("[services.a]\nurl = 5\n");
    let output = run(here.path(), &["check", "--json"]);
    check(&output, 2, &["\"code\""], &[]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["file"], "pilotlight.toml");
    assert_eq!(report["errors"], 1);
    let found = &report["diagnostics"][0];
    assert_eq!((&found["severity"], &found["code"]), (&"error".into(), &"wrong-type".into()));
    let at = serde_json::json!({ "line": 2, "column": 7, "end_line": 2, "end_column": 8 });
    assert_eq!(found["at"], at);

    let valid = folder_with(VALID);
    let output = run(valid.path(), &["check", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &report["errors"]), (Some(0), &0.into()));
    assert_eq!(report["diagnostics"], serde_json::json!([]));
}

#[test]
fn no_file_says_how_to_make_one() {
    let here = tempfile::tempdir().unwrap();
    check(
        &run(here.path(), &["check"]),
        2,
        &[],
        &["pilotlight.toml: error: there is no such file", "`pilotlight init`"],
    );
    check(&run(here.path(), &["check", "--config", "other.toml"]), 2, &[], &["other.toml: error"]);
}

#[test]
fn what_init_writes_passes_check() {
    let here = tempfile::tempdir().unwrap();
    check(
        &run(here.path(), &["init"]),
        0,
        &["wrote pilotlight.toml", "pilotlight check ", "curl http://127.0.0.1:8080/"],
        &[],
    );
    // The starter's port may be taken on this machine, and only that may be remarked on.
    let file = here.path().join("pilotlight.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("listen = \"127.0.0.1:8080\""));
    fs::write(&file, text.replace("127.0.0.1:8080", "127.0.0.1:0")).unwrap();
    check(&run(here.path(), &["check"]), 0, &["is valid: 1 service, 1 route"], &[]);
}

#[test]
fn init_leaves_an_existing_file_alone_unless_forced() {
    let here = folder_with("# mine\n");
    let read = || fs::read_to_string(here.path().join("pilotlight.toml")).unwrap();
    check(&run(here.path(), &["init"]), 2, &[], &["pilotlight.toml exists already", "--force"]);
    assert_eq!(read(), "# mine\n");
    check(&run(here.path(), &["init", "--force"]), 0, &["wrote"], &[]);
    assert!(read().contains("[services.hello]"));
}

#[test]
fn init_elsewhere() {
    let here = tempfile::tempdir().unwrap();
    check(
        &run(here.path(), &["init", "--config", "p.toml"]),
        0,
        &["wrote p.toml", "pilotlight check --config p.toml"],
        &[],
    );
    check(&run(here.path(), &["init", "--config", "gone/p.toml"]), 1, &[], &["gone/p.toml cannot be written"]);
}

#[test]
fn wrong_arguments_are_usage_errors() {
    let here = tempfile::tempdir().unwrap();
    assert_eq!(run(here.path(), &["chekc"]).status.code(), Some(2));
    assert_eq!(run(here.path(), &["check", "--jsno"]).status.code(), Some(2));
    assert_eq!(run(here.path(), &["--version"]).status.code(), Some(0));
}
