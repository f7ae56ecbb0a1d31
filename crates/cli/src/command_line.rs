//! The command line: arguments in, exit codes out.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::admin::{Effect, Running};
use crate::config::DEFAULT_FILE;
use crate::config::commands::{self, Existing, Format, Outcome};
use crate::hidden::{self, exit_code};
use crate::{admin, develop, doctor, fmt, generated, import, run, trust};
use clap::{Args, CommandFactory, Parser, Subcommand};
use pilotlight_authority::Direction;
use pilotlight_companion::Companion;
use pilotlight_gateway::Emptying;

/// A gateway for local services: starts them on their first request, speaks to them over a pipe or HTTP, caches.
#[derive(Parser)]
#[command(name = "pilotlight", version, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConfigFile,
}

const EXAMPLES: &str = "Examples:
  pilotlight init                      write a commented pilotlight.toml to start from
  pilotlight dev                       run the project of this folder, without a file, and follow its sources
  pilotlight check                     report every mistake in it
  pilotlight doctor                    what is wrong with this machine and project, and what to do
  pilotlight                           run it (the same as `pilotlight run`)
  pilotlight run --config other.toml   run another file
  pilotlight status --watch            what a running one is doing
  pilotlight ui --open                 the same in the browser
  pilotlight purge --tag prices        take back what is stored, on every gateway that shares the cache
  pilotlight lab all --quick           measure on this machine what the documentation claims
  pilotlight redis cli -h cache        a prompt for Redis and Valkey
  PILOTLIGHT_LOG=debug pilotlight      with more events on the standard error

Exit codes: 0 done, 1 the work failed, 2 usage or configuration, 70 a bug of Pilotlight.";

const REDIS: Companion = Companion { command: "redis", program: "pilotlight-redis", package: "pilotlight-redis-tool" };
const LAB: Companion = Companion { command: "lab", program: "pilotlight-lab", package: "pilotlight-lab" };

const KUBERNETES: Companion =
    Companion { command: "kubernetes", program: "pilotlight-kubernetes", package: "pilotlight-kubernetes" };
const COMPANIONS: [Companion; 3] = [REDIS, LAB, KUBERNETES];

#[derive(Subcommand)]
enum Command {
    /// Run the gateway (what happens without a command)
    Run {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Run the project of this folder while it is developed: guess its kind, serve it, follow its files
    #[command(after_help = develop::EXAMPLES)]
    Dev(develop::DevArguments),
    /// Report every mistake in the configuration
    Check {
        #[command(flatten)]
        config: ConfigFile,
        /// One JSON object on the standard output
        #[arg(long)]
        json: bool,
    },
    /// Look at this machine and this project: what is wrong, and what to do about it
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArguments),
    /// Write a configuration to start from
    Init {
        #[command(flatten)]
        config: ConfigFile,
        /// Replace the file if there is one
        #[arg(long)]
        force: bool,
    },
    /// Lay out a configuration file; comments and meaning stay
    #[command(after_help = fmt::EXAMPLES)]
    Fmt(fmt::FmtArguments),
    /// Make a configuration out of a Procfile, or that of Caddy, nginx, uWSGI, NGINX Unit or gunicorn
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportArguments),
    /// Print the JSON Schema of the configuration, for editors
    #[command(after_help = "Example:
  pilotlight schema > pilotlight.schema.json      what the first line of a file from `pilotlight init` names")]
    Schema,
    /// Show what runs: services, instances, requests, times of the last five minutes, memory
    #[command(after_help = admin::STATUS_EXAMPLES)]
    Status(admin::StatusArguments),
    /// Show what runs in the browser: a dashboard on 127.0.0.1, for as long as the command runs
    #[command(after_help = admin::UI_EXAMPLES)]
    Ui(admin::UiArguments),
    /// Show what a service has printed
    #[command(after_help = "Examples:
  pilotlight logs users           the last 100 lines
  pilotlight logs -f -n 0 users   only what comes from now on")]
    Logs {
        /// The service
        service: String,
        /// Go on with what comes
        #[arg(long, short)]
        follow: bool,
        /// So many of the last lines
        #[arg(long, short = 'n', default_value_t = 100)]
        lines: usize,
        /// Colours and other escape sequences of the service as they came, instead of visible escapes
        #[arg(long, conflicts_with = "json")]
        raw: bool,
        #[command(flatten)]
        gateway: Running,
    },
    /// Replace the running instances of a service with new ones
    #[command(after_help = "Example:
  pilotlight restart users        each instance goes when its successor is ready; no request waits or fails")]
    Restart(Acted),
    /// Follow the configuration file as it is now, without losing a request
    #[command(after_help = "Examples:
  pilotlight reload               says what has changed; a file with mistakes changes nothing (exit code 2)
  pilotlight reload --force       follows also a file that has no route or no service any more
  kill -HUP PID                   the same; the gateway's log says what became of it")]
    Reload {
        /// Follow a file that has no route or no service, too; without it such a file is taken for half written
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        gateway: Running,
    },
    /// Let a new process take over, with another program or settings that a reload cannot follow
    #[command(after_help = "Examples:
  pilotlight upgrade              the program that the gateway was started with, which may be a new one by now
  pilotlight upgrade --program /opt/pilotlight-2/pilotlight
  kill -USR2 PID                  the same as the first

