//! Simulated time: replicas of the gateway, a leader, workloads, requests that come and end at random.

use proptest::prelude::*;

use super::*;
use crate::snapshot::{Key, WorkloadKind};

const S: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(60);

fn key() -> WorkloadKey {
    WorkloadKey { kind: WorkloadKind::Deployment, key: Key::new("ns", "web") }
}

fn workloads(replicas: i32) -> BTreeMap<WorkloadKey, Workload> {
    let workload = Workload {
        labels: BTreeMap::new(),
        replicas,
        idle_timeout: IDLE,
        min_replicas: 2,
        wake_timeout: Duration::from_secs(60),
        version: "1".into(),
    };
    BTreeMap::from([(key(), workload)])
}

/// The same as another version of it.
fn version(replicas: i32, version: &str) -> BTreeMap<WorkloadKey, Workload> {
    let workload = |(key, workload)| (key, Workload { version: version.into(), ..workload });
    workloads(replicas).into_iter().map(workload).collect()
}

fn to(replicas: i32) -> Order {
    Order { key: key(), replicas, version: "1".into() }
}

fn uses(open: usize, waiting: usize, last: Option<Time>) -> BTreeMap<WorkloadKey, Use> {
    BTreeMap::from([(key(), Use { open, waiting, last })])
}

#[test]
fn idle_for_its_timeout_and_no_sooner() {
    let mut scaler = Scaler::default();
    scaler.observe(100 * S, &workloads(1), &uses(0, 0, None));
    assert_eq!(scaler.downs(159 * S, &workloads(1), &[]), []);
    scaler.observe(159 * S, &workloads(1), &uses(0, 0, Some(150 * S)));
    assert_eq!(scaler.downs(209 * S, &workloads(1), &[]), []);
    assert_eq!(scaler.downs(210 * S, &workloads(1), &[]), [to(0)]);
}

#[test]
fn never_while_something_is_open_or_waits() {
    let mut scaler = Scaler::default();
    scaler.observe(Time::ZERO, &workloads(1), &uses(0, 0, None));
    for (open, waiting) in [(1, 0), (0, 1)] {
        scaler.observe(1000 * S, &workloads(1), &uses(open, waiting, Some(S)));
        assert_eq!(scaler.downs(1000 * S, &workloads(1), &[]), []);
    }
    // Somebody else's.
    scaler.observe(1000 * S, &workloads(1), &uses(0, 0, Some(S)));
    let said = |unused| Report { seen: 995 * S, unused: BTreeMap::from([(key(), unused)]) };
    assert_eq!(scaler.downs(1000 * S, &workloads(1), &[said(None)]), []);
    assert_eq!(scaler.downs(1000 * S, &workloads(1), &[said(Some(10 * S))]), []);
    assert_eq!(scaler.downs(1000 * S, &workloads(1), &[said(Some(60 * S)), Report::default()]), [to(0)]);
}

#[test]
fn what_somebody_has_just_scaled_up_is_left_alone() {
    let mut scaler = Scaler::default();
    scaler.observe(Time::ZERO, &workloads(0), &uses(0, 0, Some(S)));
    assert_eq!(scaler.downs(1000 * S, &workloads(0), &[]), []);
    scaler.observe(1000 * S, &workloads(3), &uses(0, 0, Some(S)));
    assert_eq!(scaler.downs(1059 * S, &workloads(3), &[]), []);
    assert_eq!(scaler.downs(1060 * S, &workloads(3), &[]), [to(0)]);
}

#[test]
fn a_new_leader_knows_since_when_it_has_looked() {
    // It has just started, and the one before has gone without a word: its last report still counts.
    let mut scaler = Scaler::default();
    scaler.observe(5 * S, &workloads(1), &uses(0, 0, None));
    let before = Report { seen: 5 * S, unused: BTreeMap::from([(key(), None)]) };
    assert_eq!(scaler.downs(64 * S, &workloads(1), &[]), []);
    // Silent since 5 s: it may have used it until SILENT_AFTER behind that.
    assert_eq!(scaler.downs(94 * S, &workloads(1), std::slice::from_ref(&before)), []);
    assert_eq!(scaler.downs(95 * S, &workloads(1), &[before]), [to(0)]);
}

#[test]
fn woken_once_and_again_if_nothing_comes_of_it() {
    let mut scaler = Scaler::default();
    scaler.observe(S, &workloads(0), &uses(0, 1, Some(S)));
    assert_eq!(scaler.wakes(S, &workloads(0)), [to(2)]);
    assert_eq!(scaler.wakes(2 * S, &workloads(0)), []);
    assert_eq!(scaler.wakes(6 * S, &workloads(0)), [to(2)]);
    // The API server is away: at once again.
    scaler.not_woken(&key());
    assert_eq!(scaler.wakes(6 * S, &workloads(0)), [to(2)]);
    scaler.observe(7 * S, &workloads(2), &uses(0, 1, Some(S)));
    assert_eq!(scaler.wakes(20 * S, &workloads(2)), []);
    scaler.observe(21 * S, &workloads(0), &uses(0, 0, Some(20 * S)));
    assert_eq!(scaler.wakes(21 * S, &workloads(0)), [], "nobody waits");
}

