//! The schedule on virtual time.

use std::collections::BTreeSet;

use super::*;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A schedule that has its first topology, and the time at which it got it.
fn started(policy: RefreshPolicy) -> (RefreshSchedule, Instant) {
    let now = Instant::now();
    let mut schedule = RefreshSchedule::new(policy, Rng::with_seed(3));
    assert_eq!(schedule.poll(now), Action::Start);
    schedule.finished(now, Outcome::Renewed);
    (schedule, now)
}

/// Runs until `end` with a refresh that takes `takes`; the times at which one started.
fn run(
    schedule: &mut RefreshSchedule,
    start: Instant,
    end: Duration,
    takes: Duration,
    mut each: impl FnMut(&mut RefreshSchedule, Instant) -> Outcome,
) -> Vec<Duration> {
    let (mut now, mut starts) = (start, Vec::new());
    while now < start + end {
        match schedule.poll(now) {
            Action::Start => {
                starts.push(now - start);
                now += takes;
                let outcome = each(schedule, now);
                schedule.finished(now, outcome);
            }
            Action::WaitUntil(due) => now = due,
            Action::Wait => break,
        }
    }
    starts
}

fn nodes(names: &[&str]) -> Vec<NodeAddress> {
    names.iter().map(|name| NodeAddress::tcp(*name, 1)).collect()
}

#[test]
fn the_first_refresh_is_due_at_once() {
    let mut schedule = RefreshSchedule::new(RefreshPolicy::default(), Rng::with_seed(1));
    assert_eq!(schedule.poll(Instant::now()), Action::Start);
}

#[test]
fn one_runs_at_a_time() {
    let (mut schedule, now) = started(RefreshPolicy::default());
    schedule.request(now, Refresh::Urgent);
    assert_eq!(schedule.poll(now + ms(100)), Action::Start);
    schedule.request(now + ms(100), Refresh::Urgent);
    assert_eq!(schedule.poll(now + ms(10_000)), Action::Wait);
}

#[test]
fn without_requests_it_runs_by_the_interval() {
    let (mut schedule, now) = started(RefreshPolicy::default());
    let Action::WaitUntil(due) = schedule.poll(now) else { panic!() };
    assert!(due - now >= ms(60_000) && due - now <= ms(72_000));
    let (mut schedule, now) = started(RefreshPolicy { interval: None, ..RefreshPolicy::default() });
    assert_eq!(schedule.poll(now + ms(1_000_000)), Action::Wait);
    schedule.request(now, Refresh::No);
    assert_eq!(schedule.poll(now + ms(1_000_000)), Action::Wait);
}

/// Whoever joins after a change is seen when the change is twice as old, however long the interval.
#[test]
fn after_a_change_it_looks_again_soon() {
    let (mut schedule, now) = started(RefreshPolicy::default());
    schedule.request(now, Refresh::Soon);
    let now = now + ms(5000);
    assert_eq!(schedule.poll(now), Action::Start);
    schedule.finished(now, Outcome::Renewed);
    let starts = run(&mut schedule, now, ms(400_000), ms(0), |_, _| Outcome::Unchanged);
    let is_usual = |pair: &[Duration]| pair[1] - pair[0] >= ms(60_000) && pair[1] - pair[0] <= ms(72_000);
    assert!(starts.windows(2).skip_while(|pair| !is_usual(pair)).all(is_usual), "{starts:?}");
    let starts: Vec<_> = starts.into_iter().filter(|at| *at < ms(70_000)).collect();
    assert!(starts[0] >= ms(1000) && starts[0] <= ms(1200), "{starts:?}");
    assert!(starts.windows(2).all(|pair| pair[1] <= pair[0].mul_f64(2.21)), "{starts:?}");
    assert!((5..=7).contains(&starts.len()), "{starts:?}");
}

#[test]
fn the_first_second_of_an_outage_is_no_storm() {
    let (mut schedule, now) = started(RefreshPolicy { interval: None, ..RefreshPolicy::default() });
    schedule.request(now, Refresh::Urgent);
    let starts = run(&mut schedule, now, ms(5000), ms(1), |schedule, at| {
        schedule.request(at, Refresh::Urgent);
        Outcome::Unchanged
    });
    let in_first = starts.iter().filter(|at| **at < ms(1000)).count();
    assert!((12..=20).contains(&in_first), "{starts:?}");
    assert!(starts.len() <= 80, "{} in 5 s", starts.len());
}

