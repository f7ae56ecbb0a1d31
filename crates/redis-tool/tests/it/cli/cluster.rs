//! A cluster looks like one server.

use pilotlight_testkit::Cluster;

use super::{Tool, with};

fn at(cluster: &Cluster) -> Vec<String> {
    vec!["-c".to_owned(), "-p".to_owned(), cluster.nodes()[0].port().to_string()]
}

#[test]
fn commands_go_where_they_belong() {
    let (tool, cluster) = (Tool::new(), Cluster::start(3, 0).unwrap());
    let own = at(&cluster);
    let text = |args: &[&str]| tool.text(&with(&own, args));
    assert_eq!(text(&["MSET", "a", "1", "b", "2", "c", "3", "d", "4"]), "OK\n");
    assert_eq!(text(&["MGET", "d", "a", "nothing", "c"]), "4\n1\n\n3\n");
    assert_eq!(text(&["DBSIZE"]), "4\n");
    let mut keys: Vec<_> = text(&["--scan"]).lines().map(str::to_owned).collect();
    keys.sort();
    assert_eq!(keys, ["a", "b", "c", "d"]);
    assert_eq!(text(&["--scan", "--pattern", "b*"]), "b\n");
    assert_eq!(text(&["--no-raw", "SINTERSTORE", "a", "b"]).split(' ').next(), Some("(error)"));

    let everywhere = text(&["ON", "PRIMARIES", "DBSIZE"]);
    assert_eq!(everywhere.lines().filter(|line| line.starts_with("127.0.0.1:")).count(), 3);
    let node = format!("127.0.0.1:{}", cluster.nodes()[1].port());
    let port = cluster.nodes()[1].port();
    assert_eq!(text(&["ON", "NODE", &node, "CONFIG", "GET", "port"]), format!("{node}:\nport\n{port}\n"));

    let lines = "multi\nset {t}a 1\nincr {t}a\nexec\nget {t}a\nmulti\ndiscard\nwatch {t}a\nmulti\nget {t}a\nexec\n";
    assert_eq!(tool.text_of(&own_args(&own), lines), "OK\nQUEUED\nQUEUED\nOK\n2\n2\nOK\nOK\nOK\nOK\nQUEUED\n2\n");
}

#[test]
fn many_commands_and_looks_at_all_shards() {
    let (tool, cluster) = (Tool::new(), Cluster::start(3, 0).unwrap());
    let own = at(&cluster);
    let mut input = String::new();
    for number in 0..2500 {
        input.push_str(&format!("*3\r\n$3\r\nSET\r\n$5\r\nk{number:04}\r\n$1\r\nx\r\n"));
    }
    input.push_str("RPUSH list a b c\r\nNONSENSE a\r\n");
    let output = tool.run(&with(&own, &["--pipe"]), &input);
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("errors: 1, replies: 2502\n"), "{output:?}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(tool.text(&with(&own, &["DBSIZE"])), "2501\n");
    let json: serde_json::Value = serde_json::from_str(&tool.text(&with(&own, &["--json", "--bigkeys"]))).unwrap();
    assert_eq!((&json["complete"], &json["types"]["string"]["keys"]), (&true.into(), &2500.into()));
    assert_eq!(json["types"]["list"]["top"][0]["key"], "list");
    let stat: serde_json::Value = serde_json::from_str(
        tool.text(&with(&own, &["--json", "--stat", "-r", "2", "-i", "0.01"])).lines().next().unwrap(),
    )
    .unwrap();
    assert_eq!((&stat["keys"], &stat["servers"]), (&2501.into(), &3.into()));
}

fn own_args(own: &[String]) -> Vec<&str> {
    own.iter().map(String::as_str).collect()
}

#[test]
fn a_redirect_says_what_follows_it() {
    let (tool, cluster) = (Tool::new(), Cluster::start(3, 0).unwrap());
    let (node, _) = cluster.node_for_key("k").unwrap();
    let other = cluster.nodes().iter().find(|other| other.id() != node.id()).unwrap().port().to_string();
    let output = tool.run(&["-p", &other], "get k\nget k\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("MOVED ").count(), 2, "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("-c follows redirects").count(), 1, "{output:?}");
    let quiet = tool.run(&["-c", "-p", &other, "get", "k"], "");
    assert!(quiet.stderr.is_empty(), "{quiet:?}");
}

#[test]
fn nobody_there_is_told_at_once() {
    let tool = Tool::new();
    let server = pilotlight_testkit::Server::start().unwrap();
    server.kill().unwrap();
    let port = server.port().to_string();
    let start = std::time::Instant::now();
    for args in [&["-c", "-p", &port, "PING"][..], &["-c", "-p", &port, "ON", "ALL", "PING"]] {
        let output = tool.run(args, "");
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("could not connect"), "{output:?}");
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(10));
}
