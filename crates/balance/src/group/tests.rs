use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::budget::Retries;

const NAMES: [&str; 6] = ["a:1", "b:1", "c:1", "d:1", "e:1", "f:1"];

/// Of every history.
const MAX_OPEN: u32 = 8;

fn group(weights: &[u32]) -> Group {
    group_with(weights, Settings::default())
}

fn group_with(weights: &[u32], settings: Settings) -> Group {
    let servers: Vec<Server<'_>> = NAMES.iter().zip(weights).map(|(name, weight)| Server::new(name, *weight)).collect();
    Group::new(&servers, settings)
}

/// A source of chance that is the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

fn eject(group: &Group, index: usize, now: Ms) {
    while !group.failed(index, now) {}
}

#[test]
fn with_nothing_open_shares_are_the_weights() {
    let (group, mut chance) = (group(&[1, 2, 5]), Chance(1));
    let mut counts = [0_u32; 3];
    for _ in 0..80_000 {
        let index = group.choose(Ask { chance: chance.next(), ..Ask::default() }).unwrap();
        counts[index] += 1;
        group.ended(index);
    }
    for (count, expected) in counts.into_iter().zip([10_000_u32, 20_000, 50_000]) {
        assert!(count.abs_diff(expected) < expected / 20, "{counts:?}");
    }
}

#[test]
fn the_fuller_of_two_is_not_taken() {
    let (group, mut chance) = (group(&[1, 1]), Chance(2));
    for _ in 0..1000 {
        let _ = group.choose(Ask { chance: chance.next(), ..Ask::default() });
    }
    assert_eq!((group.open(0), group.open(1)), (500, 500));
}

/// Two requests arrive in each step; a quick server ends two of its own in a step, a slow one a request in five.
#[test]
fn a_slow_server_has_no_longer_a_queue_than_the_others() {
    let (group, mut chance) = (group(&[1, 1, 1]), Chance(3));
    let mut worst = 0;
    for step in 0..20_000_u32 {
        for _ in 0..2 {
            let _ = group.choose(Ask { chance: chance.next(), ..Ask::default() });
        }
        for quick in [0, 0, 1, 1] {
            group.ended(quick);
        }
        if step % 5 == 0 {
            group.ended(2);
        }
        worst = worst.max(group.open(2));
    }
    assert!(worst <= 4, "{worst} at the slow one");
}

#[test]
fn a_key_stays_where_it_is_and_only_those_of_a_server_that_goes_move() {
    let group = group(&[1; 6]);
    let of = |key: u64| {
        let index = group.choose(Ask { key: Some(mix(key)), ..Ask::default() }).unwrap();
        group.ended(index);
        index
    };
    let before: Vec<usize> = (0..6000).map(of).collect();
    assert_eq!(before, (0..6000).map(of).collect::<Vec<_>>());
    for index in 0..6 {
        let count = before.iter().filter(|found| **found == index).count();
        assert!((850..1150).contains(&count), "{count} of 6000 at {index}");
    }
    eject(&group, 2, Ms(0));
    let after: Vec<usize> = (0..6000).map(of).collect();
    for (one, other) in before.iter().zip(&after) {
        assert!(one == other || *one == 2);
        assert_ne!(*other, 2);
    }
}

#[test]
fn keys_do_not_depend_on_the_order_of_the_list() {
    let names = ["a:1", "b:1", "c:1"];
    let one = Group::new(&names.map(|name| Server::new(name, 1)), Settings::default());
    let backwards = ["c:1", "b:1", "a:1"];
    let other = Group::new(&backwards.map(|name| Server::new(name, 1)), Settings::default());
    for key in 0..1000 {
        let ask = Ask { key: Some(mix(key)), ..Ask::default() };
        let (first, second) = (one.choose(ask).unwrap(), other.choose(ask).unwrap());
        assert_eq!(names[first], backwards[second]);
        one.ended(first);
        other.ended(second);
    }
}

