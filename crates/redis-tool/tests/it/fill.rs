//! `fill` against real servers, also those that run out of memory, forget keys, or are clusters.

use clap::Parser;
use pilotlight_redis_tool::fill::{FillArgs, run};
use pilotlight_redis_tool::load::Outcome;
use pilotlight_testkit::{ClientAuth, Cluster, Failover, Sentinels, Server};
use serde_json::Value as Json;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: FillArgs,
}

fn parse(url: &str, line: &str) -> Line {
    let words = ["fill", "--json", "--yes", "--url", url].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap()
}

/// Runs it; the end of what it prints is the JSON.
#[track_caller]
fn fill(url: &str, line: &str) -> (Outcome, Json) {
    let mut out = Vec::new();
    let outcome = run(&parse(url, line).args, &mut out).unwrap();
    (outcome, serde_json::from_slice(&out).unwrap())
}

#[track_caller]
fn number(json: &Json, name: &str) -> u64 {
    json[name].as_u64().unwrap_or_else(|| panic!("no {name} in {json}"))
}

fn key_count(server: &Server) -> i64 {
    server.command(&["DBSIZE"]).unwrap().integer().unwrap()
}

#[test]
fn fill_every_type_is_written_and_read_back() {
    let server = Server::start().unwrap();
    for kind in ["string", "hash", "list", "set", "zset", "stream"] {
        let line = format!(
            "--count 300 --type {kind} --elements 7 --key-size 40 --key-prefix {kind}: --value-size 20 --verify-all"
        );
        let (outcome, json) = fill(&server.url(), &line);
        assert_eq!(outcome, Outcome::Done, "{json}");
        assert_eq!((number(&json, "written"), number(&json, "failed"), number(&json, "missing")), (300, 0, 0));
        assert_eq!((number(&json, "sampled"), json["every_key_checked"].as_bool()), (300, Some(true)));
        let some = server.command(&["SCAN", "0", "COUNT", "10000", "MATCH", &format!("{kind}:*")]).unwrap();
        let key = some.array()[1].array()[0].text().into_owned();
        assert_eq!(key.len(), 40);
        assert_eq!(server.command(&["TYPE", &key]).unwrap().text(), kind);
        // Written once: there is nothing to go on with.
        let (outcome, json) = fill(&server.url(), &format!("{line} --resume"));
        assert_eq!((outcome, number(&json, "written"), number(&json, "present")), (Outcome::Done, 0, 300));
    }
    assert_eq!(key_count(&server), 6 * 300);
}

#[test]
fn fill_amounts_are_bytes_of_keys_and_values() {
    let server = Server::start().unwrap();
    let (outcome, json) = fill(&server.url(), "--mb 2 --key-size 100 --value-size 900");
    assert_eq!((outcome, number(&json, "written"), number(&json, "bytes")), (Outcome::Done, 2000, 2_000_000));
    let (outcome, json) = fill(&server.url(), "-d 0.001 --key-size 65536 --value-size 524288 --flush");
    assert_eq!((outcome, number(&json, "keys_after")), (Outcome::Done, 2));
    let (outcome, json) = fill(&server.url(), "--count 62 --key-size 1 --value-size 1 --flush");
    assert_eq!((outcome, number(&json, "keys_after"), number(&json, "keys_before")), (Outcome::Done, 62, 0));
}

