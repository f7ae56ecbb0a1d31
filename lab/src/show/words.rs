//! What a report says, in words and numbers; the same on a page, in Markdown and in figures.

use pilotlight_plot::{Kind, Tone};

use super::columns;
use crate::experiment::judge::Machine;
use crate::experiment::model::{
    Comparison, Figure, GroupResults, Metric, Report, Results, Role, Software, Summary, VariantResults, Verdict,
};
use crate::report::number;

/// `CPU per request, µs`.
pub(crate) fn heading(metric: Metric) -> String {
    match unit(metric) {
        "" => metric.title().to_owned(),
        unit => format!("{}, {unit}", metric.title()),
    }
}

/// Of the numbers that [`amount`] gives.
pub(crate) const fn unit(metric: Metric) -> &'static str {
    match metric {
        memory if memory.is_memory() => "MB",
        Metric::PerSecond => "/s",
        Metric::BytesPerSecond => "MB/s",
        other => other.unit(),
    }
}

/// A number without its unit: `6.46`, `150,272`.
pub(crate) fn amount(metric: Metric, value: f64) -> String {
    match metric {
        Metric::BytesPerSecond => grouped(value / 1e6),
        memory if memory.is_memory() => number(value / 1e6),
        _ if value.abs() >= 1000.0 => grouped(value),
        _ => number(value),
    }
}

/// `150,272`.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "−" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `6.28–6.54`; nothing where one round was all.
pub(crate) fn interval(metric: Metric, summary: Summary) -> Option<String> {
    range(summary, |value| amount(metric, value))
}

/// Below zero a dash between two numbers would be read as a sign.
pub(super) fn range(Summary { low, high, .. }: Summary, number: impl Fn(f64) -> String) -> Option<String> {
    let dash = if low < 0.0 { " to " } else { "–" };
    (low < high).then(|| format!("{}{dash}{}", number(low), number(high)))
}

/// `6.46 (6.28–6.54)`.
pub(crate) fn with_interval(metric: Metric, summary: Summary) -> String {
    let median = amount(metric, summary.median);
    interval(metric, summary).map_or(median.clone(), |interval| format!("{median} ({interval})"))
}

/// `6.46 (6.28–6.54) µs`.
pub(crate) fn measured(metric: Metric, summary: Summary) -> String {
    let text = with_interval(metric, summary);
    match unit(metric) {
        "" => text,
        "/s" => format!("{text}/s"),
        unit => format!("{text} {unit}"),
    }
}

/// `0.41× (0.36–0.42)`, or `+2.1 (1.9–2.3) µs` of a difference.
pub(crate) fn compared(comparison: &Comparison) -> String {
    let Some(value) = comparison.value else { return "not measured".to_owned() };
    if comparison.difference {
        let text = measured(comparison.metric, value).replace('-', "−");
        return if value.median > 0.0 { format!("+{text}") } else { text };
    }
    times(value)
}

/// `0.41× (0.38–0.44)`, and a third decimal where the interval is narrow: `0.973× (0.965–0.981)`.
pub(crate) fn times(Summary { median, low, high }: Summary) -> String {
    let digits = if high - low < 0.05 && low > 0.5 { 3 } else { 2 };
    let ratio = |value: f64| if (0.095..10.0).contains(&value) { format!("{value:.digits$}") } else { number(value) };
    let interval = (low < high).then(|| format!(" ({}–{})", ratio(low), ratio(high)));
    format!("{}×{}", ratio(median), interval.unwrap_or_default())
}

/// Two decimals, as long as they say something: `0.41`, `12.3`, `0.0042`.
pub(crate) fn ratio(value: f64) -> String {
    if (0.095..10.0).contains(&value.abs()) { format!("{value:.2}") } else { number(value) }
}

/// `0.05 ms`.
pub(crate) fn milliseconds(ms: f64) -> String {
    if ms.abs() < 10.0 { format!("{ms:.2} ms") } else { format!("{} ms", number(ms)) }
}

/// The end of a sentence: why no more may be said.
pub(crate) fn reason(comparison: &Comparison) -> String {
    comparison.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"))
}

