//! Idle instances that are frozen, and what thaws them.

use crate::harness::{ACCEPTS, Bed, UNIX, args, gone_within, pipe_child, run, sh};
use pilotlight_supervisor::{Exit, InstanceState, MinInstances, Service, ServiceSpec, ServiceState};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn freezing(spec: ServiceSpec) -> ServiceSpec {
    ServiceSpec { freeze_after: Some(50 * MS), ..spec }
}

/// `T`: stopped by a signal.
fn process_state(pid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().chars().next().unwrap()
}

async fn until(check: impl Fn() -> bool) {
    while !check() {
        tokio::time::sleep(2 * MS).await;
    }
}

async fn frozen(service: &Service) -> i32 {
    until(|| service.status().state == ServiceState::Frozen).await;
    let pid = service.status().pid.unwrap();
    until(|| process_state(pid) == 'T').await;
    pid
}

#[test]
fn an_idle_instance_is_frozen_and_the_next_request_thaws_it() {
    run(async {
        let mut bed = Bed::new(2, vec![freezing(pipe_child("p", &[]))]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        for worker in [0, 1, 0] {
            let pid = frozen(&service).await;
            assert!(service.enter(worker).is_none());
            assert_eq!(service.status().instances[0].state, InstanceState::Frozen);
            let lease = service.ready(worker).await.unwrap();
            assert_eq!((lease.instance().number(), service.status().state), (1, ServiceState::Ready));
            until(|| process_state(pid) != 'T').await;
        }
        assert_eq!(service.status().starts, 1);
    });
}

#[test]
fn one_with_an_open_exchange_is_never_frozen() {
    run(async {
        let mut bed = Bed::new(1, vec![freezing(pipe_child("p", &[]))]);
        let _seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        let pid = service.status().pid.unwrap();
        let end = Instant::now() + 300 * MS;
        while Instant::now() < end {
            assert!(process_state(pid) != 'T' && service.status().state == ServiceState::Ready);
            tokio::time::sleep(5 * MS).await;
        }
        drop(lease);
        frozen(&service).await;
    });
}

#[test]
fn a_frozen_one_is_stopped_when_it_is_idle_for_long_enough() {
    run(async {
        let spec = ServiceSpec { idle_timeout: Some(300 * MS), ..freezing(pipe_child("p", &[])) };
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        let instance = Arc::clone(lease.instance());
        drop(lease);
        frozen(&service).await;
        assert_eq!(instance.ended().await.exit, Some(Exit::Code(0)), "it was thawed to hear of it");
        bed.line(|line| line.text == "drained").await;
    });
}

#[test]
fn a_frozen_one_that_ignores_sigterm_is_killed() {
    run(async {
        let script = format!("trap '' TERM; {ACCEPTS}"); // no loop: see below
        let spec = ServiceSpec {
            stop_grace: 200 * MS,
            min_instances: MinInstances::One,
            start_timeout: 5000 * MS,
            ..freezing(sh("h", &script, UNIX))
        };
        let bed = Bed::new(1, vec![spec]);
        let service = bed.service(0);
        let pid = frozen(&service).await;
        bed.supervisor.stop(service.id());
        assert!(gone_within(pid, Duration::from_secs(5)));
    });
}

#[test]
fn shutting_down_leaves_nothing_frozen() {
    run(async {
        // Not a loop of commands in the shell: stopped between vfork and exec, its child would leave it waiting in the
        // kernel (state D), frozen as well, but not to be seen as that.
        let stubborn = sh("h", &format!("trap '' TERM; setsid sleep 1000 & {ACCEPTS}"), UNIX);
        let stubborn = ServiceSpec { min_instances: MinInstances::One, start_timeout: 5000 * MS, ..freezing(stubborn) };
        let mut bed = Bed::new(1, vec![freezing(pipe_child("p", &[])), stubborn]);
        let _seen = bed.work();
        let (first, second) = (bed.service(0), bed.service(1));
        drop(first.ready(0).await.unwrap());
        let pids = [frozen(&first).await, frozen(&second).await];
        bed.shutdown(100 * MS).await;
        for pid in pids {
            assert!(gone_within(pid, Duration::ZERO));
        }
    });
}

#[test]
fn a_frozen_one_that_is_killed_is_started_anew() {
    run(async {
        let mut bed = Bed::new(1, vec![freezing(pipe_child("p", &[]))]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        let pid = frozen(&service).await;
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        until(|| service.status().state == ServiceState::Stopped).await;
        assert_eq!(service.ready(0).await.unwrap().instance().number(), 2);
    });
}

#[test]
fn of_several_as_many_are_thawed_as_are_needed() {
    run(async {
        let spec = ServiceSpec { max_instances: 3, concurrency: Some(1), scale_up_after: MS, ..pipe_child("p", &[]) };
        let mut bed = Bed::new(1, vec![ServiceSpec { scale_up_after: 20 * MS, ..freezing(spec) }]);
        let _seen = bed.work();
        let service = bed.service(0);
        let mut leases = Vec::new();
        for _ in 0..3 {
            leases.push(service.ready(0).await.unwrap());
        }
        drop(leases);
        let states = |state| service.status().instances.iter().filter(|one| one.state == state).count();
        until(|| states(InstanceState::Frozen) == 3).await;
        let first = service.ready(0).await.unwrap();
        assert_eq!((states(InstanceState::Ready), states(InstanceState::Frozen)), (1, 2));
        let second = service.ready(0).await.unwrap();
        assert_eq!(states(InstanceState::Frozen), 1);
        assert_ne!(first.instance().number(), second.instance().number());
        assert_eq!(service.status().starts, 3);
    });
}

/// Requests at the moment of freezing: each is served, soon, by the one instance.
#[test]
fn requests_at_the_boundary() {
    run(async {
        let spec = ServiceSpec { freeze_after: Some(MS), ..pipe_child("p", &[]) };
        let mut bed = Bed::new(2, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        let mut slowest = Duration::ZERO;
        for number in 0..400_u32 {
            let begun = Instant::now();
            let ready = |worker| service.ready(worker);
            let (one, two) = tokio::join!(ready(0), ready(1));
            slowest = slowest.max(begun.elapsed());
            drop((one.unwrap(), two.unwrap()));
            tokio::time::sleep(Duration::from_micros(u64::from(number % 40) * 50)).await;
        }
        assert!(slowest < Duration::from_secs(5), "{slowest:?}");
        assert_eq!(service.status().starts, 1);
    });
}

#[test]
fn whole_groups_are_frozen() {
    run(async {
        let mut spec = freezing(pipe_child("p", &[]));
        let script = r#""$@" & echo "child $!"; wait"#;
        let mut argv = args(&["sh", "-c", script, "sh"]);
        argv.append(&mut spec.argv);
        spec.argv = argv;
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        drop(service.ready(0).await.unwrap());
        let line = bed.line(|line| line.text.starts_with("child ")).await;
        let child: i32 = line.text[6..].parse().unwrap();
        frozen(&service).await;
        until(|| process_state(child) == 'T').await;
        drop(service.ready(0).await.unwrap());
        until(|| process_state(child) != 'T').await;
    });
}
