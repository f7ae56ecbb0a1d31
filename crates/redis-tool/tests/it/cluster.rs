//! `cluster`: clusters that it starts, and clusters of others.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod databases;
mod moves;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pilotlight_redis::{Client, Commands};
use pilotlight_testkit::{ClientAuth, Cluster, Server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;

const LIMIT: Duration = Duration::from_secs(60);

/// Runs the tool with its state in a folder of the test.
struct Tool {
    home: tempfile::TempDir,
}

impl Tool {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"));
        command.arg("cluster").args(arguments).stdin(Stdio::null());
        command.env_remove("REDISCLI_AUTH").env("XDG_STATE_HOME", self.home.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs it, expects it to succeed, and reads its JSON.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Json {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn clusters(&self) -> PathBuf {
        self.home.path().join("pilotlight/clusters")
    }

    /// Starts a cluster on free ports; others may take them meanwhile, so it may take several tries.
    #[track_caller]
    fn start(&self, arguments: &[&str]) -> Json {
        let mut last = String::new();
        for _ in 0..3 {
            let output = self.run(&[&["start", "--port", "0", "--json"], arguments].concat());
            if output.status.success() {
                return serde_json::from_slice(&output.stdout).unwrap();
            }
            last = text(&output);
        }
        panic!("{last}");
    }
}

/// Whatever a test left running.
impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.run(&["stop", "--all"]);
    }
}

/// A command that runs until it is interrupted; also if the test fails before.
struct Running(Option<Child>);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.as_mut().unwrap().stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }

    fn is_running(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    fn interrupt(mut self) -> Output {
        let child = self.0.take().unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        child.wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            let _ = kill_process(Pid::from_child(&child), Signal::INT);
            let _ = child.wait_with_output();
        }
    }
}

fn text(output: &Output) -> String {
    [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat()
}

#[track_caller]
fn failed(output: &Output, code: i32, with: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    assert!(text(output).contains(with), "{with:?} is not in {}", text(output));
}

/// Process ids of the servers of a state file.
fn pids(dir: &str) -> Vec<u64> {
    let state: Json = serde_json::from_slice(&fs::read(Path::new(dir).join("cluster.json")).unwrap()).unwrap();
    state["servers"].as_array().unwrap().iter().map(|server| server["pid"].as_u64().unwrap()).collect()
}

fn runs(pid: u64) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok()
}

fn port(cluster: &Cluster, node: usize) -> String {
    cluster.nodes()[node].port().to_string()
}

#[test]
fn from_start_to_stop() {
    let tool = Tool::new();
    let started = tool.start(&["--nodes", "3", "--replicas", "1"]);
    let dir = started["dir"].as_str().unwrap().to_owned();
    let pids = pids(&dir);
    assert_eq!(pids.len(), 6);
    assert!(pids.iter().all(|pid| runs(*pid)), "they live on");
    assert_eq!(tool.run(&["start", "--port", &started["port"].to_string()]).status.code(), Some(1));

    // Nothing is said of where it is.
    let status = tool.json(&["status"]);
    let nodes = status["nodes"].as_array().unwrap();
    let of_role = |role: &str| nodes.iter().filter(|node| node["role"] == role).collect::<Vec<_>>();
    assert_eq!((of_role("primary").len(), of_role("replica").len()), (3, 3));
    assert_eq!(nodes.iter().map(|node| node["slots"].as_u64().unwrap()).sum::<u64>(), 16_384);
    assert!(of_role("replica").iter().all(|node| node["is_linked"] == true && node["lag_bytes"].is_u64()), "{status}");
    assert_eq!(tool.json(&["check"])["ok"], true);
    let info = tool.json(&["info"]);
    assert_eq!((info["state"].as_str(), info["slots_covered"].as_u64()), (Some("ok"), Some(16_384)));

    let called = tool.run(&["call", "config", "get", "appendonly"]);
    assert_eq!(text(&called).matches("appendonly").count(), 6, "{}", text(&called));
    let refused = tool.run(&["call", "--only", "primaries", "no-such-command"]);
    failed(&refused, 1, "unknown command");
    assert_eq!(text(&refused).matches("(error)").count(), 3, "{}", text(&refused));

    let primary = of_role("primary")[0]["address"].as_str().unwrap();
    let replica = of_role("replica")[0]["id"].as_str().unwrap();
    let failover = tool.json(&["failover", primary]);
    assert_eq!(failover["primary"], replica, "the primary's own replica takes over");
    assert_eq!(tool.json(&["check"])["ok"], true);

    assert_eq!(tool.json(&["stop"])["stopped"][0]["servers"], 6);
    assert!(!pids.iter().any(|pid| runs(*pid)));
    assert!(!Path::new(&dir).exists());
    assert_eq!(tool.run(&["stop"]).status.code(), Some(0), "nothing to stop is no failure");
}