#[test]
fn fill_says_what_a_server_without_memory_refuses_and_goes_on_later() {
    let server = Server::builder().config("maxmemory 6mb").config("maxmemory-policy noeviction").start().unwrap();
    let line = "--mb 20 --key-size 20 --value-size 980 --max-errors 500";
    let (outcome, json) = fill(&server.url(), line);
    assert_eq!(outcome, Outcome::Failed);
    assert!(number(&json, "written") > 0 && number(&json, "failed") >= 500, "{json}");
    assert_eq!(json["errors_by_kind"][0]["kind"], "OOM");
    assert_eq!(number(&json, "failed"), json["errors_by_kind"][0]["count"].as_u64().unwrap());
    assert_eq!(number(&json, "written"), key_count(&server).unsigned_abs(), "what counts as written is there");
    assert_eq!((number(&json, "missing"), json["complete"].as_bool()), (0, Some(false)));

    server.config_set("maxmemory", "0").unwrap();
    let (outcome, json) = fill(&server.url(), &format!("{line} --resume --verify-all"));
    assert_eq!(outcome, Outcome::Done, "{json}");
    assert!(number(&json, "present") > 0 && number(&json, "written") > 0);
    assert_eq!(key_count(&server), 20_000);
}

#[test]
fn fill_notices_keys_that_were_acknowledged_and_evicted() {
    let server = Server::builder().config("maxmemory 6mb").config("maxmemory-policy allkeys-random").start().unwrap();
    let (outcome, json) = fill(&server.url(), "--mb 20 --key-size 20 --value-size 980");
    assert_eq!(outcome, Outcome::Failed);
    assert_eq!((number(&json, "written"), number(&json, "failed")), (20_000, 0));
    assert_eq!(json["every_key_checked"].as_bool(), Some(true), "the number of keys was too small");
    // Looking at them takes memory too, and so may evict some more.
    assert!(number(&json, "missing").abs_diff(20_000 - key_count(&server).unsigned_abs()) < 500, "{json}");
}

/// Kills the server when it has some keys, and returns what `fill` reports.
fn killed(line: &str) -> (Outcome, Json) {
    let server = Server::start().unwrap();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| fill(&server.url(), line));
        while key_count(&server) < 2000 {
            std::thread::yield_now();
        }
        server.kill().unwrap();
        run.join().unwrap()
    })
}

#[test]
fn fill_reports_what_it_has_written_when_its_server_is_gone() {
    for kind in ["string", "stream"] {
        let line =
            format!("--mb 4000 --key-size 20 --value-size 1000 --timeout 1 --type {kind} --elements 1 --max-errors 0");
        let (outcome, json) = killed(&line);
        assert_eq!(outcome, Outcome::Failed, "{json}");
        assert!(number(&json, "written") >= 2000 && number(&json, "failed") > 0, "{json}");
        assert_eq!((&json["given_up"], &json["keys_after"]), (&true.into(), &Json::Null), "{json}");
        // Nobody knows.
        assert_eq!((&json["missing"], &json["verified_by"]), (&0.into(), &"nothing".into()), "{json}");
        assert!(json["not_verified"].as_str().unwrap().contains("does not answer"), "{json}");
    }
}

#[test]
fn fill_does_not_take_errors_of_a_check_for_missing_keys() {
    let rule = "writer on >p ~* &* +@all -strlen -get";
    let server = Server::builder().user(rule).start().unwrap();
    let (outcome, json) = fill(&server.url(), "--count 100 --verify-all --username writer -a p");
    assert_eq!((outcome, number(&json, "missing")), (Outcome::Failed, 0), "{json}");
    assert_eq!((number(&json, "written"), number(&json, "unknown")), (100, 100), "{json}");
    let (outcome, json) = fill(&server.url(), "--count 100 --username writer -a p");
    assert_eq!((outcome, number(&json, "missing")), (Outcome::Failed, 0), "{json}");
    assert!(json["not_verified"].as_str().unwrap().contains("NOPERM"), "{json}");
}

#[test]
fn fill_spreads_over_a_cluster() {
    let cluster = Cluster::start(3, 0).unwrap();
    let port = cluster.nodes()[0].port();
    let url = format!("redis+cluster://127.0.0.1:{port}");
    let (outcome, json) = fill(&url, "--mb 6 --key-size 20 --value-size 1000 -P 2 -n 2");
    assert_eq!(outcome, Outcome::Done, "{json}");
    let total = number(&json, "written");
    for node in cluster.nodes() {
        let keys = key_count(node.server()).unsigned_abs();
        assert!(keys.abs_diff(total / 3) < total / 20, "{keys} of {total}");
    }
    assert_eq!(json["keys_by_node"].as_array().unwrap().len(), 3);
    let (outcome, json) = fill(&url, "--count 10 --flush");
    assert_eq!((outcome, number(&json, "keys_after")), (Outcome::Done, 10));
}

