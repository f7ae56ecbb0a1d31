//! One command, Sentinel, TLS, errors.

use pilotlight_testkit::{ClientAuth, Sentinels, Server};

use super::{Tool, at, with};

#[test]
fn nobody_there_is_exit_code_1_and_nonsense_2() {
    let tool = Tool::new();
    let server = Server::start().unwrap();
    server.kill().unwrap();
    let output = tool.run(&with(&at(&server), &["PING"]), "");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("could not connect") && error.contains(&server.port().to_string()), "{error}");
    for wrong in [&["--nonsense"][..], &["--json", "--csv", "PING"], &["--profile", "x"], &["-X", "T", "SET", "a", "b"]]
    {
        let output = tool.run(wrong, "");
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }
}

#[test]
fn json_is_json_whatever_the_reply() {
    let (tool, server) = (Tool::new(), Server::builder().debug_commands().start().unwrap());
    let own = at(&server);
    let json = |args: &[&str]| -> serde_json::Value {
        let text = tool.text(&with(&own, args));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    };
    server.command(&[&b"SET"[..], b"k", b"a\"\\\xff\n"]).unwrap();
    assert_eq!(json(&["--json", "GET", "k"]), "a\"\\\u{fffd}\n");
    assert_eq!(json(&["--quoted-json", "GET", "k"]), "a\\\"\\\\\\xff\\n");
    assert_eq!(json(&["--json", "FOO"])["error"], "ERR unknown command 'FOO', with args beginning with: ");
    assert!(json(&["--json", "INFO", "server"]).as_str().unwrap().contains("redis_version:"));
    assert_eq!(json(&["--json", "EVAL", "return {1, redis.error_reply('E x'), {}}", "0"])[1]["error"], "E x");
    assert!(json(&["--json", "DEBUG", "PROTOCOL", "bignum"]).is_number());
    json(&["--json", "COMMAND"]);
    json(&["--json", "COMMAND", "DOCS"]);
    assert_eq!(json(&["--json", "ON", "ALL", "PING"])[0]["reply"], "PONG");
}

#[test]
fn tables_have_columns() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let own = at(&server);
    tool.text(&with(&own, &["HSET", "h", "name", "Ada", "year", "1815"]));
    assert_eq!(tool.text(&with(&own, &["--table", "HGETALL", "h"])), "name  Ada\nyear  1815\n");
    assert_eq!(tool.text(&with(&own, &["--table", "GET", "nothing"])), "(nil)\n");
}

#[test]
fn the_primary_that_sentinels_name() {
    let (tool, sentinels) = (Tool::new(), Sentinels::start(1).unwrap());
    let ports: Vec<_> = sentinels.sentinels().iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
    let own = vec!["-h".to_owned(), ports.join(","), "--sentinel".to_owned(), sentinels.name().to_owned()];
    // The replica that is promoted has to have it.
    assert_eq!(tool.text_of(&with(&own, &[]), "SET a 1\nWAIT 1 10000\n"), "OK\n1\n");
    let port = sentinels.failover().unwrap().port().to_string();
    assert_eq!(tool.text(&with(&own, &["CONFIG", "GET", "port"])), format!("port\n{port}\n"));
    assert_eq!(tool.text(&with(&own, &["--scan"])), "a\n");
}

#[test]
fn tls_and_a_password() {
    let tool = Tool::new();
    let server = Server::builder().tls(ClientAuth::None).requirepass("it is secret").start().unwrap();
    let certificates = server.certificates().unwrap();
    let ca = certificates.ca_path();
    let own = [
        at(&server),
        vec!["--tls".into(), "--cacert".into(), ca.to_str().unwrap().into(), "-h".into(), "localhost".into()],
    ]
    .concat();
    let mut command = tool.command(&with(&own, &["SET", "a", "1"]));
    let output = super::finish(
        {
            command.env("REDISCLI_AUTH", "it is secret");
            command
        },
        b"",
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "OK\n", "{output:?}");
    let refused = tool.run(&with(&own, &["-a", "another secret", "GET", "a"]), "");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && error.contains("WRONGPASS") && !error.contains("another"), "{error}");
}

#[test]
fn what_cannot_be_shown_is_refused() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    for args in [&["SYNC"][..], &["CLIENT", "REPLY", "OFF"], &["ON", "nowhere", "PING"]] {
        let output = tool.run(&with(&at(&server), args), "");
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    }
}

#[test]
fn a_profile_names_a_server() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let folder = tool.home.path().join(".config/pilotlight");
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("profile = \"here\"\n[profiles.here]\nurl = \"redis://127.0.0.1:{}\"\n", server.port());
    std::fs::write(folder.join("redis.toml"), text).unwrap();
    assert_eq!(tool.text(&["PING"]), "PONG\n");
    assert_eq!(tool.text(&["--profile", "here", "PING"]), "PONG\n");
}

#[test]
fn every_end_of_a_subscription_is_told() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let own = at(&server);
    for flag in ["-2", "-3"] {
        let text = tool.text_of(&with(&own, &[flag]), "unsubscribe a b\npunsubscribe\nping\n");
        assert_eq!(text, "unsubscribe\na\n0\nunsubscribe\nb\n0\npunsubscribe\n\n0\nPONG\n", "{flag}");
    }
}