#[test]
fn one_key_alone_cannot_fill_a_server() {
    let group = group(&[1; 4]);
    for _ in 0..400 {
        let _ = group.choose(Ask { key: Some(7), ..Ask::default() });
    }
    let open: Vec<u32> = (0..4).map(|index| group.open(index)).collect();
    assert!(open.iter().all(|open| *open <= 126), "{open:?}");
}

#[test]
fn who_is_ejected_gets_nothing_unless_all_are() {
    let (group, mut chance) = (group(&[1, 1]), Chance(4));
    let mut ask = |now| {
        let index = group.choose(Ask { now, chance: chance.next(), ..Ask::default() }).unwrap();
        group.ended(index);
        index
    };
    eject(&group, 0, Ms(5));
    assert!((0..100).all(|_| ask(Ms(10_004)) == 1));
    assert!((0..100).any(|_| ask(Ms(10_005)) == 0), "its time is over");
    eject(&group, 0, Ms(20_000));
    eject(&group, 1, Ms(20_000));
    let both: Vec<usize> = (0..100).map(|_| ask(Ms(20_001))).collect();
    assert!(both.contains(&0) && both.contains(&1));
}

#[test]
fn what_was_tried_is_tried_again_only_for_want_of_others() {
    let (group, mut tried) = (group(&[1, 1, 1]), Tried::default());
    for chance in 0..3 {
        assert!(group.has_others(tried, Ms(0)));
        let index = group.choose(Ask { chance, tried, ..Ask::default() }).unwrap();
        assert!(!tried.has(group.number(index)));
        tried.add(group.number(index));
    }
    assert!(!group.has_others(tried, Ms(0)));
    assert!(group.choose(Ask { tried, ..Ask::default() }).is_some());
}

#[test]
fn who_is_ejected_is_nobody_to_try() {
    let (group, mut tried) = (group(&[1, 1]), Tried::default());
    eject(&group, 1, Ms(0));
    tried.add(0);
    assert!(!group.has_others(tried, Ms(1)));
    assert!((0..20).all(|chance| group.choose(Ask { now: Ms(1), chance, tried, ..Ask::default() }) == Some(0)));
    assert!(group.has_others(tried, Ms(10_000)), "its time is over");
}

#[test]
fn a_full_server_takes_no_more_and_one_that_is_left_out_takes_none_for_it() {
    let group = group_with(&[1, 1, 1], Settings { max_open: Some(2), ..Settings::default() });
    eject(&group, 2, Ms(0));
    let mut taken: Vec<_> = (0..5).map(|chance| group.choose(Ask { chance, ..Ask::default() })).collect();
    taken.sort_unstable();
    assert_eq!(taken, [None, Some(0), Some(0), Some(1), Some(1)]);
    group.ended(1);
    assert_eq!(group.choose(Ask { key: Some(3), ..Ask::default() }), Some(1));
    eject(&group, 0, Ms(0));
    eject(&group, 1, Ms(0));
    assert_eq!(group.choose(Ask::default()), Some(2), "all are left out, and it has room");
}

#[test]
fn requests_and_those_that_are_sent_again_are_counted() {
    let retries = Retries { percent: 50, per_second: 0 };
    let group = group_with(&[1, 1], Settings { retries, ..Settings::default() });
    let (now, mut tried) = (Ms(0), Tried::default());
    assert!(!group.may_retry(now));
    for _ in 0..4 {
        let _ = group.choose(Ask::default());
    }
    tried.add(0);
    for _ in 0..2 {
        assert!(group.may_retry(now));
        let _ = group.choose(Ask { tried, ..Ask::default() });
    }
    assert!(!group.may_retry(now));
    group.refused_retry();
    assert_eq!(group.retries(), RetryCounts { sent: 2, refused: 1 });
}

#[test]
fn a_client_stays_where_it_was_while_that_server_takes_requests() {
    let group = group_with(&[1, 1, 1], Settings { max_open: Some(50), ..Settings::default() });
    let ask = |chance| Ask { chance, at: Some(1), ..Ask::default() };
    assert!((0..50).all(|chance| group.choose(ask(chance)) == Some(1)));
    assert!(group.choose(ask(0)).is_some_and(|index| index != 1), "it is full");
    (0..50).for_each(|_| group.ended(1));
    eject(&group, 1, Ms(0));
    assert!((0..10).all(|chance| group.choose(ask(chance)) != Some(1)));
    let mut tried = Tried::default();
    tried.add(0);
    assert_eq!(group.choose(Ask { at: Some(0), tried, ..Ask::default() }), Some(2), "it was tried");
}