/// Some nodes know of the successor, the others will in a moment; but one that is cut off contradicts for ever.
#[test]
fn a_dispute_is_looked_into_soon_and_not_for_long() {
    let (mut schedule, now) = started(RefreshPolicy { interval: None, ..RefreshPolicy::default() });
    schedule.request(now, Refresh::Urgent);
    let starts = run(&mut schedule, now, ms(2000), ms(1), |schedule, at| {
        schedule.request(at, Refresh::Urgent);
        Outcome::Disputed
    });
    let pauses: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (first, later) = pauses.split_at(MAX_DISPUTES as usize);
    assert!(first.iter().all(|pause| *pause <= ms(26)), "{pauses:?}");
    assert!(later.iter().all(|pause| *pause >= ms(50)), "{pauses:?}");
}

#[test]
fn the_first_request_after_a_quiet_time_starts_at_once() {
    let (mut schedule, now) = started(RefreshPolicy::default());
    schedule.request(now + ms(5000), Refresh::Soon);
    assert_eq!(schedule.poll(now + ms(5000)), Action::Start);
}

#[test]
fn a_storm_of_moved_is_at_most_one_refresh_a_second() {
    let (mut schedule, now) = started(RefreshPolicy::default());
    schedule.request(now, Refresh::Soon);
    let starts = run(&mut schedule, now, ms(10_000), ms(5), |schedule, now| {
        for _ in 0..100 {
            schedule.request(now, Refresh::Soon);
        }
        Outcome::Renewed
    });
    assert!((8..=10).contains(&starts.len()), "{starts:?}");
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= ms(1000)), "{starts:?}");
}

#[test]
fn a_request_during_a_refresh_brings_one_more() {
    let (mut schedule, now) = started(RefreshPolicy { interval: None, ..RefreshPolicy::default() });
    schedule.request(now, Refresh::Soon);
    let mut first = true;
    let starts = run(&mut schedule, now, ms(60_000), ms(5), |schedule, now| {
        if std::mem::take(&mut first) {
            schedule.request(now, Refresh::Soon);
        }
        Outcome::Renewed
    });
    assert_eq!(starts.len(), 2, "{starts:?}");
}

/// Commands wait all the time for a node that is promoted after `promotion`; how late that is seen.
fn delay_after_promotion(promotion: Duration) -> (Duration, usize) {
    let (mut schedule, now) = started(RefreshPolicy { interval: None, ..RefreshPolicy::default() });
    schedule.request(now, Refresh::Urgent);
    let mut seen = None;
    let starts = run(&mut schedule, now, promotion + ms(3000), ms(2), |schedule, at| {
        if at - now >= promotion {
            seen.get_or_insert(at - now - promotion);
            return Outcome::Renewed;
        }
        // Waiting commands fail again some time after the refresh.
        schedule.finished(at, Outcome::Unchanged);
        schedule.request(at + ms(1), Refresh::Urgent);
        Outcome::Unchanged
    });
    (seen.unwrap(), starts.len())
}

#[test]
fn a_promotion_is_seen_within_200_ms_for_outages_as_long_as_the_node_time_out() {
    for promotion in [10, 100, 500, 1000, 2000, 5000, 10_000, 15_000] {
        let (delay, _) = delay_after_promotion(ms(promotion));
        assert!(delay <= ms(200), "after {promotion} ms: {delay:?}");
        assert!(delay <= ms(80) || promotion > 6000, "after {promotion} ms: {delay:?}");
    }
}

#[test]
fn a_long_outage_slows_down_to_the_usual_interval() {
    let (delay, starts) = delay_after_promotion(ms(600_000));
    assert!(delay <= ms(1300), "{delay:?}");
    assert!(starts < 1200, "{starts}");
}

