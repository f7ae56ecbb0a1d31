//! `pilotlight lab saves`: from a saved file to the first byte of the new program, under `pilotlight dev`, beside the
//! same program started by hand. `docs/lab/saves.md`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use tempfile::TempDir;

use crate::experiment::model::{Figure, GroupResults, Metric, Report, Results, Role, Skipped};
use crate::experiment::{
    Amount, Experiment, Extent, Group, Measure, Participant, Plan, Question, Sample, Setting, Variant,
};
use crate::gateway::running::{REQUEST, ask, new_folder};
use crate::gateway::{Gateway, Lab, group, of, software, variant, venv};
use crate::interrupt;
use crate::processes::{Direct, Held, Program, Reaper, find_program, gateway_program};
use crate::service::SERVICE;
use crate::service::bodies::monotonic_ns;
use crate::stats::Times;
use crate::transport::target::free_address;

const ROUNDS: u32 = 30;
const DEV: &str = "dev";
const BY_HAND: &str = "by-hand";
/// The folder of the project.
const PROJECT: &str = "shop";
/// What stands in a file for what a save changes.
const SAVED: &str = "SAVED";
/// After it the instance before a save has gone.
const REST: Duration = Duration::from_millis(200);
/// What a start of an interpreter usually takes.
const USUAL: Duration = Duration::from_millis(200);
/// The longest until a project answers first, or answers anew.
const FRESH_LIMIT: Duration = Duration::from_secs(60);
/// A program that does not listen yet is tried again after so long.
const RETRY: Duration = Duration::from_micros(500);
const FLASK: &str = "
from flask import Flask
app = Flask(__name__)
@app.get('/')
def index():
    return 'SAVED'
";
/// The least that serves the same application: Python's own server, in the folder and on the port that follow.
const WSGIREF: &str = "
import sys
sys.path.insert(0, sys.argv[1])
import app
from wsgiref.simple_server import make_server
make_server('127.0.0.1', int(sys.argv[2]), app.app).serve_forever()
";
const NODE: &str = "require('http').createServer((_, res) => res.end('SAVED')).listen(process.env.PORT, '127.0.0.1');";

/// The experiment.
#[derive(Clone, Copy, Debug)]
pub struct Saves;

impl Experiment for Saves {
    fn name(&self) -> &'static str {
        "saves"
    }

    fn title(&self) -> &'static str {
        "From a saved file to the first byte of the new program"
    }

    fn hypothesis(&self) -> &'static str {
        "Under `pilotlight dev` a Flask application answers anew before it would have started by hand; a Node server little after"
    }

    fn participants(&self, setting: &Setting) -> Vec<Participant> {
        let of = |kind: Kind| {
            let Project { id, title, .. } = kind.project();
            Participant { name: id.into(), what: title.into(), missing: kind.missing(setting) }
        };
        Kind::ALL.map(of).into()
    }

    fn plan(&self, setting: &Setting) -> anyhow::Result<Plan> {
        let lab = Rc::new(Lab::new(setting, Gateway::usual(Extent::AmongOthers))?);
        let shared = Rc::new(Shared { lab, python: venv(setting).ok(), reaper: Reaper::start()? });
        let mut plan = Plan::default();
        for kind in Kind::ALL {
            let hasty = || Skipped::new(kind.project().title, "it takes seconds", "leave out --quick");
            let missing = kind.missing(setting).or_else(|| (setting.quick && kind != Kind::Rust).then(hasty));
            match missing {
                Some(missing) => plan.skipped.push(missing),
                None => plan.groups.push(group_of(kind, &shared)),
            }
        }
        Ok(plan)
    }

    fn conclude(&self, results: &mut Results, _: &Report) {
        results.figures = results.groups.iter().filter_map(figure).collect();
    }
}

/// What all variants need.
struct Shared {
    lab: Rc<Lab>,
    /// One with Flask.
    python: Option<String>,
    reaper: Reaper,
}

/// What kind of project is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Flask,
    Node,
    /// Built elsewhere: what comes after a build is measured.
    Rust,
}

struct Project {
    id: &'static str,
    title: &'static str,
    most_ms: f64,
    /// Names and contents; the first is the one that is saved.
    files: &'static [(&'static str, &'static str)],
    /// What runs it.
    interpreter: Option<&'static str>,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Flask, Self::Node, Self::Rust];

