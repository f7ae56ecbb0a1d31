//! Messages that an operator acts on: what they say of the cause.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use crate::running::{Running, free_port, pilotlight};

fn check(folder: &Path, variables: &[(&str, &str)]) -> String {
    let output = pilotlight(folder, variables).arg("check").output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn check_does_not_take_the_running_gateway_for_another_program() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let (own, other) = (free_port(), TcpListener::bind("127.0.0.1:0").unwrap());
    let text = |more: &str| format!("listen = [\"127.0.0.1:{own}\"{more}]\n[[routes]]\npath = \"/\"\nfiles = \".\"\n");
    fs::write(folder.join("pilotlight.toml"), text("")).unwrap();
    let home = folder.to_str().unwrap();
    let variables = [("HOME", home), ("XDG_RUNTIME_DIR", home)];
    let running = Running::start(pilotlight(folder, &variables).arg("run"));
    assert_eq!(check(folder, &variables), "");
    // An address that is new in the file, and another program has.
    let taken = other.local_addr().unwrap();
    fs::write(folder.join("pilotlight.toml"), text(&format!(", \"{taken}\""))).unwrap();
    let said = check(folder, &variables);
    assert!(said.contains(&format!("{taken} is in use by another program")), "{said}");
    assert!(!said.contains(&format!("127.0.0.1:{own} is in use")), "{said}");
    drop(running);
}

#[test]
fn a_tilde_is_said_to_mean_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let text = "[services.app]\ncommand = [\"~/bin/app\"]\n[[routes]]\npath = \"/app\"\nservice = \"app\"\n\
                [[routes]]\npath = \"/\"\nfiles = \"~/www\"\n";
    fs::write(dir.path().join("pilotlight.toml"), text).unwrap();
    let said = check(dir.path(), &[("HOME", "/home/ada")]);
    for path in ["/home/ada/www", "/home/ada/bin/app"] {
        assert!(said.contains(&format!("means nothing here: write \"{path}\"")), "{said}");
    }
    assert!(!said.contains("mkdir"), "{said}");
}