#[test]
fn failures_back_off_to_the_cap_and_end_with_a_map() {
    let (mut schedule, now) = started(RefreshPolicy { interval: None, ..RefreshPolicy::default() });
    schedule.request(now, Refresh::Urgent);
    let mut count = 0;
    let starts = run(&mut schedule, now, ms(60_000), ms(1), |_, _| {
        count += 1;
        if count == 12 { Outcome::Renewed } else { Outcome::Failed }
    });
    assert_eq!(starts.len(), 12, "it goes on by itself until there is a topology, and no further");
    let pauses: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[0] >= ms(50) && pauses[0] <= ms(62), "{pauses:?}");
    assert!(pauses[10] >= ms(5000) && pauses[10] <= ms(6002), "{pauses:?}");
}

#[test]
fn failures_while_commands_wait_are_never_further_apart_than_a_second() {
    let (mut schedule, now) = started(RefreshPolicy { interval: None, ..RefreshPolicy::default() });
    schedule.request(now, Refresh::Urgent);
    let starts = run(&mut schedule, now, ms(60_000), ms(1), |schedule, now| {
        schedule.request(now, Refresh::Urgent);
        Outcome::Failed
    });
    let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest >= ms(1000) && longest <= ms(1202), "{longest:?}");
}

#[test]
fn a_refresh_whose_task_was_stopped_begins_anew() {
    let (mut schedule, now) = started(RefreshPolicy::default());
    schedule.request(now, Refresh::Soon);
    assert_eq!(schedule.poll(now + ms(2000)), Action::Start);
    schedule.restarted();
    assert_eq!(schedule.poll(now + ms(2000)), Action::Start);
}

#[test]
fn clients_that_start_together_do_not_ask_together() {
    let now = Instant::now();
    let due = |seed| {
        let mut schedule = RefreshSchedule::new(RefreshPolicy::default(), Rng::with_seed(seed));
        schedule.poll(now);
        schedule.finished(now, Outcome::Renewed);
        schedule.request(now, Refresh::Soon);
        match schedule.poll(now) {
            Action::WaitUntil(due) => (due - now).as_millis() / 10,
            other => panic!("{other:?}"),
        }
    };
    let times: BTreeSet<_> = (0..200).map(due).collect();
    assert!(times.len() > 15, "{times:?}");
}

#[test]
fn known_nodes_are_asked_before_seeds_and_nobody_twice_before_all() {
    let (mut schedule, now) = started(RefreshPolicy::default());
    let (known, seeds) = (nodes(&["a", "b", "c", "d"]), nodes(&["s", "a", "t"]));
    let first = schedule.sources(&known, &seeds);
    assert!(first[..4].iter().all(|node| known.contains(node)));
    assert_eq!(first[4..], nodes(&["s", "t"]));
    schedule.finished(now, Outcome::Failed);
    let second = schedule.sources(&known, &seeds);
    let all: BTreeSet<_> = first[..3].iter().chain(&second[..3]).cloned().collect();
    assert_eq!(all, nodes(&["a", "b", "c", "d", "s", "t"]).into_iter().collect());
    assert!(first.iter().all(|node| second.contains(node)), "all are named, should the first not answer");
    schedule.finished(now, Outcome::Failed);
    assert!(known.contains(&schedule.sources(&known, &seeds)[0]), "it begins anew");
}

#[test]
fn with_no_known_node_the_seeds_are_asked_in_their_order() {
    let mut schedule =
        RefreshSchedule::new(RefreshPolicy { parallel: 1, ..RefreshPolicy::default() }, Rng::with_seed(1));
    let seeds = nodes(&["s", "t"]);
    assert_eq!(schedule.sources(&[], &seeds), seeds);
    assert_eq!(schedule.sources(&[], &seeds), nodes(&["t", "s"]));
    assert_eq!(schedule.sources(&[], &seeds), seeds);
    assert!(schedule.sources(&[], &[]).is_empty());
}

#[test]
fn the_choice_among_known_nodes_is_random() {
    let known = nodes(&["a", "b", "c", "d", "e", "f"]);
    let first =
        |seed| RefreshSchedule::new(RefreshPolicy::default(), Rng::with_seed(seed)).sources(&known, &[]).swap_remove(0);
    let firsts: BTreeSet<_> = (0..100).map(first).collect();
    assert_eq!(firsts.len(), 6);
}