The new process gets the listening sockets; the old one goes on if the new one does not become ready.")]
    Upgrade {
        /// The program of the new process
        #[arg(long, value_name = "PATH")]
        program: Option<PathBuf>,
        #[command(flatten)]
        gateway: Running,
    },
    /// Stop a service; its next request starts it
    #[command(after_help = "Example:
  pilotlight stop users")]
    Stop(Acted),
    /// Start a service without a request
    #[command(after_help = "Example:
  pilotlight start users          before it is needed, or at once after its failures")]
    Start(Acted),
    /// Put a release of a service in the place of the one that runs, if it is healthy
    #[command(after_help = admin::DEPLOY_EXAMPLES)]
    Deploy(admin::DeployArguments),
    /// Go back to the release of a service that ran before
    #[command(after_help = admin::ROLLBACK_EXAMPLES)]
    Rollback(admin::RollbackArguments),
    /// List the releases of a service
    #[command(after_help = admin::RELEASES_EXAMPLES)]
    Releases(admin::ReleasesArguments),
    /// Invoke a function of AWS Lambda with an event
    #[command(after_help = admin::INVOKE_EXAMPLES)]
    Invoke(admin::InvokeArguments),
    /// Show when requests by [[schedules]] are due next and what came of the last ones; run one now
    #[command(after_help = admin::SCHEDULES_EXAMPLES)]
    Schedules {
        /// One schedule, with its last runs
        #[arg(conflicts_with = "run")]
        name: Option<String>,
        /// Run this one now
        #[arg(long, value_name = "NAME")]
        run: Option<String>,
        #[command(flatten)]
        gateway: Running,
    },
    /// Remove what is stored: by URL, prefix, tag, group, or everything
    #[command(after_help = "Examples:
  pilotlight purge http://example.org/users/7
  pilotlight purge /users/7                     at the first address that is listened on
  pilotlight purge --prefix http://example.org/users/
  pilotlight purge --tag product-7 --tag prices
  pilotlight purge --group scripts@http://example.org
  pilotlight purge --all --soft                 stale from now on: validated before it is used

Gateways that share a Redis are told, and the answer says which have done it.")]
    Purge(Box<Purging>),
    /// Explain how a request would be handled: route, service, cache, limits
    #[command(after_help = "Examples:
  pilotlight explain /users/7
  pilotlight explain http://example.org/users/7 -H 'cache-control: no-cache'
  pilotlight explain -X POST /users
  pilotlight explain /v1/chat/completions --data '{\"model\": \"llama-3\"}'")]
    Explain {
        /// The URL as clients write it
        url: String,
        /// The method
        #[arg(long, short = 'X', default_value = "GET")]
        method: String,
        /// A field of the request, `name: value`
        #[arg(long = "header", short = 'H', value_name = "FIELD")]
        fields: Vec<String>,
        /// The body, where its JSON says which route the request has
        #[arg(long, short = 'd', value_name = "JSON")]
        data: Option<String>,
        #[command(flatten)]
        gateway: Running,
    },
    /// Show, renew and import certificates
    #[command(after_help = "Examples:
  pilotlight certificates                        what there is, when it ends, what comes next
  pilotlight certificates renew app.example.org  a new one now, whatever is waited for
  pilotlight certificates renew --all
  pilotlight certificates import --certificate chain.pem --key key.pem")]
    Certificates(CertificatesArguments),
    /// Have the browsers and programs of this machine trust the local authority, which signs for *.localhost
    #[command(after_help = trust::EXAMPLES)]
    Trust(trust::TrustArguments),
    /// Take the local authority out of the stores again
    Untrust(trust::TrustArguments),
    /// Work with Redis and Valkey: a prompt, a benchmark, a filler, a tunnel, local clusters
    #[command(disable_help_flag = true)]
    Redis(PassedOn),
    /// Measure on this machine what the documentation claims
    #[command(disable_help_flag = true)]
    Lab(PassedOn),
    /// Serve what Gateways and Ingresses of a Kubernetes cluster say; scale idle workloads to zero, wake them
    #[command(disable_help_flag = true)]
    Kubernetes(PassedOn),
    /// Print the completions of a shell
    #[command(after_help = "Examples:
  pilotlight completions bash > ~/.local/share/bash-completion/completions/pilotlight
  pilotlight completions zsh > ~/.zfunc/_pilotlight           a folder of $fpath
  pilotlight completions fish > ~/.config/fish/completions/pilotlight.fish")]
    Completions {
        /// Which shell
        shell: generated::Shell,
    },
    /// Write the manual pages
    #[command(after_help = "Examples:
  pilotlight man ~/.local/share/man/man1                      a page for each command; then `man pilotlight-redis-cluster`
  pilotlight man | man -l -                                   the page of the whole")]
    Man {
        /// The folder for a page of each command [default: one page on the standard output]
        dir: Option<PathBuf>,
    },
}

