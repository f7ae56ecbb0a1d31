//! All schedules, as the runner and the operator see them.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pilotlight_schedule::{Schedule, Zone};
use tokio::sync::Notify;

use super::agenda::{Agenda, Begun, Report, RunResult};
use super::kept::{self, Kept};
use super::spec::ScheduleSpec;

/// All schedules.
pub(crate) struct Schedules {
    agendas: Mutex<Vec<Agenda>>,
    /// There is something else to wait for.
    changed: Notify,
    /// Where it is kept what was dealt with, and what was written last.
    file: Option<PathBuf>,
    written: Mutex<HashMap<String, Kept>>,
    /// That nothing can be written has been said.
    is_unwritable: AtomicBool,
}

/// Why no run was begun by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotBegun {
    /// There is no such schedule.
    Unknown,
    /// The run of this number is under way.
    Running(u64),
}

impl Schedules {
    /// These. `file`: where it is kept what was dealt with.
    pub(crate) fn new(file: Option<PathBuf>, specs: &[Arc<ScheduleSpec>], now: i64) -> Self {
        let (agendas, written) = (Mutex::default(), Mutex::default());
        let none = Self { agendas, changed: Notify::new(), file, written, is_unwritable: AtomicBool::new(false) };
        none.follow(specs, now);
        none
    }

    /// Follows these. Those of the same name keep what came of them.
    pub(crate) fn follow(&self, specs: &[Arc<ScheduleSpec>], now: i64) {
        let mut agendas = self.lock();
        if agendas.is_empty() && specs.is_empty() {
            return;
        }
        let kept = self.file.as_deref().map(kept::read).unwrap_or_default();
        let mut known: HashMap<String, Agenda> =
            agendas.drain(..).map(|agenda| (agenda.spec.name.clone(), agenda)).collect();
        for spec in specs {
            let schedule = Zone::load(&spec.timezone).map(|zone| Schedule::new(spec.cron.clone(), zone));
            let schedule = schedule.map_err(|error| error.to_string());
            if let Err(why) = &schedule {
                tracing::error!(schedule = %spec.name, "it is never due: {why}");
            }
            agendas.push(match known.remove(&spec.name) {
                Some(mut agenda) => {
                    agenda.follow(Arc::clone(spec), schedule, now);
                    agenda
                }
                None => {
                    let of_these = |kept: &&Kept| kept.cron == spec.cron.text() && kept.timezone == spec.timezone;
                    let remembered = kept.get(&spec.name).filter(of_these).map(|kept| kept.dealt);
                    Agenda::new(Arc::clone(spec), schedule, now, remembered)
                }
            });
        }
        drop(agendas);
        self.changed.notify_one();
    }

    /// Waits until there is something else to wait for.
    ///
    /// # Cancel safety
    /// Nothing is lost: a change while nobody waits ends the next wait.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Runs that begin now.
    pub(super) fn due(&self, now: i64, random: impl Fn() -> f64) -> Vec<Begun> {
        self.lock().iter_mut().filter_map(|agenda| agenda.step(now, random())).collect()
    }

    /// When there is something to do again, in seconds since 1970.
    pub(super) fn wakes_at(&self) -> Option<i64> {
        self.lock().iter().filter_map(Agenda::wakes_at).min()
    }

    pub(super) fn end(&self, begun: &Begun, at: i64, took: Duration, result: RunResult) {
        let mut agendas = self.lock();
        if let Some(agenda) = agendas.iter_mut().find(|agenda| agenda.spec.name == begun.spec.name) {
            agenda.end(begun.number, at, took, result);
        }
    }

    /// Writes what has to be known after a restart, if that is something else than before. Takes as long as the disk.
    pub(super) fn keep(&self) {
        let Some(file) = &self.file else { return };
        let written = self.try_keep(file);
        let before = self.is_unwritable.swap(written.is_err(), Relaxed);
        if let (Err(error), false) = (written, before) {
            tracing::warn!("times of schedules cannot be kept for the next start: {}: {error}", file.display());
        }
    }

    fn try_keep(&self, file: &Path) -> io::Result<()> {
        let one = |agenda: &Agenda| {
            let spec = &agenda.spec;
            let (cron, timezone) = (spec.cron.text().to_owned(), spec.timezone.clone());
            Some((spec.name.clone(), Kept { cron, timezone, dealt: agenda.to_remember()? }))
        };
        // Held while it is written, so that what is newer is written later.
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let all: HashMap<String, Kept> = self.lock().iter().filter_map(one).collect();
        if all != *written {
            kept::write(file, &all)?;
            *written = all;
        }
        Ok(())
    }

    /// Whether there is anything to keep.
    pub(super) fn keeps(&self) -> bool {
        self.file.is_some() && self.lock().iter().any(|agenda| agenda.to_remember().is_some())
    }

    /// Begins a run of this name, whatever the time; its number.
    pub(crate) fn begin(&self, name: &str) -> Result<u64, NotBegun> {
        let mut agendas = self.lock();
        let agenda = agendas.iter_mut().find(|agenda| agenda.spec.name == name).ok_or(NotBegun::Unknown)?;
        let number = agenda.ask().map_err(NotBegun::Running)?;
        drop(agendas);
        self.changed.notify_one();
        Ok(number)
    }

    /// All of them, in the order of the file.
    pub(crate) fn report(&self) -> Vec<Report> {
        self.lock().iter().map(Agenda::report).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Agenda>> {
        self.agendas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
