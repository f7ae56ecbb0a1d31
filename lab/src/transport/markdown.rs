//! The report as Markdown, with the sections that the published one had.

use super::cases::{Case, Front};
use super::compare::{Comparison, Metric};
use super::results::{CaseResult, Results};
use super::{findings, published, tables};
use crate::processes::usage::Memory;
use crate::report::{Table, maybe, megabytes, number};

/// All sections.
#[must_use]
pub(crate) fn render(results: &Results) -> String {
    let sections: [(&str, String); 14] = [
        ("Test Information", information(results)),
        ("Test Environment", environment(results)),
        ("Executive Summary", summary(results)),
        ("Key Findings", list(&findings::key_findings(results))),
        ("Response Time Comparison", tables::times(results).markdown()),
        ("Memory Comparison", memory(results)),
        ("CPU Comparison", cpu(results)),
        ("Detailed Results", details(results)),
        ("Comparative Analysis", comparisons(results)),
        ("Analysis", analysis(results)),
        ("Recommendations", recommendations(results)),
        ("Technical Details", TECHNICAL.into()),
        ("Verification Commands", verification(results)),
        ("Conclusions", conclusions(results)),
    ];
    let mut out = String::from("# Transports: HTTP and the pipe, warm and cold\n");
    for (title, text) in sections {
        out.push_str(&format!("\n## {title}\n\n{}\n", text.trim_end()));
    }
    out
}

const TECHNICAL: &str = "\
One blocking client sends one request after another on one kept connection; a time is from before the request is written to after its answer is read. \
Every answer's body is compared with the 200 bytes that all services give. A round measures every variant once, and rounds begin with another variant each time; \
warm-up requests do not count. Ratios are taken within a round; the median of the rounds' ratios stands with a 95 % bootstrap interval. In the cold cases the service is stopped \
before each request, by the gateway itself, and the request is sent when its process is gone. *No gateway* is the same start made by the lab: \
what is left of the difference is the gateway's own part. Percentiles are right to a thousandth (HDR histogram), moments are exact. CPU time is that of all threads \
(`/proc/PID/task/*/schedstat`), in cold cases the service's since its start; stopping is not counted. Memory is the proportional share (`Pss`) of the service's processes. The gateway has one worker; nothing is pinned to a core.
";

fn list(items: &[String]) -> String {
    if items.is_empty() {
        "Nothing to say: too little was measured.".into()
    } else {
        items.iter().map(|i| format!("- {i}\n")).collect()
    }
}

fn information(results: &Results) -> String {
    let c = &results.configuration;
    let cases: Vec<&str> = c.cases.iter().map(|case| case.title()).collect();
    let mut lines = vec![
        format!("Started {}, took {} s; `{}`", results.started_at, number(results.duration_seconds), results.schema),
        format!(
            "{} requests of each case in {} rounds, {} for warm-up; seed {}",
            c.requests, c.rounds, c.warmup, c.seed
        ),
        format!("Cases: {}", cases.join(", ")),
    ];
    lines.extend(results.skipped.iter().map(|s| format!("**Skipped**: {}: {} (`{}`)", s.what, s.why, s.install)));
    list(&lines)
}

fn environment(results: &Results) -> String {
    let machine = &results.machine;
    let mut lines = vec![
        format!("Machine: {}", machine.hostname),
        format!("Processor: {}, {} cores for this process", machine.cpu, machine.cores),
        format!("Memory: {} MB", megabytes(machine.memory_bytes)),
        format!("System: {}, {}, {}", machine.system, machine.kernel, machine.architecture),
        format!("Clock rate governor: {}", machine.governor.as_deref().unwrap_or("not visible")),
        format!("Load before and after: {}", results.load_average.map(number).join(", ")),
    ];
    lines.extend(results.software.iter().map(|(name, version)| format!("{name}: {version}")));
    list(&lines)
}

fn summary(results: &Results) -> String {
    let mut lines: Vec<String> = Vec::new();
    for recommendation in &results.recommendations {
        let title = recommendation.service.title();
        lines.push(format!("**{title}: {}.** {}", recommendation.transport.advice(), recommendation.because));
    }
    lines.extend(results.too_noisy.iter().map(|why| format!("Warning: the machine was too noisy: {why}")));
    lines.extend(findings::warnings(results).into_iter().map(|warning| format!("Warning: {warning}")));
    let failed = results.results.iter().filter(|result| result.failed.is_some() || result.errors > 0);
    lines.extend(failed.map(|result| {
        let reasons: Vec<&str> = result.failed.iter().chain(result.error_reasons.keys()).map(String::as_str).collect();
        format!("**Failed**: {}: {}", result.title, reasons.join("; "))
    }));
    list(&lines)
}

