//! The experiment `study`: the published study of a service in Haskell, as it was published: options of the runtime
//! system, then Scotty beside Warp alone, then aeson beside a builder by hand, each on a hit and on a miss, with a
//! Redis Cluster of five primaries. `docs/lab/factors.md` says how to read it.

mod parts;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use super::environment::Environment;
use super::service::{Service, Told};
use super::{Kind, USERS, find_users, findings};
use crate::experiment::model::{Metric, Published, Report, Results, Role, Skipped, Software};
use crate::experiment::{Amount, Experiment, Extent, Group, Participant, Plan, Question, Setting, Variant};
use crate::rest::redis::{self, Topology};
use crate::rest::variant::Programs;
use parts::{Member, PARTS, Part};

const PROGRAM: &str = "haskell-warp";
const BUILD: &str = "lab/peers/rest/build.sh haskell";
const MACHINE: &str = "i7-12700K, 12 cores, WSL 2, GHC 9.8, February 2026";

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    extent: Extent,
}

impl Study {
    /// Alone each option of the runtime by itself, too; among others what was published.
    #[must_use]
    pub const fn usual(extent: Extent) -> Self {
        Self { extent }
    }

    fn amount(self, setting: &Setting) -> Amount {
        let amount = setting.amount();
        match (setting.quick, self.extent) {
            (true, Extent::Alone) => amount,
            (true, Extent::AmongOthers) => {
                Amount { rounds: 4, duration: Duration::from_millis(100), warm_up: Duration::from_millis(50), ..amount }
            }
            (false, Extent::Alone) => Amount { rounds: 20, ..amount },
            (false, Extent::AmongOthers) => Amount { rounds: 12, duration: Duration::from_millis(500), ..amount },
        }
    }

    fn members(self, part: &Part, quick: bool) -> Vec<&'static Member> {
        let wanted = |member: &&Member| match (quick, self.extent) {
            (true, _) => member.is_quick,
            (false, Extent::Alone) => true,
            (false, Extent::AmongOthers) => member.published.is_some(),
        };
        let base = std::iter::once(part.base);
        base.chain(part.others.iter().filter(wanted)).collect()
    }
}

impl Experiment for Study {
    fn name(&self) -> &'static str {
        "study"
    }

    fn title(&self) -> &'static str {
        "The published factor study: runtime options, Scotty and aeson of a service in Haskell"
    }

    fn hypothesis(&self) -> &'static str {
        "As published: options of the runtime are worth more than 5 % of a request, Scotty and aeson less"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let missing = missing(setting);
        let participant = |part: &'static Part, member: &Member| Participant {
            name: format!("{} {}", part.id, member.id),
            what: member.stack.about(),
            missing: missing.clone(),
        };
        PARTS
            .iter()
            .flat_map(|part| self.members(part, false).into_iter().map(move |member| participant(part, member)))
            .collect()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        if let Some(missing) = missing(setting) {
            return Ok(Plan { skipped: vec![missing], ..Plan::default() });
        }
        let dir = setting.scratch.join("study");
        std::fs::create_dir_all(&dir)?;
        let users = find_users().map_err(|missing| anyhow::anyhow!("{}", missing.why))?;
        let programs = Programs { users, peers: PathBuf::new() };
        let environment = Rc::new(Environment::new(dir, programs, None, Topology::Cluster));
        let mut plan = Plan::default();
        for part in &PARTS {
            let members = self.members(part, setting.quick);
            // A quick run of everything has time for one.
            let is_enough = setting.quick && self.extent == Extent::AmongOthers && !plan.groups.is_empty();
            if members.len() < 2 || is_enough {
                continue;
            }
            for kind in [Kind::Hit, Kind::Miss] {
                if setting.quick && kind == Kind::Miss {
                    continue;
                }
                plan.groups.push(self.group(part, kind, &members, &environment, setting));
                plan.published.extend(published(part, kind, &members));
            }
        }
        if setting.quick {
            let why = "a quick run has published pairs on a hit: tuned options, and by itself Warp alone";
            plan.skipped.push(Skipped::new("the other options, aeson, and misses", why, "leave out --quick"));
        }
        Ok(plan)
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        for part in &PARTS {
            let prefix = format!("{}-", part.id);
            let sentences = part
                .others
                .iter()
                .filter_map(|member| findings::sentence(&prefix, &part.layer(member), &results.groups));
            let sentences: Vec<String> = sentences.collect();
            results.findings.extend(sentences);
        }
    }
}

