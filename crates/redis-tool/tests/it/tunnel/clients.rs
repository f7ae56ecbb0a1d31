//! Other languages' clients through the tunnel, while nodes fail over.
//!
//! They are looked for in the folder that `PILOTLIGHT_TUNNEL_CLIENTS` names; `scripts/tunnel-clients.sh FOLDER` puts
//! them there. Without it the tests say that they were not run, and in CI they fail.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pilotlight_testkit::{Cluster, Failover};

use super::cluster::tunnel;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("PILOTLIGHT_TUNNEL_CLIENTS").map(PathBuf::from);
    if folder.is_none() {
        assert!(std::env::var_os("CI").is_none(), "PILOTLIGHT_TUNNEL_CLIENTS is not set: scripts/tunnel-clients.sh");
        eprintln!("not run: PILOTLIGHT_TUNNEL_CLIENTS is not set (scripts/tunnel-clients.sh FOLDER)");
    }
    folder
}

/// Runs a client against a cluster whose nodes all fail over meanwhile.
fn check(mode: &str, client: impl Fn(&Path, &Path) -> Command) {
    let Some(folder) = folder() else { return };
    let cluster = Cluster::start(3, 1).unwrap();
    let tunnel = tunnel(&cluster, &["--mode", mode]);
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut child = client(&folder, &scripts)
        .args([mode, &tunnel.addr().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "READY", "{mode}");
    for primary in 0..3 {
        let replica = cluster.replica_of(&cluster.nodes()[primary]).unwrap();
        cluster.failover(replica, Failover::Graceful).unwrap();
    }
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success() && rest.starts_with("DONE"), "{mode}: {rest}");
}

fn redis_py(folder: &Path, scripts: &Path) -> Command {
    let mut command = Command::new("python3");
    command
        .arg(scripts.join("redis_py.py"))
        .env("PYTHONPATH", folder.join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn ioredis(folder: &Path, scripts: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(scripts.join("ioredis.js")).env("NODE_PATH", folder.join("node/node_modules"));
    command
}

#[test]
fn redis_py_smart() {
    check("smart", redis_py);
}

#[test]
fn redis_py_pinned() {
    check("pinned", redis_py);
}

#[test]
fn ioredis_smart() {
    check("smart", ioredis);
}

#[test]
fn ioredis_pinned() {
    check("pinned", ioredis);
}

fn go_redis(folder: &Path, _: &Path) -> Command {
    Command::new(folder.join("goredis-client"))
}

/// Where there is no Go, there is no go-redis.
fn has_go_redis() -> bool {
    let is_there = folder().is_some_and(|folder| folder.join("goredis-client").exists());
    if !is_there {
        eprintln!("not run: there is no goredis-client (scripts/tunnel-clients.sh, with Go)");
    }
    is_there
}

#[test]
fn go_redis_smart() {
    if has_go_redis() {
        check("smart", go_redis);
    }
}

#[test]
fn go_redis_pinned() {
    if has_go_redis() {
        check("pinned", go_redis);
    }
}
