//! One start for all, and every way in which it fails.

use crate::harness::{Bed, UNIX, gone_within, is_pipe, pipe_child, run, sh};
use pilotlight_supervisor::{Exit, MinInstances, Phase, ServiceSpec, ServiceState, Transport};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::time::{Duration, Instant};

#[test]
fn a_hundred_callers_share_one_start() {
    run(async {
        let mut bed = Bed::new(4, vec![pipe_child("p", &[])]);
        let _seen = bed.work();
        let service = bed.service(0);
        assert_eq!(service.status().state, ServiceState::Stopped);
        assert!(service.enter(0).is_none());
        let callers: Vec<_> = (0..100_usize)
            .map(|caller| {
                let service = service.clone();
                tokio::spawn(async move { service.ready(caller % 4).await.unwrap() })
            })
            .collect();
        let mut numbers = HashSet::new();
        for caller in callers {
            let lease = caller.await.unwrap();
            assert!(is_pipe(lease.instance()));
            numbers.insert(lease.instance().number());
        }
        assert_eq!(numbers, HashSet::from([1]));
        assert_eq!(service.status().state, ServiceState::Ready);
        assert!(service.enter(3).is_some() && service.enter(4).is_none());
        assert!(bed.shutdown(Duration::from_secs(10)).await.0);
    });
}

#[track_caller]
fn check_failure(mut spec: ServiceSpec, phase: Phase, exit: Option<Exit>, text: &str, tail: &[&str]) {
    spec.start_timeout = spec.start_timeout.min(Duration::from_secs(5));
    spec.max_failures = 1;
    run(async {
        let bed = Bed::new(1, vec![spec]);
        let service = bed.service(0);
        let error = service.ready(0).await.unwrap_err();
        assert_eq!((error.phase, error.exit), (phase, exit), "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.output_tail.to_vec(), tail);
        assert!(error.retry_after > Duration::ZERO && error.retry_after <= Duration::from_millis(125));
        // On a busy machine the pause may be over before the next call: that is a failure more.
        let mut failures = 1;
        let again = loop {
            let again = service.ready(0).await.unwrap_err();
            if again.phase == Phase::Backoff {
                break again;
            }
            assert_eq!((again.phase, again.exit), (phase, exit), "{again}");
            failures += 1;
        };
        assert_eq!(again.exit, exit, "{again}");
        assert!(again.to_string().contains(text), "{again}");
        assert_eq!(again.output_tail.to_vec(), tail);
        assert_eq!(service.status().failures, failures);
    });
}

#[test]
fn a_failed_start_is_counted_with_its_reason() {
    run(async {
        let bed = Bed::new(1, vec![sh("s", "exit 3", Transport::Pipe)]);
        let service = bed.service(0);
        let watched = service.clone();
        let watcher = std::thread::spawn(move || {
            loop {
                let status = watched.status();
                if status.failed_starts > 0 {
                    return status.last_error;
                }
            }
        });
        service.ready(0).await.unwrap_err();
        let error = watcher.join().unwrap().expect("a reason");
        assert_eq!(error.exit, Some(Exit::Code(3)), "{error}");
    });
}

#[test]
fn what_cannot_be_executed() {
    for transport in [Transport::Pipe, UNIX] {
        let spec = |argv: &str| ServiceSpec::new("x", vec![argv.into()], transport);
        check_failure(spec("no-such-program-here"), Phase::Spawn, None, "was not found in any folder of PATH", &[]);
        check_failure(spec("./no/such"), Phase::Spawn, None, "`./no/such` does not exist; check `command`", &[]);
        check_failure(spec("/dev/null"), Phase::Spawn, None, "`/dev/null` may not be executed", &[]);
        let mut no_dir = spec("sh");
        no_dir.dir = Some("/no/such/dir".into());
        check_failure(no_dir, Phase::Spawn, None, "its working directory /no/such/dir does not exist", &[]);
    }
}

#[test]
fn what_exits_at_once_is_reported_with_its_output() {
    let script = "echo one; echo two >&2; sleep 0.01; printf three; exit 3";
    let spec = sh("x", script, Transport::Pipe);
    run(async {
        let error = Bed::new(1, vec![spec]).service(0).ready(0).await.unwrap_err();
        assert_eq!(error.output_tail.len(), 3, "{:?}", error.output_tail);
        assert_eq!(
            error.to_string(),
            "service `x` did not start: it exited with status 3 before it was ready; see the last lines of its output"
        );
    });
    let sorted = sh("x", "echo one; sleep 0.02; echo two >&2; exit 3", Transport::Pipe);
    check_failure(sorted, Phase::Connect, Some(Exit::Code(3)), "it exited with status 3", &["one", "two"]);
    let killed = sh("x", "kill -SEGV $$", Transport::Pipe);
    check_failure(killed, Phase::Connect, Some(Exit::Signal(11)), "it was ended by SIGSEGV", &[]);
    let zero = sh("x", "exit 0", Transport::Pipe);
    check_failure(zero, Phase::Connect, Some(Exit::Code(0)), "must dial PILOTLIGHT_SOCKET", &[]);
}

#[test]
fn what_never_dials_is_killed() {
    let mut spec = sh("x", "echo $$; exec sleep 1000", Transport::Pipe);
    spec.start_timeout = Duration::from_millis(300);
    run(async {
        let bed = Bed::new(1, vec![spec]);
        let begun = Instant::now();
        let error = bed.service(0).ready(0).await.unwrap_err();
        assert!(begun.elapsed() >= Duration::from_millis(300));
        assert_eq!((error.phase, error.exit), (Phase::Connect, None));
        assert!(error.to_string().contains("did not dial PILOTLIGHT_SOCKET"), "{error}");
        assert!(gone_within(error.output_tail[0].parse().unwrap(), Duration::from_secs(2)));
    });
}

#[test]
fn failures_earn_longer_pauses_and_a_success_clears_them() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let marker = dir.path().join("ready");
        let script = format!("[ -e {} ] || exit 1; exec sleep 1000", marker.display());
        let bed = Bed::new(1, vec![sh("x", &script, UNIX)]);
        let service = bed.service(0);
        let mut last = Duration::ZERO;
        for failures in 1..=3 {
            // A Unix socket is usable at once, so the failure comes through the instance.
            let ended = service.ready(0).await.unwrap().instance().ended().await;
            let error = ended.start_error.unwrap();
            assert_eq!((error.phase, error.exit), (Phase::Answer, Some(Exit::Code(1))));
            assert!(error.retry_after > last, "{error}");
            last = error.retry_after;
            assert_eq!(service.status().failures, failures);
            tokio::time::sleep(error.retry_after).await;
        }
        std::fs::write(marker, "").unwrap();
        let lease = service.ready(0).await.unwrap();
        lease.instance().mark_answered();
        assert_eq!(lease.instance().number(), 4);
        drop(lease);
        bed.supervisor.stop(service.id());
        let lease = service.ready(0).await.unwrap();
        assert_eq!(service.status().failures, if lease.instance().number() == 4 { 3 } else { 0 });
    });
}