/// What may be said of a comparison.
pub(crate) const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Less => "less",
        Verdict::More => "more",
        Verdict::NoDifference => "no difference seen",
        Verdict::NotComparable => "not comparable",
    }
}

/// Whether a comparison speaks for Pilotlight or against it. One of two variants of Pilotlight, or of two peers, does
/// neither.
pub(crate) fn tone(group: &GroupResults, comparison: &Comparison) -> Tone {
    let role = |id: &str| group.variants.iter().find(|variant| variant.id == id).map(|variant| variant.role);
    let is_subject = |id: &str| matches!(role(id), Some(Role::Subject | Role::Control));
    if comparison.difference {
        return Tone::Plain; // what a layer costs is no reproach
    }
    let less = match comparison.verdict {
        Verdict::Less => true,
        Verdict::More => false,
        Verdict::NoDifference | Verdict::NotComparable => return Tone::Plain,
    };
    let better = match (is_subject(&comparison.one), is_subject(&comparison.other)) {
        (true, false) => less != comparison.metric.more_is_better(),
        (false, true) => less == comparison.metric.more_is_better(),
        _ => return Tone::Plain,
    };
    if better { Tone::Good } else { Tone::Bad }
}

/// How a variant is drawn.
pub(crate) const fn kind(role: Role) -> Kind {
    match role {
        Role::Subject | Role::Control => Kind::Subject,
        Role::Peer => Kind::Peer,
        Role::Floor => Kind::Floor,
    }
}

/// What a variant stands for, where its name does not say it.
pub(crate) const fn role(role: Role) -> Option<&'static str> {
    match role {
        Role::Subject | Role::Peer => None,
        Role::Floor => Some("floor"),
        Role::Control => Some("control"),
    }
}

/// Variants without the second of two equals, which is no variant of its own.
pub(crate) fn shown(group: &GroupResults) -> impl Iterator<Item = &VariantResults> {
    group.variants.iter().filter(|variant| variant.role != Role::Control)
}

/// Programs of a group, each of them once.
pub(crate) fn software(group: &GroupResults) -> Vec<&Software> {
    let mut listed = Vec::new();
    for software in shown(group).flat_map(|variant| &variant.software) {
        if !listed.contains(&software) {
            listed.push(software);
        }
    }
    listed
}

/// `64 requests … · 10 rounds of 2 s`.
pub(crate) fn workload(group: &GroupResults) -> String {
    let rounds = if group.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", group.rounds) };
    let length = if group.seconds > 0.0 { format!(" of {} s", group.seconds) } else { String::new() };
    format!("{} · {rounds}{length}", group.workload)
}

/// Whether the machine was quiet enough to say anything, or it was to be said nevertheless.
fn is_judged(report: &Report) -> bool {
    Machine::of(&report.noise) == Machine::Quiet
}

/// Whether what was believed held, by what was wanted: a word and the count behind it.
pub(crate) fn held(report: &Report, results: &Results) -> (Tone, String) {
    let count = |wanted: Option<bool>| results.figures.iter().filter(|figure| figure.met == wanted).count();
    let (met, missed) = (count(Some(true)), count(Some(false)));
    let without = |why: &str| {
        let known = results.figures.iter().filter(|figure| figure.met.is_none() && unknown(figure) == why).count();
        if known == 0 { String::new() } else { format!(", {known} {why}") }
    };
    let rest = without("not measured") + &without("not judged");
    match (met, missed) {
        _ if results.failed.is_some() => (Tone::Bad, "failed: nothing was measured".into()),
        _ if !is_judged(report) => (Tone::Plain, "not judged: the machine was too noisy".into()),
        (0, 0) => (Tone::Plain, format!("not judged{rest}")),
        (met, 0) => (Tone::Good, format!("held: {met} of {met} figures met{rest}")),
        (0, missed) => (Tone::Bad, format!("did not hold: 0 of {missed} figures met{rest}")),
        (met, missed) => (Tone::Bad, format!("held in part: {met} of {} figures met{rest}", met + missed)),
    }
}

