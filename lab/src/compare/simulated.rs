//! Reports whose truth is known.

use fastrand::Rng;
use serde_json::json;

use crate::experiment::judge;
use crate::experiment::model::{Metric, Report};
use crate::stats::median;

const ROUNDS: usize = 24;

/// A run in which the machine takes `machine` times what it did, and the subject `subject` times.
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) machine: f64,
    pub(crate) subject: f64,
}

impl Run {
    pub(crate) fn report(&self) -> Report {
        let mut rng = Rng::with_seed(self.seed);
        let mut variant = |id: &str, role: &str, usual: f64| {
            // Long tails, as times have.
            let mut noise = || 1.0 + 0.02 * rng.f64() - if rng.u8(..8) == 0 { 0.03 * rng.f64().ln() } else { 0.0 };
            let values: Vec<f64> = (0..ROUNDS).map(|_| usual * self.machine * noise()).collect();
            let rounds: Vec<_> =
                values.iter().map(|value| json!({"cpu-us": value, "per-second": 1e6 / value})).collect();
            let (middle, software) = (median(&values), json!([{"name": id, "version": "1", "settings": ["cpus 0"]}]));
            let summary = |value: Option<f64>| json!({"median": value, "low": value, "high": value});
            let summary = json!({"cpu-us": summary(middle), "per-second": summary(middle.map(|value| 1e6 / value))});
            let shown = json!({"id": id, "title": id, "role": role, "software": software, "failed": null, "rounds": rounds,
                "summary": summary, "cpu_us": {}, "latency": null, "phases": [], "requests": 1});
            (shown, values)
        };
        let (ours, first) = variant("pilotlight", "subject", 4.0 * self.subject);
        let (again, second) = variant("pilotlight (again)", "control", 4.0 * self.subject);
        let others = [("floor", "floor", 3.0), ("nginx", "peer", 7.0), ("haproxy", "peer", 6.0)];
        let others = others.map(|(id, role, usual)| variant(id, role, usual).0);
        let ratios: Vec<f64> = second.iter().zip(&first).map(|(second, first)| second / first).collect();
        let controls = [
            judge::control("pilotlight", Metric::CpuUs, &ratios, 1),
            judge::control("pilotlight", Metric::PerSecond, &ratios.iter().map(|r| r.recip()).collect::<Vec<_>>(), 1),
        ];
        let [floor, nginx, haproxy] = others;
        let group = json!({"id": "cached", "title": "A cached answer", "workload": "64 connections",
            "metrics": ["cpu-us", "per-second"], "rounds": ROUNDS, "seconds": 0.5, "comparisons": [],
            "variants": [ours, floor, nginx, haproxy, again], "controls": controls});
        let machine = json!({"hostname": "a", "cpu": "A processor", "cores": 2, "memory_bytes": 1, "system": "",
            "kernel": "", "architecture": "x86_64", "governor": null});
        let noise = json!({"load_average": [0.0, 0.0], "steal": null, "spread": [0.0, 0.0], "busy": [null, null],
            "refused": null, "overridden": false});
        let cache = json!({"name": "cache", "title": "", "hypothesis": "", "groups": [group], "figures": [],
            "findings": [], "skipped": [], "published": [], "failed": null});
        let report = json!({"schema": "pilotlight-lab/2", "started_at": "2026-11-22T10:00:00Z", "duration_seconds": 1.0,
            "command": [], "version": "0.1.0", "commit": "0123456789abcdef-dirty (of the checkout around the binary)",
            "debug_build": false, "quick": false, "interrupted": false, "seed": 1, "machine": machine, "noise": noise,
            "experiments": [cache]});
        serde_json::from_value(report).expect("a report")
    }
}
