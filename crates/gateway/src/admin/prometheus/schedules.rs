//! What became of schedules.

use super::text::{Text, labels};
use crate::schedules::{Ended, Report};

/// Requests at certain times, if there are any.
pub(super) fn runs(text: &mut Text, all: &[Report]) {
    const RUNS: &str = "pilotlight_schedule_runs_total";
    const SUCCESS: &str = "pilotlight_schedule_last_success_seconds";
    const RUNNING: &str = "pilotlight_schedule_running";
    if all.is_empty() {
        return;
    }
    let of = |report: &Report| labels(&[("schedule", &report.spec.name)]);
    text.family(RUNS, "counter", "Runs of schedules, by what came of them.");
    for report in all {
        let Ended { ok, failed, skipped, elsewhere, missed } = report.ended;
        let outcomes =
            [("ok", ok), ("failed", failed), ("skipped", skipped), ("elsewhere", elsewhere), ("missed", missed)];
        for (outcome, count) in outcomes {
            text.sample(RUNS, &format!("{},outcome=\"{outcome}\"", of(report)), &count);
        }
    }
    text.family(RUNNING, "gauge", "Whether a run is under way.");
    all.iter().for_each(|report| text.sample(RUNNING, &of(report), &u64::from(report.running.is_some())));
    text.family(SUCCESS, "gauge", "When a run ended well last, in seconds since 1970.");
    for report in all {
        if let Some(at) = report.last_success {
            text.sample(SUCCESS, &of(report), &at);
        }
    }
}
