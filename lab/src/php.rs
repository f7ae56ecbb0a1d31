//! `pilotlight lab php`: WordPress and a script of one word behind the gateway, behind nginx, and started by hand;
//! memory of a gateway with many idle sites. `docs/lab/php.md`.

mod by_hand;
mod site;

use std::fs;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;

use crate::command::Common;
use crate::experiment::model::{Figure, GroupResults, Metric, Report, Results, Role, Skipped};
use crate::experiment::{Experiment, Extent, Group, Participant, Plan, Question, Sample, Setting, judge};
use crate::front::h2load::H2load;
use crate::gateway::running::{Running, ask, new_folder, route, service};
use crate::gateway::{Gateway, Lab, group};
use crate::load;
use crate::processes::usage;
use crate::stats::median;
use site::{Programs, Runs, Site};

const PAGES: u32 = 100;
const QUICK_PAGES: u32 = 10;
const WORDS_OF_A_PAGE: u32 = 40;
const SITES: u32 = 500;
const CLIENTS: u32 = 4;
/// Cold starts of a measurement.
const STARTS: u32 = 2;
const ROUNDS: u32 = judge::MIN_ROUNDS as u32;
const FEW_ROUNDS: u32 = 3;
const SECOND: Duration = Duration::from_secs(1);
/// What a page usually takes, warm.
const USUAL: Duration = Duration::from_millis(70);
/// After it memory grows no more.
const SETTLE: Duration = Duration::from_secs(2);
const FIRST_UID: u32 = 20_001;
const MOST_OF_A_SITE: (f64, &str) = (6144.0, " bytes");
/// Groups.
const PAGE: &str = "page";
const COLD_PAGE: &str = "cold-page";
const ON_DISK: &str = "cold-page-on-disk";
const IDLE_SITES: &str = "sites";
/// Variants.
const OWN: &str = "pilotlight";
const NGINX: &str = "nginx";

/// What `pilotlight lab php` takes.
#[derive(Args, Clone, Debug)]
pub struct PhpArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Front pages of a measurement, and forty times as many words
    #[arg(long, value_name = "N", default_value_t = PAGES, value_parser = clap::value_parser!(u32).range(4..=100_000))]
    pages: u32,
    /// Idle sites of one gateway
    #[arg(long, value_name = "N", default_value_t = SITES, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    sites: u32,
}

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Php {
    pages: u32,
    sites: u32,
}

impl Php {
    /// What was asked for.
    #[must_use]
    pub fn asked(arguments: &PhpArguments) -> Self {
        Self { pages: arguments.pages, sites: arguments.sites }
    }

    /// As it is where nothing else is asked for.
    #[must_use]
    pub const fn usual() -> Self {
        Self { pages: PAGES, sites: SITES }
    }
}

impl Experiment for Php {
    fn name(&self) -> &'static str {
        "php"
    }

    fn title(&self) -> &'static str {
        "PHP behind the gateway and behind nginx"
    }

    fn hypothesis(&self) -> &'static str {
        "A page of WordPress takes no more CPU than behind nginx; a cold start little more than PHP started by hand; an idle site 6 KiB"
    }

    fn participants(&self, _: &Setting) -> Vec<Participant> {
        let missing = Programs::find().err();
        let all = [
            (OWN, "starts php-fpm or php-cgi"),
            (NGINX, "before a running php-fpm"),
            ("by hand", "php-fpm and php-cgi, asked by FastCGI: the floor of a cold start"),
        ];
        all.map(|(name, what)| Participant { name: name.into(), what: what.into(), missing: missing.clone() }).into()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let programs = match Programs::find() {
            Ok(programs) => programs,
            Err(missing) => return Ok(Plan { skipped: vec![missing], ..Plan::default() }),
        };
        let lab = Rc::new(Lab::new(setting, Gateway::usual(Extent::AmongOthers))?);
        let site = Rc::new(Site::new(&lab, programs)?);
        let (page, word) =
            (Script { file: "index.php", target: "/" }, Script { file: "word.php", target: "/word.php" });
        let pages = if setting.quick { QUICK_PAGES } else { self.pages };
        let groups = vec![
            warm(&lab, &site, PAGE, page, pages),
            warm(&lab, &site, "word", word, pages * WORDS_OF_A_PAGE),
            cold(&lab, &site, "cold-word", Cold { script: word, is_on_disk: false }),
            cold(&lab, &site, COLD_PAGE, Cold { script: page, is_on_disk: false }),
            cold(&lab, &site, ON_DISK, Cold { script: page, is_on_disk: true }),
            idle_sites(&lab, &site, self.sites),
        ];
        let mut plan = Plan { groups, ..Plan::default() };
        if setting.quick {
            plan.groups.truncate(2);
            plan.skipped.push(Skipped::new("cold starts and sites", "they take minutes", "leave out --quick"));
        }
        Ok(plan)
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        results.figures = results.groups.iter().flat_map(figures).collect();
    }
}

