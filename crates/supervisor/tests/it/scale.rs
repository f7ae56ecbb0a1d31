//! Several instances, the queue in front of them, replacements, the circuit.

use crate::harness::{ACCEPTS, Bed, Seen, UNIX, gone_within, pipe_child, run, sh};
use pilotlight_supervisor::{
    CircuitState, Exit, InstanceState, Lease, Phase, QueueLimits, RecycleLimits, Service, ServiceSpec, ServiceState,
    Spare,
};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// An HTTP service that is ready at once, up to `max` instances with so many requests each.
fn scaled(max: u32, concurrency: u32) -> ServiceSpec {
    let mut spec = sh("h", ACCEPTS, UNIX);
    (spec.max_instances, spec.concurrency) = (max, Some(concurrency));
    spec
}

pub(crate) fn caller(
    service: &Arc<Service>,
    worker: usize,
) -> JoinHandle<Result<Lease, pilotlight_supervisor::StartError>> {
    let service = Arc::clone(service);
    tokio::spawn(async move { service.ready(worker).await })
}

/// Yields until it is so; `run` bounds the time.
pub(crate) async fn until(mut is: impl FnMut() -> bool) {
    while !is() {
        tokio::time::sleep(MS).await; // a pause between looks
    }
}

pub(crate) fn ready(service: &Service) -> usize {
    service.status().instances.iter().filter(|one| one.state == InstanceState::Ready).count()
}

#[test]
fn a_full_instance_lets_wait_and_who_leaves_lets_enter() {
    run(async {
        let mut spec = scaled(1, 2);
        spec.queue = QueueLimits { max: 2, timeout: Duration::from_secs(1) };
        let bed = Bed::new(3, vec![spec]);
        let service = bed.service(0);
        let first = service.ready(0).await.unwrap();
        let second = service.ready(1).await.unwrap();
        assert!(service.enter(2).is_none(), "a third beside two");
        let third = caller(&service, 2);
        until(|| service.waiting() == 1).await;
        let fourth = caller(&service, 0);
        until(|| service.waiting() == 2).await;
        let full = service.ready(1).await.unwrap_err();
        assert_eq!((full.phase, full.retry_after), (Phase::Queue, Duration::from_secs(1)));
        assert!(full.to_string().contains("2 requests wait for it already (queue.max)"), "{full}");
        drop(first);
        let third = third.await.unwrap().unwrap(); // first come, first served
        let late = fourth.await.unwrap().unwrap_err();
        assert!(late.to_string().contains("no instance was free within queue.timeout (1 s)"), "{late}");
        assert!(late.elapsed >= Duration::from_secs(1));
        assert_eq!(service.waiting(), 0);
        drop((second, third));
        assert_eq!(service.enter(0).unwrap().instance().number(), 1);
    });
}

/// Nobody is forgotten in the queue, and never are there more at once than allowed, whatever the threads do.
#[test]
fn ten_thousand_exchanges_of_four_threads_share_three_places() {
    let bed = Bed::new(4, vec![scaled(1, 3)]);
    let (service, inside) = (bed.service(0), Arc::new(AtomicU32::new(0)));
    std::thread::scope(|scope| {
        for worker in 0..4_usize {
            let (service, inside) = (&service, &inside);
            scope.spawn(move || {
                run(async {
                    for round in 0..250_usize {
                        let exchange =
                            |number| exchange(Arc::clone(service), worker, Arc::clone(inside), round + number);
                        let all: Vec<_> = (0..10).map(|number| tokio::spawn(exchange(number))).collect();
                        // One goes away while it waits, or just as it is served.
                        let _ = tokio::time::timeout(Duration::ZERO, service.ready(worker)).await;
                        for one in all {
                            one.await.unwrap();
                        }
                    }
                });
            });
        }
    });
    assert_eq!(service.waiting(), 0);
    run(until(|| ready(&service) == 1));
    let places: Vec<_> = (0..4).filter_map(|worker| service.enter(worker)).collect();
    assert_eq!(places.len(), 3, "places were lost, or found");
}