#[test]
fn a_server_that_comes_back_gets_a_tenth_first() {
    let servers = [Server::new("a:1", 1), Server::new("b:1", 1)];
    let settings = Settings { slow_start: Duration::from_secs(100), ..Settings::default() };
    let (group, mut chance) = (Group::new(&servers, settings), Chance(5));
    eject(&group, 0, Ms(0));
    let mut share = |now| {
        let ask = |chance| group.choose(Ask { now, chance, ..Ask::default() }).unwrap();
        (0..10_000)
            .filter(|_| {
                let index = ask(chance.next());
                group.ended(index);
                index == 0
            })
            .count()
    };
    assert!((800..1020).contains(&share(Ms(10_000))), "one of eleven");
    assert!((4800..5200).contains(&share(Ms(110_000))));
}

fn listed<'a>(names: &[&'a str]) -> Vec<Server<'a>> {
    names.iter().map(|name| Server::new(name, 1)).collect()
}

#[test]
fn a_server_that_stays_keeps_what_is_known_of_it_and_its_number() {
    let settings = Settings { max_open: Some(1), ..Settings::default() };
    let before = Group::new(&listed(&["a:1", "b:1", "c:1"]), settings);
    eject(&before, 0, Ms(0));
    let taken = before.choose(Ask { at: Some(1), ..Ask::default() });
    assert_eq!(taken, Some(1));
    let after = before.with(&listed(&["d:1", "b:1", "a:1"]), settings, Ms(1));
    assert_eq!((0..3).map(|index| after.number(index)).collect::<Vec<_>>(), [3, 1, 0]);
    assert!(after.is_ejected(2, Ms(1)) && after.open(1) == 1);
    assert_eq!(after.choose(Ask { now: Ms(1), ..Ask::default() }), Some(0), "of the others one is full, one is out");
    before.ended(1);
    assert_eq!(after.open(1), 0, "a request that began before ends in both");
    let last = after.with(&listed(&["c:1"]), settings, Ms(2));
    assert_eq!(last.number(0), 4, "it was away, and is another one");
    assert_eq!(last.choose(Ask { now: Ms(2), ..Ask::default() }), Some(0));
    let none = last.with(&[], settings, Ms(3));
    assert!(none.is_empty() && none.choose(Ask::default()).is_none() && !none.has_others(Tried::default(), Ms(3)));
}

#[test]
fn what_was_tried_is_known_in_the_next_list_and_who_takes_its_place_was_not() {
    let before = Group::new(&listed(&["a:1"]), Settings::default());
    let mut tried = Tried::default();
    tried.add(before.number(0));
    assert!(!before.has_others(tried, Ms(0)));
    let after = before.with(&listed(&["b:1", "a:1"]), Settings::default(), Ms(1));
    assert!(after.has_others(tried, Ms(1)));
    assert!((0..50).all(|chance| after.choose(Ask { chance, tried, ..Ask::default() }) == Some(0)));
    let again = after.with(&[], Settings::default(), Ms(2)).with(&listed(&["a:1"]), Settings::default(), Ms(3));
    assert!(again.has_others(tried, Ms(3)), "it went and came back");
}

#[test]
fn who_joins_others_begins_with_a_tenth_and_the_first_ones_do_not() {
    let settings = Settings { slow_start: Duration::from_secs(100), ..Settings::default() };
    let first = Group::new(&[], settings).with(&listed(&["a:1"]), settings, Ms(5));
    let group = first.with(&listed(&["a:1", "b:1"]), settings, Ms(1000));
    let share = |now| {
        let mut chance = Chance(6);
        let mut count = 0;
        for _ in 0..10_000 {
            let index = group.choose(Ask { now, chance: chance.next(), ..Ask::default() }).unwrap();
            group.ended(index);
            count += index;
        }
        count
    };
    assert!((800..1020).contains(&share(Ms(1000))), "one of eleven");
    assert!((4800..5200).contains(&share(Ms(101_000))));
}