/// Whether a figure was met.
pub(crate) fn met(report: &Report, figure: &Figure) -> (Tone, &'static str) {
    match figure.met {
        Some(_) if !is_judged(report) => (Tone::Plain, "not judged"),
        Some(true) => (Tone::Good, "met"),
        Some(false) => (Tone::Bad, "not met"),
        None => (Tone::Plain, unknown(figure)),
    }
}

/// Why it is not said whether a figure was met.
pub(crate) fn unknown(figure: &Figure) -> &'static str {
    if figure.measured.is_some() { "not judged" } else { "not measured" }
}

/// What was measured of a figure.
pub(crate) fn figure(figure: &Figure) -> String {
    let Some(measured) = figure.measured else { return "–".to_owned() };
    let interval = range(measured, ratio).map_or_else(String::new, |range| format!(" ({range})"));
    format!("{}{interval}", ratio(measured.median)).replace('-', "−")
}

/// What a reader has to know before anything else.
pub(crate) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(refused) = &report.noise.refused {
        warnings.push(if report.noise.overridden {
            format!("Nothing should have been compared, and it was asked for nevertheless: {refused}")
        } else {
            format!("Nothing is compared: {refused}")
        });
    }
    if report.interrupted {
        warnings.push("The run was interrupted: what is here was measured whole, and the rest is not here.".into());
    }
    if report.debug_build {
        warnings.push("This was a debug build: its figures say nothing about Pilotlight.".into());
    }
    if report.quick {
        warnings.push(
            "This was a quick run: it shows that everything works, with wider intervals than a whole run.".into(),
        );
    }
    for results in &report.experiments {
        if let Some(failed) = &results.failed {
            warnings.push(format!("{} failed: {failed}", results.title));
        }
        for (group, variant) in results.groups.iter().flat_map(|group| group.variants.iter().map(move |v| (group, v))) {
            if let Some(failed) = &variant.failed {
                warnings.push(format!("{} failed in “{}” and does not count: {failed}", variant.title, group.title));
            }
        }
    }
    warnings.extend(columns::failed(report));
    warnings
}

/// What was found in an experiment: its findings, else the first answer of each group, named if there are several.
pub(crate) fn findings(results: &Results) -> Vec<String> {
    if !results.findings.is_empty() {
        return results.findings.clone();
    }
    let first = |group: &GroupResults| {
        let answer = answer(group.comparisons.first()?);
        Some(if results.groups.len() == 1 { answer } else { format!("{}: {answer}", group.title) })
    };
    results.groups.iter().filter_map(first).collect()
}

/// A comparison as a sentence.
pub(crate) fn answer(comparison: &Comparison) -> String {
    let verdict = verdict(comparison.verdict);
    format!("{}: {}, {verdict}{}", comparison.question, compared(comparison), reason(comparison))
}

/// How many comparisons came out how.
pub(crate) fn tally(report: &Report) -> Option<String> {
    let all = || report.experiments.iter().flat_map(|results| &results.groups).flat_map(|group| &group.comparisons);
    let count = |verdict: Verdict| all().filter(|comparison| comparison.verdict == verdict).count();
    let parts: Vec<String> = [
        (count(Verdict::Less) + count(Verdict::More), "show a difference"),
        (count(Verdict::NoDifference), "show none"),
        (count(Verdict::NotComparable), "could not be compared"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, words)| format!("{count} {words}"))
    .collect();
    (all().count() > 0).then(|| format!("Of {} comparisons {}.", all().count(), parts.join(", ")))
}

/// Name and value of what figures depend on.
pub(crate) fn machine(report: &Report) -> Vec<(&'static str, String)> {
    let machine = &report.machine;
    let cores = if machine.cores == 1 { "1 core".into() } else { format!("{} cores", machine.cores) };
    vec![
        ("Machine", machine.hostname.clone()),
        ("Processor", format!("{}, {cores}, {}", machine.cpu, machine.architecture)),
        ("Memory", format!("{:.1} GB", machine.memory_bytes as f64 / 1e9)),
        ("System", format!("{}, {}", machine.system, machine.kernel)),
        ("Clock rate governor", machine.governor.clone().unwrap_or_else(|| "not visible".into())),
    ]
}

