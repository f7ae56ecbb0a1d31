//! A report with everything that one may have: what was found and what was not, programs that failed, groups without
//! anything, and texts that are markup elsewhere.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use pilotlight_lab::experiment::model::{
    Column, Comparison, Control, Figure, GroupResults, Latency, Metric, Noise, Phase, Published, Report, Results, Role,
    RowResults, SCHEMA, Skipped, Software, Summary, TableResults, VariantResults, Verdict,
};
use pilotlight_lab::machine::Machine;

/// Markup of HTML, of Markdown and of SVG, and a control character.
pub(crate) const HOSTILE: &str =
    "</script></style><script>alert(\"1\")</script><img src=x onerror='alert(2)'> `a` | **b** [c](d) & \u{1b}[31m";

pub(crate) fn report() -> Report {
    Report {
        schema: SCHEMA.into(),
        started_at: "2026-11-22T10:00:00Z".into(),
        duration_seconds: 754.0,
        command: ["pilotlight", "lab", "all", "--out", "a folder"].map(str::to_owned).to_vec(),
        version: "0.1.0".into(),
        commit: Some("0123456789abcdef0123456789abcdef01234567".into()),
        debug_build: false,
        quick: true,
        interrupted: false,
        seed: 1,
        machine: Machine {
            hostname: "bench-1".into(),
            cpu: "A processor with 2 cores".into(),
            cores: 2,
            memory_bytes: 25_000_000_000,
            system: "A Linux".into(),
            kernel: "Linux 6.18".into(),
            architecture: "x86_64".into(),
            governor: None,
        },
        noise: Noise {
            load_average: [0.21, 1.4],
            steal: Some(0.004),
            spread: [0.012, 0.02],
            busy: [Some(0.01), None],
            refused: None,
            overridden: false,
        },
        experiments: vec![cache(), layers(), transport(), odd(), failed(), idle()],
    }
}

fn cache() -> Results {
    let variants = vec![
        variant("limit", "epoll + httparse", Role::Floor, 5.47),
        variant("pilotlight", "Pilotlight", Role::Subject, 6.46),
        variant("hyper", "hyper alone", Role::Peer, 7.06),
        variant("haproxy", "HAProxy cache", Role::Peer, 8.97),
        variant("nginx", "nginx proxy_cache", Role::Peer, 15.6),
        failing(
            "varnish",
            "Varnish",
            "it exited with status 2 after 0.3 s:\nError: could not get socket: address in use",
        ),
        variant("control", "Pilotlight (again)", Role::Control, 6.5),
    ];
    let comparisons = vec![
        comparison("CPU of a request, Pilotlight / nginx", ("pilotlight", "nginx"), 0.41, Verdict::Less),
        comparison("CPU of a request, Pilotlight / HAProxy", ("pilotlight", "haproxy"), 0.72, Verdict::Less),
        comparison("CPU of a request, Pilotlight / hyper alone", ("pilotlight", "hyper"), 0.99, Verdict::NoDifference),
        comparison("CPU of a request, Pilotlight / bare loop", ("pilotlight", "limit"), 1.18, Verdict::More),
        Comparison {
            value: None,
            ..comparison(
                "CPU of a request, Pilotlight / Varnish",
                ("pilotlight", "varnish"),
                1.0,
                Verdict::NotComparable,
            )
        },
    ];
    let group = GroupResults {
        metrics: vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P99Ms, Metric::RssBytes],
        controls: vec![control(1.006, true)],
        ..group("cached", "200 bytes from the cache", variants, comparisons)
    };
    Results {
        figures: vec![
            figure("CPU of a hit / bare loop", "≤ 1.3", Some(1.18), Some(true)),
            figure("CPU of a hit / nginx", "≤ 0.6", Some(0.41), Some(true)),
            figure("p99 at 20,000 requests/s / nginx", "≤ 1", Some(1.07), Some(false)),
            figure("CPU of a hit / Varnish", "≤ 1", None, None),
        ],
        findings: vec![
            "A hit costs 0.41 (0.38–0.44) of nginx's CPU time, and 1.18 (1.10–1.27) of a bare loop's.".into(),
            "Beside hyper alone no difference was seen.".into(),
        ],
        skipped: vec![Skipped {
            what: "H2O".into(),
            why: "it is not installed".into(),
            install: "apt-get install h2o".into(),
        }],
        published: vec![
            Published {
                group: "cached".into(),
                name: "nginx, published".into(),
                metric: Metric::CpuUs,
                value: 11.2,
                source: "a 16-core machine of 2019".into(),
            },
            Published {
                group: String::new(),
                name: "a gateway".into(),
                metric: Metric::PerSecond,
                value: 410_000.0,
                source: "its authors".into(),
            },
        ],
        ..results("cache", "A cached answer beside other gateways", vec![group])
    }
}

