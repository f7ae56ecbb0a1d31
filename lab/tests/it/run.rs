use std::cell::{Cell, RefCell};
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use pilotlight_lab::experiment::judge::{Machine, judge};
use pilotlight_lab::experiment::model::{GroupResults, Metric, Role, Verdict};
use pilotlight_lab::experiment::run::{End, Runner};
use pilotlight_lab::experiment::{Amount, Group, Measure, Question, Sample, Variant};

/// One test at a time: a watchdog kills what the process has started meanwhile.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that is started for each measurement, prints what it answers and ends.
struct Script {
    text: String,
    /// CPU time that it is said to take.
    cpu_us: f64,
    limit: Duration,
    rounds: u32,
}

impl Script {
    fn new(text: &str) -> Self {
        Self { text: text.into(), cpu_us: 10.0, limit: Duration::from_secs(60), rounds: 0 }
    }
}

/// A child that does not stay.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Measure for Script {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        let round = self.rounds;
        self.rounds += 1;
        let text = format!("round={round}; {}", self.text);
        let mut started = Started(Command::new("sh").args(["-c", &text]).stdout(Stdio::piped()).spawn()?);
        let mut answer = String::new();
        // No limit of its own: this is what the watchdog is for.
        started.0.stdout.take().context("it is piped")?.read_to_string(&mut answer)?;
        let status = started.0.wait()?;
        if !status.success() {
            bail!("the program ended: {status}");
        }
        ensure!(answer == "right\n", "it answered {answer:?}");
        // Not exactly equal, as no two measurements are.
        let jitter = 0.01 * f64::from(round * 7 % 5);
        let cpu_us = self.cpu_us + jitter;
        Ok(Sample { values: vec![(Metric::CpuUs, cpu_us)], requests: 1, ..Sample::default() })
    }

    fn limit(&self, _: Amount) -> Duration {
        self.limit
    }
}

fn variant(id: &str, measure: impl Measure + 'static) -> Variant {
    let (id, title) = (id.to_owned(), format!("the {id} one"));
    Variant { id, title, role: Role::Peer, software: Vec::new(), measure: Box::new(measure) }
}

fn group(variants: Vec<Variant>, rounds: u32) -> Group {
    let question = |variant: &Variant| Question {
        text: format!("{} / first", variant.id),
        metric: Metric::CpuUs,
        one: variant.id.clone(),
        other: "first".into(),
        difference: false,
    };
    Group {
        id: "group".into(),
        title: "A group".into(),
        workload: "nothing".into(),
        metrics: vec![Metric::CpuUs],
        control: "first".into(),
        questions: variants.iter().skip(1).map(question).collect(),
        amount: Amount { rounds, duration: Duration::ZERO, warm_up: Duration::ZERO, seed: 1 },
        variants,
    }
}

fn results(variants: Vec<Variant>, rounds: u32) -> GroupResults {
    let group = group(variants, rounds);
    let mut runner = Runner::new(std::iter::once(&group), None).expect("a thread");
    let (measured, end) = runner.run("test", group);
    assert_eq!(end, End::Whole);
    judge(&measured, Machine::Quiet, 1)
}

#[track_caller]
fn check_failed(results: &GroupResults, id: &str, why: &str) {
    let variant = results.variants.iter().find(|variant| variant.id == id).expect("it is in the report");
    let failed = variant.failed.as_deref().expect("it has failed");
    assert!(failed.contains(why), "{failed}");
    assert!(variant.rounds.is_empty() && variant.summary.is_empty() && variant.requests == 0, "{variant:?}");
    for comparison in results.comparisons.iter().filter(|comparison| comparison.one == id) {
        assert_eq!((comparison.verdict, comparison.value), (Verdict::NotComparable, None));
        assert_eq!(comparison.reason.as_deref(), Some(format!("the {id} one failed").as_str()));
    }
}

#[test]
fn who_crashes_or_answers_wrongly_is_named_and_counts_in_no_round() {
    let _turn = turn();
    let results = results(
        vec![
            variant("first", Script::new("echo right")),
            variant("crashing", Script::new("test $round -lt 3 || kill -SEGV $$; echo right")),
            variant("failing", Script::new("exit 3")),
            variant("wrong", Script::new("test $round -lt 5 && echo right || echo wrong")),
            variant("good", Script { cpu_us: 5.0, ..Script::new("echo right") }),
        ],
        10,
    );
    check_failed(&results, "crashing", "the program ended: signal: 11");
    check_failed(&results, "failing", "the program ended: exit status: 3");
    check_failed(&results, "wrong", "it answered \"wrong\\n\"");
    let good = results.variants.iter().find(|variant| variant.id == "good").expect("the others went on");
    assert_eq!((good.failed.as_deref(), good.rounds.len(), good.requests), (None, 10, 10));
    let comparison = results.comparisons.iter().find(|comparison| comparison.one == "good").expect("compared");
    assert_eq!((comparison.verdict, comparison.reason.as_deref()), (Verdict::Less, None));
}