/// Likewise, of noise.
pub(crate) fn noise(report: &Report) -> Vec<(&'static str, String)> {
    let noise = &report.noise;
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let visible = |share: Option<f64>| share.map_or_else(|| "not visible".to_owned(), percent);
    let [before, after] = noise.load_average.map(ratio);
    vec![
        ("Load average", format!("{before} before, {after} after")),
        ("Used by other programs", format!("{} before, {} after", visible(noise.busy[0]), visible(noise.busy[1]))),
        ("Time taken by other machines", visible(noise.steal)),
        ("Spread of equal work", format!("{} before, {} after", percent(noise.spread[0]), percent(noise.spread[1]))),
    ]
}

/// Likewise, of the run.
pub(crate) fn run(report: &Report) -> Vec<(&'static str, String)> {
    vec![
        ("Began", began(report)),
        ("Took", duration(report.duration_seconds)),
        ("Version", report.version.clone()),
        ("Commit", report.commit.clone().unwrap_or_else(|| "not known".into())),
        ("Seed", report.seed.to_string()),
        ("Shape of the data", report.schema.clone()),
    ]
}

/// `2026-11-22 10:00 UTC`.
pub(crate) fn began(report: &Report) -> String {
    match report.started_at.split_once('T') {
        Some((day, time)) if time.ends_with('Z') && time.len() > 5 && time.is_ascii() => {
            format!("{day} {} UTC", &time[..5])
        }
        _ => report.started_at.clone(),
    }
}

/// The command line; arguments with spaces are quoted.
pub(crate) fn command(report: &Report) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:@+%".contains(c);
    let quoted = |argument: &String| match argument {
        argument if !argument.is_empty() && argument.chars().all(plain) => argument.clone(),
        argument => format!("'{}'", argument.replace('\'', "'\\''")),
    };
    report.command.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// `12 min 5 s`.
fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_in_the_unit_of_their_heading() {
        for (metric, value, text) in [
            (Metric::CpuUs, 6.4567, "6.46 µs"),
            (Metric::PerSecond, 150_272.3, "150,272/s"),
            (Metric::RssBytes, 10_980_000.0, "11.0 MB"),
            (Metric::Instructions, 6583.0, "6,583"),
            (Metric::P99Ms, 0.0421, "0.0421 ms"),
        ] {
            assert_eq!(measured(metric, Summary { median: value, low: value, high: value }), text);
        }
        let summary = Summary { median: 6.46, low: 6.21, high: 6.54 };
        assert_eq!(measured(Metric::CpuUs, summary), "6.46 (6.21–6.54) µs");
        assert_eq!(
            (grouped(999.0), grouped(1000.0), grouped(-1_234_567.0)),
            ("999".into(), "1,000".into(), "−1,234,567".into())
        );
    }

    #[test]
    fn differences_may_be_below_zero() {
        let difference = |median, low, high| Comparison {
            question: String::new(),
            metric: Metric::CpuUs,
            one: String::new(),
            other: String::new(),
            value: Some(Summary { median, low, high }),
            difference: true,
            verdict: Verdict::NoDifference,
            reason: None,
        };
        assert_eq!(compared(&difference(1.93, 1.32, 3.28)), "+1.93 (1.32–3.28) µs");
        assert_eq!(compared(&difference(-0.27, -1.72, 0.25)), "−0.270 (−1.72 to 0.250) µs");
    }

    #[test]
    fn figures_may_be_below_zero() {
        let measured = Some(Summary { median: -25.2, low: -37.1, high: -0.5 });
        let below = Figure { name: "n".into(), wanted: "≤ 2 ms".into(), measured, rounds: vec![], met: None };
        assert_eq!(figure(&below), "−25.2 (−37.1 to −0.50)");
    }

    #[test]
    fn durations() {
        assert_eq!(
            (duration(59.6), duration(125.0), duration(7260.0)),
            ("1 min 0 s".into(), "2 min 5 s".into(), "2 h 1 min".into())
        );
    }
}