    fn project(self) -> Project {
        match self {
            Self::Flask => Project {
                id: "flask",
                title: "a Flask application",
                most_ms: 50.0,
                files: &[("app.py", FLASK), ("requirements.txt", "flask\n")],
                interpreter: Some("python3"),
            },
            Self::Node => Project {
                id: "node",
                title: "a server in Node",
                most_ms: 250.0,
                files: &[("server.js", NODE), ("package.json", r#"{"scripts": {"dev": "node server.js"}}"#)],
                interpreter: Some("node"),
            },
            Self::Rust => Project {
                id: "rust",
                title: "a program in Rust, after its build",
                most_ms: 20.0,
                files: &[("version", SAVED)],
                interpreter: None,
            },
        }
    }

    fn missing(self, setting: &Setting) -> Option<Skipped> {
        let no_node = || Skipped::new("the server in Node", "there is no node here", "apt install nodejs");
        match self {
            Self::Flask => venv(setting).err(),
            Self::Node => find_program("node").is_none().then(no_node),
            Self::Rust => None,
        }
    }

    /// The same program by hand, up to its port; what is built elsewhere is not started otherwise.
    fn by_hand(self, folder: &Path, shared: &Shared) -> Option<Vec<OsString>> {
        match self {
            Self::Flask => {
                let python = shared.python.as_ref()?.into();
                Some(vec![python, "-B".into(), "-c".into(), WSGIREF.into(), folder.into()])
            }
            Self::Node => Some(vec!["node".into(), folder.join(self.project().files[0].0).into()]),
            Self::Rust => None,
        }
    }

    fn write(self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut files = self.project().files.iter();
        Ok(files.try_for_each(|(name, text)| fs::write(folder.join(name), text))?)
    }
}

fn group_of(kind: Kind, shared: &Rc<Shared>) -> Group {
    let (Project { id, title, interpreter, .. }, lab) = (kind.project(), &shared.lab);
    let software = interpreter.map(software).unwrap_or_default();
    let saved = Box::new(Saved { kind, shared: Rc::clone(shared), dev: None });
    let mut dev = of(DEV, "pilotlight dev, from a save", software.clone(), saved);
    dev.software[0].settings.clear();
    let mut variants = vec![dev];
    let mut questions = Vec::new();
    let folder = lab.scratch.join(format!("by-hand-{id}"));
    if let Some(command) = kind.by_hand(&folder, shared) {
        let shared = Rc::clone(shared);
        let by_hand = variant(lab, BY_HAND, "started by hand, from its start", USUAL, move |lab, _| {
            kind.write(&folder)?;
            started_by_hand(&command, lab, &shared.reaper)
        });
        variants.push(Variant { role: Role::Floor, software, ..by_hand });
        let text = "to the first byte, from a save / from a start by hand";
        questions.push(Question::ratio(text, Metric::ColdMs, DEV, BY_HAND));
    }
    // A quick run has one of everything that starts programs.
    let rounds = if lab.amount.rounds == 1 { 1 } else { ROUNDS };
    let workload = "a file is written beside the old one and renamed; the page is asked for again and again until it is another program's";
    Group {
        variants,
        control: DEV.into(),
        questions,
        amount: lab.counted(rounds),
        ..group(id, &format!("Saves of {title}"), workload.into(), &[Metric::ColdMs])
    }
}

fn figure(group: &GroupResults) -> Option<Figure> {
    let project = Kind::ALL.into_iter().map(Kind::project).find(|project| project.id == group.id)?;
    let dev = group.variants.iter().find(|variant| variant.id == DEV)?;
    let name = format!("saved file to first fresh byte: {}", project.title);
    let measured = dev.summary.get(&Metric::ColdMs).copied();
    Some(Figure::at_most(group, Metric::ColdMs, name, (project.most_ms, " ms"), measured))
}

/// A project whose file is saved once in each round.
struct Saved {
    kind: Kind,
    shared: Rc<Shared>,
    /// Started with the first round.
    dev: Option<Dev>,
}

impl Measure for Saved {
    fn measure(&mut self, _: Amount) -> anyhow::Result<Sample> {
        // Where it fails, it ends.
        let mut dev = match self.dev.take() {
            Some(dev) => dev,
            None => Dev::start(self.kind, &self.shared)?,
        };
        std::thread::sleep(REST);
        let sample = dev.save().with_context(|| dev.held.output())?;
        self.dev = Some(dev);
        Ok(sample)
    }

    fn again(&self) -> Option<Box<dyn Measure>> {
        Some(Box::new(Self { kind: self.kind, shared: Rc::clone(&self.shared), dev: None }))
    }

    fn beside(&self, _: Amount) -> Duration {
        REST + if self.kind == Kind::Node { USUAL } else { USUAL / 10 }
    }
}

/// `pilotlight dev` in a folder of its own.
struct Dev {
    held: Held,
    http: SocketAddr,
    file: (&'static str, &'static str),
    saves: u32,
    dir: TempDir,
}

impl Dev {
    fn start(kind: Kind, Shared { lab, python, .. }: &Shared) -> anyhow::Result<Self> {
        let dir = new_folder(&lab.scratch)?;
        let project = dir.path().join(PROJECT);
        kind.write(&project)?;
        let [https, http] = [free_address()?, free_address()?];
        let data = format!("XDG_DATA_HOME={}", dir.path().join("data").display());
        let mut words = vec!["env".into(), data, format!("PYTHONPATH={}", lab.file("sdk/python"))];
        // As in a shell where the environment of Python is active.
        if let Some(bin) = python.as_ref().and_then(|python| Path::new(python).parent()) {
            let path = std::env::var("PATH").unwrap_or_default();
            words.push(format!("PATH={}:{path}", bin.display()));
            words.push(format!("VIRTUAL_ENV={}", bin.join("..").display()));
        }
        let program = gateway_program()?.display().to_string();
        let [https_port, http_port] = [https, http].map(|address| address.port().to_string());
        words.extend([program, "dev".into(), "--port".into(), https_port, "--http-port".into(), http_port]);
        if kind == Kind::Rust {
            words.extend(["--over", "pipe", "--", lab.service.as_str(), SERVICE, "pipe-late", "0"].map(str::to_owned));
        }
        let command = words.into_iter().map(OsString::from).collect();
        let output = dir.path().join("output");
        let mut held = Program { name: "pilotlight dev".into(), command, dir: project, output }.start()?;
        held.wait_until(FRESH_LIMIT, "the project answers", |_| ask(http, REQUEST).ok())?;
        Ok(Self { held, http, file: kind.project().files[0], saves: 0, dir })
    }

    /// From a save, as editors do, until the first byte of the new program's answer.
    fn save(&mut self) -> anyhow::Result<Sample> {
        let before = ask(self.http, REQUEST)?.body;
        self.saves += 1;
        let (name, text) = self.file;
        let folder = self.dir.path().join(PROJECT);
        let new = folder.join(format!("{name}~"));
        fs::write(&new, text.replace(SAVED, &format!("save-{}", self.saves)))?;
        fs::rename(&new, folder.join(name))?;
        let (saved_ns, end) = (monotonic_ns(), Instant::now() + FRESH_LIMIT);
        loop {
            interrupt::check()?;
            let answered = ask(self.http, REQUEST)?;
            if program(&answered.body) != program(&before) {
                return Ok(sample(saved_ns, answered.at_ns));
            }
            ensure!(Instant::now() < end, "after {} s it still answers {before:?}", FRESH_LIMIT.as_secs());
        }
    }
}

/// What every answer of a program begins with, and no answer of another: what was saved, or when it was ready.
fn program(body: &str) -> &str {
    body.split(' ').next().unwrap_or_default()
}

/// From the start of the program until the first byte of its answer.
fn started_by_hand(command: &[OsString], lab: &Lab, reaper: &Reaper) -> anyhow::Result<Sample> {
    let address = free_address()?;
    let port = OsString::from(address.port().to_string());
    let command: Vec<OsString> = command.iter().chain([&port]).cloned().collect();
    let output = lab.scratch.join("by-hand.output");
    let direct = Direct::new(&command, &[("PORT", port.as_os_str()), reaper.mark()], File::create(&output)?)?;
    let (begin_ns, end) = (monotonic_ns(), Instant::now() + FRESH_LIMIT);
    let _started = direct.start()?;
    loop {
        interrupt::check()?;
        match ask(address, REQUEST) {
            Ok(answered) => return Ok(sample(begin_ns, answered.at_ns)),
            Err(_) if Instant::now() < end => std::thread::sleep(RETRY),
            Err(error) => bail!("{error:#}: {}", fs::read_to_string(&output).unwrap_or_default()),
        }
    }
}

fn sample(begin_ns: i64, end_ns: i64) -> Sample {
    let (time, mut times) = (Duration::from_nanos((end_ns - begin_ns).unsigned_abs()), Times::new());
    times.record(time);
    let values = vec![(Metric::ColdMs, time.as_secs_f64() * 1e3)];
    Sample { values, requests: 1, times: Some(times), ..Sample::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_save_changes_what_answers_begin_with() {
        assert!(Kind::ALL.iter().all(|kind| kind.project().files[0].1.contains(SAVED)));
        assert_eq!(program("17 20"), program("17 35"));
        assert_ne!(program("17 20"), program("18 20"));
        assert_ne!(program("save-1"), program("save-2"));
    }
}