async fn exchange(service: Arc<Service>, worker: usize, inside: Arc<AtomicU32>, number: usize) {
    let lease = match service.enter(worker) {
        Some(lease) => lease,
        None => service.ready(worker).await.unwrap(),
    };
    let before = inside.fetch_add(1, Ordering::SeqCst);
    assert!(before < 3, "{before} others beside this one");
    if number.is_multiple_of(3) {
        tokio::task::yield_now().await;
    }
    inside.fetch_sub(1, Ordering::SeqCst);
    drop(lease);
}

#[test]
fn a_thousand_first_callers_start_at_most_what_is_allowed() {
    run(async {
        let mut spec = pipe_child("p", &["delay=0.3"]);
        (spec.max_instances, spec.concurrency, spec.scale_up_after) = (4, Some(100), 50 * MS);
        let mut bed = Bed::new(2, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        let mut callers: Vec<_> = (0..1000).map(|number| caller(&service, number % 2)).collect();
        let mut held = Vec::new();
        for caller in callers.drain(..400) {
            held.push(caller.await.unwrap().unwrap());
        }
        let numbers: HashSet<_> = held.iter().map(|lease| lease.instance().number()).collect();
        assert_eq!(numbers, HashSet::from([1, 2, 3, 4]));
        drop(held);
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        assert_eq!(service.status().instance, 4, "starts");
    });
}

#[test]
fn one_more_is_started_for_those_who_wait_and_stopped_when_not_needed() {
    run(async {
        let mut spec = scaled(3, 1);
        (spec.scale_up_after, spec.scale_down_after) = (50 * MS, 300 * MS);
        let bed = Bed::new(1, vec![spec]);
        let service = bed.service(0);
        let begun = Instant::now();
        let first = service.ready(0).await.unwrap();
        first.instance().mark_answered();
        let second = service.ready(0).await.unwrap();
        assert!(begun.elapsed() >= 50 * MS, "it did not wait for the first");
        assert_ne!(first.instance().number(), second.instance().number());
        let instance = Arc::clone(second.instance());
        drop(second);
        let quiet = Instant::now();
        assert_eq!(instance.ended().await.exit, Some(Exit::Signal(15)));
        assert!(quiet.elapsed() >= 250 * MS, "{:?}", quiet.elapsed());
        assert!(first.instance().ended_now().is_none());
        drop(first);
        assert_eq!(service.enter(0).unwrap().instance().number(), 1);
    });
}

#[test]
fn a_spare_is_there_before_and_beside_the_first() {
    run(async {
        let mut spec = scaled(3, 1);
        spec.spare = Spare::One;
        let bed = Bed::new(1, vec![spec]);
        let service = bed.service(0);
        until(|| ready(&service) == 1).await;
        let first = service.ready(0).await.unwrap();
        until(|| ready(&service) == 2).await;
        let second = service.ready(0).await.unwrap();
        until(|| ready(&service) == 3).await;
        let third = service.ready(0).await.unwrap();
        assert!(service.enter(0).is_none());
        drop((first, second, third));
        assert_eq!(service.status().instance, 3);
    });
}

/// Each limit leads to a new instance, the old one takes exchanges until then, and goes only when those are done.
#[track_caller]
fn check_recycling(recycle: RecycleLimits, requests: u64) {
    run(async {
        let mut spec = pipe_child("p", &[]);
        spec.recycle = recycle;
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        let old = service.ready(0).await.unwrap();
        for _ in 1..requests {
            service.enter(0).unwrap();
        }
        while service.ready(0).await.unwrap().instance().number() == 1 {
            assert_eq!(service.waiting(), 0, "there is always one to enter");
            tokio::task::yield_now().await;
        }
        assert!(old.instance().ended_now().is_none(), "it did not wait for the open exchange");
        let instance = Arc::clone(old.instance());
        drop(old);
        assert_eq!(instance.ended().await.exit, Some(Exit::Code(0)));
    });
}

#[test]
fn an_instance_is_replaced_after_so_many_requests() {
    check_recycling(RecycleLimits { max_requests: Some(100), ..RecycleLimits::default() }, 100);
}

#[test]
fn an_instance_is_replaced_after_some_time() {
    check_recycling(RecycleLimits { max_age: Some(200 * MS), ..RecycleLimits::default() }, 1);
}

#[test]
#[cfg(target_os = "linux")]
fn an_instance_is_replaced_for_its_memory() {
    check_recycling(RecycleLimits { max_memory: Some(1 << 20), ..RecycleLimits::default() }, 1); // no Python is so small
}

#[test]
fn a_restart_replaces_and_a_failed_one_leaves_the_old() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let broken = dir.path().join("broken");
        let mut spec = pipe_child("p", &[]);
        let program = std::mem::take(&mut spec.argv);
        let script = format!("test -e {} && exit 7; exec \"$@\"", broken.display());
        spec.argv = crate::harness::args(&["sh", "-c", &script, "sh"]);
        spec.argv.extend(program);
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        assert_eq!(service.ready(0).await.unwrap().instance().number(), 1);
        std::fs::write(&broken, "").unwrap();
        bed.supervisor.restart(service.id());
        until(|| service.status().failures > 0).await;
        assert_eq!(service.enter(0).unwrap().instance().number(), 1);
        std::fs::remove_file(&broken).unwrap();
        while service.ready(0).await.unwrap().instance().number() == 1 {
            tokio::task::yield_now().await;
        }
        until(|| ready(&service) == 1).await;
    });
}