#[test]
fn what_was_scaled_to_zero_is_not_scaled_again_before_that_is_seen() {
    // The leader's own watch is late: in between another replica wakes it, and nobody takes that back.
    let (mut scaler, old) = (Scaler::default(), workloads(1));
    scaler.observe(Time::ZERO, &old, &uses(0, 0, None));
    assert_eq!(scaler.downs(60 * S, &old, &[]), [to(0)]);
    scaler.ended(&to(0));
    assert_eq!(scaler.downs(61 * S, &old, &[]), []);
    scaler.observe(62 * S, &old, &uses(0, 0, None));
    assert_eq!(scaler.downs(62 * S, &old, &[]), [], "the same version");
    // That it had none was never seen: it is up since it was seen to be woken.
    let woken = version(1, "3");
    scaler.observe(63 * S, &woken, &uses(0, 0, None));
    assert_eq!(scaler.downs(122 * S, &woken, &[]), []);
    assert_eq!(scaler.downs(123 * S, &woken, &[]), [Order { version: "3".into(), ..to(0) }]);
}

#[test]
fn who_comes_between_its_end_and_the_word_of_it_wakes_it() {
    let (mut scaler, old) = (Scaler::default(), workloads(1));
    scaler.observe(Time::ZERO, &old, &uses(0, 0, None));
    scaler.ended(&to(0));
    scaler.observe(S, &old, &uses(0, 1, Some(S)));
    assert_eq!(scaler.wakes(S, &old), [to(2)], "by a version that the API server refuses, which asks for the newest");
    // Somebody has scaled it to zero once more, and only that was seen.
    let again = version(0, "4");
    scaler.observe(2 * S, &again, &uses(0, 1, Some(S)));
    assert_eq!(scaler.wakes(2 * S, &again), []);
    assert_eq!(scaler.wakes(6 * S, &again), [Order { version: "4".into(), ..to(2) }]);
}

#[test]
fn reports_come_regularly_and_at_once_when_an_idle_workload_is_used() {
    let mut scaler = Scaler::default();
    scaler.observe(S, &workloads(1), &uses(0, 0, None));
    assert_eq!(scaler.report(S), Some(BTreeMap::new()));
    assert_eq!(scaler.report(5 * S), None);
    scaler.observe(6 * S, &workloads(1), &uses(1, 0, Some(6 * S)));
    assert_eq!(scaler.report(6 * S), Some(BTreeMap::from([(key(), None)])));
    scaler.observe(8 * S, &workloads(1), &uses(0, 0, Some(7 * S)));
    assert_eq!(scaler.report(8 * S), None, "it was said to be in use, which is true enough");
    assert_eq!(scaler.report(16 * S), Some(BTreeMap::from([(key(), Some(9 * S))])));
    scaler.observe(18 * S, &workloads(1), &uses(0, 0, Some(17 * S)));
    assert_eq!(scaler.report(18 * S), Some(BTreeMap::from([(key(), Some(S))])), "used and done between two looks");
    scaler.not_reported();
    assert!(scaler.report(19 * S).is_some());
}

/// One replica of the gateway in the simulation.
#[derive(Default)]
struct Replica {
    scaler: Scaler,
    /// When each open request ends.
    open: Vec<Time>,
    last: Option<Time>,
    /// What the API has of it.
    stored: Option<(Time, BTreeMap<WorkloadKey, Option<Duration>>)>,
}

proptest! {
    /// Requests of up to two minutes at three replicas, one of which leads at a time; the API server is away now and
    /// then. Nothing is scaled down that somebody has had open since before the last tick, and what is idle for twice
    /// its timeout while the API is there is down in the end.
    #[test]
    fn replicas_never_take_away_what_another_uses(
        requests in proptest::collection::vec((0..3usize, 0..900u64, 1..120u64), 0..12),
        leaders in proptest::collection::vec(0..3usize, 12),
        away in proptest::collection::vec(any::<bool>(), 12),
    ) {
        let mut replicas: Vec<Replica> = (0..3).map(|_| Replica::default()).collect();
        let mut count = 1;
        let mut last_use = Time::ZERO;
        for second in 0..1200u64 {
            let now = Duration::from_secs(second);
            let stage = usize::try_from(second / 100).unwrap();
            // The last stages are quiet ones.
            let is_away = stage < 9 && away[stage];
            for (index, begin, length) in &requests {
                if *begin == second {
                    let replica = &mut replicas[*index];
                    replica.open.push(now + Duration::from_secs(*length));
                    replica.last = Some(now);
                    count = 1; // woken, if need be
                }
            }
            for replica in &mut replicas {
                let ended = replica.open.iter().filter(|end| **end <= now).max().copied();
                replica.open.retain(|end| *end > now);
                replica.last = replica.last.max(ended);
                last_use = last_use.max(replica.last.unwrap_or_default());
                replica.scaler.observe(now, &workloads(count), &uses(replica.open.len(), 0, replica.last));
                if is_away {
                    continue;
                }
                if let Some(report) = replica.scaler.report(now) {
                    replica.stored = Some((now, report));
                }
            }
            if is_away {
                continue;
            }
            let leader = leaders[stage];
            let others: Vec<Report> = replicas.iter().enumerate().filter(|(index, _)| *index != leader)
                .filter_map(|(_, replica)| replica.stored.clone())
                .map(|(seen, unused)| Report { seen, unused })
                .collect();
            if !replicas[leader].scaler.downs(now, &workloads(count), &others).is_empty() {
                for replica in &replicas {
                    prop_assert!(replica.open.is_empty(), "{second}: scaled down while something is open");
                }
                prop_assert!(now - last_use >= IDLE, "{second}: scaled down {:?} after the last use", now - last_use);
                count = 0;
            }
        }
        prop_assert_eq!(count, 0);
    }
}