#[test]
fn a_password_and_a_folder_in_the_foreground_until_interrupted() {
    const SECRET: &str = "a \"secret\" of mine";
    let tool = Tool::new();
    let dir = tool.home.path().join("here");
    let others = dir.join("notes.txt");
    fs::create_dir(&dir).unwrap();
    fs::write(&others, "mine").unwrap();
    let dir = dir.to_str().unwrap();
    let mut start = tool.command(&["start", "--nodes", "1", "--port", "0", "--json", "--foreground", "--dir", dir]);
    let mut running = Running::start(start.env("REDISCLI_AUTH", SECRET));
    let started: Json = serde_json::from_str(&running.first_line()).unwrap();
    let port = started["port"].to_string();
    let pid = pids(dir)[0];

    let by_dir = tool.command(&["status", "--dir", dir, "--json"]).env("REDISCLI_AUTH", SECRET).output().unwrap();
    let nodes: Json = serde_json::from_slice(&by_dir.stdout).unwrap_or_else(|_| panic!("{}", text(&by_dir)));
    assert_eq!(nodes["nodes"][0]["address"], format!("127.0.0.1:{port}"));
    failed(&tool.run(&["check", "--dir", dir, "-p", &port]), 2, "cannot be used with");
    failed(&tool.run(&["info", "--dir", "/nowhere"]), 1, "no cluster was started in /nowhere");
    failed(&tool.run(&["start", "--nodes", "1", "--port", "0", "--dir", dir]), 1, &format!("cluster stop --dir {dir}"));
    failed(&tool.run(&["status", "-p", &port]), 1, "asks for a password");
    let allowed = tool.command(&["status", "-p", &port]).env("REDISCLI_AUTH", SECRET).output().unwrap();
    assert_eq!(allowed.status.code(), Some(0), "{}", text(&allowed));
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains("secret"));
    assert!(!fs::read_to_string(Path::new(dir).join("cluster.json")).unwrap().contains("secret"));

    let ended = running.interrupt();
    failed(&ended, 0, "stopped 1 server");
    assert!(!runs(pid));
    assert!(others.exists() && !Path::new(dir).join("cluster.json").exists(), "other people's files stay");
}