fn layers() -> Results {
    let variants = [
        ("loop", "bare loop", Role::Floor, 4.1),
        ("hyper", "+ hyper", Role::Peer, 5.9),
        ("cache", "+ cache", Role::Subject, 6.5),
    ]
    .map(|(id, title, role, cpu)| VariantResults { latency: None, ..variant(id, title, role, cpu) });
    let difference =
        |question, ids, value| Comparison { difference: true, ..comparison(question, ids, value, Verdict::More) };
    let comparisons = vec![
        difference("what hyper adds", ("hyper", "loop"), 1.8),
        difference("what the cache adds", ("cache", "hyper"), 0.6),
    ];
    let group = GroupResults {
        metrics: vec![Metric::CpuUs, Metric::Instructions],
        ..group("request", "One request through more and more layers", variants.into(), comparisons)
    };
    results("layers", "What each layer costs", vec![group])
}

fn transport() -> Results {
    let phases = |service: f64| {
        [("queue", 0.05), ("spawn", 1.6), ("service", service), ("connect", 0.21), ("first byte", 0.4)]
            .map(|(name, ms)| Phase { name: name.into(), ms })
            .to_vec()
    };
    let cold = |id, title, role, service| VariantResults {
        phases: phases(service),
        ..variant(id, title, role, service + 2.26)
    };
    let variants = vec![
        cold("rust", "Rust, pipe", Role::Subject, 0.8),
        cold("python", "Python, pipe", Role::Subject, 12.4),
        cold("node", "Node, HTTP", Role::Peer, 39.0),
    ];
    let comparisons = vec![comparison("first byte, pipe / HTTP", ("rust", "node"), 0.07, Verdict::NotComparable)];
    let group = GroupResults {
        metrics: vec![Metric::ColdMs, Metric::P50Ms],
        controls: vec![control(1.21, false)],
        seconds: 0.0,
        ..group("cold", "A request that finds its service stopped", variants, comparisons)
    };
    results("transport", "HTTP and the pipe, cold", vec![group])
}

/// What no experiment should give, and a report may have.
fn odd() -> Results {
    let long = "a-name-without-any-space-".repeat(12);
    let variants = vec![
        variant("x", HOSTILE, Role::Subject, 1.0),
        VariantResults {
            software: vec![Software { name: HOSTILE.into(), version: HOSTILE.into(), settings: vec![HOSTILE.into()] }],
            ..variant("y", &long, Role::Peer, 90_000.0)
        },
        failing("z", HOSTILE, HOSTILE),
        VariantResults {
            rounds: vec![],
            summary: BTreeMap::new(),
            latency: None,
            ..variant("none", "without a round", Role::Peer, 1.0)
        },
    ];
    let question = format!("{HOSTILE} {long}");
    let hostile = group(HOSTILE, HOSTILE, variants, vec![comparison(&question, ("x", "y"), 0.000_011, Verdict::Less)]);
    let nothing = group("nothing", "A group of nobody", vec![], vec![]);
    let no_metric = GroupResults {
        metrics: vec![],
        ..group("nothing", "A group of nothing", vec![variant("a", "a", Role::Peer, 1.0)], vec![])
    };
    Results {
        hypothesis: HOSTILE.into(),
        findings: vec![HOSTILE.into()],
        figures: vec![figure(HOSTILE, HOSTILE, Some(1.0), Some(false))],
        skipped: vec![Skipped { what: HOSTILE.into(), why: HOSTILE.into(), install: HOSTILE.into() }],
        published: vec![Published {
            group: HOSTILE.into(),
            name: HOSTILE.into(),
            metric: Metric::CpuUs,
            value: 2.0,
            source: HOSTILE.into(),
        }],
        ..results("cache", HOSTILE, vec![hostile, nothing, no_metric])
    }
}

fn failed() -> Results {
    Results { failed: Some("redis-server is not installed".into()), ..results("redis", "The client of Redis", vec![]) }
}

/// What stored reports of programs in Python have: tables, and nothing that was compared.
fn idle() -> Results {
    let row = |id: &str, title: &str, rss: [f64; 3]| RowResults {
        id: id.into(),
        title: title.into(),
        failed: None,
        rounds: rss.map(|rss| BTreeMap::from([("rss".into(), rss), ("processes".into(), 2.0)])).to_vec(),
        summary: BTreeMap::from([
            ("rss".into(), Summary { median: rss[1], low: rss[0], high: rss[2] }),
            ("processes".into(), Summary { median: 2.0, low: 2.0, high: 2.0 }),
        ]),
    };
    let broken = RowResults {
        failed: Some(HOSTILE.into()),
        rounds: vec![],
        summary: BTreeMap::new(),
        ..row("broken", HOSTILE, [0.0; 3])
    };
    let table = TableResults {
        id: "memory".into(),
        title: "Idle memory".into(),
        workload: "nothing is asked".into(),
        rounds: 3,
        columns: vec![column("rss", "RSS", "MB"), column("processes", "processes", "")],
        rows: vec![row("alone", "alone", [10.9, 11.0, 11.25]), broken],
    };
    let wanted =
        Figure { rounds: vec![10.9, 11.0, 11.25], ..figure("idle memory", "≤ 15 MB", Some(11.0), Some(true)) };
    Results {
        tables: vec![table],
        software: vec![Software { name: "nginx".into(), version: "1.22.1".into(), settings: vec![] }],
        figures: vec![wanted],
        ..results("idle", "Memory of what does nothing", vec![])
    }
}

