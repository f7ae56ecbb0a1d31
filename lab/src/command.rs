//! `pilotlight lab`: its arguments, and what happens for each.

mod common;
mod measure;
mod resume;

use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};

use crate::capacity;
use crate::clients::{Clients, ClientsArguments, Tunnel, TunnelArguments};
use crate::compare::{self, CompareArguments};
use crate::equals::{self, Equals, EqualsArguments};
use crate::experiment::judge;
use crate::experiment::model::{Report, Results};
use crate::experiment::terminal::{self, Style};
use crate::experiment::{Experiment, Extent, catalogue};
use crate::figures::{self, FiguresArguments};
use crate::gate::{self, GateArguments};
use crate::gateway::{Gateway, GatewayArguments};
use crate::history::{self, HistoryArguments};
use crate::instructions::{Instructions, InstructionsArguments};
use crate::interrupt;
use crate::limits;
use crate::machine;
use crate::php::{Php, PhpArguments};
use crate::rest::{Rest, RestArguments};
use crate::servers;
use crate::show::{self, Files, ShowArguments};
use crate::transport::{Transport, TransportArguments};
pub use common::Common;
use measure::{measure, plans};

const JSON_FILE: &str = "report.json";
/// What a file is made with, before the user's mask.
const READ_AND_WRITE: u32 = 0o666;
const DEFAULT_OUT: &str = "lab-results";
const DEFAULT_SEED: u64 = 1;

/// What `pilotlight lab` takes.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct LabArguments {
    #[command(subcommand)]
    mode: Option<Mode>,
    /// Say what there is to measure, what is believed of it, how long it takes, and what is missing for it
    #[arg(long)]
    list: bool,
}

/// What `pilotlight lab all` takes.
#[derive(Args, Clone, Debug)]
pub struct AllArguments {
    #[command(flatten)]
    common: Common,
    /// Each experiment as it is alone, with all of its groups: hours; --list says how many
    #[arg(long, conflicts_with = "quick")]
    whole: bool,
}

/// Whether everything was measured that was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Everything.
    Complete,
    /// Something failed, or was not compared; it was said what.
    Failures,
}

