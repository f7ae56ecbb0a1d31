//! Passwords: missing, in vain, on the command line; and the options of `redis-cli` that are about talk.

use pilotlight_testkit::{Cluster, Server};

use super::terminal::Terminal;
use super::{Tool, at, with};

fn with_password() -> Server {
    Server::builder().requirepass("s3cret").start().unwrap()
}

#[test]
fn the_prompt_logs_in_after_it_was_refused() {
    let (tool, server) = (Tool::new(), with_password());
    let mut terminal = Terminal::start(&tool, &with(&at(&server), &[]));
    let told = terminal.wait_for("AUTH user password");
    assert!(told.contains("asks for a password"), "{told}");
    terminal.enter("get a");
    terminal.wait_for("asks for a password");
    terminal.wait_for("not connected> ");
    terminal.enter("auth wrong");
    terminal.wait_for("(error) WRONGPASS");
    terminal.wait_for("not connected> ");
    terminal.enter("auth s3cret");
    terminal.wait_for("OK\r\n");
    terminal.wait_for(&format!("127.0.0.1:{}> ", server.port()));
    terminal.enter("acl setuser ada on >lovelace ~* +@all");
    terminal.wait_for("OK\r\n");
    // It stays logged in when the connection is lost.
    terminal.enter("client kill type normal skipme no");
    terminal.enter("get a"); // may still be sent into the connection that the server has closed, and says so then
    terminal.enter("ping");
    terminal.wait_for("PONG\r\n");
    terminal.enter("exit");
    assert_eq!(terminal.wait_for_end(), Some(0));

    let mut terminal = Terminal::start(&tool, &with(&at(&server), &[]));
    terminal.wait_for("asks for a password");
    terminal.enter("AUTH ada lovelace");
    terminal.wait_for("OK\r\n");
    terminal.enter("acl whoami");
    terminal.wait_for("\"ada\"\r\n");
}

#[test]
fn the_prompt_logs_in_at_a_cluster() {
    let cluster = Cluster::builder().masters(3).requirepass("s3cret").start().unwrap();
    let (tool, port) = (Tool::new(), cluster.nodes()[0].port().to_string());
    let mut terminal = Terminal::start(&tool, &["-c", "-p", &port]);
    terminal.wait_for("asks for a password");
    terminal.enter("auth s3cret");
    terminal.wait_for("OK\r\n");
    for key in ["a", "b", "c"] {
        terminal.enter(&format!("set {key} 1"));
        terminal.wait_for("OK\r\n");
    }
    assert_eq!(tool.text_of(&["-c", "-p", &port], "auth s3cret\nmget a b c\n"), "OK\n1\n1\n1\n");
}

#[test]
fn the_prompt_at_a_server_without_cluster_support_says_so_before_a_command() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let mut terminal = Terminal::start(&tool, &with(&at(&server), &["-c"]));
    terminal.wait_for("leave out -c");
    terminal.enter(&format!("connect 127.0.0.1 {}", server.port()));
    terminal.enter("ping");
    terminal.wait_for("PONG\r\n");
}

#[test]
fn the_first_command_logs_in() {
    let (tool, server) = (Tool::new(), with_password());
    let own = at(&server);
    assert_eq!(tool.text(&with(&own, &["AUTH", "s3cret"])), "OK\n");
    assert_eq!(tool.text(&with(&own, &["AUTH", "default", "s3cret"])), "OK\n");
    assert!(tool.text(&with(&own, &["AUTH", "wrong"])).starts_with("WRONGPASS"));
    assert!(tool.text(&with(&own, &["HELLO", "3", "AUTH", "default", "s3cret"])).contains("proto"));
    let text = tool.text_of(&own.iter().map(String::as_str).collect::<Vec<_>>(), "auth s3cret\nset a 1\nget a\n");
    assert_eq!(text, "OK\nOK\n1\n");
    let output = tool.run(&own.iter().map(String::as_str).collect::<Vec<_>>(), "get a\nauth s3cret\nget a\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "OK\n1\n");
    assert!(output.status.code() == Some(1) && String::from_utf8_lossy(&output.stderr).contains("REDISCLI_AUTH"));
}

#[test]
fn a_password_in_vain_is_a_warning() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    server.command(&["SET", "a", "1"]).unwrap();
    let own = at(&server);
    for (args, expected) in [(&["GET", "a"][..], "1\n"), (&["--scan"], "a\n"), (&["-x", "SET", "b"], "OK\n")] {
        let output = tool.run(&with(&own, &[&["-a", "x", "--no-auth-warning"], args].concat()), "input");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{args:?}");
        assert!(said.contains("AUTH failed: ERR AUTH <password> called without any password"), "{args:?}: {said}");
    }
    assert_eq!(server.command(&["GET", "b"]).unwrap().text(), "input");
    let mut terminal = Terminal::start(&tool, &with(&own, &["-a", "x"]));
    terminal.wait_for("AUTH failed");
    terminal.enter("get a");
    terminal.wait_for("\"1\"\r\n");
}