#[test]
fn a_crash_costs_no_pause_and_the_next_request_starts_anew() {
    run(async {
        let mut bed = Bed::new(1, vec![pipe_child("p", &[])]);
        let _seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        kill(service.status().pid.unwrap());
        let ended = lease.instance().ended().await;
        assert_eq!(ended.exit, Some(Exit::Signal(9)));
        assert!(ended.start_error.is_none());
        assert!(service.enter(0).is_none());
        assert_eq!(service.ready(0).await.unwrap().instance().number(), 2);
    });
}

#[test]
fn a_service_that_always_runs_is_started_again() {
    run(async {
        let mut spec = pipe_child("p", &[]);
        spec.min_instances = MinInstances::One;
        spec.idle_timeout = Some(Duration::from_millis(1));
        let mut bed = Bed::new(2, vec![spec]);
        let _seen = bed.work();
        bed.line(|line| line.text == "welcome" && line.instance == 1).await;
        let service = bed.service(0);
        assert_eq!(service.ready(1).await.unwrap().instance().number(), 1);
        kill(service.status().pid.unwrap());
        bed.line(|line| line.text == "welcome" && line.instance == 2).await;
        assert_eq!(service.ready(1).await.unwrap().instance().number(), 2);
    });
}

#[test]
fn a_caller_that_goes_away_leaves_no_exchange_open() {
    run(async {
        let mut spec = pipe_child("p", &[]);
        spec.idle_timeout = Some(Duration::from_millis(50));
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        let starting = async {
            while service.status().state != ServiceState::Starting {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = service.ready(0) => panic!("a Python process does not start so soon"),
            () = starting => {}
        }
        // Nobody holds a lease, so the idle timer stops it.
        bed.line(|line| line.text == "drained").await;
    });
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}