#[test]
fn an_interrupted_start_leaves_nothing() {
    let tool = Tool::new();
    let mut start = tool.command(&["start", "--nodes", "5", "--replicas", "2", "--port", "0"]);
    let mut running = Running::start(&mut start);
    let begun = Instant::now();
    let is_begun = || {
        let mut named = fs::read_dir(tool.clusters()).into_iter().flatten().flatten();
        named.any(|dir| dir.path().join("cluster.json").exists())
    };
    while !is_begun() {
        assert!(begun.elapsed() < LIMIT && running.is_running(), "no server was named");
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = running.interrupt();
    failed(&ended, 1, "interrupted");
    assert_eq!(fs::read_dir(tool.clusters()).unwrap().count(), 0, "{}", text(&ended));
}

#[test]
fn only_the_processes_that_were_started_are_ended() {
    let tool = Tool::new();
    let started = tool.start(&["--nodes", "1"]);
    let file = Path::new(started["dir"].as_str().unwrap()).join("cluster.json");
    let genuine = fs::read_to_string(&file).unwrap();
    let state: Json = serde_json::from_str(&genuine).unwrap();
    let pid = state["servers"][0]["pid"].as_u64().unwrap();
    let dir = Path::new(state["servers"][0]["dir"].as_str().unwrap()).to_owned();
    let aside = tool.home.path().join("aside");
    let mut stranger = Command::new("sleep").arg("60").spawn().unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", stranger.id())).unwrap();
    let stranger_began: u64 = stat.split(' ').nth(21).unwrap().parse().unwrap();

    // The number is somebody else's by now, even with the right time; or it is the same number of another time.
    let is_another: [(u64, u64); 2] =
        [(stranger.id().into(), stranger_began), (pid, state["servers"][0]["start_time"].as_u64().unwrap() + 1)];
    for (pid_there, began) in is_another {
        let mut forged = state.clone();
        forged["servers"][0]["pid"] = pid_there.into();
        forged["servers"][0]["start_time"] = began.into();
        fs::write(&file, forged.to_string()).unwrap();
        fs::rename(&dir, &aside).unwrap();
        assert_eq!(tool.json(&["stop"])["stopped"][0]["servers"], 0);
        assert!(stranger.try_wait().unwrap().is_none() && runs(pid));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::rename(&aside, &dir).unwrap();
    }
    fs::write(&file, genuine).unwrap();
    assert_eq!(tool.json(&["stop"])["stopped"][0]["servers"], 1);
    assert!(!runs(pid));
    stranger.kill().unwrap();
    stranger.wait().unwrap();

    // Nor is anybody else's folder removed.
    let mut outside = state;
    outside["servers"][0]["dir"] = tool.home.path().to_str().unwrap().into();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, outside.to_string()).unwrap();
    failed(&tool.run(&["stop"]), 1, "outside");
}

/// A server that the tool does not end. Dropping it kills it.
struct ByHand(u64);

impl Drop for ByHand {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.unwrap(), Signal::KILL);
    }
}

#[test]
fn a_server_that_was_started_again_by_hand_keeps_its_folder() {
    let tool = Tool::new();
    let started = tool.start(&["--nodes", "1"]);
    let dir = started["dir"].as_str().unwrap();
    let state: Json = serde_json::from_slice(&fs::read(Path::new(dir).join("cluster.json")).unwrap()).unwrap();
    let server = Path::new(state["servers"][0]["dir"].as_str().unwrap());
    let old = pids(dir)[0];
    kill_process(Pid::from_raw(i32::try_from(old).unwrap()).unwrap(), Signal::KILL).unwrap();
    while runs(old) {
        std::thread::yield_now();
    }
    let program = state["program"].as_str().unwrap();
    assert!(Command::new(program).arg("redis.conf").current_dir(server).status().unwrap().success());
    let begun = Instant::now();
    let new = loop {
        let told = fs::read_to_string(server.join("pid")).ok().and_then(|text| text.trim().parse::<u64>().ok());
        if let Some(pid) = told.filter(|pid| *pid != old && runs(*pid)) {
            break pid;
        }
        assert!(begun.elapsed() < LIMIT, "it does not start again");
        std::thread::sleep(Duration::from_millis(5));
    };
    let by_hand = ByHand(new);
    let stopped = tool.run(&["stop"]);
    failed(&stopped, 1, &format!("kill {new}"));
    failed(&tool.run(&["start", "--nodes", "1", "--port", &started["port"].to_string()]), 1, "is taken");
    assert!(runs(new) && server.join("redis.conf").exists());
    // It still is the cluster that was started here.
    assert_eq!(tool.json(&["status"])["nodes"][0]["address"], format!("127.0.0.1:{}", started["port"]));
    drop(by_hand);
    while runs(new) {
        std::thread::yield_now();
    }
    assert_eq!(tool.json(&["stop"])["stopped"][0]["servers"], 0);
    assert!(!Path::new(dir).exists());
}