fn figures(group: &GroupResults) -> Vec<Figure> {
    let of_own = |metric: Metric, what: &str, most: (f64, &str)| -> Vec<Figure> {
        let own = group.variants.iter().filter(|variant| variant.role == Role::Subject);
        own.map(|variant| {
            let (name, measured) = (format!("{what}: {}", variant.title), variant.summary.get(&metric).copied());
            Figure::at_most(group, metric, name, most, measured)
        })
        .collect()
    };
    match group.id.as_str() {
        PAGE => {
            let (name, ratio) = ("CPU of a page, Pilotlight / nginx", group.comparisons.first());
            vec![Figure::at_most(group, Metric::CpuUs, name.into(), (1.0, " ×"), ratio.and_then(|asked| asked.value))]
        }
        COLD_PAGE | ON_DISK => of_own(Metric::ColdMs, &group.title, (40.0, " ms")),
        IDLE_SITES => [
            of_own(Metric::GrowthBytes, "memory of an idle site", MOST_OF_A_SITE),
            of_own(Metric::Instances, "processes of idle sites", (0.0, "")),
        ]
        .concat(),
        _ => Vec::new(),
    }
}

/// A script, and the target that runs it.
#[derive(Clone, Copy, Debug)]
struct Script {
    file: &'static str,
    target: &'static str,
}

fn warm(lab: &Rc<Lab>, site: &Rc<Site>, id: &str, script: Script, requests: u32) -> Group {
    let usual = SECOND * 2 + USUAL * if id == PAGE { requests } else { requests / WORDS_OF_A_PAGE / 2 };
    let own = move |lab: &Lab, site: &Site| {
        let gateway = site.gateway(lab, &site.command(Runs::Fpm), "")?;
        asked(gateway.address, script, requests, || [gateway.own_pids(), gateway.service_pids()])
    };
    let nginx = move |lab: &Lab, site: &Site| {
        let nginx = site.nginx(lab)?;
        asked(nginx.address, script, requests, || nginx.pids())
    };
    Group {
        variants: vec![
            site.variant(lab, OWN, Role::Subject, usual, own),
            site.variant(lab, NGINX, Role::Peer, usual, nginx),
        ],
        control: OWN.into(),
        questions: vec![Question::ratio("CPU of a request, Pilotlight / nginx", Metric::CpuUs, OWN, NGINX)],
        amount: lab.counted(ROUNDS.min(lab.amount.rounds)),
        ..group(
            id,
            &format!("PHP that runs: {}", script.file),
            format!(
                "{requests} requests by {CLIENTS} clients; CPU of the web server and of its own php-fpm with three processes, not of the database"
            ),
            &[Metric::CpuUs, Metric::GatewayCpuUs],
        )
    }
}

