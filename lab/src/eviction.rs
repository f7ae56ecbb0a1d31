//! `pilotlight lab eviction`: hit ratios of the memory tier's store beside other stores, on published traces.
//! `docs/lab/eviction.md`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

use crate::experiment::model::{Figure, GroupResults, Metric, Report, Results, Role, Skipped};
use crate::experiment::{
    Amount, Experiment, Group, Measure, Participant, Plan, Question, Sample, Setting, Variant, judge,
};
use crate::processes::Program;

const BUILD: &str = "lab/peers/cache/build.sh";
/// What playing a trace usually takes.
const USUAL: Duration = Duration::from_millis(350);
/// No trace takes a hundredth of it.
const LIMIT: Duration = Duration::from_secs(100);

/// Whose requests, and what they are.
const TRACES: [Trace; 8] = [
    Trace { name: "web07", what: "requests for pages of a shop" },
    Trace { name: "web12", what: "requests for pages of a shop, another month" },
    Trace { name: "request", what: "requests to a network of caches, with sizes" },
    Trace { name: "scarab-recs", what: "recommendations of products" },
    Trace { name: "orm-busy", what: "objects of a database" },
    Trace { name: "w106", what: "blocks of a virtual disk" },
    Trace { name: "multi3", what: "blocks of files of four programs" },
    Trace { name: "loop", what: "a loop over blocks" },
];
/// Capacities in % of what all objects of a trace weigh.
const PERCENTS: [u32; 3] = [1, 5, 20];
/// What a quick run plays: the first trace, with the middle one of these.
const QUICK: (usize, usize) = (0, 1);
const OURS: &str = "quick_cache";
const POLICIES: [Policy; 8] = [
    Policy::new(OURS, "quick_cache, as the memory tier has it", Role::Subject),
    Policy::new("quick_cache-8-shards", "quick_cache in 8 shards", Role::Subject),
    Policy::new("quick_cache-guess", "quick_cache that takes objects for four times as large", Role::Subject),
    Policy::new("moka-tinylfu", "moka, TinyLFU", Role::Peer),
    Policy::new("foyer-w-tinylfu", "foyer, W-TinyLFU", Role::Peer),
    Policy::new("foyer-s3-fifo", "foyer, S3-FIFO", Role::Peer),
    Policy::new("foyer-sieve", "foyer, SIEVE", Role::Peer),
    Policy::new("lru", "moka, LRU", Role::Peer),
];
/// Against which ours is held: it may be so many points behind the better of them.
const REFERENCES: [&str; 2] = ["moka-tinylfu", "foyer-w-tinylfu"];
const MOST_BEHIND: f64 = 2.0;

/// A recorded sequence of requests.
struct Trace {
    name: &'static str,
    what: &'static str,
}

/// A store with a policy.
struct Policy {
    id: &'static str,
    title: &'static str,
    role: Role,
}

impl Policy {
    const fn new(id: &'static str, title: &'static str, role: Role) -> Self {
        Self { id, title, role }
    }
}

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Eviction;

impl Experiment for Eviction {
    fn name(&self) -> &'static str {
        "eviction"
    }

    fn title(&self) -> &'static str {
        "What a full cache keeps: hit ratios of stores on published traces"
    }

    fn hypothesis(&self) -> &'static str {
        "On traces of requests the memory tier's store is within 2 points of the better TinyLFU"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let missing = Built::find(setting).err();
        let of = |policy: Policy| Participant {
            name: policy.id.into(),
            what: policy.title.into(),
            missing: missing.clone(),
        };
        POLICIES.map(of).into()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let built = match Built::find(setting) {
            Ok(built) => built,
            Err(missing) => return Ok(Plan { skipped: vec![missing], ..Plan::default() }),
        };
        let (traces, percents) = match setting.quick {
            true => (&TRACES[QUICK.0..=QUICK.0], &PERCENTS[QUICK.1..=QUICK.1]),
            false => (&TRACES[..], &PERCENTS[..]),
        };
        let sizes = |trace| percents.iter().map(move |percent| (trace, *percent));
        let groups = traces.iter().flat_map(sizes).map(|(trace, percent)| group(trace, percent, &built, setting));
        Ok(Plan { groups: groups.collect(), ..Plan::default() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        let figures: Vec<Figure> = results.groups.iter().filter_map(figure).collect();
        results.figures.extend(figures);
    }
}

/// What `lab/peers/cache/build.sh` has made.
#[derive(Clone, Debug)]
struct Built {
    program: PathBuf,
    traces: PathBuf,
}