#[test]
fn slots_move_with_their_keys() {
    let cluster = Cluster::start(3, 0).unwrap();
    let tool = Tool::new();
    let (source, slot) = cluster.node_for_key("{t}").unwrap();
    for number in 0..250 {
        source.server().command(&["SET", &format!("{{t}}{number}"), "v"]).unwrap();
    }
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    let (at, to, range) = (source.port().to_string(), target.port().to_string(), slot.to_string());

    let dry = tool.json(&["reshard", "-p", &at, "--to", &to, "--ranges", &range, "--dry-run"]);
    assert_eq!((dry["moves"][0]["slots"].as_u64(), dry["dry_run"].as_bool()), (Some(1), Some(true)));
    assert_eq!(cluster.node_for_slot(slot).unwrap().id(), source.id());

    let done = tool.json(&["reshard", "-p", &at, "--to", &to, "--ranges", &range, "--batch", "100"]);
    assert_eq!((done["keys_moved"].as_u64(), done["done"].as_bool()), (Some(250), Some(true)));
    let there = target.server().command(&["CLUSTER", "COUNTKEYSINSLOT", &range]).unwrap();
    assert_eq!(there.integer(), Some(250));

    let done = tool.json(&["reshard", "-p", &at, "--to", target.id(), "--slots", "60"]);
    assert_eq!(done["slots_moved"], 60);
    let done = tool.json(&["rebalance", "-p", &at, "--threshold", "0"]);
    assert_eq!(done["done"], true);
    assert!((60..=62).contains(&done["slots_moved"].as_u64().unwrap()), "{done}");
    assert_eq!(tool.json(&["check", "-p", &at])["ok"], true);
    let emptied = tool.json(&["rebalance", "-p", &at, "--weight", &format!("{to}=0"), "--dry-run"]);
    let moved: u64 = emptied["moves"].as_array().unwrap().iter().map(|one| one["slots"].as_u64().unwrap()).sum();
    assert!((5461..=5462).contains(&moved), "{emptied}");
    failed(&tool.run(&["rebalance", "-p", &at]), 0, "nothing to do");
    cluster.wait_until_agreed().unwrap();
}

/// Writes while slots move: each write that was confirmed is there afterwards.
#[test]
fn clients_lose_nothing_while_slots_move() {
    let cluster = Cluster::start(3, 0).unwrap();
    let tool = Tool::new();
    let (at, to) = (port(&cluster, 0), port(&cluster, 2));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seeds = cluster.urls()[0].replace("redis://", "redis+cluster://");
    let mut moving = tool.command(&["reshard", "-p", &at, "--from", &at, "--to", &to, "--slots", "150", "--json"]);
    let (moved, written) = runtime.block_on(async {
        let client = Client::connect(&seeds).await.unwrap();
        for number in 0..1000 {
            client.set(format!("before:{number}"), number).await.unwrap();
        }
        let mut moving = moving.stdout(Stdio::piped()).spawn().unwrap();
        let mut written = 0;
        while moving.try_wait().unwrap().is_none() {
            client.set(format!("during:{written}"), written).await.unwrap();
            written += 1;
        }
        for (prefix, count) in [("before", 1000), ("during", written)] {
            for number in 0..count {
                assert_eq!(
                    client.get(format!("{prefix}:{number}")).read_as::<Option<i64>>().await.unwrap(),
                    Some(number)
                );
            }
        }
        (moving.wait_with_output().unwrap(), written)
    });
    failed(&moved, 0, "\"slots_moved\":150");
    assert!(written > 0);
}

#[test]
fn a_replica_takes_over_from_a_dead_primary_only_by_force() {
    let cluster = Cluster::builder().masters(3).replicas_per_master(1).node_timeout(LIMIT).start().unwrap();
    let tool = Tool::new();
    let primary = &cluster.nodes()[0];
    let replica = cluster.replica_of(primary).unwrap();
    let (at, heir) = (port(&cluster, 1), replica.port().to_string());
    failed(&tool.run(&["failover", "-p", &at, &at]), 0, "is the primary");
    primary.server().kill().unwrap();
    failed(&tool.run(&["failover", "-p", &at, &heir]), 1, "--force");
    let forced = tool.json(&["failover", "-p", &at, &heir, "--force"]);
    assert_eq!(forced["primary"], replica.id());
    failed(&tool.run(&["failover", "-p", &at, &heir]), 1, "nobody could take over");
}

