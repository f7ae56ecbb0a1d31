//! The experiment `front`: what stands between the internet and a service, beside other gateways: a stored answer over
//! TLS, handshakes, files. `docs/lab/front.md` says how to read it.

mod figures;
pub(crate) mod h2load;
pub(crate) mod server;

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::cores::{self, Cores};
use crate::experiment::model::{Metric, Report, Results, Role, Skipped, Software};
use crate::experiment::{
    AROUND, Amount, Experiment, Group, Lifetime, Measure, Participant, Plan, Question, Sample, Setting, Variant,
};
use crate::processes::usage;
use h2load::H2load;
use server::{Kind, Server};

/// The subject's id in every group.
const OWN: &str = Kind::Own.id();
/// Transfers of the large file in one measurement.
const LARGE_TRANSFERS: u64 = 4;
/// A server starts and ends again.
const RESTART: Duration = Duration::from_millis(400);
/// Handshakes in one measurement, all begun at once.
const HANDSHAKES: u64 = 500;

/// The experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Front;

/// What is asked of every server in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Http1,
    Http2,
    Handshake,
    SmallFile,
    LargeFile,
    LargeFileTls,
}

impl Work {
    const ALL: [Self; 6] =
        [Self::Http1, Self::Http2, Self::Handshake, Self::SmallFile, Self::LargeFile, Self::LargeFileTls];

    const fn id(self) -> &'static str {
        match self {
            Self::Http1 => "tls",
            Self::Http2 => "tls-h2",
            Self::Handshake => "handshake",
            Self::SmallFile => "file",
            Self::LargeFile => "file-large",
            Self::LargeFileTls => "file-large-tls",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Http1 => "A stored answer over TLS, HTTP/1.1",
            Self::Http2 => "A stored answer over TLS, HTTP/2",
            Self::Handshake => "A full handshake and a stored answer",
            Self::SmallFile => "A compressed file of 10 kB",
            Self::LargeFile => "A file of 256 MiB",
            Self::LargeFileTls => "A file of 256 MiB over TLS",
        }
    }

    fn workload(self) -> String {
        let tls = "TLS 1.3, ECDSA P-256; 200 bytes of JSON from what is stored (H2O: from a file)";
        match self {
            Self::Http1 => format!("{tls}; 64 connections, one request in flight on each"),
            Self::Http2 => format!("{tls}; 64 connections, 10 streams in flight on each"),
            Self::Handshake => {
                format!("{tls}; {HANDSHAKES} new connections without resumption, all begun at once, a request on each")
            }
            Self::SmallFile => {
                "GET of a file of 40 kB whose neighbour with .gz has 10 kB, over plain HTTP/1.1; 64 connections".into()
            }
            Self::LargeFile => format!("{LARGE_TRANSFERS} times a file of 256 MiB, over plain HTTP/1.1; 2 connections"),
            Self::LargeFileTls => format!(
                "{LARGE_TRANSFERS} times a file of 256 MiB, over TLS 1.3 and HTTP/1.1; 2 connections, whose handshakes count"
            ),
        }
    }

    /// Who can do it.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Http1 | Self::Http2 | Self::Handshake => &Kind::ALL,
            Self::SmallFile | Self::LargeFile | Self::LargeFileTls => &[Kind::Own, Kind::Floor, Kind::Nginx, Kind::H2o],
        }
    }

    fn metrics(self) -> Vec<Metric> {
        match self {
            Self::LargeFile | Self::LargeFileTls => vec![Metric::CpuUs, Metric::PerSecond, Metric::RssBytes],
            _ => vec![Metric::CpuUs, Metric::PerSecond],
        }
    }

    /// What drives it.
    fn load(self, server: &Server, duration: Duration) -> H2load {
        let secure = |path: &str| format!("https://{}{path}", server.secure);
        let plain = |path: &str| format!("http://{}{path}", server.plain);
        let timed = H2load::timed(duration);
        match self {
            Self::Http1 => timed.http1().connections(64).of(secure(server::SMALL)),
            Self::Http2 => timed.connections(64).streams(10).of(secure(server::SMALL)),
            Self::Handshake => H2load::counted(HANDSHAKES).http1().connections(HANDSHAKES).of(secure(server::SMALL)),
            Self::SmallFile => timed.http1().connections(64).field("accept-encoding: gzip").of(plain(server::SCRIPT)),
            Self::LargeFile => H2load::counted(LARGE_TRANSFERS).http1().connections(2).of(plain(server::LARGE)),
            Self::LargeFileTls => {
                let url = format!("https://{}{}", server.files, server::LARGE);
                H2load::counted(LARGE_TRANSFERS).http1().connections(2).of(url)
            }
        }
    }
}

