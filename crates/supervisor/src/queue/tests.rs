//! Leases and the queue, with threads that meet.

use super::*;
use crate::concurrency_limiter::ConcurrencyLimiter;
use crate::in_flight::{TellsIdle, close_if_unused};
use crate::instance::{Endpoint, Instance, InstanceState, Which};
use crate::service_id::ServiceId;
use crate::spec::Transport;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;
use tokio::sync::mpsc;

const WHICH: Which = Which { service: ServiceId(0), id: 1, number: 1 };

/// A ready instance whose exchanges nobody limits, with an entrance for each worker.
fn unlimited(workers: usize) -> (Arc<Instance>, Entrances, mpsc::UnboundedReceiver<Notice>) {
    let (notices, noticed) = mpsc::unbounded_channel();
    let instance = Instance::new(WHICH, Some(Endpoint::Pipe), Instant::now(), notices);
    instance.set_state(InstanceState::Ready);
    let instance = Arc::new(instance);
    let counter = |worker| InFlightCounter::new(Arc::clone(&instance), worker, None, 0, TellsIdle::Never);
    let entrances = (0..workers).map(|worker| Arc::new(Entrance { counter: counter(worker), queue: None })).collect();
    (instance, entrances, noticed)
}

fn counters(entrances: &Entrances) -> impl Iterator<Item = &InFlightCounter> {
    entrances.iter().map(|entrance| &entrance.counter)
}

/// An instance with one place, and the queue before it.
fn one_place(workers: usize) -> (Arc<Queue>, Entrances, mpsc::UnboundedReceiver<Notice>) {
    let (notices, noticed) = mpsc::unbounded_channel();
    let spec = ServiceSpec::new("x", vec!["x".into()], Transport::Pipe);
    let limit = Arc::new(WaitingLimit::new(&"x".into(), spec.queue));
    let queue = Arc::new(Queue::new(0, &spec, limit, notices.clone()));
    let instance = Instance::new(WHICH, Some(Endpoint::Pipe), Instant::now(), notices);
    instance.set_state(InstanceState::Ready);
    let (instance, limiter) = (Arc::new(instance), Arc::new(ConcurrencyLimiter::new(1)));
    let counter =
        |worker| InFlightCounter::new(Arc::clone(&instance), worker, Some(Arc::clone(&limiter)), 0, TellsIdle::Never);
    let entrances: Entrances = (0..workers).map(|worker| Arc::new(Entrance::new(counter(worker), &queue))).collect();
    queue.change(Some(Arc::clone(&entrances)), None, |_| {});
    (queue, entrances, noticed)
}

/// One leaves just as another begins to wait: whoever is second serves. With the count taken after the look at the
/// place, or the place given back after the look at the count, somebody is forgotten within a few thousand rounds
/// on two processors.
#[test]
fn nobody_is_forgotten() {
    const ROUNDS: u32 = 20_000;
    let (queue, entrances, _noticed) = one_place(2);
    let (round, done) = (AtomicU32::new(0), AtomicU32::new(0));
    let meet = |counter: &AtomicU32, at: u32| {
        let begun = Instant::now();
        while counter.load(SeqCst) < at {
            assert!(begun.elapsed() < Duration::from_secs(20), "the other thread does not come");
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=ROUNDS {
                let lease = Arc::clone(&entrances[0]).enter();
                assert!(lease.is_some(), "the place was lost");
                round.store(number, SeqCst);
                (0..number % 64).for_each(|_| std::hint::spin_loop());
                drop(lease);
                meet(&done, number);
            }
        });
        let forgotten = (1..=ROUNDS).find(|number| {
            meet(&round, *number);
            let forgotten = match queue.join(1) {
                Joined::Waiting(mut place) => {
                    let begun = Instant::now();
                    loop {
                        match place.answer.try_recv() {
                            Ok(lease) => break lease.is_err(),
                            Err(_) if begun.elapsed() > Duration::from_secs(5) => break true,
                            Err(_) => std::hint::spin_loop(),
                        }
                    }
                }
                Joined::Entered(_) => false,
                Joined::Full | Joined::Closed => true,
            };
            done.store(if forgotten { ROUNDS } else { *number }, SeqCst);
            forgotten
        });
        round.store(ROUNDS, SeqCst);
        assert_eq!(forgotten, None, "a request waits beside a free place");
    });
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn the_first_that_waits_is_told_and_all_in_an_alert() {
    let (queue, entrances, mut noticed) = one_place(1);
    let _full = Arc::clone(&entrances[0]).enter();
    let first = queue.join(0);
    assert!(matches!(noticed.try_recv(), Ok(Notice::Wanted { service: 0 })));
    assert_eq!(queue.look().count, 1);
    let second = queue.join(0);
    assert!(noticed.try_recv().is_err());
    queue.set_alert(true);
    let third = queue.join(0);
    assert!(noticed.try_recv().is_ok());
    assert_eq!(queue.look().count, 3);
    drop((first, third));
    assert_eq!(queue.look().count, 1);
    drop(second);
    assert!(queue.look().oldest.is_none());
}

