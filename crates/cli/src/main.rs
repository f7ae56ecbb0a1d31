//! The `pilotlight` binary: arguments in, exit codes out.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use pilotlight_authority::Direction;
use pilotlight_cli::admin::{Effect, Which};
use pilotlight_cli::config::DEFAULT_FILE;
use pilotlight_cli::config::commands::{self, Existing, Format, Outcome};
use pilotlight_cli::deferred::Deferred;
use pilotlight_cli::{admin, generated, run, trust};
use pilotlight_gateway::Emptying;
use pilotlight_lab::command::Completeness;
use pilotlight_printable::printable_lines;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A gateway for local services: starts them on their first request, speaks to them over a pipe or HTTP, caches.
#[derive(Parser)]
#[command(name = "pilotlight", version, about, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConfigFile,
}

const EXAMPLES: &str = "Examples:
  pilotlight init                      write a commented pilotlight.toml to start from
  pilotlight check                     report every mistake in it
  pilotlight                           run it (the same as `pilotlight run`)
  pilotlight run --config other.toml   run another file
  pilotlight status --watch            what a running one is doing
  pilotlight purge --tag prices        take back what is stored, on every gateway that shares the cache
  pilotlight lab all --quick           measure on this machine what the documentation claims
  pilotlight redis cli -h cache        a prompt for Redis and Valkey
  PILOTLIGHT_LOG=debug pilotlight      with more events on the standard error

Exit codes: 0 done, 1 the work failed, 2 usage or configuration, 70 a bug of Pilotlight.";

const LAB_EXAMPLES: &str = "Examples:
  pilotlight lab --list                each experiment, what is believed of it, and what is missing for it
  pilotlight lab all --quick           two minutes at most, to see whether everything works
  pilotlight lab all --out report      everything, into one report
  pilotlight lab transport             one experiment alone";