/// An experiment, or all of them.
#[derive(Subcommand, Clone, Debug)]
pub enum Mode {
    /// Every experiment into one report: each shorter than alone, in forty minutes, or as it is alone, in hours
    #[command(after_help = ALL_EXAMPLES)]
    All(AllArguments),
    /// Answers from memory, requests passed on, and cold starts, beside other gateways and starters
    #[command(after_help = "Examples:
  pilotlight lab cache --quick                       a group of each kind, in half a minute
  pilotlight lab cache --groups cached,proxy         only these; docs/lab/cache.md has all
  pilotlight lab cache --out report/

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Cache(Common),
    /// WordPress and a script of one word behind the gateway and behind nginx; cold starts; many idle sites
    #[command(after_help = "Examples, as root:
  scripts/setup.sh release                           installs PHP, WordPress, its database and nginx, in a checkout
  pilotlight lab php                                 everything, in a quarter of an hour
  pilotlight lab php --groups page,word --rounds 12
  pilotlight lab php --groups sites --sites 1000     memory of idle sites
  pilotlight lab php --quick                         does everything work? a minute

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Php(PhpArguments),
    /// From a saved file to the first byte of the new program, under `pilotlight dev` and started by hand
    #[command(after_help = "Examples:
  lab/setup.sh                                       Flask, in a checkout; without it Node and Rust are left
  pilotlight lab saves                               30 saves of each kind of project; two minutes
  pilotlight lab saves --groups node --rounds 60
  pilotlight lab saves --quick                       does everything work? some seconds

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Saves(Common),
    /// TLS, HTTP/2, handshakes and files, beside other gateways
    #[command(after_help = "Examples:
  pilotlight lab front --groups tls,tls-h2           a stored answer over TLS, beside nginx, HAProxy and H2O
  pilotlight lab front --groups file,file-large      files; docs/lab/front.md has all

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Front(Common),
    /// What no other program has: memory, floods, small chunks, answers from Redis, starts, what bounds cost
    #[command(after_help = "Examples:
  pilotlight lab gateway                             everything, in half an hour
  pilotlight lab gateway --groups idle,flood --rounds 5 --flood-requests 2000000
  pilotlight lab gateway --groups turns,redis-tier   docs/lab/gateway.md has all

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Gateway(GatewayArguments),
    /// The same request through no layer, one, two: what HTTP, the gateway, the pipe, a service and Redis cost
    #[command(after_help = "Examples:
  pilotlight lab layers                              CPU time, times and instructions of each layer
  pilotlight lab layers --quick                      without instructions, in a quarter of a minute")]
    Layers(Common),
    /// Several servers of one service: one is slow, beside HAProxy's leastconn; one is killed
    #[command(after_help = servers::HELP)]
    Servers(Common),
    /// Rates that eight gateways share through one Redis: what is let in beyond them, and what a limit costs a request
    #[command(after_help = limits::HELP)]
    Limits(Common),
    /// Pilotlight's client of Redis beside others and beside bare loops, on five primaries that the lab starts
    #[command(after_help = "Examples, in a checkout:
  lab/peers/redis/build.sh                           builds the clients; what cannot be built is left out
  pilotlight lab redis                               all workloads and clients; an hour and a half
  pilotlight lab redis --groups w1,w2,w5 --secs 0.4  what the figures are about; a quarter of an hour
  pilotlight lab redis --variants floor,fred,rueidis --groups w1
  pilotlight lab redis --quick                       one workload, some clients in Rust; half a minute")]
    Redis(ClientsArguments),
    /// `pilotlight redis bench`, `fill` and `cli` beside redis-benchmark, a client in Go and redis-cli
    #[command(after_help = "Examples:
  pilotlight lab tool                                seven minutes; lab/peers/redis/build.sh go builds the client in Go
  pilotlight lab tool --groups prompt,command        how soon the prompt is there; half a minute
  pilotlight lab tool --quick")]
    Tool(Common),
    /// `pilotlight redis tunnel` beside the servers themselves and beside a bare relay: what it costs
    #[command(after_help = "Examples:
  pilotlight lab tunnel                              one server, and three primaries; ten minutes
  pilotlight lab tunnel --groups one --requests 100000
  pilotlight lab tunnel --binaries target/release/pilotlight,old/pilotlight")]
    Tunnel(TunnelArguments),
    /// Count instructions of the hot paths and hold them against what was committed
    #[command(after_help = "Examples, in a checkout:
  pilotlight lab gate                                fails if a path takes 3 % more or less than lab/gate/baseline.json says
  pilotlight lab gate --only resp-get
  pilotlight lab gate --accept                       writes what was counted; commit it with the change")]
    Gate(GateArguments),
    /// Instructions of a request: from memory, ten at once, passed on; of one gateway, or of several beside each other
    #[command(after_help = "Examples:
  pilotlight lab instructions                        of this gateway, in three minutes
  pilotlight lab instructions --traces 0.01 --groups hit
  pilotlight lab instructions --binaries target/release/pilotlight,old/pilotlight

A busy machine does not matter here; --noisy-anyway compares on one.")]
    Instructions(InstructionsArguments),
    /// What a gateway, and many on one Redis Cluster, can do: predicted from what single requests cost, and measured
    #[command(after_help = capacity::HELP)]
    Capacity(Common),
    /// What a full cache keeps: hit ratios of the memory tier's store and of others, on published traces
    #[command(after_help = "Examples, in a checkout:
  lab/peers/cache/build.sh                           builds the stores and fetches the traces
  pilotlight lab eviction                            all traces, at 1, 5 and 20 % of their objects; ten minutes
  pilotlight lab eviction --groups web07-5,web12-5

A busy machine does not matter here; --noisy-anyway compares on one.")]
    Eviction(Common),
    /// What the gateway adds to an engine of containers: a start and an unpause, beside bare calls of the same API
    #[command(after_help = "Examples:
  sudo pilotlight lab containers                     with Podman, an engine of its own; two minutes
  sudo pilotlight lab containers --groups unpause

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Containers(Common),
    /// What can be told apart on this machine: equal servers, and one that does 5 % more work
    #[command(after_help = equals::HELP)]
    Equals(EqualsArguments),
    /// What each layer of a service is worth: allocator, runtime, HTTP, JSON, connections to Redis, TLS
    #[command(after_help = FACTORS_EXAMPLES)]
    Factors(Common),
    /// The published factor study of a service in Haskell: options of its runtime, Scotty, aeson
    #[command(after_help = "Examples, in a checkout:
  lab/peers/rest/build.sh haskell                    what is compared
  pilotlight lab study --quick                       does everything work? two published pairs, on a hit; half a minute
  pilotlight lab study                               all of it, on a hit and on a miss; a quarter of an hour
  pilotlight lab study --groups rts                  the options of the runtime")]
    Study(Common),
    /// HTTP and the pipe, warm and cold, beside other gateways: times, memory, CPU time
    #[command(after_help = "Examples:
  pilotlight lab transport                           the published five cases, in each language that is there
  pilotlight lab transport --quick                   half a minute, to see whether everything works
  pilotlight lab transport --services python --python venv/bin/python --requests 1000
  pilotlight lab transport --groups node-warm --rounds 20

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Transport(Box<TransportArguments>),
    /// What the gateway adds to a warm function of AWS Lambda, in Python and Node; a hundred invocations at once
    #[command(after_help = "Examples, in a checkout:
  scripts/lambda-clients.sh target/lambda            installs the vendor's runtime clients
  pilotlight lab lambda                              two minutes
  pilotlight lab lambda --groups python --rounds 30

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Lambda(Common),
    /// A tool call of an MCP server: over HTTP, in a session and without one, and on the program's own streams
    #[command(after_help = "Examples:
  pilotlight lab mcp                                 a minute
  pilotlight lab mcp --rounds 30 --secs 0.5

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Mcp(Common),
    /// The published REST scenarios on SQLite and Redis, beside services in other stacks: req/s, CPU time, percentiles
    #[command(after_help = "Examples:
  pilotlight lab rest --list                         what there is to measure, and what is missing for it
  pilotlight lab rest --quick                        whether everything works
  pilotlight lab rest --cases post,post-slow --services users,axum-fred --redis standalone --secs 10

Nothing else should run meanwhile. Everything that is started ends with it.")]
    Rest(Box<RestArguments>),
    /// Show a stored report again: as a page, as Markdown with pictures, as tables
    #[command(after_help = "Examples:
  pilotlight lab show report/report.json             report.html, report.md and plots/ beside it
  pilotlight lab show report/report.json --html --out /tmp/page
  pilotlight lab show report/report.json --text      tables, on the terminal")]
    Show(ShowArguments),
    /// Compare each figure of two stored reports
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(CompareArguments),
    /// Each figure of stored reports over commits, for each kind of processor
    #[command(after_help = "Examples, in a checkout:
  pilotlight lab history                             tables of all that lab/reports has and had
  pilotlight lab history --only cache/cached,rest    only these
  pilotlight lab history --out history/              a page with pictures")]
    History(HistoryArguments),
    /// Write the figures of stored reports into the marked places of documents
    #[command(after_help = figures::HELP)]
    Figures(FiguresArguments),
}

