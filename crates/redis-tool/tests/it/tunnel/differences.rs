//! Each case of `differences/*.txt` is played at real servers, and through each mode of a tunnel to them. The replies
//! are the same byte for byte, except where the case names an entry of what `tunnel --differences` prints.
//!
//! What a tunnel to a cluster is compared with: `smart` with a single server, which it is to look like; `pinned` with
//! the node behind its port. Normalised are numbers of clients, ports and what a case says (`case.rs`).

mod case;
mod play;
mod reply;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use pilotlight_testkit::{Cluster, Server};

use super::bed::Tunnel;
use case::{Case, Target};
use play::{Place, Servers, Transcript, play};

/// So many cases there are at least.
const MIN_CASES: usize = 400;

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tunnel/differences");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "txt"));
    files.sort();
    let only = std::env::var("ONLY_CASES").unwrap_or_default();
    let cases = files.iter().flat_map(|path| case::read(path));
    cases.filter(|case| case.to_string().contains(&only)).collect()
}

/// What the tool itself lists: for each entry its mode, and the reply that it has for what it refuses.
fn listed() -> BTreeMap<String, serde_json::Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_pilotlight-redis"))
        .args(["tunnel", "--differences", "--json"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    entries.into_iter().map(|entry| (entry["name"].as_str().unwrap().to_owned(), entry)).collect()
}

/// Compares one transcript with what was expected of it.
fn judge(case: &Case, target: Target, expected: &Transcript, found: &Transcript, failures: &mut String) {
    let listed = case.difference(target);
    let told = match (listed, expected == found) {
        (None, true) | (Some(_), false) | (Some((_, false)), true) => return,
        (None, false) => "differs",
        (Some((_, true)), true) => "is listed as different, and is not",
    };
    let _ = writeln!(failures, "{case}\n  {target:?} {told}\n    expected {expected}\n    found    {found}");
}

/// What is refused is refused with the words of the list.
fn check_refusals(case: &Case, target: Target, found: &Transcript, failures: &mut String) {
    static LISTED: LazyLock<BTreeMap<String, serde_json::Value>> = LazyLock::new(listed);
    let entry = case.difference(target).and_then(|(name, _)| LISTED.get(name));
    let Some(reply) = entry.and_then(|entry| entry["reply"].as_str()) else { return };
    if !found.to_string().contains(reply) {
        let _ = writeln!(failures, "{case}\n  {target:?} is not refused with {reply:?}\n    found    {found}");
    }
}

#[test]
fn there_are_enough_cases_and_each_listed_difference_has_one() {
    let cases = cases();
    assert!(cases.len() >= MIN_CASES, "{} cases", cases.len());
    let shown: BTreeSet<&str> = cases.iter().flat_map(Case::differences).collect();
    let listed = listed();
    let names: BTreeSet<&str> = listed.keys().map(String::as_str).collect();
    assert_eq!(shown, names, "what the cases show, and what the tool lists");
    for case in &cases {
        for target in Target::ALL {
            let Some((name, _)) = case.difference(target) else { continue };
            assert_eq!(listed[name]["mode"], target.mode(), "{case}: {name}");
        }
    }
}

/// On a loaded machine any command is slow now and then, and stands in the log that a case looks at.
fn nothing_is_slow(server: &Server) {
    server.config_set("slowlog-log-slower-than", "-1").unwrap();
}

#[test]
fn one_server() {
    let server = Server::builder().debug_commands().start().unwrap();
    nothing_is_slow(&server);
    let port = server.port().to_string();
    let smart = Tunnel::start(&["-p", &port]);
    let pinned = Tunnel::start(&["-p", &port, "--mode", "pinned"]);
    let mut servers = Servers::connect(&[server.addr()]);
    let mut failures = String::new();
    for case in cases() {
        for &protocol in case.protocols() {
            let mut play = |addr: SocketAddr| {
                let ports = [(addr.port(), server.port())];
                play(&case, protocol, Place { addr, ports: &ports }, &mut servers)
            };
            let direct = play(server.addr());
            for (target, tunnel) in [(Target::Smart, &smart), (Target::Pinned, &pinned)] {
                let found = play(tunnel.addr());
                judge(&case, target, &direct, &found, &mut failures);
                check_refusals(&case, target, &found, &mut failures);
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn three_primaries() {
    let single = Server::builder().debug_commands().start().unwrap();
    let cluster = Cluster::builder().masters(3).debug_commands().start().unwrap();
    cluster.nodes().iter().map(|node| node.server()).chain([&single]).for_each(nothing_is_slow);
    let addrs: Vec<SocketAddr> = cluster.nodes().iter().map(|node| node.server().addr()).collect();
    let seed = addrs[0].to_string();
    let smart = Tunnel::start(&["-c", "-h", &seed]);
    let pinned = Tunnel::start(&["-c", "-h", &seed, "--mode", "pinned"]);
    let port = |addr: &str| addr.rsplit_once(':').unwrap().1.parse().unwrap();
    let ports: Vec<(u16, u16)> = pinned.ports.iter().map(|(node, local)| (local.port(), port(node))).collect();
    // All keys of the cases are there, but for those that are meant to be elsewhere.
    let (node, _) = cluster.node_for_key("k").unwrap();
    let (local, _) = ports.iter().find(|(_, real)| *real == node.port()).unwrap();
    let door = SocketAddr::from(([127, 0, 0, 1], *local));
    let (mut nodes, mut alone) = (Servers::connect(&addrs), Servers::connect(&[single.addr()]));
    let mut failures = String::new();
    for case in cases().iter().filter(|case| case.is_for_clusters()) {
        for &protocol in case.protocols() {
            let mut at = |addr| play(case, protocol, Place { addr, ports: &ports }, &mut nodes);
            let direct = at(node.server().addr());
            let (through_smart, through_pinned) = (at(smart.addr()), at(door));
            let mut as_one_server = || play(case, protocol, Place { addr: single.addr(), ports: &[] }, &mut alone);
            let expected = if case.is_as_in_a_cluster() { direct.clone() } else { as_one_server() };
            judge(case, Target::SmartCluster, &expected, &through_smart, &mut failures);
            check_refusals(case, Target::SmartCluster, &through_smart, &mut failures);
            judge(case, Target::PinnedCluster, &direct, &through_pinned, &mut failures);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// An item of a list, in lines of at most 120 columns.
fn item(text: &str) -> String {
    let (mut out, mut line) = (String::new(), "-".to_owned());
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > 120 {
            let _ = writeln!(out, "{line}");
            " ".clone_into(&mut line);
        }
        let _ = write!(line, " {word}");
    }
    out + &line + "\n"
}

/// The list of the guide is what the tool prints.
#[test]
fn the_guide_has_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/redis-tool/tunnel.md");
    let guide = std::fs::read_to_string(&path).unwrap();
    let (begin, rest) = guide.split_once("<!-- differences -->\n").unwrap();
    let (table, end) = rest.split_once("<!-- end of differences -->\n").unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_pilotlight-redis")).args(["tunnel", "--differences"]).output().unwrap();
    let mut expected = String::from("\n");
    for section in String::from_utf8(output.stdout).unwrap().split("\n\n") {
        let (title, entries) = section.split_once('\n').unwrap();
        let _ = writeln!(expected, "**{title}**\n");
        entries.trim_end().lines().for_each(|line| expected.push_str(&item(line.trim())));
        expected.push('\n');
    }
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(
            path,
            [begin, "<!-- differences -->\n", &expected, "<!-- end of differences -->\n", end].concat(),
        )
        .unwrap();
        return;
    }
    assert_eq!(table, expected, "UPDATE_EXPECTED=1 writes it");
}