/// A quarter of the requests first. `pids`: of the web server and of PHP, once it has been asked.
fn asked(
    address: SocketAddr,
    script: Script,
    requests: u32,
    pids: impl FnOnce() -> [Vec<u32>; 2],
) -> anyhow::Result<Sample> {
    let ask = |requests: u32| {
        let load = H2load::counted(requests.into()).http1().connections(CLIENTS.into());
        let found = load.of(format!("http://{address}{}", script.target)).run()?.answers;
        ensure!(found == u64::from(requests), "{found} of {requests} answers");
        Ok(())
    };
    ask((requests / 4).max(CLIENTS))?;
    let [web, php] = pids();
    let ((), used) = usage::during(&[("web server", web), ("PHP", php)], || ask(requests))?;
    let each: Vec<f64> = used.iter().map(|used| used.as_secs_f64() * 1e6 / f64::from(requests)).collect();
    let values = vec![(Metric::CpuUs, each.iter().sum()), (Metric::GatewayCpuUs, each[0])];
    let cpu_us = ["web server", "PHP"].map(str::to_owned).into_iter().zip(each).collect();
    Ok(Sample { values, cpu_us, requests: requests.into(), ..Sample::default() })
}

/// What is started for one request.
#[derive(Clone, Copy, Debug)]
struct Cold {
    script: Script,
    /// Opcodes are kept there, and outlive the processes.
    is_on_disk: bool,
}

/// What one cold start took.
struct Once {
    first_byte: Duration,
    cpu: Duration,
}

fn cold(lab: &Rc<Lab>, site: &Rc<Site>, id: &str, cold: Cold) -> Group {
    let usual = SECOND * (STARTS + 2);
    let (mut variants, mut questions) = (Vec::new(), Vec::new());
    for runs in [Runs::Fpm, Runs::Cgi] {
        let (program, hand) = (runs.id(), format!("{}-by-hand", runs.id()));
        variants.extend([
            site.variant(lab, program, Role::Subject, usual, move |lab, site| cold.by_gateway(lab, site, runs)),
            site.variant(lab, &hand, Role::Floor, usual / 2, move |lab, site| cold.by_hand(lab, site, runs)),
        ]);
        questions.extend([Metric::ColdMs, Metric::CpuUs].map(|metric| Question {
            difference: true,
            ..Question::ratio(format!("{} that the gateway adds to {program}", metric.title()), metric, program, &hand)
        }));
    }
    let disk = if cold.is_on_disk { ", opcodes on disk" } else { "" };
    Group {
        variants,
        control: Runs::Fpm.id().into(),
        questions,
        amount: lab.counted(ROUNDS),
        ..group(
            id,
            &format!("Cold start of {}{disk}", cold.script.file),
            format!("medians of {STARTS} starts: request to first byte; CPU of gateway and PHP until the last byte"),
            &[Metric::ColdMs, Metric::CpuUs],
        )
    }
}

impl Cold {
    fn command(self, site: &Site, runs: Runs, dir: &std::path::Path) -> anyhow::Result<Vec<String>> {
        let mut command = site.command(runs);
        if self.is_on_disk {
            // PHP is another user.
            fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
            command.extend(["-d".into(), format!("opcache.file_cache={}", dir.display())]);
        }
        Ok(command)
    }

    fn by_gateway(self, lab: &Lab, site: &Site, runs: Runs) -> anyhow::Result<Sample> {
        let opcodes = new_folder(&lab.scratch)?;
        let user = if runs == Runs::Cgi { "concurrency = 1\nuser = \"www-data\"\n" } else { "" };
        let keys = format!("{user}idle_timeout = \"500ms\"");
        let gateway = site.gateway(lab, &self.command(site, runs, opcodes.path())?, &keys)?;
        let request = format!("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", self.script.target);
        let cpu = || usage::cpu_time(&[gateway.own_pids(), gateway.service_pids()].concat());
        starts(|| {
            gateway.wait_until_stopped()?;
            let before = cpu();
            let answered = ask(gateway.address, request.as_bytes())?;
            let first_byte = Duration::from_secs_f64(answered.first_byte_ms / 1e3);
            Ok(Once { first_byte, cpu: cpu().saturating_sub(before) })
        })
    }

    fn by_hand(self, lab: &Lab, site: &Site, runs: Runs) -> anyhow::Result<Sample> {
        let (dir, opcodes) = (new_folder(&lab.scratch)?, new_folder(&lab.scratch)?);
        let command = self.command(site, runs, opcodes.path())?;
        starts(|| by_hand::once(&command, self.script, site, dir.path()))
    }
}