const COMPARE_EXAMPLES: &str = "Examples:
  pilotlight lab compare before/report.json after/report.json
  pilotlight lab compare lab/reports/2026-11-22-cache.json report/report.json --json

Exit codes: 0 nothing is worse, 1 something is, or the two have no figure in common, 2 usage.";
const ALL_EXAMPLES: &str = "Examples:
  pilotlight lab all --list                          what there is to measure, and what is missing for it
  pilotlight lab all --quick                         two minutes at most, to see whether everything works
  pilotlight lab all --out report                    everything, each shorter than alone, into report/report.json; forty minutes
  pilotlight lab all --whole --out report            everything as it is alone; --list says how many hours, and --resume goes on after Ctrl-C

Nothing else should run meanwhile: on a noisy machine everything is shown and nothing is compared. Everything that is started ends with it.
Exit codes: 0 everything was measured and compared, 1 something failed, was interrupted, or was not compared because of noise, 2 usage.";
const FACTORS_EXAMPLES: &str = "Examples:
  lab/peers/factors/build.sh                         builds the programs that are compared, in a checkout
  pilotlight lab factors --list                      what there is to measure, and what is missing for it
  pilotlight lab factors --quick                     a quarter of a minute, to see whether everything works
  pilotlight lab factors --json                      everything, a quarter of an hour; the report on the standard output, too

