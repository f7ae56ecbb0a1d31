//! Idleness, drain, SIGTERM, SIGKILL.

use crate::harness::{Bed, Seen, UNIX, gone_within, pipe_child, run, sh};
use pilotlight_supervisor::{Exit, ServiceState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
fn an_idle_pipe_service_is_drained_and_exits_by_itself() {
    run(async {
        let mut spec = pipe_child("p", &[]);
        spec.idle_timeout = Some(Duration::from_millis(100));
        let mut bed = Bed::new(1, vec![spec]);
        let mut seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        tokio::time::sleep(Duration::from_millis(250)).await;
        assert!(!lease.instance().drain_requested(), "idle with an open exchange");
        let instance = lease.instance().clone();
        let closed = Instant::now();
        drop(lease);
        assert_eq!(instance.ended().await.exit, Some(Exit::Code(0)));
        assert!(closed.elapsed() >= Duration::from_millis(95), "{:?}", closed.elapsed());
        assert_eq!(seen.recv().await, Some(Seen::Connected { worker: 0, instance: 1 }));
        assert_eq!(seen.recv().await, Some(Seen::Drain { worker: 0, instance: 1 }));
        assert_eq!(service.status().state, ServiceState::Stopped);
        assert_eq!(service.ready(0).await.unwrap().instance().number(), 2);
    });
}

/// Threads enter at random moments around the idle timeout: a lease is never of an instance that stops.
#[test]
fn idle_stop_never_races_an_exchange() {
    let mut spec = sh("h", "exec sleep 1000", UNIX);
    spec.idle_timeout = Some(Duration::from_millis(1));
    let bed = Bed::new(3, vec![spec]);
    let service = bed.service(0);
    let done = AtomicBool::new(false);
    let entered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..3_usize {
            let (service, done, entered) = (&service, &done, &entered);
            scope.spawn(move || {
                run(async {
                    let mut random = 88_172_645_463_325_252_u64 + worker as u64;
                    while !done.load(Ordering::Relaxed) {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let lease = service.ready(worker).await.unwrap();
                        lease.instance().mark_answered();
                        spin(random % 500);
                        assert!(lease.instance().ended_now().is_none(), "stopped with an exchange open");
                        entered.fetch_add(1, Ordering::Relaxed);
                        drop(lease);
                        spin((random >> 32) % 3000);
                    }
                });
            });
        }
        let begun = Instant::now();
        while service.status().instance < 200 && begun.elapsed() < Duration::from_secs(15) {
            std::thread::sleep(Duration::from_millis(5)); // a pause between looks, not a wait for something
        }
        done.store(true, Ordering::Relaxed);
    });
    let (instances, exchanges) = (service.status().instance, entered.load(Ordering::Relaxed));
    assert!(instances >= 20 && exchanges > instances, "{exchanges} exchanges with {instances} instances");
    assert!(run(bed.shutdown(Duration::from_secs(10))).0);
}

fn spin(micros: u64) {
    let until = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < until {
        std::thread::yield_now();
    }
}

#[test]
fn a_stop_waits_for_open_exchanges_and_the_next_request_does_not() {
    run(async {
        let bed = Bed::new(1, vec![sh("h", "exec sleep 1000", UNIX)]);
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        lease.instance().mark_answered();
        bed.supervisor.stop(service.id());
        let instance = lease.instance().clone();
        while !instance.drain_requested() {
            tokio::task::yield_now().await;
        }
        let next = service.ready(0).await.unwrap();
        assert_eq!(next.instance().number(), 2);
        assert!(instance.ended_now().is_none(), "it did not wait for the open exchange");
        drop(lease);
        assert_eq!(instance.ended().await.exit, Some(Exit::Signal(15)));
        assert!(next.instance().ended_now().is_none());
    });
}