impl Experiment for Front {
    fn name(&self) -> &'static str {
        "front"
    }

    fn title(&self) -> &'static str {
        "TLS, HTTP/2 and files, beside other gateways"
    }

    fn hypothesis(&self) -> &'static str {
        "A stored answer takes at most 0.85 times the CPU time of the best of nginx, HAProxy and H2O over TLS and HTTP/1.1, and 0.8 times over \
         HTTP/2; a full handshake no more than nginx; a compressed small file at most 0.9 times nginx, a large one 1.1 times."
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let servers = Kind::ALL.map(|kind| Participant {
            name: kind.title().into(),
            what: "TLS, stored answers, files".into(),
            missing: kind.find().err(),
        });
        let load =
            Participant { name: "h2load".into(), what: "the load of all groups".into(), missing: h2load::find().err() };
        servers.into_iter().chain([load]).collect()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        if let Err(missing) = h2load::find() {
            return Ok(Plan { skipped: vec![missing], ..Plan::default() });
        }
        let scratch = setting.scratch.join("front");
        fs::create_dir_all(&scratch).with_context(|| format!("cannot make {}", scratch.display()))?;
        server::write_shared(&scratch)?;
        let works = Work::ALL.iter().filter(|work| !setting.quick || **work == Work::Http1);
        let mut skipped = Vec::new();
        let groups = works.map(|work| group(*work, &scratch, setting, &mut skipped)).collect();
        Ok(Plan { groups, skipped, published: Vec::new() })
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        figures::add(results);
    }
}

fn amount(setting: &Setting) -> Amount {
    let (duration, warm_up) = (Duration::from_millis(800), Duration::from_millis(200));
    if setting.quick { setting.amount() } else { Amount { rounds: 12, duration, warm_up, seed: setting.seed } }
}

fn group(work: Work, scratch: &std::path::Path, setting: &Setting, skipped: &mut Vec<Skipped>) -> Group {
    let mut variants = Vec::new();
    for kind in work.kinds() {
        match kind.find() {
            Ok(software) => variants.push(variant(work, *kind, software, scratch, setting.lifetime())),
            Err(missing) if !skipped.contains(&missing) => skipped.push(missing),
            Err(_) => {}
        }
    }
    let question = |other: &Variant| {
        Question::ratio(format!("CPU of a request, Pilotlight / {}", other.title), Metric::CpuUs, OWN, other.id.clone())
    };
    Group {
        id: work.id().into(),
        title: work.title().into(),
        workload: work.workload(),
        metrics: work.metrics(),
        questions: variants.iter().filter(|variant| variant.id != OWN).map(question).collect(),
        variants,
        control: OWN.into(),
        amount: amount(setting),
    }
}

fn variant(work: Work, kind: Kind, software: Software, scratch: &std::path::Path, lifetime: Lifetime) -> Variant {
    let dir = scratch.join(format!("{}-{}", work.id(), kind.id()));
    let shared = scratch.to_owned();
    let measure = Measured { work, kind, lifetime, dir, shared, cores: Cores::here(), running: None };
    Variant {
        id: kind.id().into(),
        title: kind.title().into(),
        role: match kind {
            Kind::Own => Role::Subject,
            Kind::Floor => Role::Floor,
            Kind::Nginx | Kind::Haproxy | Kind::H2o => Role::Peer,
        },
        software: vec![software],
        measure: Box::new(measure),
    }
}

/// A server under load.
struct Measured {
    work: Work,
    kind: Kind,
    lifetime: Lifetime,
    dir: PathBuf,
    /// What all servers have: files, the certificate.
    shared: PathBuf,
    cores: Option<Cores>,
    running: Option<Rc<Server>>,
}

impl Measure for Measured {
    fn measure(&mut self, amount: Amount) -> anyhow::Result<Sample> {
        let server = match (self.running.take(), self.lifetime) {
            (Some(server), Lifetime::Group) => server,
            (server, _) => {
                drop(server);
                let core = self.cores.map(|cores| cores.server);
                Rc::new(Server::start(self.kind, &self.dir, &self.shared, core)?)
            }
        };
        let sample = self.sample(&server, amount).with_context(|| server.last_words())?;
        self.running = Some(server);
        Ok(sample)
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        let Self { work, kind, lifetime, dir, shared, cores, .. } = self;
        let (dir, shared) = (dir.with_extension("again"), shared.clone());
        let (work, kind, lifetime, cores) = (*work, *kind, *lifetime, *cores);
        Some(Box::new(Self { work, kind, lifetime, dir, shared, cores, running: None }))
    }

    fn beside(&self, _: Amount) -> Duration {
        if self.lifetime == Lifetime::Measurement { AROUND + RESTART } else { AROUND }
    }
}

impl Measured {
    fn sample(&self, server: &Server, amount: Amount) -> anyhow::Result<Sample> {
        let core = self.cores.map(|cores| cores.load);
        let run = |duration| cores::on(core, || self.work.load(server, duration).run())?;
        let memory = || usage::memory(&server.processes()).rss_bytes;
        run(amount.warm_up).context("warm-up")?;
        let (asked, rss) = (server.asked(), memory());
        let before = usage::cpu_time(&server.processes());
        let outcome = run(amount.duration)?;
        let used = usage::cpu_time(&server.processes()).saturating_sub(before);
        ensure!(server.asked() == asked, "the origin was asked where only hits were to be measured");
        let cpu_us = used.as_secs_f64() * 1e6 / outcome.answers as f64;
        let values = vec![
            (Metric::CpuUs, cpu_us),
            (Metric::PerSecond, outcome.answers as f64 / outcome.took.as_secs_f64()),
            (Metric::RssBytes, memory().saturating_sub(rss) as f64),
        ];
        let kept = self.work.metrics();
        let values = values.into_iter().filter(|(metric, _)| kept.contains(metric)).collect();
        Ok(Sample { values, cpu_us: vec![("gateway".into(), cpu_us)], requests: outcome.answers, ..Sample::default() })
    }
}
