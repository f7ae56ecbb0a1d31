//! Users with few rights, as managed servers and careful operators give them.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use pilotlight_testkit::Server;

fn server() -> Server {
    let rules = ["minimal on >p ~* &* +set +get +dbsize +strlen +hello", "careful on >p ~* &* +@all -echo -ping"];
    rules.iter().fold(Server::builder(), |builder, rule| builder.user(rule)).start().unwrap()
}

#[track_caller]
fn run(server: &Server, user: &str, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"));
    command.arg(arguments[0]).args(["-p", &server.port().to_string(), "--username", user]).args(&arguments[1..]);
    command.env("REDISCLI_AUTH", "p").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_last_reply_of_a_pipe_is_known_without_echo() {
    let server = server();
    for user in ["minimal", "careful"] {
        let piped = run(&server, user, &["cli", "--pipe"], b"SET a 1\r\nSET b 2\r\nGET a\r\n");
        let text = String::from_utf8_lossy(&piped.stdout);
        assert_eq!(piped.status.code(), Some(0), "{piped:?}");
        assert!(text.ends_with("Last reply received from server.\nerrors: 0, replies: 3\n"), "{piped:?}");
        // Errors of the input's own ECHO count.
        let refused = run(&server, user, &["cli", "--pipe"], b"SET a 1\r\nECHO x\r\nECHO y");
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stdout).ends_with("errors: 2, replies: 3\n"), "{refused:?}");
    }
    // The input may log in.
    let login = run(&server, "default", &["cli", "--pipe"], b"AUTH careful p\r\nSET a 1\r\n");
    assert!(String::from_utf8_lossy(&login.stdout).ends_with("errors: 0, replies: 2\n"), "{login:?}");
}

#[test]
fn bench_and_fill_need_what_they_send_and_no_more() {
    let server = server();
    let bench = ["bench", "--json", "--operation", "get", "--duration", "0.1", "--warmup", "0", "--keys", "10"];
    let fill = ["fill", "--json", "--count", "10"];
    for user in ["minimal", "careful"] {
        for arguments in [&bench[..], &fill] {
            let output = run(&server, user, arguments, b"");
            assert_eq!(output.status.code(), Some(0), "{user}, {arguments:?}: {output:?}");
        }
    }
}