impl Study {
    fn group(
        self,
        part: &'static Part,
        kind: Kind,
        members: &[&'static Member],
        environment: &Rc<Environment>,
        setting: &Setting,
    ) -> Group {
        let variant = |member: &&'static Member| Variant {
            id: member.id.into(),
            title: member.title.into(),
            role: Role::Peer,
            software: vec![Software {
                name: PROGRAM.into(),
                version: version(setting),
                settings: member.stack.settings().map(str::to_owned).collect(),
            }],
            measure: Box::new(Service {
                id: format!("{}-{}", part.id, member.id),
                command: program(setting)
                    .into_iter()
                    .map(Into::into)
                    .chain(member.stack.options().map(Into::into))
                    .collect(),
                told: Told::Environment(member.stack.environment()),
                kind,
                lifetime: setting.lifetime(),
                environment: Rc::clone(environment),
                running: None,
            }),
        };
        let asked = [(Metric::CpuUs, "CPU of a request"), (Metric::PerSecond, "requests in a second")];
        let others = || members.iter().filter(|member| member.id != part.base.id);
        let questions = asked.into_iter().flat_map(|(metric, what)| {
            others().map(move |member| {
                Question::ratio(format!("{what}, {} / {}", member.id, part.base.id), metric, member.id, part.base.id)
            })
        });
        Group {
            id: format!("{}-{}", part.id, kind.id()),
            title: format!("{}: {}", part.title, kind.title()),
            workload: "random users of 10,000, 100 connections, 10 requests in flight on each, five primaries".into(),
            metrics: vec![Metric::CpuUs, Metric::PerSecond, Metric::P50Ms, Metric::P99Ms],
            questions: questions.collect(),
            variants: members.iter().map(variant).collect(),
            control: part.base.id.into(),
            amount: self.amount(setting),
        }
    }
}

fn program(setting: &Setting) -> Option<PathBuf> {
    let file = setting.peers.as_ref()?.join("rest/target").join(PROGRAM);
    file.is_file().then_some(file)
}

/// As `build.sh` has written it.
fn version(setting: &Setting) -> String {
    let file = setting.peers.as_ref().map(|peers| peers.join("rest/target").join(format!("{PROGRAM}.versions")));
    let said = file.and_then(|file| std::fs::read_to_string(file).ok());
    said.map_or_else(|| "versions unknown".into(), |line| line.trim().to_owned())
}

fn missing(setting: &Setting) -> Option<Skipped> {
    let of_redis = redis::missing("everything");
    let of_program = || {
        let missing = Skipped::new("everything", &format!("{PROGRAM} is not built"), BUILD);
        program(setting).is_none().then_some(missing)
    };
    let of_users = || find_users().err().map(|missing| Skipped { what: format!("everything ({USERS})"), ..missing });
    of_redis.or_else(of_program).or_else(of_users)
}

fn published(part: &Part, kind: Kind, members: &[&Member]) -> Vec<Published> {
    let group = format!("{}-{}", part.id, kind.id());
    let of = |member: &&Member| {
        let found = match kind {
            Kind::Hit => member.published?.hit,
            Kind::Miss => member.published?.miss,
        }?;
        let figure = |metric, value| Published {
            group: group.clone(),
            name: member.title.into(),
            metric,
            value,
            source: MACHINE.into(),
        };
        Some([
            figure(Metric::PerSecond, found.per_second),
            figure(Metric::P50Ms, found.p50_ms),
            figure(Metric::P99Ms, found.p99_ms),
        ])
    };
    members.iter().filter_map(of).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(peers: Option<PathBuf>) -> Setting {
        Setting { quick: false, scratch: PathBuf::new(), peers, seed: 1 }
    }

    #[test]
    fn what_is_not_built_is_said() {
        let plan = Study::usual(Extent::Alone).plan(&setting(None)).expect("nothing to measure is no error");
        assert!(plan.groups.is_empty());
        assert_eq!(plan.skipped.len(), 1);
    }

    #[test]
    fn among_others_there_is_what_was_published() {
        for part in &PARTS {
            let names =
                |study: Study, quick| study.members(part, quick).iter().map(|member| member.id).collect::<Vec<_>>();
            let (alone, among) =
                (names(Study::usual(Extent::Alone), false), names(Study::usual(Extent::AmongOthers), false));
            assert!(among.iter().all(|id| alone.contains(id)), "{among:?}");
            assert!(among.len() >= 2, "{}", part.id);
            let mut ids = alone.clone();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), alone.len(), "{alone:?}");
        }
        assert_eq!(Study::usual(Extent::Alone).members(&PARTS[0], true).len(), 2);
    }

    #[test]
    fn published_figures_stand_beside_their_group() {
        let members = Study::usual(Extent::Alone).members(&PARTS[2], false);
        let rows = published(&PARTS[2], Kind::Miss, &members);
        assert!(rows.iter().all(|row| row.group == "json-miss"));
        assert!(rows.iter().any(|row| row.metric == Metric::PerSecond && row.value == 101_621.0));
        let members = Study::usual(Extent::Alone).members(&PARTS[0], false);
        assert!(published(&PARTS[0], Kind::Miss, &members).is_empty());
    }
}
