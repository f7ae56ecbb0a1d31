use super::simulated::Run;
use super::*;
use crate::experiment::model::GroupResults;

fn equal(seed: u64) -> Report {
    Run { seed, machine: 1.0, subject: 1.0 }.report()
}

#[track_caller]
fn compared(before: &Report, after: &Report) -> Compared {
    compare((Path::new("a.json"), before), (Path::new("b.json"), after)).expect("both have figures")
}

#[test]
fn equals_are_never_told_apart_however_slow_the_machine_is() {
    for seed in 0..20 {
        let (before, machine) = (equal(seed), [1.0, 1.12, 0.93][seed as usize % 3]);
        let compared = compared(&before, &Run { seed: seed + 100, machine, subject: 1.0 }.report());
        assert_eq!(compared.count(Outcome::NotToldApart), 2, "{seed}: {}", compared.text());
    }
}

#[test]
fn five_percent_are_always_found() {
    for seed in 0..20 {
        let slower = Run { seed: seed + 100, machine: [1.0, 1.02, 0.98][seed as usize % 3], subject: 1.05 }.report();
        let compared_with = compared(&equal(seed), &slower);
        assert_eq!(compared_with.count(Outcome::Worse), 2, "{seed}: {}", compared_with.text());
        let back = compared(&slower, &equal(seed));
        assert_eq!(back.count(Outcome::Better), 2, "{seed}: {}", back.text());
    }
}

#[track_caller]
fn check_not_comparable(change: impl FnOnce(&mut Report), expected: &str) {
    let mut after = Run { seed: 2, machine: 1.0, subject: 1.3 }.report();
    change(&mut after);
    let compared = compared(&equal(1), &after);
    let row = &compared.figures[0];
    assert_eq!(row.judged.verdict, Outcome::NotComparable, "{}", compared.text());
    assert!(row.judged.reason.as_deref().is_some_and(|reason| reason.contains(expected)), "{:?}", row.judged.reason);
    assert!(row.judged.ratio.is_some_and(|ratio| (1.25..1.35).contains(&ratio.median)), "it is shown nevertheless");
}

#[test]
fn what_is_not_comparable_says_why() {
    check_not_comparable(|report| report.machine.cpu = "Another".into(), "another processor: A processor, 2 cores");
    check_not_comparable(|report| report.debug_build = true, "the report after is of a debug build");
    check_not_comparable(|report| report.noise.refused = Some("load".into()), "too noisy after: load");
    let group = |report: &mut Report, change: &dyn Fn(&mut GroupResults)| {
        change(&mut report.experiments[0].groups[0]);
    };
    check_not_comparable(|r| group(r, &|group| group.seconds = 1.0), "a round was \"0.5 s\", and is \"1 s\"");
    check_not_comparable(|r| group(r, &|group| group.workload = "1 connection".into()), "the workload was");
    check_not_comparable(
        |r| group(r, &|group| group.variants[0].software[0].settings = vec!["cpus 1".into()]),
        "what ran was \"pilotlight cpus 0\"",
    );
    check_not_comparable(|r| group(r, &|group| group.controls[0].passed = false), "two equals differed");
}

#[test]
fn five_rounds_can_tell_something_and_four_cannot() {
    let judged = |rounds: usize| {
        let short = |mut report: Report| {
            let variants = &mut report.experiments[0].groups[0].variants;
            variants.iter_mut().for_each(|variant| variant.rounds.truncate(rounds));
            report
        };
        let slower = Run { seed: 2, machine: 1.0, subject: 1.3 }.report();
        compared(&short(equal(1)), &short(slower)).figures.remove(0).judged
    };
    let few = judged(4);
    assert_eq!((few.verdict, few.reason.as_deref()), (Outcome::NotComparable, Some("4 and 4 rounds are too few")));
    assert_eq!(judged(5).verdict, Outcome::Worse);
}

#[test]
fn without_anything_that_did_not_change_only_much_is_a_difference() {
    let alone = |subject, seed| {
        let mut report = Run { seed, machine: 1.0, subject }.report();
        report.experiments[0].groups[0].variants.retain(|variant| variant.id.starts_with("pilotlight"));
        report
    };
    let count = |subject, outcome| compared(&alone(1.0, 1), &alone(subject, 2)).count(outcome);
    assert_eq!((count(1.1, Outcome::NotToldApart), count(1.3, Outcome::Worse)), (2, 2));
}

#[test]
fn both_have_to_have_a_figure() {
    let mut other = equal(2);
    other.experiments[0].name = "front".into();
    let error =
        compare((Path::new("a.json"), &equal(1)), (Path::new("b.json"), &other)).expect_err("nothing in common");
    let expected = "a.json and b.json have no figure in common: the one has cache, the other front";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_table_names_both_and_counts() {
    let text = compared(&equal(1), &Run { seed: 2, machine: 1.0, subject: 1.3 }.report()).text();
    assert!(text.starts_with("before  a.json: 2026-11-22T10:00:00Z, 01234567+, A processor, 2 cores\n"), "{text}");
    assert!(text.contains("cache/cached/cpu-us/pilotlight") && text.contains("  worse\n"), "{text}");
    assert!(text.ends_with("2 worse, 0 better, 0 not told apart, 0 not comparable\n"), "{text}");
}
