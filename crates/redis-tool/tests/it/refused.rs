//! What each mode says where the server refuses the client: at once, why, and what to do.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pilotlight_testkit::{Cluster, Server};

/// Far less than the time-outs of commands.
const AT_ONCE: Duration = Duration::from_secs(4);

fn run(port: u16, mode: (&str, &str), args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"));
    command.args(mode.0.split(' ')).args(["-p", &port.to_string()]).args(args).args(mode.1.split_whitespace());
    command.env_remove("REDISCLI_AUTH").stdin(Stdio::null()).output().unwrap()
}

/// All modes say these words in one line, before a time-out has passed.
#[track_caller]
fn check(port: u16, modes: &[(&str, &str)], args: &[&str], words: &[&str]) {
    for mode in modes {
        let since = Instant::now();
        let output = run(port, *mode, args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{mode:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{mode:?}: {said}");
        assert!(said.lines().count() == 1 && said.matches(&port.to_string()).count() <= 2, "{mode:?}: {said}");
        assert!(since.elapsed() < AT_ONCE, "{mode:?}: {:?}", since.elapsed());
    }
}

const OF_CLUSTERS: [(&str, &str); 6] = [
    ("cli -c --no-auth-warning", "GET a"),
    ("cli -c --no-auth-warning", "--scan"),
    ("fill -c", "--mb 1"),
    ("bench -c", "--duration 1"),
    ("tunnel -c", "--listen 0"),
    ("tunnel -c", "--listen 0 --mode pinned"),
];
const OF_ANY: [(&str, &str); 5] = [
    ("cli --no-auth-warning", "GET a"),
    ("fill", "--mb 1"),
    ("bench", "--duration 1"),
    ("tunnel", "--listen 0"),
    ("cluster status", ""),
];

#[test]
fn a_password_that_is_wrong_or_missing() {
    let cluster = Cluster::builder().masters(3).requirepass("s3cret").start().unwrap();
    let port = cluster.nodes()[0].port();
    for modes in [&OF_CLUSTERS[..], &OF_ANY] {
        check(port, modes, &["-a", "wrong"], &["WRONGPASS", "check the password", "--username"]);
        check(port, modes, &[], &["REDISCLI_AUTH", "--askpass"]);
    }
}

#[test]
fn a_server_without_cluster_support() {
    let server = Server::start().unwrap();
    check(server.port(), &OF_CLUSTERS, &[], &["cluster support disabled", "leave out -c"]);
}

#[test]
fn an_address_as_the_user() {
    for mode in [("cli", "PING"), ("fill", "--mb 1"), ("bench", ""), ("tunnel", "")] {
        let output = run(1, mode, &["-u", "redis://user:s3cret@127.0.0.1:1"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{mode:?}: {said}");
        assert!(said.contains("--url") && !said.contains("s3cret"), "{mode:?}: {said}");
    }
}