#[test]
fn where_all_have_failed_no_more_rounds_are_run_and_none_is_reported() {
    let _turn = turn();
    let fails = |round: u32| Script::new(&format!("test $round -lt {round} && echo right"));
    let results = results(vec![variant("first", fails(1)), variant("good", fails(2))], 10);
    check_failed(&results, "first", "the program ended: exit status: 1");
    check_failed(&results, "good", "the program ended: exit status: 1");
    assert_eq!(results.rounds, 2);
}

#[test]
fn who_hangs_is_named_and_his_processes_end() {
    let _turn = turn();
    let begin = Instant::now();
    let results = results(
        vec![
            variant("first", Script::new("echo right")),
            // The shell waits for a child of its own, which has the pipe too.
            variant("hanging", Script { limit: Duration::from_millis(300), ..Script::new("sleep 1000; echo right") }),
            variant("good", Script::new("echo right")),
        ],
        8,
    );
    check_failed(&results, "hanging", "no end after 0.3 s: its processes were killed");
    assert_eq!(results.variants.iter().filter(|variant| variant.rounds.len() == 8).count(), 3, "{results:?}");
    // Not a matter of speed: a process that was not killed would take 1000 s.
    assert!(begin.elapsed() < Duration::from_secs(500));
}

#[test]
fn with_the_measured_one_fails_its_control_and_nothing_is_compared() {
    let _turn = turn();
    let results = results(vec![variant("first", Script::new("exit 1")), variant("good", Script::new("echo right"))], 8);
    check_failed(&results, "first", "exit status: 1");
    check_failed(&results, "first (again)", "exit status: 1");
    assert_eq!(results.comparisons[0].verdict, Verdict::NotComparable);
    assert_eq!(results.controls, []);
}

#[test]
fn every_round_measures_every_variant_once_and_the_control_twice() {
    let _turn = turn();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let recorded = |id: &'static str| {
        let seen = Rc::clone(&seen);
        variant(id, move |_: Amount| {
            seen.borrow_mut().push(id);
            Ok(Sample { values: vec![(Metric::CpuUs, 1.0)], ..Sample::default() })
        })
    };
    let results = results(vec![recorded("first"), recorded("b"), recorded("c")], 8);
    let seen = seen.borrow();
    let rounds: Vec<&[&str]> = seen.chunks(4).collect();
    assert_eq!(rounds[0], ["first", "b", "c", "first"]);
    assert_eq!(rounds[1], ["first", "c", "b", "first"]);
    assert_eq!(rounds[2], ["b", "c", "first", "first"]);
    assert_eq!(rounds[3], ["first", "first", "c", "b"]);
    for round in &rounds {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, ["b", "c", "first", "first"]);
    }
    let control = results.variants.last().expect("the control is the last");
    assert_eq!((control.id.as_str(), control.role, control.rounds.len()), ("first (again)", Role::Control, 8));
    assert_eq!((results.controls[0].ratio, results.controls[0].passed), (1.0, true));
    // Equal in every round, so no difference; and that is said.
    assert!(results.comparisons.iter().all(|comparison| comparison.verdict == Verdict::NoDifference), "{results:?}");
}

#[test]
fn both_measurements_of_the_control_count_where_it_is_compared() {
    let _turn = turn();
    let cpu = |cpu_us: f64| Ok(Sample { values: vec![(Metric::CpuUs, cpu_us)], requests: 1, ..Sample::default() });
    // Whichever of the two comes first in a round: noise of theirs that is gone from their mean.
    let calls = Cell::new(0_u32);
    let first = move |_: Amount| {
        calls.set(calls.get() + 1);
        cpu(if calls.get().is_multiple_of(2) { 8.0 } else { 12.5 })
    };
    let results = results(vec![variant("first", first), variant("second", move |_: Amount| cpu(10.5))], 12);
    let value = results.comparisons[0].value.expect("it was compared");
    for found in [value.low, value.median, value.high] {
        assert!((found - 1.05).abs() < 1e-9, "{value:?}");
    }
    let shown = results.variants[0].summary[&Metric::CpuUs];
    assert!(shown.low < 10.0 && shown.high > 10.0, "the table shows what was measured: {shown:?}");
}

/// A machine that becomes slower by 1 % with every measurement: whoever comes later in a round takes longer.
#[test]
fn what_grows_during_a_run_falls_on_all_alike() {
    let _turn = turn();
    let machine = Rc::new(Cell::new(1.0));
    let growing = |id, cpu_us: f64| {
        let machine = Rc::clone(&machine);
        variant(id, move |_: Amount| {
            machine.set(machine.get() * 1.01);
            Ok(Sample { values: vec![(Metric::CpuUs, cpu_us * machine.get())], ..Sample::default() })
        })
    };
    let results = results(vec![growing("first", 10.0), growing("equal", 10.0), growing("more", 11.0)], 24);
    assert!(results.controls[0].passed, "{results:?}");
    let verdicts: Vec<Verdict> = results.comparisons.iter().map(|comparison| comparison.verdict).collect();
    assert_eq!(verdicts, [Verdict::NoDifference, Verdict::More], "{results:?}");
}