#[derive(Subcommand)]
enum Command {
    /// Run the gateway (what happens without a command)
    Run {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Report every mistake in the configuration
    Check {
        #[command(flatten)]
        config: ConfigFile,
        /// One JSON object on the standard output
        #[arg(long)]
        json: bool,
    },
    /// Write a configuration to start from
    Init {
        #[command(flatten)]
        config: ConfigFile,
        /// Replace the file if there is one
        #[arg(long)]
        force: bool,
    },
    /// Show what runs: services, instances, requests, times, memory
    #[command(after_help = "Examples:
  pilotlight status               a table of all services
  pilotlight status --watch       the same, kept up to date
  pilotlight status users         one service: instances, where the time goes, its last error
  pilotlight status --json        for programs")]
    Status {
        /// One service, with more about it
        service: Option<String>,
        /// Go on, once a second
        #[arg(long, short)]
        watch: bool,
        #[command(flatten)]
        gateway: Running,
    },
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
    /// Put a new instance of a service in the place of the one that runs
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
    /// Say what would become of a request: route, service, cache, limits
    #[command(after_help = "Examples:
  pilotlight explain /users/7
  pilotlight explain http://example.org/users/7 -H 'cache-control: no-cache'
  pilotlight explain -X POST /users")]
    Explain {
        /// The URL as clients write it
        url: String,
        /// The method
        #[arg(long, short = 'X', default_value = "GET")]
        method: String,
        /// A field of the request, `name: value`
        #[arg(long = "header", short = 'H', value_name = "FIELD")]
        fields: Vec<String>,
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
    Redis {
        #[command(subcommand)]
        mode: Deferred<pilotlight_redis_tool::Mode>,
    },
    /// Measure on this machine what the documentation claims
    #[command(after_help = LAB_EXAMPLES)]
    Lab(pilotlight_lab::command::LabArguments),
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

/// Which running gateway.
#[derive(Args)]
struct Running {
    /// The configuration file of the gateway that is meant [default: pilotlight.toml of this folder]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The admin socket of the gateway that is meant
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "any"])]
    socket: Option<PathBuf>,
    /// The only gateway that runs, if this folder has none of its own
    #[arg(long, conflicts_with = "config")]
    any: bool,
    /// What the gateway answered, as JSON
    #[arg(long)]
    json: bool,
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

impl Running {
    fn run(
        self,
        effect: Effect,
        command: impl FnOnce(&admin::Client, admin::Report, &mut dyn io::Write) -> Result<Outcome, admin::Failure>,
    ) -> io::Result<Outcome> {
        let Self { config, socket, any, json } = self;
        let report = if json { admin::Report::Json } else { admin::Report::Text };
        let which = match (socket, config) {
            (Some(socket), _) => Which::Socket(socket),
            (None, Some(file)) => Which::Config(file),
            (None, None) if any => Which::Any,
            (None, None) => Which::Here,
        };
        admin::run(&which, effect, |client| command(client, report, &mut io::stdout()))
    }
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

/// With what is described only when it is needed.
fn whole_command() -> clap::Command {
    Arguments::command().mut_subcommand("redis", Deferred::<pilotlight_redis_tool::Mode>::whole)
}

fn watch(on: bool) -> admin::Watch {
    if on { admin::Watch::On } else { admin::Watch::Once }
}

fn main() -> ExitCode {
    // Before anything else: the guardian must be small, and its own process may not have a thread yet. No option of it
    // is anybody else's business.
    if std::env::args_os().nth(1).is_some_and(|first| first == run::GUARDIAN) {
        return guardian(std::env::args_os().nth(2).map(PathBuf::from));
    }
    if let Some(code) = lab_process() {
        return code;
    }
    let arguments = Arguments::parse();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let outcome = match arguments.command.unwrap_or(Command::Run { config: arguments.config }) {
        Command::Run { config } => return run(&config.file),
        Command::Check { config, json } => {
            let format = if json { Format::Json } else { Format::Text(commands::style_for_stderr()) };
            commands::check(&config.file, format, &mut out, &mut err)
        }
        Command::Init { config, force } => {
            let existing = if force { Existing::Replace } else { Existing::Keep };
            commands::init(&config.file, existing, &mut out, &mut err)
        }
        Command::Status { service, watch: on, gateway } => gateway.run(Effect::Reads, |client, report, out| {
            admin::status(client, service.as_deref(), watch(on), report, out)
        }),
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
        Command::Purge(purging) => purging.run(),
        Command::Explain { url, method, fields, gateway } => {
            let request = admin::Explained { url: &url, method: &method, fields: &fields };
            gateway.run(Effect::Reads, |client, report, out| admin::explain(client, request, report, out))
        }
        Command::Certificates(arguments) => arguments.run(),
        Command::Trust(trusting) => trust::run(trusting, Direction::Trust, &mut out, &mut err),
        Command::Untrust(trusting) => trust::run(trusting, Direction::Untrust, &mut out, &mut err),
        Command::Redis { mode: Deferred(mode) } => return pilotlight_redis_tool::run(mode),
        Command::Lab(arguments) => return lab(&arguments),
        Command::Completions { shell } => generated::completions(whole_command(), shell, &mut out),
        Command::Man { dir } => generated::man(Arguments::command(), dir.as_deref(), &mut out, &mut err),
    };
    match outcome {
        Ok(outcome) => outcome.into(),
        // Nobody is left to be told (a closed pipe), so the exit code has to do.
        Err(_) => Outcome::Failed.into(),
    }
}

/// The lab starts this binary as a service to measure, and in front of programs that must not outlive it.
fn lab_process() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        pilotlight_lab::service::SERVICE => Some(pilotlight_lab::service::main(arguments)),
        pilotlight_lab::processes::REAPER => Some(pilotlight_lab::processes::reap(arguments)),
        pilotlight_lab::processes::HOLD => Some(pilotlight_lab::processes::hold(arguments)),
        _ => None,
    }
}

fn lab(arguments: &pilotlight_lab::command::LabArguments) -> ExitCode {
    match pilotlight_lab::command::run(arguments) {
        Ok(Completeness::Complete) => ExitCode::SUCCESS,
        Ok(Completeness::Failures) => Outcome::Failed.into(),
        Err(e) => {
            eprintln!("pilotlight lab: {e:#}");
            Outcome::Failed.into()
        }
    }
}

fn guardian(runtime_dir: Option<PathBuf>) -> ExitCode {
    let code = pilotlight_supervisor::guardian::main();
    if let Some(dir) = runtime_dir {
        // Gone already if the gateway ended in an orderly way.
        let _ = std::fs::remove_dir_all(dir);
    }
    code
}

fn run(file: &std::path::Path) -> ExitCode {
    match run::run(file) {
        Ok(run::Ended::Stopped) => ExitCode::SUCCESS,
        Ok(run::Ended::RunsAlready) => Outcome::Failed.into(),
        Ok(run::Ended::Misconfigured) => Outcome::Misconfigured.into(),
        Err(e) => {
            // Nobody may be left to be told.
            let _ = writeln!(io::stderr(), "pilotlight: {}", printable_lines(&format!("{e:#}")));
            Outcome::Failed.into()
        }
    }
}
