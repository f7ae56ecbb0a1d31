//! What a schedule does now: decisions without a clock, and what came of them.
//!
//! Invariants: one run of a schedule is under way at most; a time that was dealt with is not dealt with again, unless
//! the clock was put back by more than a day.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use pilotlight_schedule::Schedule;

use super::spec::{Missed, ScheduleSpec};

/// Runs that are remembered of each schedule.
pub(crate) const KEPT_RUNS: usize = 20;
/// Seconds after which what was due is late: the gateway did not run, or its machine slept. More than the runner
/// sleeps.
const LATE: i64 = 120;
/// Seconds by which the clock may be put back.
const A_DAY: i64 = 24 * 3600;
/// Times that are counted one by one, of those that went by.
const MAX_COUNTED: u64 = 1000;

/// A schedule, and what has become of it.
#[derive(Debug)]
pub(crate) struct Agenda {
    pub(super) spec: Arc<ScheduleSpec>,
    /// `Err`: why there is none.
    schedule: Result<Schedule, String>,
    /// Nothing up to this second is due any more.
    dealt: i64,
    pending: Option<Pending>,
    running: Option<Begun>,
    asked: bool,
    last_number: u64,
    ended: Ended,
    last_success: Option<i64>,
    runs: VecDeque<Run>,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pending {
    due: i64,
    /// With the jitter.
    at: i64,
}

/// Why there is a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It was due.
    Due,
    /// It had been due, when nothing could be sent.
    Missed,
    /// A person wanted it.
    Asked,
}

impl Cause {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Due => "schedule",
            Self::Missed => "missed",
            Self::Asked => "by hand",
        }
    }
}

/// A run that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) spec: Arc<ScheduleSpec>,
    pub(crate) number: u64,
    pub(crate) cause: Cause,
    /// When it was due, in seconds since 1970; `None` by hand.
    pub(crate) due: Option<i64>,
    /// When, in seconds since 1970.
    pub(crate) at: i64,
}

/// A run that is over, or that there was none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) cause: Cause,
    pub(crate) at: i64,
    pub(crate) took: Duration,
    pub(crate) result: RunResult,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunResult {
    /// A status of 200 to 299.
    Ok(u16),
    Failed {
        /// That of the answer, if there was one.
        status: Option<u16>,
        why: String,
    },
    /// The one before was not over.
    Skipped,
    /// Another gateway has run it, or is to.
    Elsewhere,
    /// So many times went by.
    Missed(u64),
}

impl RunResult {
    /// It failed, and no answer says more.
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::Failed { status: None, why: why.into() }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ok(_) => "ok",
            Self::Failed { .. } => "failed",
            Self::Skipped => "skipped",
            Self::Elsewhere => "elsewhere",
            Self::Missed(_) => "missed",
        }
    }
}

/// Runs since the gateway's start, by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) elsewhere: u64,
    pub(crate) missed: u64,
}

/// A schedule as it is at the moment.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) spec: Arc<ScheduleSpec>,
    /// What the clock of its time zone shows when it is due next, and when that is in seconds since 1970.
    pub(crate) next: Option<(String, i64)>,
    /// Why it is never due.
    pub(crate) error: Option<String>,
    pub(crate) running: Option<Begun>,
    pub(crate) ended: Ended,
    pub(crate) last_success: Option<i64>,
    /// The last number that was given to a run.
    pub(crate) last_number: u64,
    /// The latest first.
    pub(crate) runs: Vec<Run>,
}

impl Agenda {
    /// `remembered`: up to when it was dealt with before this process began.
    pub(super) fn new(
        spec: Arc<ScheduleSpec>,
        schedule: Result<Schedule, String>,
        now: i64,
        remembered: Option<i64>,
    ) -> Self {
        let dealt = remembered.filter(|_| spec.missed == Missed::Run).map_or(now, |dealt| dealt.min(now));
        Self {
            spec,
            schedule,
            dealt,
            pending: None,
            running: None,
            asked: false,
            last_number: 0,
            ended: Ended::default(),
            last_success: None,
            runs: VecDeque::new(),
        }
    }

    /// Follows other settings; what was due before `now` is not by those.
    pub(super) fn follow(&mut self, spec: Arc<ScheduleSpec>, schedule: Result<Schedule, String>, now: i64) {
        if (&self.spec.cron, &self.spec.timezone, self.spec.jitter) != (&spec.cron, &spec.timezone, spec.jitter) {
            self.pending = None;
            self.dealt = self.dealt.max(now);
        }
        (self.spec, self.schedule) = (spec, schedule);
    }