#[test]
fn what_is_wrong_is_found_and_hinders_moves() {
    let cluster = Cluster::start(3, 0).unwrap();
    let tool = Tool::new();
    let (at, to) = (port(&cluster, 0), port(&cluster, 1));
    let step = cluster.begin_move(7, &cluster.nodes()[1]).unwrap();
    let check = tool.run(&["check", "-p", &at]);
    failed(&check, 1, "slot 7 is open");
    assert_eq!(text(&check).lines().count(), 2, "{}", text(&check));
    failed(&tool.run(&["reshard", "-p", &at, "--to", &to, "--slots", "1"]), 1, "nothing was moved");
    // The same move finishes it.
    assert_eq!(tool.json(&["reshard", "-p", &at, "--to", &to, "--ranges", "7"])["done"], true);
    drop(step);
    assert_eq!(tool.json(&["check", "-p", &at])["ok"], true);

    cluster.nodes()[2].server().kill().unwrap();
    let check = tool.run(&["check", "-p", &at, "--json"]);
    failed(&check, 1, "unreachable");
    let told: Json = serde_json::from_slice(&check.stdout).unwrap();
    let has = |kind: &str| told["findings"].as_array().unwrap().iter().any(|finding| finding["kind"] == kind);
    assert!(told["ok"] == false && has("unreachable") && has("uncovered"), "{told}");
    failed(&tool.run(&["status", "-p", &at]), 1, "down");
}

#[test]
fn with_tls_and_a_password() {
    let cluster = Cluster::builder().masters(3).tls(ClientAuth::Optional).requirepass("hunter2").start().unwrap();
    let tool = Tool::new();
    let (source, slot) = cluster.node_for_key("k").unwrap();
    source.server().command(&["SET", "k", "v"]).unwrap();
    let target = cluster.nodes().iter().find(|node| node.id() != source.id()).unwrap();
    let ca = source.server().certificates().unwrap().ca_path();
    let (at, to, range) = (source.port().to_string(), target.port().to_string(), slot.to_string());
    let with = |password: &str, arguments: &[&str]| {
        let mut command = tool.command(arguments);
        command.args(["-h", "127.0.0.1", "-p", &at, "--cacert"]).arg(&ca).env("REDISCLI_AUTH", password);
        command.output().unwrap()
    };
    let check = with("hunter2", &["check"]);
    failed(&check, 0, "ok");
    let moved = with("hunter2", &["reshard", "--to", &to, "--ranges", &range]);
    failed(&moved, 0, "with 1 key in");
    assert_eq!(target.server().command(&["GET", "k"]).unwrap().text(), "v");
    let wrong = with("hunter3", &["check"]);
    failed(&wrong, 1, "WRONGPASS");
    assert!(![check, moved, wrong].iter().any(|output| text(output).contains("hunter")));
}

#[test]
fn mistakes_say_what_to_do() {
    let server = Server::start().unwrap();
    let tool = Tool::new();
    let at = server.port().to_string();
    failed(&tool.run(&["check", "-p", &at]), 1, "cluster-enabled");
    failed(&tool.run(&["status", "-p", &at, "--sentinel", "main"]), 2, "--host");
    failed(&tool.run(&["start", "--port", &at]), 1, "is taken");
    failed(&tool.run(&["start", "--port", "60000"]), 2, "65535");
    failed(&tool.run(&["stop", "--port", "7"]), 1, "no cluster was started");
    let missing = tool.command(&["start", "--port", "0"]).env("PATH", "/nowhere").output().unwrap();
    failed(&missing, 1, "apt install");
    let broken = tool.run(&["start", "--port", "0", "--nodes", "1", "--config", "no-such-setting 1"]);
    failed(&broken, 1, "no-such-setting");
    assert_eq!(fs::read_dir(tool.clusters()).unwrap().count(), 0);
}

#[test]
fn every_task_has_examples() {
    let tool = Tool::new();
    for task in ["start", "stop", "status", "check", "info", "call", "rebalance", "reshard", "failover"] {
        failed(&tool.run(&[task, "--help"]), 0, "Examples:");
    }
}
