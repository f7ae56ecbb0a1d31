//! What each mode says where the server refuses the client: at once, why, and what to do.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use pilotlight_testkit::{ClientAuth, Cluster, Sentinels, Server};

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

#[test]
fn a_sentinel_and_a_node_of_a_cluster_asked_as_a_server() {
    let group = Sentinels::start(0).unwrap();
    let modes = [("fill", "--mb 1"), ("bench", "--duration 1")];
    check(group.sentinels()[0].port(), &modes, &[], &["is a Sentinel", "--sentinel NAME"]);
    let cluster = Cluster::start(3, 0).unwrap();
    for mode in modes {
        let output = run(cluster.nodes()[0].port(), mode, &[]);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(1), "{mode:?}: {said}");
        assert!(said.contains("MOVED") && said.contains("add -c"), "{mode:?}: {said}");
    }
}

#[test]
fn causes_are_told_once() {
    let server = Server::start().unwrap();
    server.kill().unwrap();
    for mode in [("cluster status", ""), ("cluster check", ""), ("fill -c", "--mb 1"), ("cli", "PING")] {
        let output = run(server.port(), mode, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.matches("Connection refused").count(), 1, "{mode:?}: {said}");
    }
}

/// A certificate of version 1, as `openssl x509 -req` without extensions makes it.
const OLD_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUV/33XB2J386kecHuJRUVPYB7S6owCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDb2xkMCAXDTI2MTEyOTE0NDQ1MloYDzIxMjYxMTA1MTQ0NDUyWjAOMQww
CgYDVQQDDANvbGQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARgsa938VO82c7+
pWGz4bWMudJ18NqAcQbs2BUk1ulrEjZ6M/0xNSK+BJQmtBi+x5BtBZybVh+jYQEP
yyNp0yl3MAoGCCqGSM49BAMCA0gAMEUCIQCEoj3S0AMRHQgDswGf6Nnl0ivfwugi
bMjeePPyoF6F8QIgNAEW8tzhVwNj1hYMvYEdcXQJALZq080sfi+m8A65AFs=
-----END CERTIFICATE-----
";

#[test]
fn a_client_certificate_that_cannot_be_used() {
    let server = Server::builder().tls(ClientAuth::Optional).start().unwrap();
    let certificates = server.certificates().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.pem");
    std::fs::write(&old, OLD_CERTIFICATE).unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (ca, key) = (path(&certificates.ca_path()), path(&certificates.client_key_path()));
    let (other, foreign) = (path(&certificates.client_path()), path(&certificates.server_key_path()));
    for (certificate, key, words) in [
        (path(&old), &key, ["client certificate", "version 1"]),
        (other, &foreign, ["client certificate", "do not belong together"]),
    ] {
        let args = ["-h", "localhost", "--cacert", &ca, "--cert", &certificate, "--key", key];
        let output = run(server.port(), ("cli", "PING"), &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(words.iter().all(|word| said.contains(word)) && !said.contains("peer"), "{said}");
    }
}

#[test]
fn addresses_in_the_wrong_place() {
    for (args, words) in [
        (["--url", "unix:/run/x"], "unix:///run/x, or --socket /run/x"),
        (["--url", "redis://127.0.0.1?pass=s3cret"], "REDISCLI_AUTH"),
        (["--host", "redis://u:s3cret@127.0.0.1"], "--url"),
        (["--host", "u:s3cret@127.0.0.1"], "--url"),
        (["--host", "unix:/run/x"], "--socket"),
        (["--host", "127.0.0.1:6379/2"], "--db"),
        (["--socket", "unix:///run/x"], "--url"),
    ] {
        for mode in ["cli", "fill --mb 1", "bench", "tunnel"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"));
            let output = command.args(mode.split(' ')).args(args).stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{mode} {args:?}: {said}");
            assert!(said.contains(words) && !said.contains("s3cret"), "{mode} {args:?}: {said}");
        }
    }
}

#[test]
fn a_tunnel_with_an_empty_password() {
    for (args, variable) in [(&["--require-password", ""][..], None), (&[], Some(""))] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"));
        command.args(["tunnel", "--listen", "0"]).args(args).stdin(Stdio::null());
        if let Some(password) = variable {
            command.env("PILOTLIGHT_TUNNEL_PASSWORD", password);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("PILOTLIGHT_TUNNEL_PASSWORD") && said.contains("empty"), "{said}");
    }
}

/// Commands that the client sends on no shared connection, or to no several nodes.
#[test]
fn no_functions_of_the_client_are_advised() {
    let cluster = Cluster::start(3, 0).unwrap();
    let port = cluster.nodes()[0].port();
    let commands = [
        "multi",
        "watch a",
        "subscribe x",
        "select 3",
        "auth x",
        "client tracking on",
        "client reply off",
        "monitor",
        "quit",
        "reset",
        "wait 1 1",
        "readonly",
        "blpop a 0.01",
        "psync ? -1",
        "script debug yes",
    ];
    for command in commands {
        for mode in ["cli -c on all", "cluster call"] {
            let mut words = mode.split(' ').chain(command.split(' '));
            let mut program = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"));
            program.arg(words.next().unwrap());
            let at = ["-p".to_owned(), port.to_string()];
            let args: Vec<String> = words.map(str::to_owned).collect();
            let first = usize::from(args[0] == "call");
            program.args(&args[..first]).args(at).args(&args[first..]).stdin(Stdio::null());
            let output = program.output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            for word in ["client.", "call.on", "Config::", "Route::", "Command::raw"] {
                assert!(!said.contains(word), "{mode} {command}: {said}");
            }
            assert!(!output.status.success(), "{mode} {command}: {said}");
        }
    }
    // A subcommand is no argument.
    let listed = run(port, ("cluster call", "client list"), &[]);
    assert!(listed.status.success() && String::from_utf8_lossy(&listed.stdout).contains("id="), "{listed:?}");
}
