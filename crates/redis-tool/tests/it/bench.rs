//! `bench` against real servers: what is counted, what is an error, what is timed.

use std::thread::{sleep, spawn, yield_now};
use std::time::Duration;

use clap::Parser;
use pilotlight_redis_tool::bench::{BenchArgs, run};
use pilotlight_redis_tool::load::Outcome;
use pilotlight_testkit::{ClientAuth, Cluster, Reply, Sentinels, Server};
use serde_json::Value as Json;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: BenchArgs,
}

fn args(url: &str, line: &str) -> BenchArgs {
    let mut words = vec!["bench", "--url", url, "--keys", "1000"];
    if !line.contains("--warmup") {
        words.extend(["--warmup", "0.1"]);
    }
    words.extend(line.split_whitespace());
    Line::try_parse_from(words).unwrap().args
}

#[track_caller]
fn bench(url: &str, line: &str) -> (Outcome, Json) {
    let mut out = Vec::new();
    let outcome = run(&args(url, &format!("--json {line}")), &mut out).unwrap();
    (outcome, serde_json::from_slice(&out).unwrap())
}

#[track_caller]
fn number(json: &Json, name: &str) -> f64 {
    json[name].as_f64().unwrap_or_else(|| panic!("no {name} in {json}"))
}

#[test]
fn bench_prints_the_published_rows_of_a_cluster() {
    let cluster = Cluster::start(3, 0).unwrap();
    let url = format!("redis+cluster://127.0.0.1:{}", cluster.nodes()[0].port());
    let mut out = Vec::new();
    let outcome = run(&args(&url, "--mux-count 4 --duration 0.3"), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(outcome, Outcome::Done, "{text}");
    let names: Vec<_> = text.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["GET", "SET", "mixed"], "{text}");
    for node in cluster.nodes() {
        let calls = node.server().command(&["INFO", "commandstats"]).unwrap().text().into_owned();
        assert!(calls.contains("cmdstat_get") && calls.contains("cmdstat_set"), "{calls}");
    }
}

#[test]
fn bench_counts_what_the_server_counts() {
    let server = Server::start().unwrap();
    let (outcome, json) = bench(&server.url(), "--operation get --duration 0.5 --warmup 0 --workers 4 --pipeline 16");
    assert_eq!(outcome, Outcome::Done, "{json}");
    assert_eq!((json["schema"].as_str(), json["version"].as_u64()), (Some("pilotlight.redis.bench"), Some(1)));
    let result = &json["results"][0];
    let stats = server.command(&["INFO", "commandstats"]).unwrap().text().into_owned();
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls=")?.split(',').next()?.parse().ok());
    assert_eq!(calls, result["operations"].as_u64(), "{stats}");
    assert!(number(result, "operations_per_second") > 0.0 && number(result, "client_cpu_us_per_operation") > 0.0);
    let latency = &result["latency_us"];
    let order = ["min", "p50", "p90", "p95", "p99", "p99_9", "p99_99", "max"].map(|name| number(latency, name));
    assert!(order.is_sorted() && order[0] > 0.0, "{latency}");
}

#[test]
fn bench_errors_and_wrong_replies_are_no_successes() {
    let server = Server::start().unwrap();
    let kinds = |line: &str| {
        let (outcome, json) = bench(&server.url(), &format!("--duration 0.2 --workers 2 --pipeline 8 {line}"));
        let result = &json["results"][0];
        assert_eq!((outcome, number(result, "operations")), (Outcome::Failed, 0.0), "{json}");
        assert!(number(result, "errors") > 0.0);
        result["errors_by_kind"][0]["kind"].as_str().unwrap().to_owned()
    };
    assert_eq!(kinds("--operation get --no-populate"), "missing key");
    assert_eq!(kinds("-- INCRBY __key__ nonsense"), "ERR");
    assert_eq!(kinds("-- NOSUCHCOMMAND __key__"), "ERR");
    let (outcome, _) = bench(&server.url(), "--operation set --duration 0.5 --workers 16 --value-size 10");
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(kinds("--operation get --no-populate --value-size 11"), "wrong size");
    server.command(&["FLUSHALL"]).unwrap();
    let (outcome, _) = bench(&server.url(), "--duration 0.3 -- RPUSH __key__ __data__");
    assert_eq!(outcome, Outcome::Done);
    server.config_set("maxmemory", "1").unwrap();
    assert_eq!(kinds("--operation set"), "OOM");
}