#[test]
fn a_restart_replaces_what_is_starting_too() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let go = dir.path().join("go");
        let mut spec = pipe_child("p", &[]);
        let program = std::mem::take(&mut spec.argv);
        let script = format!("until test -e {}; do sleep 0.01; done; exec \"$@\"", go.display());
        spec.argv = crate::harness::args(&["sh", "-c", &script, "sh"]);
        spec.argv.extend(program);
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        let waits = caller(&service, 0);
        until(|| service.status().instances.len() == 1).await;
        bed.supervisor.restart(service.id());
        std::fs::write(&go, "").unwrap();
        waits.await.unwrap().unwrap();
        while service.ready(0).await.unwrap().instance().number() == 1 {
            tokio::task::yield_now().await;
        }
        until(|| ready(&service) == 1).await;
    });
}

/// A request that was given to an instance may not be written yet; behind DRAIN it might find nobody.
#[test]
fn drain_waits_for_those_who_have_entered_and_lets_go_those_without_a_connection() {
    run(async {
        let mut bed = Bed::new(2, vec![pipe_child("p", &[])]);
        let mut seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        assert_eq!(seen.recv().await, Some(Seen::Connected { worker: 0, instance: 1 }));
        bed.supervisor.stop(service.id());
        assert_eq!(seen.recv().await, Some(Seen::Drain { worker: 1, instance: 1 }));
        let early = tokio::time::timeout(200 * MS, seen.recv()).await;
        assert!(early.is_err(), "{early:?}");
        drop(lease);
        assert_eq!(seen.recv().await, Some(Seen::Drain { worker: 0, instance: 1 }));
        // A stream that stays open is told, a little later.
        let (stays, begun) = (service.ready(0).await.unwrap(), Instant::now());
        bed.supervisor.stop(service.id());
        while seen.recv().await != Some(Seen::Drain { worker: 0, instance: 2 }) {}
        assert!(begun.elapsed() >= 900 * MS && stays.instance().ended_now().is_none());
    });
}