    /// Somebody wants a run now; its number, or that of the one that is under way.
    pub(super) fn ask(&mut self) -> Result<u64, u64> {
        match &self.running {
            Some(running) => Err(running.number),
            None => {
                self.asked = true;
                Ok(self.last_number + 1)
            }
        }
    }

    /// What begins now. `random` is from 0 to 1.
    pub(super) fn step(&mut self, now: i64, random: f64) -> Option<Begun> {
        if self.dealt > now + A_DAY {
            (self.dealt, self.pending) = (now, None); // the clock was wrong
        }
        if std::mem::take(&mut self.asked) && self.running.is_none() {
            return Some(self.begin(Cause::Asked, None, now));
        }
        self.plan(random);
        let pending = self.pending.filter(|pending| pending.at <= now)?;
        self.pending = None;
        self.dealt = pending.due;
        let passed = self.pass(now);
        let is_late = now - pending.at > LATE;
        if passed > 0 {
            self.ended.missed += passed;
        }
        let begun = match (is_late, self.spec.missed) {
            (true, Missed::Skip) => {
                self.ended.missed += 1;
                self.note(Cause::Due, now, RunResult::Missed(passed + 1));
                None
            }
            _ if self.running.is_some() => {
                self.ended.skipped += 1;
                self.note(Cause::Due, now, RunResult::Skipped);
                None
            }
            (is_late, _) => Some(self.begin(if is_late { Cause::Missed } else { Cause::Due }, Some(self.dealt), now)),
        };
        self.plan(random);
        begun
    }

    /// When there is something to do again.
    pub(super) fn wakes_at(&self) -> Option<i64> {
        if self.asked { Some(i64::MIN) } else { self.pending.map(|pending| pending.at) }
    }

    /// Up to when it was dealt with, if that has to be known after a restart.
    pub(super) fn to_remember(&self) -> Option<i64> {
        (self.spec.missed == Missed::Run && self.schedule.is_ok()).then_some(self.dealt)
    }

    pub(super) fn end(&mut self, number: u64, at: i64, took: Duration, result: RunResult) {
        let Some(running) = self.running.take_if(|running| running.number == number) else { return };
        match result {
            RunResult::Ok(_) => {
                self.ended.ok += 1;
                self.last_success = Some(at);
            }
            RunResult::Skipped => self.ended.skipped += 1,
            RunResult::Elsewhere => self.ended.elsewhere += 1,
            _ => self.ended.failed += 1,
        }
        self.remember(Run { number, cause: running.cause, at: running.at, took, result });
    }

    pub(super) fn report(&self) -> Report {
        let schedule = self.schedule.as_ref().ok();
        let due = self.pending.map(|pending| pending.due).or_else(|| schedule?.next(self.dealt));
        Report {
            spec: Arc::clone(&self.spec),
            next: due.and_then(|due| Some((schedule?.shown(due).to_string(), due))),
            error: self.schedule.as_ref().err().cloned(),
            running: self.running.clone(),
            ended: self.ended,
            last_success: self.last_success,
            last_number: self.last_number,
            runs: self.runs.iter().rev().cloned().collect(),
        }
    }

    fn plan(&mut self, random: f64) {
        let (None, Ok(schedule)) = (self.pending, &self.schedule) else { return };
        self.pending = schedule.next(self.dealt).map(|due| {
            let jitter = Duration::try_from_secs_f64(self.spec.jitter.as_secs_f64() * random).unwrap_or_default();
            Pending { due, at: due.saturating_add(i64::try_from(jitter.as_secs()).unwrap_or(0)) }
        });
    }

    /// Deals with all that was due since, but for the last; how many times that were.
    fn pass(&mut self, now: i64) -> u64 {
        let Ok(schedule) = &self.schedule else { return 0 };
        let mut passed = 0;
        while let Some(due) = schedule.next(self.dealt).filter(|due| *due <= now) {
            passed += 1;
            self.dealt = due;
            if passed >= MAX_COUNTED {
                self.dealt = now;
            }
        }
        passed
    }

    fn begin(&mut self, cause: Cause, due: Option<i64>, now: i64) -> Begun {
        self.last_number += 1;
        let begun = Begun { spec: Arc::clone(&self.spec), number: self.last_number, cause, due, at: now };
        self.running = Some(begun.clone());
        begun
    }