/// The first finds cold files, and does not count.
fn starts(mut once: impl FnMut() -> anyhow::Result<Once>) -> anyhow::Result<Sample> {
    once()?;
    let all = (0..STARTS).map(|_| once()).collect::<anyhow::Result<Vec<Once>>>()?;
    let middle = |of: fn(&Once) -> Duration| {
        median(&all.iter().map(|once| of(once).as_secs_f64()).collect::<Vec<_>>()).unwrap_or_default()
    };
    let (first_byte, cpu) = (middle(|once| once.first_byte), middle(|once| once.cpu));
    let values = vec![(Metric::ColdMs, first_byte * 1e3), (Metric::CpuUs, cpu * 1e6)];
    Ok(Sample { values, requests: STARTS.into(), ..Sample::default() })
}

fn idle_sites(lab: &Rc<Lab>, site: &Rc<Site>, count: u32) -> Group {
    let of = |id: &str, is_asked: bool| {
        let usual = SECOND * 6 + if is_asked { USUAL * count } else { SECOND };
        site.variant(lab, id, Role::Subject, usual, move |lab, site| {
            let [few, many] = [memory(lab, site, 1, is_asked)?, memory(lab, site, count, is_asked)?];
            let each = |of: fn(&Used) -> u64| (of(&many) as f64 - of(&few) as f64) / f64::from(count - 1);
            let values = vec![
                (Metric::GrowthBytes, each(|used| used.anonymous)),
                (Metric::RssBytes, each(|used| used.resident)),
                (Metric::Instances, many.processes as f64),
            ];
            Ok(Sample { values, ..Sample::default() })
        })
    };
    Group {
        variants: vec![of("never-asked", false), of("asked-once", true)],
        amount: lab.counted(FEW_ROUNDS),
        ..group(
            IDLE_SITES,
            "A gateway with many idle sites",
            format!(
                "php-cgi of {count} users; memory of gateway and guardian with all of them less that with one, for each: growth without pages of files (RssAnon), memory with them"
            ),
            &[Metric::GrowthBytes, Metric::RssBytes, Metric::Instances],
        )
    }
}

/// What a gateway with sites uses.
struct Used {
    anonymous: u64,
    resident: u64,
    /// Of sites.
    processes: usize,
}

fn memory(lab: &Lab, of: &Site, count: u32, is_asked: bool) -> anyhow::Result<Used> {
    let dir = new_folder(&lab.scratch)?;
    let mut text = site::HEAD.to_owned();
    for number in 0..count {
        let (name, user) = (format!("site{number}"), FIRST_UID + number);
        let site = dir.path().join(&name);
        fs::create_dir_all(&site)?;
        fs::write(site.join("index.php"), "<?php echo posix_geteuid();")?;
        let keys = format!(
            "transport = \"fastcgi\"\ndir = {site:?}\nuser = {user}\ngroup = {user}\nconcurrency = 1\nidle_timeout = \"500ms\"\ncgi = {{ root = \".\" }}"
        );
        text += &service(&name, &[&of.command(Runs::Cgi)[0]], &keys);
        text += &route("/", &name, &format!("false\nhost = \"{name}.test\""));
    }
    let gateway = Running::start(&lab.scratch, None, &text)?;
    let asked = if is_asked { count } else { 0 };
    for number in 0..asked {
        let request = format!("GET / HTTP/1.1\r\nhost: site{number}.test\r\n\r\n");
        let (status, body) = load::ask(gateway.address, request.as_bytes())?;
        let is_right = body == (FIRST_UID + number).to_string().as_bytes();
        ensure!(is_right, "site {number} answers {status} {}", body.escape_ascii());
    }
    gateway.wait_until_stopped()?;
    std::thread::sleep(SETTLE);
    let of = |field: &str| usage::status_bytes(&gateway.own_pids(), field);
    Ok(Used { anonymous: of("RssAnon"), resident: of("VmRSS"), processes: gateway.service_pids().len() })
}