/// Before its 504 is sent, whatever the supervisor's thread is doing just then.
#[test]
fn nobody_enters_an_instance_that_was_reported_as_stuck() {
    let (instance, entrances, mut noticed) = unlimited(1);
    let entrance = &entrances[0];
    let stuck = Arc::clone(entrance).enter().unwrap();
    instance.report_stuck();
    assert!(Arc::clone(entrance).enter().is_none());
    assert!(!close_if_unused(&instance, counters(&entrances), InstanceState::Draining), "a request is open");
    assert!(Arc::clone(entrance).enter().is_none());
    assert!(noticed.try_recv().is_ok());
    drop(stuck);
}

/// Two workers enter and leave while the instance is closed and opened: nobody is inside while it is closed. With
/// the two steps of `close_if_unused` exchanged this fails within milliseconds on two processors.
#[test]
fn nobody_is_inside_a_closed_instance() {
    let (instance, entrances, mut noticed) = unlimited(2);
    let (closed, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let entered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for entrance in &*entrances {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    if let Some(lease) = Arc::clone(entrance).enter() {
                        assert!(!closed.load(SeqCst), "inside a closed instance");
                        entered.fetch_add(1, SeqCst);
                        drop(lease);
                    }
                    std::hint::spin_loop();
                }
            });
        }
        let (mut closings, begun) = (0, Instant::now());
        while closings < 20_000 && begun.elapsed() < Duration::from_secs(5) {
            if close_if_unused(&instance, counters(&entrances), InstanceState::Draining) {
                closed.store(true, SeqCst);
                for _ in 0..50 {
                    std::hint::spin_loop();
                }
                closings += 1;
                closed.store(false, SeqCst);
                instance.set_state(InstanceState::Ready);
            }
            while noticed.try_recv().is_ok() {
                instance.take_idle_notice();
            }
        }
        done.store(true, SeqCst);
        assert!(closings > 100, "{closings}");
    });
    assert!(entered.load(SeqCst) > 100);
}

#[test]
fn the_end_of_the_last_exchange_of_a_draining_instance_is_told() {
    let (instance, entrances, mut noticed) = unlimited(1);
    let entrance = &entrances[0];
    let (first, second) = (Arc::clone(entrance).enter().unwrap(), Arc::clone(entrance).enter().unwrap());
    assert!(!close_if_unused(&instance, counters(&entrances), InstanceState::Frozen));
    instance.set_state(InstanceState::Draining);
    drop(first);
    assert!(noticed.try_recv().is_err());
    drop(second);
    assert!(matches!(noticed.try_recv(), Ok(Notice::Idle { instance: 1 })));
    assert!(Arc::clone(entrance).enter().is_none());
}