Exit codes: 0 everything was measured and compared, 1 something failed, was interrupted, or was not compared because of noise, 2 usage.";

/// A number of seconds on the command line.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "is no number".to_owned())?;
    if (0.01..=3600.0).contains(&value) { Ok(value) } else { Err("is not from 0.01 to 3600".to_owned()) }
}

/// Measures, prints, and writes the report.
///
/// # Errors
/// Nothing can be measured, or the report cannot be written.
pub fn run(arguments: &LabArguments) -> anyhow::Result<Completeness> {
    match &arguments.mode {
        Some(Mode::All(arguments)) => {
            let extent = if arguments.whole { Extent::Alone } else { Extent::AmongOthers };
            run_experiments(&catalogue::all(extent), &arguments.common, extent)
        }
        Some(Mode::Cache(common)) => one("cache", common),
        Some(Mode::Containers(common)) => one("containers", common),
        Some(Mode::Eviction(common)) => one("eviction", common),
        Some(Mode::Front(common)) => one("front", common),
        Some(Mode::Php(arguments)) => {
            run_experiments(&[Box::new(Php::asked(arguments))], &arguments.common, Extent::Alone)
        }
        Some(Mode::Saves(common)) => one("saves", common),
        Some(Mode::Gateway(arguments)) => {
            run_experiments(&[Box::new(Gateway::asked(arguments))], &arguments.common, Extent::Alone)
        }
        Some(Mode::Layers(common)) => one("layers", common),
        Some(Mode::Servers(common)) => one("servers", common),
        Some(Mode::Limits(common)) => one("limits", common),
        Some(Mode::Redis(arguments)) => {
            run_experiments(&[Box::new(Clients::asked(arguments))], &arguments.common, Extent::Alone)
        }
        Some(Mode::Tool(common)) => one("tool", common),
        Some(Mode::Tunnel(arguments)) => {
            run_experiments(&[Box::new(Tunnel::asked(arguments))], &arguments.common, Extent::Alone)
        }
        Some(Mode::Gate(arguments)) => gate::run(arguments),
        Some(Mode::Instructions(arguments)) => {
            run_experiments(&[Box::new(Instructions::asked(arguments))], &arguments.common, Extent::Alone)
        }
        Some(Mode::Capacity(common)) => one("capacity", common),
        Some(Mode::Equals(arguments)) => {
            run_experiments(&[Box::new(Equals::asked(arguments))], &arguments.common, Extent::Alone)
        }
        Some(Mode::Factors(common)) => one("factors", common),
        Some(Mode::Study(common)) => one("study", common),
        Some(Mode::Lambda(common)) => one("lambda", common),
        Some(Mode::Mcp(common)) => one("mcp", common),
        Some(Mode::Transport(arguments)) => {
            let asked = Transport::asked(arguments).unwrap_or_else(|error| error.exit());
            run_experiments(&[Box::new(asked)], &arguments.common, Extent::Alone)
        }
        Some(Mode::Rest(arguments)) => {
            run_experiments(&[Box::new(Rest::asked(arguments))], &arguments.common, Extent::Alone)
        }
        Some(Mode::Show(arguments)) => show::run(arguments).map(|()| Completeness::Complete),
        Some(Mode::Compare(arguments)) => compare::run(arguments),
        Some(Mode::History(arguments)) => history::run(arguments).map(|()| Completeness::Complete),
        Some(Mode::Figures(arguments)) => figures::run(arguments),
        None => {
            let common = Common { list: true, ..Common::default() };
            run_experiments(&catalogue::all(Extent::AmongOthers), &common, Extent::AmongOthers)
        }
    }
}