#[test]
fn fill_goes_on_while_a_replica_takes_over() {
    let cluster = Cluster::start(3, 1).unwrap();
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.nodes()[1].port());
    let primary = &cluster.nodes()[0];
    let replica = cluster.replica_of(primary).unwrap();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| fill(&url, "--mb 60 --key-size 20 --value-size 1000 --verify-all"));
        while key_count(primary.server()) < 2000 {
            std::thread::yield_now();
        }
        cluster.failover(replica, Failover::Graceful).unwrap();
        let (outcome, json) = run.join().unwrap();
        assert_eq!(outcome, Outcome::Done, "{json}");
        assert_eq!((number(&json, "failed"), number(&json, "missing")), (0, 0), "{json}");
    });
}

#[test]
fn fill_works_with_tls_and_a_password() {
    let server = Server::builder().requirepass("s3cret").tls(ClientAuth::None).start().unwrap();
    let ca = server.certificates().unwrap().ca_path().display().to_string();
    let (outcome, json) = fill(&server.url(), &format!("--count 100 --cacert {ca}"));
    assert_eq!(outcome, Outcome::Done);
    assert!(!json.to_string().contains("s3cret"));
}

#[test]
fn fill_works_by_sentinels() {
    let group = Sentinels::start(0).unwrap();
    let port = group.sentinels()[0].port();
    let url = format!("redis+sentinel://127.0.0.1:{port}/{}", group.name());
    let (outcome, _) = fill(&url, "--count 100 --ttl 1000 --type list");
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(key_count(group.primary().unwrap()), 100);
}

#[test]
fn fill_sets_the_time_to_live() {
    let server = Server::start().unwrap();
    for kind in ["string", "stream"] {
        let (outcome, _) = fill(&server.url(), &format!("--count 10 --key-size 20 --ttl 5000 --flush --type {kind}"));
        assert_eq!(outcome, Outcome::Done);
        let key = server.command(&["RANDOMKEY"]).unwrap().text().into_owned();
        let ttl = server.command(&["TTL", &key]).unwrap().integer().unwrap();
        assert!((4900..=5000).contains(&ttl), "{kind}: {ttl}");
    }
}

#[test]
fn fill_memory_does_not_grow_with_the_sizes() {
    let server = Server::start().unwrap();
    let (outcome, json) = fill(&server.url(), "--mb 120 --value-size 524288 -P 4 -n 8 --pipeline 65536");
    assert_eq!(outcome, Outcome::Done);
    // Of the whole test process, in which other tests run, too.
    assert!(json["peak_memory_bytes"].as_u64().is_none_or(|bytes| bytes < 300 << 20), "{json}");
}

#[test]
fn fill_arguments_that_make_no_sense_are_told() {
    let server = Server::start().unwrap();
    for (line, what) in [
        ("", "how much"),
        ("--count 100 --key-size 1", "--key-size"),
        ("--count 1 --elements 10000 --type list --value-size 1000", "--elements"),
        ("--count 1 --type set --value-size 1 --elements 63", "members"),
    ] {
        let error = run(&parse(&server.url(), line).args, &mut Vec::new()).unwrap_err();
        assert!(error.is::<pilotlight_redis_tool::connection::UsageError>(), "{line}: {error}");
        assert!(error.to_string().contains(what), "{line}: {error}");
    }
    assert!(Line::try_parse_from(["fill", "--count", "1", "--mb", "1"]).is_err());
    assert_eq!(key_count(&server), 0);
}