/// Who comes too late and turns back must not count as the end of the last exchange once more.
#[test]
fn a_late_comer_does_not_hurry_a_drain() {
    run(async {
        let spec = ServiceSpec { drain_timeout: 10_000 * MS, ..pipe_child("p", &["ignore-drain"]) };
        let mut bed = Bed::new(1, vec![spec]);
        let mut seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        let instance = Arc::clone(lease.instance());
        drop(lease);
        let late = caller(&service, 0); // enters, or turns back at the drain
        bed.supervisor.stop(service.id());
        while seen.recv().await != Some(Seen::Drain { worker: 0, instance: 1 }) {
            let _ = service.enter(0);
        }
        let begun = Instant::now();
        assert_eq!(instance.ended().await.exit, Some(Exit::Signal(15)));
        assert!(begun.elapsed() >= 1500 * MS, "it got {:?} to exit by itself", begun.elapsed());
        drop(late.await.unwrap());
    });
}

#[test]
fn a_stuck_instance_is_ended_when_its_others_are_done() {
    run(async {
        let bed = Bed::new(1, vec![sh("h", "exec sleep 1000", UNIX)]);
        let service = bed.service(0);
        let (stuck, other) = (service.ready(0).await.unwrap(), service.enter(0).unwrap());
        let instance = Arc::clone(stuck.instance());
        instance.mark_answered();
        instance.report_stuck();
        drop(stuck);
        until(|| instance.drain_requested()).await;
        assert_eq!(service.ready(0).await.unwrap().instance().number(), 2);
        assert!(instance.ended_now().is_none());
        drop(other);
        assert_eq!(instance.ended().await.exit, Some(Exit::Signal(15)));
    });
}

#[test]
fn the_circuit_opens_lets_one_try_and_closes() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let well = dir.path().join("well");
        let mut spec = pipe_child("p", &[]);
        let program = std::mem::take(&mut spec.argv);
        let script = format!("echo start; test -e {} || {{ sleep 0.1; exit 9; }}; exec \"$@\"", well.display());
        spec.argv = crate::harness::args(&["sh", "-c", &script, "sh"]);
        spec.argv.extend(program);
        let mut bed = Bed::new(1, vec![spec]);
        let _seen = bed.work();
        let service = bed.service(0);
        for _ in 0..3 {
            let error = service.ready(0).await.unwrap_err();
            assert_eq!((error.phase, error.exit), (Phase::Connect, Some(Exit::Code(9))));
        }
        assert_eq!(service.status().circuit, CircuitState::Open);
        let begun = Instant::now();
        let refused = service.ready(0).await.unwrap_err();
        assert_eq!((refused.phase, refused.exit), (Phase::Backoff, Some(Exit::Code(9))));
        assert!(begun.elapsed() < 100 * MS && refused.retry_after > Duration::ZERO);
        assert!(refused.to_string().contains("3 instances in a row failed to start or ended early"), "{refused}");
        // The pause over, one request tries; the others are refused meanwhile.
        tokio::time::sleep(refused.retry_after).await;
        let tries = caller(&service, 0);
        until(|| service.status().state == ServiceState::Starting).await;
        let beside = service.ready(0).await.unwrap_err();
        assert_eq!(beside.phase, Phase::Backoff);
        assert_eq!(tries.await.unwrap().unwrap_err().phase, Phase::Connect);
        // It works again; people need not wait for the pause.
        std::fs::write(&well, "").unwrap();
        assert_eq!(service.ready(0).await.unwrap_err().phase, Phase::Backoff);
        bed.supervisor.start(service.id());
        until(|| service.status().state == ServiceState::Ready).await;
        assert_eq!(service.status().circuit, CircuitState::Closed);
        assert_eq!(service.ready(0).await.unwrap().instance().number(), 5);
    });
}

#[test]
fn those_who_wait_have_an_end_at_the_shutdown() {
    run(async {
        let bed = Bed::new(1, vec![scaled(1, 1)]);
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        let pid = service.status().pid.unwrap();
        let waits = caller(&service, 0);
        until(|| service.waiting() == 1).await;
        let down = tokio::spawn(bed.shutdown(Duration::from_millis(100)));
        assert_eq!(waits.await.unwrap().unwrap_err().phase, Phase::Stopping);
        down.await.unwrap();
        assert!(gone_within(pid, Duration::ZERO));
        assert_eq!(service.ready(0).await.unwrap_err().phase, Phase::Stopping);
        drop(lease);
    });
}