impl Built {
    fn find(setting: &Setting) -> Result<Self, Skipped> {
        let skipped = |why: String, install: &str| Skipped::new("stores on traces", &why, install);
        let Some(peers) = &setting.peers else {
            return Err(skipped("this is no checkout".into(), "run it in a checkout of Pilotlight"));
        };
        let target = peers.join("cache/target");
        let (program, traces) = (target.join("release/evict"), target.join("traces"));
        if let Some(file) = [&program, &traces].into_iter().find(|file| !file.exists()) {
            return Err(skipped(format!("there is no {}", file.display()), BUILD));
        }
        Ok(Self { program, traces })
    }
}

fn group(trace: &Trace, percent: u32, built: &Built, setting: &Setting) -> Group {
    let variant = |policy: Policy| Variant {
        id: policy.id.into(),
        title: policy.title.into(),
        role: policy.role,
        software: Vec::new(),
        measure: Box::new(Played {
            program: built.program.clone(),
            trace: built.traces.join(trace.name),
            percent,
            policy: policy.id,
            dir: setting.scratch.join(format!("eviction-{}-{percent}-{}", trace.name, policy.id)),
        }),
    };
    let beside = |peer: Policy| Question {
        difference: true,
        ..Question::ratio(
            format!("points that quick_cache is behind {}", peer.title),
            Metric::HitPercent,
            peer.id,
            OURS,
        )
    };
    let peers = POLICIES.into_iter().filter(|policy| policy.role == Role::Peer);
    Group {
        id: format!("{}-{percent}", trace.name),
        title: format!("{}: {}, {percent} % of all objects", trace.name, trace.what),
        workload: "each request is a hit, or stores its object; capacity by weight".into(),
        metrics: vec![Metric::HitPercent],
        variants: POLICIES.map(variant).into(),
        control: OURS.into(),
        questions: peers.map(beside).collect(),
        amount: Amount {
            rounds: judge::MIN_ROUNDS as u32,
            duration: Duration::ZERO,
            warm_up: Duration::ZERO,
            seed: setting.seed,
        },
    }
}

/// How far ours is behind the better of the two.
fn figure(group: &GroupResults) -> Option<Figure> {
    let asked = group.comparisons.iter().filter(|asked| REFERENCES.contains(&asked.one.as_str()));
    let most = asked.filter_map(|asked| asked.value).max_by(|one, other| one.median.total_cmp(&other.median))?;
    let name = format!("{}: hits behind the better TinyLFU", group.id);
    Some(Figure::at_most(group, Metric::HitPercent, name, (MOST_BEHIND, " points"), Some(most)))
}

/// A trace that is played to a store.
struct Played {
    program: PathBuf,
    trace: PathBuf,
    percent: u32,
    policy: &'static str,
    dir: PathBuf,
}

/// What the program says.
#[derive(Debug, Deserialize)]
struct Said {
    requests: u64,
    hits: u64,
}

impl Measure for Played {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        let percent = self.percent.to_string();
        let program = Program {
            name: "evict".into(),
            command: vec![self.program.clone().into(), self.trace.clone().into(), percent.into(), self.policy.into()],
            dir: self.dir.clone(),
            output: self.dir.join("evict.output"),
        };
        let mut held = program.start()?;
        held.ended_within(LIMIT)?;
        let said: Said = serde_json::from_str(&held.output()).context("evict does not say its hits")?;
        let percent = said.hits as f64 * 100.0 / said.requests as f64;
        Ok(Sample { values: vec![(Metric::HitPercent, percent)], requests: said.requests, ..Sample::default() })
    }

    fn beside(&self, _: Amount) -> Duration {
        USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(peers: PathBuf, quick: bool) -> Setting {
        Setting { quick, scratch: PathBuf::new(), peers: Some(peers), seed: 1 }
    }

    #[test]
    fn what_is_not_built_or_fetched_is_named() {
        let peers = tempfile::tempdir().expect("a folder");
        let skipped = Built::find(&setting(peers.path().into(), false)).expect_err("nothing is there");
        assert!(skipped.why.ends_with("cache/target/release/evict"), "{}", skipped.why);
        assert_eq!(skipped.install, BUILD);
    }

    #[test]
    fn every_store_plays_every_trace_and_the_peers_are_held_against_ours() {
        let peers = tempfile::tempdir().expect("a folder");
        let target = peers.path().join("cache/target");
        for folder in ["traces", "release/evict"] {
            std::fs::create_dir_all(target.join(folder)).expect("a folder");
        }
        let groups = |quick| Eviction.plan(&setting(peers.path().into(), quick)).expect("a plan").groups;
        let all = groups(false);
        assert_eq!(all.len(), TRACES.len() * PERCENTS.len());
        assert!(all.iter().all(|group| group.variants.len() == POLICIES.len() && group.questions.len() == 5));
        let quick: Vec<_> = groups(true).into_iter().map(|group| group.id).collect();
        assert_eq!(quick, ["web07-5"]);
    }
}