    fn note(&mut self, cause: Cause, now: i64, result: RunResult) {
        self.last_number += 1;
        self.remember(Run { number: self.last_number, cause, at: now, took: Duration::ZERO, result });
    }

    fn remember(&mut self, run: Run) {
        if self.runs.len() == KEPT_RUNS {
            self.runs.pop_front();
        }
        self.runs.push_back(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use pilotlight_schedule::{Cron, Zone};
    use proptest::prelude::*;

    const HOUR: i64 = 3600;

    fn agenda(cron: &str, missed: Missed, jitter: u64, now: i64, remembered: Option<i64>) -> Agenda {
        let spec = ScheduleSpec {
            name: "a".to_owned(),
            cron: Cron::parse(cron).unwrap(),
            timezone: "UTC".to_owned(),
            service: "a".to_owned(),
            target: "/".to_owned(),
            event: None,
            method: Method::POST,
            host: "localhost".to_owned(),
            jitter: Duration::from_secs(jitter),
            timeout: ScheduleSpec::DEFAULT_TIMEOUT,
            missed,
            is_shared: false,
        };
        let schedule = Ok(Schedule::new(spec.cron.clone(), Zone::utc()));
        Agenda::new(Arc::new(spec), schedule, now, remembered)
    }

    fn hourly(missed: Missed) -> Agenda {
        agenda("0 * * * *", missed, 0, 0, None)
    }

    #[track_caller]
    fn begins(agenda: &mut Agenda, now: i64, expected: Option<Cause>) {
        assert_eq!(agenda.step(now, 0.5).map(|begun| begun.cause), expected, "at {now}");
    }

    fn ends(agenda: &mut Agenda) {
        let number = agenda.running.as_ref().unwrap().number;
        agenda.end(number, 1, Duration::from_secs(1), RunResult::Ok(200));
    }

    #[test]
    fn each_time_once() {
        let mut agenda = hourly(Missed::Skip);
        begins(&mut agenda, 0, None);
        assert_eq!(agenda.wakes_at(), Some(HOUR));
        begins(&mut agenda, HOUR - 1, None);
        begins(&mut agenda, HOUR, Some(Cause::Due));
        begins(&mut agenda, HOUR, None);
        ends(&mut agenda);
        begins(&mut agenda, HOUR - 600, None); // the clock was put back
        begins(&mut agenda, HOUR, None);
        begins(&mut agenda, 2 * HOUR + 1, Some(Cause::Due));
        ends(&mut agenda);
        assert_eq!(agenda.ended, Ended { ok: 2, ..Ended::default() });
    }

    #[test]
    fn one_at_a_time() {
        let mut agenda = hourly(Missed::Run);
        begins(&mut agenda, HOUR, Some(Cause::Due));
        begins(&mut agenda, 2 * HOUR, None);
        assert_eq!(agenda.ask(), Err(1));
        ends(&mut agenda);
        begins(&mut agenda, 2 * HOUR + 1, None); // what was skipped does not come later
        begins(&mut agenda, 3 * HOUR, Some(Cause::Due));
        let results: Vec<&str> = agenda.report().runs.iter().map(|run| run.result.name()).collect();
        assert_eq!(results, ["ok", "skipped"]);
        assert_eq!(agenda.ended, Ended { ok: 1, skipped: 1, ..Ended::default() });
    }

    #[test]
    fn what_was_missed() {
        let mut agenda = hourly(Missed::Skip);
        begins(&mut agenda, 10 * HOUR + 600, None); // the machine slept
        assert_eq!(agenda.ended.missed, 10);
        assert_eq!(agenda.runs[0].result, RunResult::Missed(10));
        begins(&mut agenda, 11 * HOUR, Some(Cause::Due));

        let mut agenda = hourly(Missed::Run);
        begins(&mut agenda, 10 * HOUR + 600, Some(Cause::Missed)); // one for all of them
        ends(&mut agenda);
        begins(&mut agenda, 10 * HOUR + 601, None);
        begins(&mut agenda, 11 * HOUR, Some(Cause::Due));
        assert_eq!((agenda.ended.missed, agenda.ended.ok), (9, 1));
    }

    #[test]
    fn what_was_missed_before_this_process_began() {
        let after = |missed, remembered| {
            agenda_step(agenda("0 * * * *", missed, 0, 10 * HOUR + 600, remembered), 10 * HOUR + 600)
        };
        assert_eq!(after(Missed::Run, Some(9 * HOUR)), Some(Cause::Missed));
        assert_eq!(after(Missed::Run, Some(10 * HOUR)), None, "it was dealt with");
        assert_eq!(after(Missed::Run, None), None, "it is new");
        assert_eq!(after(Missed::Skip, Some(9 * HOUR)), None);
        assert_eq!(after(Missed::Run, Some(99 * HOUR)), None, "the clock was wrong then");
    }

    fn agenda_step(mut agenda: Agenda, now: i64) -> Option<Cause> {
        agenda.step(now, 0.5).map(|begun| begun.cause)
    }

    #[test]
    fn jitter_is_a_delay() {
        let mut agenda = agenda("0 * * * *", Missed::Skip, 600, 0, None);
        begins(&mut agenda, HOUR, None);
        assert_eq!(agenda.wakes_at(), Some(HOUR + 300));
        assert_eq!(agenda.report().next.unwrap(), ("1970-01-01 01:00".to_owned(), HOUR));
        begins(&mut agenda, HOUR + 299, None);
        begins(&mut agenda, HOUR + 300, Some(Cause::Due));
        assert_eq!(agenda.wakes_at(), Some(2 * HOUR + 300));
    }

    #[test]
    fn by_hand() {
        let mut agenda = hourly(Missed::Skip);
        begins(&mut agenda, 0, None);
        assert_eq!(agenda.ask(), Ok(1));
        assert_eq!(agenda.wakes_at(), Some(i64::MIN));
        begins(&mut agenda, 10, Some(Cause::Asked));
        ends(&mut agenda);
        assert_eq!(agenda.wakes_at(), Some(HOUR));
        begins(&mut agenda, HOUR, Some(Cause::Due));
    }

    #[test]
    fn other_settings() {
        let mut before = agenda("0 * * * *", Missed::Skip, 0, 0, None);
        begins(&mut before, 0, None);
        let every_minute = agenda("* * * * *", Missed::Skip, 0, 0, None);
        before.follow(every_minute.spec, every_minute.schedule, 600);
        begins(&mut before, 601, None);
        assert_eq!(before.wakes_at(), Some(660));
    }

    #[test]
    fn a_clock_that_was_years_ahead() {
        let mut agenda = agenda("0 * * * *", Missed::Skip, 0, 1000 * A_DAY, None);
        begins(&mut agenda, 1000 * A_DAY, None);
        begins(&mut agenda, HOUR - 1, None);
        begins(&mut agenda, HOUR, Some(Cause::Due));
    }

    proptest! {
        #[test]
        fn whatever_happens_no_two_runs_overlap_and_each_time_is_dealt_with(
            steps in proptest::collection::vec((0..9000_i64, 0..3_u8), 1..60),
            run_missed in any::<bool>(),
        ) {
            let mut agenda = agenda("*/10 * * * *", if run_missed { Missed::Run } else { Missed::Skip }, 0, 0, None);
            let (mut now, mut running) = (0, None);
            for (more, what) in steps {
                now += more;
                let begun = agenda.step(now, 0.0);
                if let Some(begun) = begun {
                    prop_assert!(running.is_none(), "two at once");
                    running = Some(begun.number);
                }
                match what {
                    0 => if let Some(number) = running.take() {
                        agenda.end(number, now, Duration::ZERO, RunResult::Ok(200));
                    },
                    1 => { let _ = agenda.ask(); },
                    _ => {}
                }
                // A run by hand takes the turn of a step.
                let begun = agenda.step(now, 0.0);
                if let Some(begun) = begun {
                    prop_assert!(running.is_none(), "two at once");
                    running = Some(begun.number);
                }
                while let Some(begun) = agenda.step(now, 0.0) {
                    prop_assert!(running.is_none(), "two at once");
                    running = Some(begun.number);
                }
                prop_assert!(agenda.wakes_at() > Some(now));
                prop_assert!(agenda.runs.len() <= KEPT_RUNS);
            }
            let Ended { ok, failed, skipped, elsewhere, missed } = agenda.ended;
            prop_assert!(ok + failed + skipped + elsewhere + missed + u64::from(running.is_some()) >= (now / 600) as u64);
        }
    }
}
