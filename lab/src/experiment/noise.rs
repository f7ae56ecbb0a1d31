//! How much the machine disturbs what is measured on it: the times of a fixed piece of work, what other programs use
//! meanwhile, and what other virtual machines take.

use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::model::Noise;
use crate::interrupt::{self, Interrupted};
use crate::machine;

/// Times of a fixed piece of work may spread so much: (p90 − p10) / median. ADR 0022 has what was seen below it and
/// above it.
pub const MAX_SPREAD: f64 = 0.25;
/// Other programs may use so much of all processors.
pub const MAX_BUSY: f64 = 0.10;
/// Other virtual machines may take so much of the time during a run.
pub const MAX_STEAL: f64 = 0.02;
/// So long it is waited for a machine to become quiet: whoever starts the lab has often just built something.
pub const MAX_WAIT: Duration = Duration::from_secs(20);

const PIECES: usize = 200;
const STEPS: u32 = 300_000;

/// What is to be done on a noisy machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noisy {
    /// Nothing is compared.
    Refuse,
    /// It is compared, and the report says so.
    Compare,
}

/// Looks at the machine before a run and after it.
#[derive(Debug)]
pub struct Watch {
    before: Probe,
    load: f64,
    ticks: Option<Ticks>,
}

impl Watch {
    /// Before a run: waits until the machine is quiet, but not for long, and not where it does not matter.
    ///
    /// # Errors
    /// The lab was told to end.
    pub fn begin(noisy: Noisy, mut waiting: impl FnMut(&str)) -> Result<Self, Interrupted> {
        let load = machine::load_average();
        let mut before = Probe::take();
        let end = Instant::now() + MAX_WAIT;
        while let Some(why) = before.too_much().filter(|_| noisy == Noisy::Refuse && Instant::now() < end) {
            interrupt::check()?;
            waiting(&why);
            before = Probe::take();
        }
        Ok(Self { before, load, ticks: Ticks::now() })
    }

    /// Why nothing will be compared, as far as that is known before.
    #[must_use]
    pub fn refused(&self) -> Option<String> {
        self.before.too_much()
    }

    /// After a run.
    #[must_use]
    pub fn end(self, noisy: Noisy) -> Noise {
        let after = Probe::take();
        let steal = self.ticks.zip(Ticks::now()).and_then(|(before, after)| after.since(before).steal());
        let stolen = steal.filter(|steal| *steal > MAX_STEAL).map(|steal| {
            format!("other virtual machines took {} of the time, more than {}", percent(steal), percent(MAX_STEAL))
        });
        let parts = [
            self.before.too_much().map(|why| format!("before the run {why}")),
            after.too_much().map(|why| format!("after the run {why}")),
            stolen,
        ];
        let reasons: Vec<String> = parts.into_iter().flatten().collect();
        Noise {
            load_average: [self.load, machine::load_average()],
            steal,
            spread: [self.before.spread, after.spread],
            busy: [self.before.busy, after.busy],
            overridden: noisy == Noisy::Compare && !reasons.is_empty(),
            refused: (!reasons.is_empty()).then(|| reasons.join("; ")),
        }
    }
}

/// One look at the machine.
#[derive(Clone, Copy, Debug)]
struct Probe {
    spread: f64,
    busy: Option<f64>,
}

impl Probe {
    fn take() -> Self {
        let (ticks, own) = (Ticks::now(), own_time());
        let mut times: Vec<f64> = (0..PIECES).map(|_| piece().as_secs_f64()).collect();
        let own = own_time().saturating_sub(own);
        let busy = ticks.zip(Ticks::now()).and_then(|(before, after)| after.since(before).others(own));
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times[(PIECES - 1) * percent / 100];
        Self { spread: (at(90) - at(10)) / at(50).max(f64::MIN_POSITIVE), busy }
    }

    /// What is above its limit.
    fn too_much(&self) -> Option<String> {
        let spread = (self.spread > MAX_SPREAD).then(|| {
            format!("the times of equal work spread by {}, more than {}", percent(self.spread), percent(MAX_SPREAD))
        });
        let busy = self.busy.filter(|busy| *busy > MAX_BUSY).map(|busy| {
            format!("other programs used {} of the processors, more than {}", percent(busy), percent(MAX_BUSY))
        });
        let parts: Vec<String> = [spread, busy].into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}

/// `12 %`, and decimals for small shares.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Time of all processors together since the system started, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    busy: u64,
    steal: u64,
}

impl Ticks {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// `cpu  user nice system idle iowait irq softirq steal …` (proc_stat(5)).
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = *fields.first_chunk()?;
        let busy = user + nice + system + irq + softirq;
        Some(Self { all: busy + idle + iowait + steal, busy, steal })
    }

    fn since(self, before: Self) -> Self {
        let Self { all, busy, steal } = self;
        Self {
            all: all.saturating_sub(before.all),
            busy: busy.saturating_sub(before.busy),
            steal: steal.saturating_sub(before.steal),
        }
    }

    fn steal(self) -> Option<f64> {
        (self.all > 0).then(|| self.steal as f64 / self.all as f64)
    }

    /// The share of the processors that was neither idle nor `own`.
    fn others(self, own: Duration) -> Option<f64> {
        let hz = rustix::param::clock_ticks_per_second() as f64;
        let busy = (self.busy as f64 - own.as_secs_f64() * hz).max(0.0);
        (self.all > 0).then(|| busy / self.all as f64)
    }
}

fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Marsaglia's xorshift, so often that it takes about a millisecond.
fn piece() -> Duration {
    let begin = Instant::now();
    let mut state = black_box(1_u64);
    for _ in 0..STEPS {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
    begin.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_processors() {
        let before = Ticks::parse("cpu  100 0 50 1000 10 0 5 20 0 0\ncpu0 1 1 1 1\n").expect("a line");
        assert_eq!(before, Ticks { all: 1185, busy: 155, steal: 20 });
        let after = Ticks::parse("cpu  160 0 60 1100 10 0 5 50 0 0\n").expect("a line");
        let passed = after.since(before);
        assert_eq!((passed.all, passed.busy, passed.steal), (200, 70, 30));
        assert_eq!(passed.steal(), Some(0.15));
        let own = Duration::from_secs_f64(50.0 / rustix::param::clock_ticks_per_second() as f64);
        assert!((passed.others(own).expect("time has passed") - 0.1).abs() < 1e-9);
        assert_eq!(before.since(before).steal(), None);
        assert_eq!(Ticks::parse("cpu  1 2 3\n"), None);
    }

    #[test]
    fn what_is_above_its_limit_is_said_with_the_limit() {
        let quiet = Probe { spread: 0.02, busy: Some(0.01) };
        assert_eq!(quiet.too_much(), None);
        let noisy = Probe { spread: 0.5, busy: Some(0.125) };
        let said = "the times of equal work spread by 50 %, more than 25 % and other programs used 12 % of the processors, more than 10 %";
        assert_eq!(noisy.too_much().as_deref(), Some(said));
        assert_eq!(Probe { spread: 0.02, busy: None }.too_much(), None);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let watch = Watch::begin(Noisy::Compare, |_| ()).expect("not interrupted");
        let noise = watch.end(Noisy::Compare);
        assert!(noise.spread.iter().all(|spread| spread.is_finite() && *spread >= 0.0), "{noise:?}");
        assert!(noise.busy.iter().flatten().all(|busy| (0.0..=1.0).contains(busy)), "{noise:?}");
        assert_eq!(noise.overridden, noise.refused.is_some());
    }
}