fn memory(results: &Results) -> String {
    let mut table = Table::new([
        "variant",
        "service MB (Pss)",
        "growth",
        "resident (RSS)",
        "virtual",
        "processes",
        "gateway MB (Pss)",
    ]);
    for result in findings::answered(results) {
        let Memory { pss_bytes, rss_bytes, vms_bytes, processes } = result.memory.service_after;
        table.row([
            result.title.clone(),
            megabytes(pss_bytes),
            format!("{:.1}", result.memory.service_growth_bytes as f64 / 1e6),
            megabytes(rss_bytes),
            megabytes(vms_bytes),
            processes.to_string(),
            megabytes(result.memory.gateway.pss_bytes),
        ]);
    }
    format!(
        "{}\nThe Rust service is this binary itself, so much of its memory is shared with the gateway's.\n",
        table.markdown()
    )
}

fn cpu(results: &Results) -> String {
    let mut table =
        Table::new(["variant", "gateway µs/request", "service µs/request", "both, least and most of a round"]);
    for result in findings::answered(results) {
        let spread = match (result.cpu.min_us, result.cpu.max_us) {
            (Some(min), Some(max)) => format!("{} – {}", number(min), number(max)),
            _ => "–".into(),
        };
        table.row([result.title.clone(), maybe(result.cpu.gateway_us), maybe(result.cpu.service_us), spread]);
    }
    table.markdown()
}

fn details(results: &Results) -> String {
    let mut out = String::new();
    for case in Case::ALL {
        for result in results.results.iter().filter(|result| result.case == case) {
            out.push_str(&detail(result));
        }
    }
    out
}

fn detail(result: &CaseResult) -> String {
    let mut out = format!("### {}\n\n`{}`: {}.\n\n", result.title, result.id, result.description);
    let (Some(moments), Some(percentiles), Some(throughput)) =
        (result.response_time_ms, &result.percentiles_ms, result.throughput)
    else {
        let why = result.failed.as_deref().unwrap_or("nothing was answered");
        return format!("{out}**Not measured**: {why}\n\n");
    };
    let mut lines = vec![
        format!(
            "Requests: {} answered, {} failed ({} % answered; statuses {}) in {} s, first request {} ms",
            result.success,
            result.errors,
            number(result.success_rate * 100.0),
            result.status_codes.iter().map(|(code, count)| format!("{code}: {count}")).collect::<Vec<_>>().join(", "),
            number(result.total_seconds),
            maybe(result.first_request_ms)
        ),
        format!(
            "Response time ms: mean {}, deviation {}, variance {}, least {}, most {}, range {}",
            number(moments.mean),
            number(moments.std_dev),
            number(moments.variance),
            number(moments.min),
            number(moments.max),
            number(moments.range)
        ),
        format!(
            "Percentiles ms: {}",
            percentiles.iter().map(|(name, value)| format!("{name} {}", number(*value))).collect::<Vec<_>>().join(", ")
        ),
        format!(
            "Throughput: {} requests/s, {} bytes each, {} bytes/s",
            number(throughput.requests_per_second),
            number(throughput.mean_bytes),
            number(throughput.bytes_per_second)
        ),
        format!(
            "Memory of the service: {} MB, {} MB after warm-up",
            megabytes(result.memory.service_after.pss_bytes),
            megabytes(result.memory.service_after_warmup.pss_bytes)
        ),
        format!("CPU µs/request: gateway {}, service {}", maybe(result.cpu.gateway_us), maybe(result.cpu.service_us)),
    ];
    lines.extend(result.failed.iter().map(|why| format!("**Given up**: {why}")));
    out.push_str(&list(&lines));
    out.push_str(&format!("\n```\n{}```\n\n", tables::histogram(&result.histogram)));
    out
}

fn comparisons(results: &Results) -> String {
    let pick = |wanted: &dyn Fn(&Comparison) -> bool| {
        list(&results.comparisons.iter().filter(|c| wanted(c)).map(findings::sentence).collect::<Vec<_>>())
    };
    let transports = |c: &Comparison, case| findings::between_transports(c) && c.one.contains(case);
    let cached = |c: &Comparison| c.one.contains("/cached/") && c.other.starts_with("pilotlight/");
    let peers = |c: &Comparison| !c.other.starts_with("pilotlight/");
    format!(
        "Ratios of medians, round by round, with their 95 % interval; below 1 the first takes less.\n\n\
         ### HTTP and the pipe, warm\n\n{}\n### Cold start\n\n{}\n{}\n{}\n### Cache\n\n{}\n### Other gateways\n\n{}\n### Published\n\n{}\n{}.\n",
        pick(&|c| transports(c, "/pipe-warm/")),
        pick(&|c| transports(c, "/pipe-cold/")),
        tables::own_parts(results).markdown(),
        phases(results),
        pick(&cached),
        pick(&peers),
        tables::published_table(results).markdown(),
        published::CAVEAT
    )
}

