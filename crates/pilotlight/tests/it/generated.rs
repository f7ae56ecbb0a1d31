//! What `pilotlight completions` and `pilotlight man` give: whole, and accepted by the shells and the formatter that
//! are installed.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn pilotlight(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pilotlight")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// The completions of a shell; each names commands of all depths, and no secret command.
#[track_caller]
fn script(shell: &str) -> String {
    let output = pilotlight(&["completions", shell]);
    assert!(output.status.success(), "{output:?}");
    let script = String::from_utf8(output.stdout).unwrap();
    for word in ["explain", "redis", "cluster", "rebalance"] {
        assert!(script.contains(word), "{shell}: {word}");
    }
    // clap's script for fish has no options below the second level.
    assert!(shell == "fish" || script.contains("dry-run"), "{shell}");
    assert!(!script.contains("guardian"), "{shell}");
    script
}

/// A script is too long to be an argument.
fn file(dir: &TempDir, script: &str) -> PathBuf {
    let file = dir.path().join("script");
    fs::write(&file, script).unwrap();
    file
}

/// A program that is missing fails in CI, and is told elsewhere.
#[track_caller]
fn is_missing(program: &str) {
    assert!(std::env::var_os("CI").is_none(), "{program} is not installed: `make test-all` installs it");
    println!("{program} is not installed");
}

/// Whether a program takes this file, if it is installed.
#[track_caller]
fn check(program: &[&str], script: &str) {
    let dir = tempfile::tempdir().unwrap();
    match Command::new(program[0]).args(&program[1..]).arg(file(&dir, script)).output() {
        Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{program:?}: {output:?}"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => is_missing(program[0]),
        Err(error) => panic!("{program:?}: {error}"),
    }
}

#[test]
fn bash_takes_its_completions_and_completes() {
    let script = script("bash");
    check(&["bash", "-n"], &script);
    let ask = "COMP_WORDS=(pilotlight redis cluster re); COMP_CWORD=3; _pilotlight pilotlight re cluster; echo ${COMPREPLY[@]}";
    let dir = tempfile::tempdir().unwrap();
    let answer = answer(Command::new("bash").arg(file(&dir, &format!("{script}\n{ask}")))).unwrap();
    assert_eq!(answer.trim(), "rebalance reshard");
}

#[test]
fn zsh_takes_its_completions_and_completes() {
    let script = script("zsh");
    check(&["zsh", "-n"], &script);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("_pilotlight"), script).unwrap();
    let Some(answer) = answer(Command::new("zsh").args(["-f", "-c", ZSH, "zsh"]).arg(dir.path())) else { return };
    assert_eq!(answer.trim(), "rebalance");
}

/// A shell at a pseudo-terminal that somebody types into.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; PS1=; echo rea''dy"
zpty -r -m shell seen '*ready*'
zpty -w -n shell $'pilotlight redis cluster reb\t'
zpty -r -m shell seen '*rebalance*' && print rebalance
zpty -d shell"#;

#[test]
fn fish_takes_its_completions_and_completes() {
    let script = script("fish");
    check(&["fish", "--no-execute"], &script);
    let ask = format!("{script}\ncomplete -C 'pilotlight redis cluster re'");
    let dir = tempfile::tempdir().unwrap();
    let Some(answer) = answer(Command::new("fish").arg("--no-config").arg(file(&dir, &ask))) else { return };
    let words: Vec<&str> = answer.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(words, ["rebalance", "reshard"]);
}

/// What a program prints, if it is installed.
#[track_caller]
fn answer(command: &mut Command) -> Option<String> {
    let home = tempfile::tempdir().unwrap();
    match command.env("HOME", home.path()).env("ZDOTDIR", home.path()).stdin(Stdio::null()).output() {
        Ok(output) => {
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            is_missing(&command.get_program().to_string_lossy());
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

#[test]
fn another_shell_is_a_mistake() {
    assert_eq!(pilotlight(&["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn each_command_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let output = pilotlight(&["man", dir.path().join("man1").to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let pages: Vec<_> = fs::read_dir(dir.path().join("man1")).unwrap().map(|page| page.unwrap().path()).collect();
    let named = |name: &str| pages.iter().find(|page| page.file_name().unwrap() == name);
    for name in ["pilotlight.1", "pilotlight-run.1", "pilotlight-redis.1", "pilotlight-redis-cluster-start.1"] {
        assert!(named(name).is_some(), "{name} is not among {pages:?}");
    }
    let start = fs::read_to_string(named("pilotlight-redis-cluster-start.1").unwrap()).unwrap();
    for word in [r"\-\-replicas", "[default: 7000]", "REDISCLI_AUTH", "Examples:"] {
        assert!(start.contains(word), "{word:?} is not in {start}");
    }
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        assert!(text.starts_with(".ie"), "{}", page.display());
        check(&["groff", "-K", "utf8", "-man", "-Tutf8", "-ww", "-z"], &text);
    }
    assert_eq!(pilotlight(&["man", "/proc/nowhere"]).status.code(), Some(1));
    let whole = pilotlight(&["man"]);
    assert!(whole.status.success() && String::from_utf8_lossy(&whole.stdout).contains("pilotlight"));
}