#[test]
fn an_exchange_that_does_not_end_is_cut_after_the_drain_timeout() {
    run(async {
        let mut spec = sh("h", "exec sleep 1000", UNIX);
        spec.drain_timeout = Duration::from_millis(200);
        let bed = Bed::new(1, vec![spec]);
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        let begun = Instant::now();
        bed.supervisor.stop(service.id());
        assert_eq!(lease.instance().ended().await.exit, Some(Exit::Signal(15)));
        assert!(begun.elapsed() >= Duration::from_millis(200));
    });
}

#[test]
fn drain_then_sigterm_then_sigkill() {
    run(async {
        let mut spec = pipe_child("p", &["ignore-drain"]);
        let program = std::mem::take(&mut spec.argv);
        // A group in which nobody heeds SIGTERM, with the Pipe/1 child in it.
        let script = "trap '' TERM; echo leader $$; \"$@\"; sleep 1000 & echo member $!; wait; wait";
        spec.argv = crate::harness::args(&["sh", "-c", script, "sh"]);
        spec.argv.extend(program);
        spec.drain_timeout = Duration::from_millis(200);
        spec.stop_grace = Duration::from_millis(300);
        let mut bed = Bed::new(1, vec![spec]);
        let mut seen = bed.work();
        let service = bed.service(0);
        let instance = service.ready(0).await.unwrap().instance().clone();
        let begun = Instant::now();
        bed.supervisor.stop(service.id());
        assert_eq!(seen.recv().await, Some(Seen::Connected { worker: 0, instance: 1 }));
        assert_eq!(seen.recv().await, Some(Seen::Drain { worker: 0, instance: 1 }));
        assert_eq!(instance.ended().await.exit, Some(Exit::Signal(9)));
        assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
    });
}

#[test]
fn what_a_leader_leaves_in_its_group_is_killed() {
    run(async {
        let mut bed = Bed::new(1, vec![sh("h", "sleep 1000 & echo $!; exit 0", UNIX)]);
        let _lease = bed.service(0).ready(0).await.unwrap();
        let member: i32 = bed.line(|_| true).await.text.parse().unwrap();
        assert!(gone_within(member, Duration::from_secs(2)));
    });
}

#[test]
fn a_start_can_be_stopped() {
    run(async {
        let bed = Bed::new(1, vec![sh("p", "exec sleep 1000", pilotlight_supervisor::Transport::Pipe)]);
        let service = bed.service(0);
        let waiting = tokio::spawn({
            let service = service.clone();
            async move { service.ready(0).await }
        });
        while service.status().state != ServiceState::Starting {
            tokio::task::yield_now().await;
        }
        bed.supervisor.stop(service.id());
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.phase, pilotlight_supervisor::Phase::Stopping);
        assert_eq!(service.status().failures, 0);
        assert!(bed.shutdown(Duration::from_secs(10)).await.0);
        assert_eq!(service.ready(0).await.unwrap_err().phase, pilotlight_supervisor::Phase::Stopping);
    });
}

#[test]
fn shutdown_leaves_nothing_even_when_there_is_no_time() {
    run(async {
        let script = "trap '' TERM; setsid sleep 1000 & sleep 1000 & echo $!; (setsid sh -c 'echo $$; exec sleep 1000' &); \
                      while :; do sleep 1000; done";
        let mut bed = Bed::new(1, vec![sh("h", script, UNIX)]);
        let service = bed.service(0);
        let _lease = service.ready(0).await.unwrap();
        let mut pids = vec![service.status().pid.unwrap()];
        for _ in 0..2 {
            pids.push(bed.line(|_| true).await.text.parse().unwrap());
        }
        let run_dir = bed.dir.path().join("run");
        let begun = Instant::now();
        let (in_time, _dir) = bed.shutdown(Duration::from_millis(100)).await;
        assert!(!in_time);
        assert!(begun.elapsed() < Duration::from_secs(3));
        for pid in pids {
            assert!(gone_within(pid, Duration::ZERO), "{pid} is still there");
        }
        assert!(!run_dir.exists());
    });
}