/// Where the time of a cold start goes, as the gateway says it.
fn phases(results: &Results) -> String {
    let mut table =
        Table::new(["phases, median ms", "before", "queue", "spawn", "connect", "ready", "service", "total"]);
    for result in results.results.iter().filter(|result| !result.phases_ms.is_empty() && !result.control) {
        let at = |name: &str| result.phases_ms.iter().find(|phase| phase.name == name).map(|phase| phase.median_ms);
        let before: f64 = ["parse", "route", "cache"].into_iter().filter_map(at).sum();
        let mut cells = ["queue", "spawn", "connect", "ready", "service", "total"].map(|name| maybe(at(name))).to_vec();
        cells.splice(0..0, [result.title.clone(), number(before)]);
        if let Ok(cells) = <[String; 8]>::try_from(cells) {
            table.row(cells);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "{}\n`Server-Timing` of the same requests: *before* is parse, route and cache; *spawn* until the program was executed; *connect* until it dialled (pipe); *ready* until it took requests; *service* until its answer. With an inherited socket an HTTP service's start is part of *service*.\n",
        table.markdown()
    )
}

fn analysis(results: &Results) -> String {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(findings::noise(results));
    for control in results.controls.iter().filter(|control| control.metric == Metric::Cpu) {
        if let (Some(ratio), Some(low), Some(high)) = (control.ratio, control.low, control.high) {
            lines.push(format!("CPU time of two equals: {ratio:.2} ({low:.2}–{high:.2}) for {}", control.variant));
        }
    }
    for part in &results.own_parts {
        lines.push(format!(
            "{}: of {} ms, {} ms are the service's start and answer; the gateway's own part is {} ms",
            part.title,
            number(part.whole_ms),
            number(part.bare_ms),
            number(part.own_ms)
        ));
    }
    list(&lines)
}

fn recommendations(results: &Results) -> String {
    let rows = results.recommendations.iter().map(|r| {
        format!(
            "**{}**: {}, compared with HTTP by {}: {}",
            r.service.title(),
            r.transport.advice(),
            r.compared_with,
            r.because
        )
    });
    format!(
        "{}\nThe rule: the pipe where it takes at most 0.90 of what HTTP takes, in cold starts or in CPU time of warm requests, and the interval is below 1; HTTP, which every framework speaks, where both intervals are above 0.90; otherwise this run leaves it open.\n",
        list(&rows.collect::<Vec<_>>())
    )
}

fn verification(results: &Results) -> String {
    let c = &results.configuration;
    let joined = |names: Vec<String>| names.join(",");
    let services = joined(c.services.iter().map(|language| language.title().to_lowercase()).collect());
    let cases = joined(c.cases.iter().map(|case| case.title().to_lowercase().replace(' ', "-")).collect());
    format!(
        "```\npilotlight lab transport --services {services} --cases {cases} --requests {} --warmup {} --rounds {} --seed {}\n```\n",
        c.requests, c.warmup, c.rounds, c.seed
    )
}

fn conclusions(results: &Results) -> String {
    let mut lines: Vec<String> = Vec::new();
    for result in results.results.iter().filter(|r| r.front == Front::Pilotlight && !r.control) {
        if let (Some(median), Some(p99)) = (result.median_ms(), result.percentile("p99")) {
            lines.push(format!("{}: p50 {} ms, p99 {} ms", result.title, number(median), number(p99)));
        }
    }
    list(&lines)
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// `UPDATE_SNAPSHOTS=1 cargo test -p pilotlight-lab` writes them anew.
    #[track_caller]
    fn same(name: &str, found: &str, wanted: &str) {
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/transport/snapshots");
            std::fs::write(format!("{folder}/{name}"), found).expect("written");
            return;
        }
        for (number, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
            assert_eq!(found, wanted, "{name}, line {}", number + 1);
        }
        assert_eq!(found.lines().count(), wanted.lines().count(), "{name}");
    }

    #[test]
    fn the_report_as_markdown() {
        let results = fixture::results();
        same("transport.md", &render(&results), include_str!("snapshots/transport.md"));
    }
}