#[test]
fn the_next_priority_gets_what_the_first_cannot_take() {
    let servers = [Server::new("a:1", 1), Server::new("b:1", 1), Server::new("c:1", 1).of_priority(7)];
    let group = Group::new(&servers, Settings { max_open: Some(10), ..Settings::default() });
    let ask = |chance, now, tried| {
        let index = group.choose(Ask { chance, now, tried, ..Ask::default() }).unwrap();
        group.ended(index);
        index
    };
    assert!((0..100).all(|chance| ask(chance, Ms(0), Tried::default()) < 2));
    let mut tried = Tried::default();
    (0..2).for_each(|index| tried.add(group.number(index)));
    assert_eq!(ask(0, Ms(0), tried), 2, "the others were tried");
    eject(&group, 0, Ms(0));
    assert!((0..100).all(|chance| ask(chance, Ms(1), Tried::default()) == 1));
    eject(&group, 1, Ms(1));
    assert!((0..100).all(|chance| ask(chance, Ms(2), Tried::default()) == 2));
    assert!((0..100).all(|chance| ask(chance, Ms(20_000), Tried::default()) < 2), "they are back");
    for _ in 0..20 {
        let _ = group.choose(Ask { now: Ms(20_000), ..Ask::default() });
    }
    assert_eq!(ask(0, Ms(20_000), Tried::default()), 2, "both are full");
}

#[test]
fn of_a_thousand_servers_each_gets_its_share() {
    let names: Vec<String> = (0..MAX_SERVERS + 5).map(|number| format!("10.0.0.1:{number}")).collect();
    let servers: Vec<Server<'_>> = names.iter().map(|name| Server::new(name, 1)).collect();
    let (group, mut chance) = (Group::new(&servers, Settings::default()), Chance(7));
    for _ in 0..MAX_SERVERS * 20 {
        let _ = group.choose(Ask { chance: chance.next(), ..Ask::default() });
    }
    let open: Vec<u32> = (0..MAX_SERVERS).map(|index| group.open(index)).collect();
    assert!(open.iter().all(|open| (15..=25).contains(open)), "{open:?}");
    assert_eq!(group.open(MAX_SERVERS), 0);
}

/// Servers come and go in random order while requests begin, fail and end: no request is lost to a server that is not
/// in the list, none waits while there is a server, and in the end nothing is open.
#[test]
fn ten_thousand_lists() {
    let settings = Settings { max_open: Some(3), ..Settings::default() };
    let (mut chance, mut now) = (Chance(8), Ms(0));
    let mut groups = vec![std::rc::Rc::new(Group::new(&[], settings))];
    let mut open: Vec<(std::rc::Rc<Group>, usize)> = Vec::new();
    for _ in 0..10_000 {
        now = Ms(now.0 + chance.next() % 500);
        let bits = chance.next();
        let names: Vec<&str> =
            NAMES.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, n)| *n).collect();
        let group = std::rc::Rc::new(groups[groups.len() - 1].with(&listed(&names), settings, now));
        groups.truncate(0);
        groups.push(std::rc::Rc::clone(&group));
        for _ in 0..chance.next() % 6 {
            match group.choose(Ask { now, chance: chance.next(), ..Ask::default() }) {
                Some(index) => {
                    if chance.next().is_multiple_of(4) {
                        group.failed(index, now);
                    }
                    open.push((std::rc::Rc::clone(&group), index));
                }
                None => {
                    let is_out = |index| group.is_ejected(index, now);
                    let all_out = (0..names.len()).all(is_out);
                    assert!((0..names.len()).all(|index| group.open(index) == 3 || is_out(index) && !all_out));
                }
            }
        }
        while open.len() > (chance.next() % 12) as usize {
            let (of, index) = open.swap_remove(chance.next() as usize % open.len());
            of.ended(index);
        }
    }
    let all = groups[0].with(&listed(&NAMES), settings, now);
    for (of, index) in open.drain(..) {
        of.ended(index);
    }
    assert!((0..NAMES.len()).all(|index| all.open(index) == 0));
}

