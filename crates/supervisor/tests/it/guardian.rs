//! Whoever dies, no service is left behind.

use crate::harness::{Bed, UNIX, args, gone_within, parent_of, run, sh, stub};
use pilotlight_supervisor::{Exit, Program, SupervisorError, SupervisorOptions, start};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn kill_9_of_the_gateway_leaves_nothing_within_two_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    // A member of the group, a daemon in a session of its own, and one that double-forked, all deaf to SIGTERM and
    // SIGHUP.
    let script = "trap '' TERM HUP; exec 2>/dev/null; sleep 1000 & a=$!; setsid sleep 1000 & b=$!; \
                  c=$(setsid sh -c 'sleep 1000 >/dev/null & echo $!'); echo $$ $a $b $c > PIDS.new; mv PIDS.new PIDS; wait";
    let script = script.replace("PIDS", pids.to_str().unwrap());
    let mut gateway = Command::new(stub())
        .args([std::ffi::OsStr::new("run"), dir.path().join("run").as_os_str(), std::ffi::OsStr::new(&script)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "up 1\n");
    let begun = Instant::now();
    let text = loop {
        match std::fs::read_to_string(&pids) {
            Ok(text) => break text,
            Err(_) if begun.elapsed() < Duration::from_secs(10) => std::thread::yield_now(),
            Err(error) => panic!("the service did not come up: {error}"),
        }
    };
    let mut pids: Vec<i32> = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 4, "{text}");
    for pid in &pids {
        assert!(!gone_within(*pid, Duration::ZERO), "{pid} is not there");
    }
    pids.push(parent_of(pids[0])); // the guardian
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    let killed = Instant::now();
    for pid in pids {
        assert!(gone_within(pid, Duration::from_secs(2).saturating_sub(killed.elapsed())), "{pid} is still there");
    }
}

#[test]
fn a_dead_guardian_takes_its_services_along_and_has_a_successor() {
    run(async {
        let bed = Bed::new(1, vec![sh("h", "exec sleep 1000", UNIX)]);
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        lease.instance().mark_answered();
        let pid = service.status().pid.unwrap();
        kill_process(Pid::from_raw(parent_of(pid)).unwrap(), Signal::KILL).unwrap();
        assert_eq!(lease.instance().ended().await.exit, Some(Exit::Lost));
        assert!(gone_within(pid, Duration::from_secs(2)));
        let next = service.ready(0).await.unwrap();
        assert_eq!(next.instance().number(), 2);
        assert!(!gone_within(service.status().pid.unwrap(), Duration::ZERO));
    });
}

#[test]
fn the_guardian_does_not_heed_what_a_terminal_or_service_manager_sends() {
    run(async {
        let bed = Bed::new(1, vec![sh("h", "exec sleep 1000", UNIX)]);
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        let guardian = Pid::from_raw(parent_of(service.status().pid.unwrap())).unwrap();
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            kill_process(guardian, signal).unwrap();
        }
        assert!(!gone_within(guardian.as_raw_nonzero().get(), Duration::from_millis(50)));
        assert_eq!(rustix::process::getsid(Some(guardian)).unwrap(), guardian);
        assert!(lease.instance().ended_now().is_none());
    });
}

#[test]
fn a_program_that_is_no_guardian_is_said_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _lines) = tokio::sync::mpsc::channel(1);
    let options = SupervisorOptions {
        workers: 1,
        runtime_dir: dir.path().join("run"),
        guardian: Program { path: "/bin/true".into(), arguments: args(&[]) },
        log,
        containers: pilotlight_supervisor::ContainerOptions::default(),
    };
    let error = start(options, vec![]).unwrap_err();
    assert!(matches!(error, SupervisorError::Guardian { .. }));
    assert!(error.to_string().contains("it ended before it was ready"), "{error}");
}

#[test]
fn a_socket_that_already_is_descriptor_3_is_inherited() {
    assert!(Command::new(stub()).arg("fd3").status().unwrap().success());
}

#[test]
fn a_guardian_started_by_hand_says_so() {
    let output = Command::new(stub()).arg("guardian").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("it is started by the gateway itself, not by hand"), "{text}");
}