#[derive(Args)]
struct ConfigFile {
    /// The configuration file
    #[arg(long = "config", short = 'c', value_name = "FILE", default_value = DEFAULT_FILE)]
    file: PathBuf,
}

/// Arguments that are a companion's.
#[derive(Args)]
struct PassedOn {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// What is purged.
#[derive(Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
struct Purging {
    /// URLs as clients write them, with all their variants
    #[arg(value_name = "URL", group = "what")]
    urls: Vec<String>,
    /// Every URL that begins like this
    #[arg(long = "prefix", value_name = "URL", group = "what")]
    prefixes: Vec<String>,
    /// Every response with this tag (Cache-Tag, Surrogate-Key)
    #[arg(long = "tag", short = 't', value_name = "TAG", group = "what")]
    tags: Vec<String>,
    /// Every response of this group (Cache-Groups) of an origin
    #[arg(long = "group", value_name = "NAME[@ORIGIN]", group = "what")]
    groups: Vec<String>,
    /// Everything
    #[arg(long = "all", group = "what")]
    everything: bool,
    /// It becomes stale instead of being gone: it is validated before it is used
    #[arg(long, short)]
    soft: bool,
    #[command(flatten)]
    gateway: Running,
}

/// What is done about certificates.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
struct CertificatesArguments {
    #[command(subcommand)]
    action: Option<CertificatesAction>,
    #[command(flatten)]
    gateway: Running,
}

#[derive(Subcommand)]
enum CertificatesAction {
    /// Get a new certificate for a host now
    Renew {
        /// The host
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Option<String>,
        /// For all hosts
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        gateway: Running,
    },
    /// Take a certificate that came in another way, until it is renewed
    Import {
        /// The certificate and those between it and the root, as PEM
        #[arg(long, value_name = "FILE")]
        certificate: PathBuf,
        /// Its private key, as PEM
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        #[command(flatten)]
        gateway: Running,
    },
}

impl CertificatesArguments {
    fn run(self) -> io::Result<Outcome> {
        use admin::Certificates;
        let (gateway, effect, what) = match self.action {
            None => (self.gateway, Effect::Reads, Certificates::List),
            Some(CertificatesAction::Renew { name, gateway, .. }) => {
                (gateway, Effect::Changes, name.map_or(Certificates::RenewAll, Certificates::Renew))
            }
            Some(CertificatesAction::Import { certificate, key, gateway }) => {
                (gateway, Effect::Changes, Certificates::Import { certificate, key })
            }
        };
        gateway.run(effect, |client, report, out| admin::certificates(client, &what, report, out))
    }
}

/// A service that is told to do something.
#[derive(Args)]
struct Acted {
    /// The service
    service: String,
    /// Do not wait until it is done
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
    /// Seconds to wait for it
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    timeout: u64,
    #[command(flatten)]
    gateway: Running,
}

impl Purging {
    fn run(self) -> io::Result<Outcome> {
        let Self { urls, prefixes, tags, groups, everything, soft, gateway } = self;
        let purged = admin::Purged { urls, prefixes, tags, groups, everything, soft };
        gateway.run(Effect::Changes, |client, report, out| admin::purge(client, &purged, report, out))
    }
}

impl Acted {
    fn run(self, action: admin::Action) -> io::Result<Outcome> {
        let timeout = if self.no_wait { Duration::ZERO } else { Duration::from_secs(self.timeout) };
        let act = admin::Act { service: &self.service, action, timeout };
        self.gateway.run(Effect::Changes, |client, report, out| admin::act(client, act, report, out))
    }
}

/// With the commands of the companions that are here.
fn whole_command() -> clap::Command {
    COMPANIONS.into_iter().fold(Arguments::command(), |command, companion| {
        command.mut_subcommand(companion.command, |own| match companion.described(&own) {
            Ok(described) => described,
            Err(error) => {
                // Nobody may be left to be told.
                let _ = writeln!(io::stderr(), "pilotlight: left out what is below `{}`: {error}", companion.command);
                own
            }
        })
    })
}

/// The companion whose help was asked for by `pilotlight help redis …`, and what follows.
fn helped() -> Option<(Companion, Vec<OsString>)> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != "help" {
        return None;
    }
    let command = arguments.next()?;
    let companion = COMPANIONS.into_iter().find(|companion| command == companion.command)?;
    Some((companion, arguments.chain(["--help".into()]).collect()))
}