fn column(id: &str, title: &str, unit: &str) -> Column {
    Column { id: id.into(), title: title.into(), unit: unit.into() }
}

fn results(name: &str, title: &str, groups: Vec<GroupResults>) -> Results {
    Results {
        name: name.into(),
        title: title.into(),
        hypothesis: "A hit costs at most a third more than a bare loop, and less than any other gateway's.".into(),
        groups,
        tables: vec![],
        software: vec![],
        figures: vec![],
        findings: vec![],
        skipped: vec![],
        published: vec![],
        failed: None,
    }
}

fn group(id: &str, title: &str, variants: Vec<VariantResults>, comparisons: Vec<Comparison>) -> GroupResults {
    GroupResults {
        id: id.into(),
        title: title.into(),
        workload: "64 connections, closed loop".into(),
        metrics: vec![Metric::CpuUs],
        rounds: 10,
        seconds: 2.0,
        variants,
        controls: vec![],
        comparisons,
    }
}

fn variant(id: &str, title: &str, role: Role, cpu: f64) -> VariantResults {
    let values = [
        (Metric::CpuUs, cpu),
        (Metric::PerSecond, 1e6 / cpu),
        (Metric::P50Ms, cpu / 16.0),
        (Metric::P99Ms, cpu / 8.0),
        (Metric::RssBytes, 11e6 + cpu * 1e6),
        (Metric::ColdMs, cpu),
        (Metric::Instructions, cpu * 1000.0),
    ];
    let summary = |value: f64| Summary { median: value, low: value * 0.95, high: value * 1.08 };
    VariantResults {
        id: id.into(),
        title: title.into(),
        role,
        software: vec![Software {
            name: title.into(),
            version: "1.2.3".into(),
            settings: vec!["worker_processes 1".into(), "cpus 0".into()],
        }],
        failed: None,
        rounds: (0..10).map(|_| BTreeMap::from(values)).collect(),
        summary: values.into_iter().map(|(metric, value)| (metric, summary(value))).collect(),
        cpu_us: BTreeMap::from([("gateway".into(), cpu), ("service".into(), 0.01)]),
        latency: Some(latency(cpu)),
        phases: vec![],
        requests: 100_000,
    }
}

fn failing(id: &str, title: &str, why: &str) -> VariantResults {
    VariantResults {
        failed: Some(why.into()),
        rounds: vec![],
        summary: BTreeMap::new(),
        cpu_us: BTreeMap::new(),
        latency: None,
        requests: 0,
        ..variant(id, title, Role::Peer, 1.0)
    }
}

/// Times with a long tail.
fn latency(cpu: f64) -> Latency {
    let mut times = Histogram::<u64>::new_with_bounds(1, 120_000_000_000, 3).expect("valid bounds");
    for index in 1..20_000_u64 {
        let rare = 1.0 / (1.0 - index as f64 / 20_000.0);
        times.saturating_record((cpu * 60_000.0 * (1.0 + rare.log10() + rare.powf(0.3) * 0.2)) as u64);
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&times, &mut bytes).expect("written to memory");
    let percentiles =
        [50.0, 90.0, 99.0, 99.9, 100.0].map(|percent| (percent, times.value_at_quantile(percent / 100.0) as f64 / 1e6));
    Latency { from_intended_start: true, percentiles: percentiles.to_vec(), hdr: BASE64.encode(bytes) }
}

fn control(ratio: f64, passed: bool) -> Control {
    Control {
        variant: "pilotlight".into(),
        metric: Metric::CpuUs,
        ratio,
        low: ratio - 0.02,
        high: ratio + 0.02,
        passed,
    }
}

fn comparison(question: &str, (one, other): (&str, &str), value: f64, verdict: Verdict) -> Comparison {
    Comparison {
        question: question.into(),
        metric: Metric::CpuUs,
        one: one.into(),
        other: other.into(),
        value: Some(Summary { median: value, low: value * 0.93, high: value * 1.07 }),
        difference: false,
        verdict,
        reason: (verdict == Verdict::NotComparable).then(|| "too few rounds have both".into()),
    }
}

fn figure(name: &str, wanted: &str, measured: Option<f64>, met: Option<bool>) -> Figure {
    let summary = |value: f64| Summary { median: value, low: value * 0.95, high: value * 1.05 };
    Figure { name: name.into(), wanted: wanted.into(), measured: measured.map(summary), rounds: vec![], met }
}