#[test]
fn a_password_on_the_command_line_is_warned_of_unless_somebody_knows() {
    let (tool, server) = (Tool::new(), with_password());
    let own = at(&server);
    let said = |args: &[&str]| {
        let output = tool.run(&with(&own, args), "");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "PONG\n", "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let warning = said(&["-a", "s3cret", "PING"]);
    assert!(warning.starts_with("Warning: ") && warning.contains("--no-auth-warning"), "{warning}");
    assert!(!warning.contains("s3cret") && warning.lines().count() == 1, "{warning}");
    assert_eq!(said(&["-a", "s3cret", "--no-auth-warning", "PING"]), "");
    let mut command = tool.command(&with(&own, &["PING"]));
    let output = command.env("REDISCLI_AUTH", "s3cret").output().unwrap();
    assert!(output.stderr.is_empty() && output.stdout == b"PONG\n", "{output:?}");
}

#[test]
fn the_version_is_told_without_a_server() {
    let tool = Tool::new();
    for flag in ["--version", "-v"] {
        let text = tool.text(&["-p", "1", flag]);
        assert!(text.starts_with("pilotlight") && text.trim_end().ends_with(env!("CARGO_PKG_VERSION")), "{text}");
    }
}

#[test]
fn verbose_tells_of_connections() {
    let cluster = Cluster::start(3, 0).unwrap();
    let (tool, port) = (Tool::new(), cluster.nodes()[0].port().to_string());
    for args in [&["-p", &port, "PING"][..], &["-c", "-p", &port, "MGET", "a", "b", "c", "d", "e"]] {
        let quiet = tool.run(args, "");
        assert!(quiet.stderr.is_empty(), "{quiet:?}");
        let told = tool.run(&[&["--verbose"], args].concat(), "");
        assert_eq!(told.stdout, quiet.stdout);
        let said = String::from_utf8_lossy(&told.stderr);
        assert!(said.contains(&format!("connected server.address=127.0.0.1:{port}")), "{said}");
    }
}

#[test]
fn pushes_are_shown_if_wanted() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let own = at(&server);
    // Its own write invalidates the key that it has read.
    let lines = "client tracking on\nget a\nset a 1\nping\n";
    for (flag, is_shown) in [(None, false), (Some("no"), false), (Some("y"), true), (Some("YES"), true)] {
        let flags = flag.map_or_else(Vec::new, |flag| vec!["--show-pushes", flag]);
        let text = tool.text_of(&with(&own, &[&["-3"], &flags[..]].concat()), lines);
        assert_eq!(text.contains("invalidate"), is_shown, "{flag:?}: {text}");
        assert!(text.starts_with("OK\n") && text.ends_with("PONG\n"), "{text}");
    }
    let wrong = tool.run(&with(&own, &["--show-pushes", "maybe", "PING"]), "");
    assert_eq!(wrong.status.code(), Some(2));
    let mut terminal = Terminal::start(&tool, &with(&own, &["-3", "--show-pushes", "no"]));
    for (line, reply) in [("client tracking on", "OK"), ("get a", "\"1\""), ("set a 2", "OK"), ("ping", "PONG")] {
        terminal.enter(line);
        let shown = terminal.wait_for(&format!("{reply}\r\n"));
        assert!(!shown.contains("invalidate"), "{shown}");
    }
}