fn watch(on: bool) -> admin::Watch {
    if on { admin::Watch::On } else { admin::Watch::Once }
}

/// The program: reads the arguments of the process, does what they say, gives the exit code.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = hidden::started() {
        return code;
    }
    if let Some((companion, arguments)) = helped() {
        return companion.run(arguments);
    }
    let arguments = Arguments::parse();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let outcome = match arguments.command.unwrap_or(Command::Run { config: arguments.config }) {
        Command::Run { config } => return exit_code(run::run(&config.file)),
        Command::Dev(arguments) => return exit_code(develop::run(&arguments)),
        Command::Check { config, json } => {
            let format = if json { Format::Json } else { Format::Text(commands::style_for_stderr()) };
            commands::check(&config.file, format, &mut out, &mut err)
        }
        Command::Doctor(arguments) => doctor::run(&arguments, &COMPANIONS, &mut out),
        Command::Init { config, force } => {
            let existing = if force { Existing::Replace } else { Existing::Keep };
            commands::init(&config.file, existing, &mut out, &mut err)
        }
        Command::Fmt(arguments) => fmt::run(&arguments, &mut out, &mut err),
        Command::Import(arguments) => import::run(&arguments, &mut out, &mut err),
        Command::Schema => commands::schema(&mut out),
        Command::Status(arguments) => admin::status(arguments),
        Command::Ui(arguments) => admin::ui(arguments),
        Command::Logs { service, follow, lines, raw, gateway } => {
            let escapes = if raw { admin::Escapes::Raw } else { admin::Escapes::Visible };
            let lines = admin::Lines { service: &service, count: lines, follow: watch(follow), escapes };
            gateway.run(Effect::Reads, |client, report, out| admin::logs(client, lines, report, out))
        }
        Command::Reload { force, gateway } => {
            let emptying = if force { Emptying::Forced } else { Emptying::Refused };
            gateway.run(Effect::Changes, |client, report, out| admin::reload(client, emptying, report, out))
        }
        Command::Upgrade { program, gateway } => {
            gateway.run(Effect::Changes, |client, report, out| admin::upgrade(client, program.as_deref(), report, out))
        }
        Command::Restart(acted) => acted.run(admin::Action::Restart),
        Command::Stop(acted) => acted.run(admin::Action::Stop),
        Command::Start(acted) => acted.run(admin::Action::Start),
        Command::Deploy(arguments) => admin::deploy(arguments),
        Command::Rollback(arguments) => admin::rollback(arguments),
        Command::Releases(arguments) => admin::releases(arguments),
        Command::Invoke(arguments) => arguments.run(),
        Command::Schedules { name, run, gateway } => schedules(name, run, gateway),
        Command::Purge(purging) => purging.run(),
        Command::Explain { url, method, fields, data, gateway } => {
            let request = admin::Explained { url: &url, method: &method, fields: &fields, data: data.as_deref() };
            gateway.run(Effect::Reads, |client, report, out| admin::explain(client, request, report, out))
        }
        Command::Certificates(arguments) => arguments.run(),
        Command::Trust(trusting) => trust::run(trusting, Direction::Trust, &mut out, &mut err),
        Command::Untrust(trusting) => trust::run(trusting, Direction::Untrust, &mut out, &mut err),
        Command::Redis(passed) => return REDIS.run(passed.arguments),
        Command::Lab(passed) => return LAB.run(passed.arguments),
        Command::Kubernetes(passed) => return KUBERNETES.run(passed.arguments),
        Command::Completions { shell } => generated::completions(whole_command(), shell, &mut out),
        Command::Man { dir } => generated::man(whole_command(), dir.as_deref(), &mut out, &mut err),
    };
    match outcome {
        Ok(outcome) => outcome.into(),
        // Nobody is left to be told (a closed pipe), so the exit code has to do.
        Err(_) => Outcome::Failed.into(),
    }
}

fn schedules(name: Option<String>, run: Option<String>, gateway: Running) -> io::Result<Outcome> {
    let effect = if run.is_some() { Effect::Changes } else { Effect::Reads };
    let what = run.map(admin::Schedules::Run).or_else(|| name.map(admin::Schedules::One));
    let what = what.unwrap_or(admin::Schedules::List);
    gateway.run(effect, |client, report, out| admin::schedules(client, &what, report, out))
}