#[test]
fn bench_runs_any_command() {
    let server = Server::start().unwrap();
    let (outcome, json) =
        bench(&server.url(), "--duration 0.2 --value-size 33 -- HSET {__key__}:x f__rand_int__ __data__");
    assert_eq!((outcome, json["results"][0]["operation"].as_str()), (Outcome::Done, Some("HSET")));
    let key = server.command(&["RANDOMKEY"]).unwrap().text().into_owned();
    assert!(key.starts_with("{bench:000000000") && key.ends_with("}:x"), "{key}");
    let values = server.command(&["HVALS", &key]).unwrap();
    assert!(matches!(&values.array()[0], Reply::Text(value) if value.len() == 33));
}

#[test]
fn bench_draws_keys_as_asked_and_cleans_up() {
    let server = Server::start().unwrap();
    for distribution in ["uniform", "sequential", "zipf:1.2", "gaussian"] {
        let line = format!(
            "--operation mixed --writes 50 --duration 0.2 --distribution {distribution} --cleanup --pipeline 1"
        );
        let (outcome, json) = bench(&server.url(), &line);
        assert_eq!(outcome, Outcome::Done, "{json}");
        assert_eq!(server.command(&["DBSIZE"]).unwrap().integer(), Some(0), "{distribution}");
    }
}

#[test]
fn bench_keeps_a_rate_and_its_latency_counts_from_the_intended_start() {
    let server = Server::start().unwrap();
    let line = "--operation get --rate 2000 --duration 1 --workers 8 --pipeline 64 --timeout 20";
    let (outcome, json) = bench(&server.url(), line);
    assert_eq!(outcome, Outcome::Done, "{json}");
    // Exactly the schedule, to within one command of each worker at both ends.
    assert!((number(&json["results"][0], "operations") - 2000.0).abs() <= 16.0, "{json}");

    // The server stands still in the middle. A closed loop would see 8 slow commands; of an open one every command of
    // that time is late.
    let url = server.url();
    let run = spawn(move || {
        bench(&url, "--operation get --no-populate --rate 2000 --duration 3 --workers 8 --warmup 0 --timeout 20")
    });
    let calls = || server.info("keyspace_hits").unwrap().parse::<u64>().unwrap();
    let before = calls();
    while calls() < before + 1500 {
        yield_now();
    }
    server.stop().unwrap();
    sleep(Duration::from_secs(1)); // the fault itself: nothing is waited for
    server.cont().unwrap();
    let (_, json) = run.join().unwrap();
    let result = &json["results"][0];
    assert!(number(result, "operations") > 5900.0, "{json}");
    // A third of all commands were due while it stood, evenly up to a second late.
    assert!(number(&result["latency_us"], "p90") > 500_000.0, "{json}");
    assert!(number(&result["latency_us"], "max") > 900_000.0, "{json}");
}

#[test]
fn bench_says_what_it_could_not_send() {
    let server = Server::start().unwrap();
    let (outcome, json) =
        bench(&server.url(), "--operation get --rate 5000000 --workers 1 --pipeline 1 --duration 0.3");
    assert_eq!(outcome, Outcome::Failed);
    let result = &json["results"][0];
    let all = number(result, "unsent") + number(result, "operations");
    assert!((all - 1_500_000.0).abs() < 50_000.0, "{json}");
}

#[test]
fn bench_draws_a_picture() {
    let server = Server::start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("latency.svg");
    let (outcome, _) = bench(&server.url(), &format!("--duration 0.2 --plot {}", file.display()));
    assert_eq!(outcome, Outcome::Done);
    let svg = std::fs::read_to_string(file).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    assert!(["GET", "SET", "mixed"].iter().all(|name| svg.contains(&format!(">{name}<"))));
}

#[test]
fn bench_works_with_tls_and_by_sentinels() {
    let server = Server::builder().requirepass("s3cret").tls(ClientAuth::None).start().unwrap();
    let ca = server.certificates().unwrap().ca_path().display().to_string();
    let (outcome, json) = bench(&server.url(), &format!("--duration 0.2 --cacert {ca}"));
    assert_eq!(outcome, Outcome::Done);
    assert!(!json.to_string().contains("s3cret"));

    let group = Sentinels::start(0).unwrap();
    let url = format!("redis+sentinel://127.0.0.1:{}/{}", group.sentinels()[0].port(), group.name());
    assert_eq!(bench(&url, "--duration 0.2").0, Outcome::Done);
}

#[test]
fn bench_without_a_server_is_an_error() {
    let server = Server::start().unwrap();
    let url = server.url();
    drop(server);
    let error = run(&args(&url, "--timeout 0.2"), &mut Vec::new()).unwrap_err();
    assert!(format!("{error:#}").contains("cannot use redis://127.0.0.1"), "{error:#}");
}