fn one(name: &str, common: &Common) -> anyhow::Result<Completeness> {
    let experiment = catalogue::find(name).with_context(|| format!("there is no experiment {name}"))?;
    run_experiments(&[experiment], common, Extent::Alone)
}

fn run_experiments(
    experiments: &[Box<dyn Experiment>],
    common: &Common,
    extent: Extent,
) -> anyhow::Result<Completeness> {
    machine::require_proc()?;
    let scratch = scratch()?;
    pilotlight_testkit::keep_port_locks_in(scratch.path().join("ports"));
    let setting = common.setting(scratch.path());
    if common.list {
        print(&terminal::list(&plans(experiments, &setting, common, extent), &setting))?;
        return Ok(Completeness::Complete);
    }
    interrupt::watch().context("signals cannot be watched")?;
    fs::create_dir_all(&common.out).with_context(|| format!("cannot make the folder {}", common.out.display()))?;
    let report = measure(experiments, &setting, common, extent)?;
    let json = format!("{}\n", serde_json::to_string_pretty(&report)?);
    let file = common.out.join(JSON_FILE);
    write(&file, &json)?;
    let mut written = show::write(&file, &common.out, Files::All)?;
    written.insert(0, file);
    written.extend(common.flames.then(|| common.flames_folder()));
    if common.json {
        print(&json)?;
    } else {
        let style = if std::io::stdout().is_terminal() { Style::Colours } else { Style::Plain };
        print(&terminal::render(&report, style))?;
        let written: Vec<String> = written.iter().map(|file| file.display().to_string()).collect();
        print(&format!("written: {}\n", written.join(", ")))?;
    }
    if report.interrupted {
        return Err(interrupt::Interrupted)
            .context("what was measured whole is in the report; the same command with --resume goes on with it");
    }
    Ok(if is_complete(&report) { Completeness::Complete } else { Completeness::Failures })
}

/// Everything was measured, and compared.
fn is_complete(report: &Report) -> bool {
    let failed = |results: &Results| {
        results.failed.is_some()
            || results.groups.iter().any(|group| group.variants.iter().any(|variant| variant.failed.is_some()))
            || results.tables.iter().any(|table| table.rows.iter().any(|row| row.failed.is_some()))
    };
    judge::Machine::of(&report.noise) == judge::Machine::Quiet && !report.experiments.iter().any(failed)
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to the standard output")
}

/// A folder of this run that goes with it. Peers whose workers are another user's have to reach into it.
fn scratch() -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("pilotlight-lab-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .context("cannot make a folder for temporary files")
}

/// `lab/peers` of the checkout that this is run in, or that the binary was built in.
fn find_peers() -> Option<PathBuf> {
    let places = [std::env::current_dir().ok(), std::env::current_exe().ok()];
    let above = |place: &Path| place.ancestors().map(|folder| folder.join("lab/peers")).find(|peers| peers.is_dir());
    places.into_iter().flatten().find_map(|place| above(&place))
}

/// Written whole or not at all: whoever reads it meanwhile has the one before. The user's mask decides who may read it.
fn write(file: &Path, content: &str) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = fs::Permissions::from_mode(READ_AND_WRITE);
    let new = tempfile::Builder::new().permissions(permissions).tempfile_in(folder);
    let mut new = new.with_context(|| format!("cannot write in {}", folder.display()))?;
    new.write_all(content.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    new.persist(file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(())
}
