//! Looks at whole servers.

use pilotlight_testkit::Server;

use super::{Tool, at, with};
use crate::servers::program;

#[test]
fn the_biggest_keys_come_first() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let own = at(&server);
    let input = "rpush small a\nrpush large a b c\nset s 12345\nset \"s 2\" 1\nhset h f v\nxadd x * a b\nzadd z 1 a\nsadd t a\n";
    tool.text_of(&with(&own, &[]), input);
    let text = tool.text(&with(&own, &["--bigkeys"]));
    assert!(
        text.contains("list: 2 keys, 4 items, 2.0 on average\n           3  \"large\"\n           1  \"small\""),
        "{text}"
    );
    assert!(text.contains("\"s 2\"") && text.contains("stream: 1 keys, 1 entries"), "{text}");
    let text = tool.text(&with(&own, &["--memkeys", "--top", "1", "--pattern", "s*"]));
    assert!(text.contains("string: 2 keys") && !text.contains("large"), "{text}");
    let refused = tool.run(&with(&own, &["--hotkeys"]), "");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("allkeys-lfu") && refused.status.code() == Some(1));
    server.config_set("maxmemory-policy", "allkeys-lfu").unwrap();
    assert!(tool.text(&with(&own, &["--hotkeys"])).contains("accesses"));
}

#[test]
fn keys_that_a_server_does_not_measure_are_no_data() {
    let user = |rule: &str| format!("{rule} on >p ~* &* +@all");
    let server = Server::builder()
        .user(&format!("{} -strlen", user("sizes")))
        .user(&format!("{} -type", user("types")))
        .user(&format!("{} -memory|usage -dbsize", user("memory")))
        .start()
        .unwrap();
    let (tool, own) = (Tool::new(), at(&server));
    tool.text_of(&with(&own, &[]), "set a 1\nset b 2\nset c 3\nrpush l 1 2\n");
    let look = |user: &str, option: &str, code: i32| {
        let output = tool.run(&with(&own, &["--user", user, "-a", "p", "--no-auth-warning", "--json", option]), "");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    for (user, option, keys, unmeasured) in [
        ("sizes", "--bigkeys", 1, 3),
        ("types", "--bigkeys", 0, 4),
        ("types", "--memkeys", 0, 4),
        ("memory", "--memkeys", 0, 4),
    ] {
        let json = look(user, option, 1);
        assert_eq!((&json["keys"], &json["unmeasured"]), (&keys.into(), &unmeasured.into()), "{user} {json}");
        assert_eq!(
            (&json["complete"], &json["errors_by_kind"][0]["kind"]),
            (&false.into(), &"NOPERM".into()),
            "{json}"
        );
    }
    assert_eq!(look("sizes", "--memkeys", 0)["unmeasured"], 0);
    let told = tool.run(&with(&own, &["--user", "sizes", "-a", "p", "--keystats"]), "");
    let text = String::from_utf8_lossy(&told.stdout);
    assert_eq!(told.status.code(), Some(1), "{told:?}");
    assert!(text.contains("3 keys could not be measured:\n  3 × NOPERM") && text.contains("string: 3 keys"), "{text}");
}

#[test]
fn looking_at_keys_is_no_use_of_them() {
    let Some(program) = program("redis-8") else { return };
    let server = Server::builder()
        .program(program)
        .config("maxmemory-policy allkeys-lfu")
        .config("lfu-log-factor 0")
        .start()
        .unwrap();
    let (tool, own) = (Tool::new(), at(&server));
    tool.text(&with(&own, &["SET", "k", "v"]));
    let uses = || server.command(&["OBJECT", "FREQ", "k"]).unwrap().integer();
    let before = uses();
    for option in ["--bigkeys", "--memkeys", "--keystats"] {
        tool.text(&with(&own, &[option]));
    }
    assert_eq!(uses(), before);
}

#[test]
fn times_are_measured() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let own = at(&server);
    let text = tool.text(&with(&own, &["--latency", "-i", "0.05", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(json["count"].as_u64().unwrap() >= 1 && json["min"].as_f64() <= json["max"].as_f64(), "{text}");
    assert_eq!(tool.text(&with(&own, &["--latency", "-i", "0.05"])).split(' ').count(), 4);
    let text = tool.text(&with(&own, &["--stat", "-r", "2", "-i", "0.01"]));
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(tool.text(&with(&own, &["--intrinsic-latency", "0"])).contains("longest pause"));
}

#[test]
fn a_snapshot_is_a_file_that_a_server_loads() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let own = at(&server);
    // With a length before it, and with a mark behind it.
    for diskless in ["no", "yes"] {
        server.config_set("repl-diskless-sync", diskless).unwrap();
        server.config_set("repl-diskless-sync-delay", "0").unwrap();
        tool.text_of(&with(&own, &[]), &format!("set kept {diskless}\nfunction flush\nfunction load \"#!lua name=lib\\nredis.register_function('f', function() return 1 end)\"\n"));
        let path = tool.home.path().join("dump.rdb");
        let name = path.to_str().unwrap();
        let output = tool.run(&with(&own, &["--rdb", name]), "");
        assert!(output.status.success(), "{output:?}");
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"REDIS") || bytes.starts_with(b"VALKEY"));
        assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("{} bytes of ", bytes.len())), "{output:?}");
        assert!(!tool.home.path().join("dump.rdb.part").exists());
        assert!(bytes.windows(4).any(|four| four == b"kept") && bytes.windows(3).any(|three| three == b"lib"));
        let functions = tool.run(&with(&own, &["--functions-rdb", "-"]), "").stdout;
        assert!(functions.windows(3).any(|three| three == b"lib") && !functions.windows(4).any(|four| four == b"kept"));
    }
}

#[test]
fn a_snapshot_that_cannot_be_had() {
    let (tool, server) = (Tool::new(), Server::start().unwrap());
    let own = at(&server);
    let path = tool.home.path().join("none.rdb");
    tool.text(&with(&own, &["ACL", "SETUSER", "limited", "on", ">secret", "+@all", "-sync"]));
    let refused = tool.run(&with(&own, &["--user", "limited", "-a", "secret", "--rdb", path.to_str().unwrap()]), "");
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("NOPERM"), "{refused:?}");
    assert!(
        std::fs::read_dir(tool.home.path()).unwrap().all(|file| !file
            .unwrap()
            .path()
            .to_string_lossy()
            .contains("none"))
    );
    let clustered = tool.run(&with(&own, &["-c", "--rdb", "x.rdb"]), "");
    assert_eq!(clustered.status.code(), Some(2), "{clustered:?}");
}
