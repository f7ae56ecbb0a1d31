//! What each mode says where nobody listens.

use std::net::TcpListener;
use std::process::{Command, Stdio};

#[test]
fn nobody_listens_is_said_at_once_by_every_mode() {
    // Bound and closed again: a port that hardly anybody else takes meanwhile.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let modes = [
        ("cli", "PING"),
        ("cli", "--rdb -"),
        ("cli", "--bigkeys"),
        ("bench", ""),
        ("fill", "--mb 1"),
        ("tunnel", "--listen 0"),
        ("cluster check", ""),
    ];
    for mode in modes {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"));
        command.args(mode.0.split(' ')).args(["-p", &port]).args(mode.1.split_whitespace());
        command.env_remove("REDISCLI_AUTH").stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{mode:?}: {said}");
        assert!(said.contains("Connection refused") && said.contains(&port), "{mode:?}: {said}");
        // Whoever waits for the server first tells of a deadline.
        assert!(!said.contains("timed out") && said.lines().count() == 1, "{mode:?}: {said}");
    }
}