#[derive(Clone, Debug)]
enum Happens {
    Request { chance: u64, key: Option<u64> },
    Ends(usize),
    Fails(usize),
    Answers(usize),
    Examined(usize, bool),
    Passes(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (any::<u64>(), proptest::option::of(any::<u64>()))
            .prop_map(|(chance, key)| Happens::Request { chance, key }),
        3 => any::<usize>().prop_map(Happens::Ends),
        1 => (0..8_usize).prop_map(Happens::Fails),
        1 => (0..8_usize).prop_map(Happens::Answers),
        1 => (0..8_usize, any::<bool>()).prop_map(|(index, is_well)| Happens::Examined(index, is_well)),
        1 => (0..100_000_u64).prop_map(Happens::Passes),
    ]
}

proptest! {
    /// Whatever happens: a server that is there, one that is in if any is, and counts that are right.
    #[test]
    fn every_history(weights in proptest::collection::vec(1..=MAX_WEIGHT, 1..6),
                     history in proptest::collection::vec(happens(), 0..200)) {
        let settings = Settings { max_open: Some(MAX_OPEN), ..Settings::default() };
        let (group, count) = (group_with(&weights, settings), weights.len());
        let (mut now, mut open) = (Ms(0), Vec::new());
        for event in history {
            match event {
                Happens::Request { chance, key } => {
                    let ejected: Vec<bool> = (0..count).map(|index| group.is_ejected(index, now)).collect();
                    let found = group.choose(Ask { now, chance, key, ..Ask::default() });
                    let Some(index) = found else {
                        let full = |index| group.open(index) == MAX_OPEN;
                        let all_out = ejected.iter().all(|is| *is);
                        prop_assert!((0..count).all(|index| full(index) || ejected[index] && !all_out));
                        continue;
                    };
                    prop_assert!(index < count && group.open(index) <= MAX_OPEN);
                    prop_assert!(!ejected[index] || ejected.iter().all(|is| *is));
                    open.push(index);
                }
                Happens::Ends(which) if !open.is_empty() => group.ended(open.swap_remove(which % open.len())),
                Happens::Ends(_) => {}
                Happens::Fails(index) => {
                    group.failed(index, now);
                }
                Happens::Answers(index) => {
                    group.answered(index);
                }
                Happens::Examined(index, is_well) => {
                    group.examined(index, if is_well { Verdict::Healthy } else { Verdict::Unhealthy }, now);
                }
                Happens::Passes(time) => now = Ms(now.0 + time),
            }
            for index in 0..count {
                let expected = open.iter().filter(|at| **at == index).count();
                prop_assert_eq!(group.open(index) as usize, expected);
            }
        }
    }
}

#[test]
fn who_refuses_connections_is_waited_for() {
    let group = Group::new(&listed(&["a:1", "b:1"]), Settings::default());
    let ask = |now| Ask { now: Ms(now), ..Ask::default() };
    group.refused(0, Ms(0));
    assert!(!group.takes_none(Ms(0)) && (0..9).all(|_| group.choose(ask(1)) == Some(1)));
    assert!(!group.has_others(tried(&group, 1), Ms(1)));
    group.refused(1, Ms(1));
    eject(&group, 1, Ms(1));
    assert!(group.takes_none(Ms(2)));
    assert_eq!(group.choose(ask(2)), None, "also if all others are ejected");
    assert_eq!((group.choose(ask(250)), group.choose(ask(250))), (Some(0), None), "one finds out whether it is back");
    group.answered(0);
    assert!(!group.takes_none(Ms(250)) && (0..9).all(|_| group.choose(ask(250)) == Some(0)));
    let after = group.with(&[], Settings::default(), Ms(251));
    assert!(after.takes_none(Ms(251)));
}

fn tried(group: &Group, index: usize) -> Tried {
    let mut tried = Tried::default();
    tried.add(group.number(index));
    tried
}
