//! `pilotlight redis tunnel`: a local plain port for programs without TLS, tokens or knowledge of clusters.
//!
//! [`smart`] makes a cluster look like one server; [`pinned`] has a port for each node. Nothing of what passes is
//! logged; what is counted is told at the end.
//!
//! One thread accepts; each client then belongs to one of a few worker threads, each with a current-thread runtime and
//! connections of its own, so that a command and its reply meet no other thread.

mod clients;
mod pinned;
mod request;
mod smart;
mod wire;
mod workers;

use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use pilotlight_redis::config::Config;
use pilotlight_redis::raw::ReplyBudget;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::connection::{ConnectionArgs, UsageError, seconds};
use clients::Clients;
use workers::Workers;

/// How servers appear to the tunnel's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TunnelMode {
    /// One port; a cluster looks like one server
    Smart,
    /// A port for each node; addresses are rewritten in replies about the topology and in redirects, and nowhere else
    Pinned,
}

/// The arguments of `pilotlight redis tunnel`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TunnelArgs {
    /// Which servers.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// How the servers appear
    #[arg(long, value_enum, default_value_t = TunnelMode::Smart, help_heading = "Tunnel")]
    pub mode: TunnelMode,
    /// The local address to listen on; one that is not of this machine alone needs care, and --require-password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", help_heading = "Tunnel")]
    pub bind: IpAddr,
    /// The local port, 0 for any that is free; with --mode pinned the first of a row
    #[arg(long, value_name = "PORT", default_value_t = 6379, help_heading = "Tunnel")]
    pub listen: u16,
    /// Clients must authenticate with this password, which is the tunnel's own; without it any AUTH is accepted and
    /// thrown away
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "PILOTLIGHT_TUNNEL_PASSWORD",
        hide_env_values = true,
        help_heading = "Tunnel"
    )]
    pub require_password: Option<String>,
    /// Threads that serve clients [default: the cores, at most 4]
    #[arg(long, value_name = "COUNT", help_heading = "Tunnel")]
    pub threads: Option<usize>,
    /// Shared connections to each node, for each thread
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = "Tunnel")]
    pub lanes: usize,
    /// Clients at the same time; others are told that there are too many
    #[arg(long, value_name = "COUNT", default_value_t = 1000, help_heading = "Limits")]
    pub max_clients: usize,
    /// Bytes of one command, or of one transaction, in MiB
    #[arg(long = "max-command-mib", value_name = "MIB", default_value_t = 513, help_heading = "Limits")]
    pub max_command_mib: usize,
    /// What commands above 64 KiB of all clients take together, in MiB; a client beyond it waits, at most 30 s
    #[arg(long = "max-buffered-mib", value_name = "MIB", default_value_t = 1024, help_heading = "Limits")]
    pub max_buffered_mib: usize,
    /// What replies above 16 KiB of all clients take together until they are passed on, in MiB; a reply beyond it
    /// becomes an error
    #[arg(long = "max-held-mib", value_name = "MIB", default_value_t = 2048, help_heading = "Limits")]
    pub max_held_mib: usize,
    /// What is read from a client that takes no replies, in MiB
    #[arg(long = "max-pending-mib", value_name = "MIB", default_value_t = 64, help_heading = "Limits")]
    pub max_pending_mib: usize,
    /// Seconds for one command, retries included; a blocking one has its own time-out on top
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds, help_heading = "Limits")]
    pub command_timeout: Duration,
    /// Seconds for what is in flight when the tunnel is ended
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds, help_heading = "Limits")]
    pub grace: Duration,
    /// Print where it listens as one line of JSON
    #[arg(long, help_heading = "Tunnel")]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  pilotlight redis tunnel -c -h node1,node2 --listen 7777
      a cluster as one server at 127.0.0.1:7777
  REDISCLI_AUTH=secret pilotlight redis tunnel -h cache.example.com --tls
      a server with TLS and a password as one without, at 127.0.0.1:6379
  pilotlight redis tunnel -c -h node1 --tls --mode pinned --listen 7000
      a port for each node: for clients that know clusters, but not TLS
  pilotlight redis tunnel -h cache.example.com --tls -u id --token-command 'print-token'
      a token that is renewed while the programs behind the tunnel know of none

What SIGINT (Ctrl-C) or SIGTERM ends: no new clients, what is in flight is answered, then the connections are closed.
Exit codes: 0 ended so, 1 it cannot listen or connect, 2 the arguments are wrong.";

/// What a client is told when replies exceed their budget.
const TOO_MANY_REPLIES: &str = "ERR the tunnel: the command was run, but there is no memory for its reply (--max-held-mib): \
    ask for fewer large values at the same time, or use --mode pinned, which holds none";

/// What all clients of a tunnel have in common.
#[derive(Debug)]
struct Shared {
    limits: Limits,
    password: Option<String>,
    counters: Counters,
    clients: Clients,
    /// Kibibytes for large commands, and how many there are.
    memory: (Arc<Semaphore>, u32),
    /// Bytes for large replies.
    replies: Arc<ReplyBudget>,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    max_clients: usize,
    max_command_bytes: usize,
    max_pending_bytes: usize,
    grace: Duration,
}

#[derive(Debug, Default)]
struct Counters {
    clients: AtomicU64,
    refused: AtomicU64,
    commands: AtomicU64,
}

impl Counters {
    fn add_commands(&self, count: usize) {
        self.commands.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Shared {
    fn new(args: &TunnelArgs) -> Self {
        let kibibytes = u32::try_from(args.max_buffered_mib.saturating_mul(1024)).unwrap_or(u32::MAX >> 3);
        let kibibytes = kibibytes.min(u32::MAX >> 3);
        Self {
            limits: Limits {
                max_clients: args.max_clients,
                max_command_bytes: args.max_command_mib.saturating_mul(1 << 20),
                max_pending_bytes: args.max_pending_mib.saturating_mul(1 << 20).max(64 * 1024),
                grace: args.grace,
            },
            password: args.require_password.clone(),
            counters: Counters::default(),
            clients: Clients::new(),
            memory: (Arc::new(Semaphore::new(kibibytes as usize)), kibibytes),
            replies: ReplyBudget::new(args.max_held_mib.saturating_mul(1 << 20), TOO_MANY_REPLIES),
        }
    }

    /// Whether a client may come in with this. It takes as long wherever the first difference is.
    fn is_password(&self, given: &[u8]) -> bool {
        let Some(password) = &self.password else { return true };
        let password = password.as_bytes();
        let differences = password
            .iter()
            .enumerate()
            .fold(0, |differences, (at, byte)| differences | (byte ^ given.get(at).copied().unwrap_or(!*byte)));
        differences == 0 && given.len() == password.len()
    }
}

/// Where one port leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Opened {
    node: String,
    local: SocketAddr,
}

/// Listens until it is told to end.
///
/// # Errors
/// It cannot listen, or cannot learn the nodes; or the arguments make no sense.
pub fn run(args: &TunnelArgs) -> anyhow::Result<ExitCode> {
    for (name, number) in [
        ("--max-clients", args.max_clients),
        ("--lanes", args.lanes),
        ("--max-command-mib", args.max_command_mib),
        ("--max-buffered-mib", args.max_buffered_mib),
        ("--max-held-mib", args.max_held_mib),
        ("--threads", args.threads.unwrap_or(1)),
    ] {
        if number == 0 {
            return Err(UsageError(format!("{name}: at least 1")).into());
        }
    }
    let config = configuration(args)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(args, config))
}

fn configuration(args: &TunnelArgs) -> anyhow::Result<Config> {
    let mut config = args.connection.config()?;
    config.lanes = args.lanes;
    config.command_timeout = Some(args.command_timeout);
    // Each client may block, or have a transaction.
    config.max_blocking_connections = args.max_clients;
    config.reply_limits.max_frame_bytes = config.reply_limits.max_frame_bytes.max(1 << 30);
    Ok(config)
}

async fn serve(args: &TunnelArgs, config: Config) -> anyhow::Result<ExitCode> {
    // Before anything is printed: whoever waits for it may send a signal.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let shared = Arc::new(Shared::new(args));
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from).min(4));
    let workers = Arc::new(Workers::start(threads, &config, &shared).context("cannot start threads")?);
    let ended = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let listening = async {
        match args.mode {
            TunnelMode::Smart => workers::listen(args, &config, &workers).await,
            TunnelMode::Pinned => pinned::listen(args, &config, &workers).await,
        }
    };
    tokio::select! {
        failed = listening => {
            workers.end(Duration::ZERO);
            failed?;
        }
        () = ended => workers.end(args.grace),
    }
    let counters = &shared.counters;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let commands = match args.mode {
        TunnelMode::Smart => format!(", {} commands", count(&counters.commands)),
        TunnelMode::Pinned => String::new(),
    };
    let (clients, refused) = (count(&counters.clients), count(&counters.refused));
    eprintln!("tunnel: ended; {clients} clients{commands}, {refused} refused");
    Ok(ExitCode::SUCCESS)
}

/// Tells where it listens.
fn announce(args: &TunnelArgs, opened: &[Opened]) -> anyhow::Result<()> {
    if !args.bind.is_loopback() && args.require_password.is_none() {
        eprintln!("tunnel: warning: {} is open to other machines, without a password (--require-password)", args.bind);
    }
    let mut out = std::io::stdout().lock();
    let is_for_people = std::io::stdout().is_terminal() && !args.json;
    if args.json {
        writeln!(out, "{}", Listening::line(opened)?)?;
    } else {
        let width = opened.iter().map(|it| it.local.to_string().len()).max().unwrap_or(0);
        for Opened { node, local } in opened {
            writeln!(out, "{:width$}  {node}", local.to_string())?;
        }
    }
    out.flush()?;
    if is_for_people {
        eprintln!("tunnel: Ctrl-C ends it");
    }
    Ok(())
}

/// Where it listens, as a line of JSON.
#[derive(Serialize)]
struct Listening<'a> {
    listening: Vec<Port<'a>>,
}

#[derive(Serialize)]
struct Port<'a> {
    node: &'a str,
    local: SocketAddr,
}

impl<'a> Listening<'a> {
    fn line(opened: &'a [Opened]) -> serde_json::Result<String> {
        let listening = opened.iter().map(|it| Port { node: &it.node, local: it.local }).collect();
        serde_json::to_string(&Self { listening })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        tunnel: TunnelArgs,
    }

    /// Of a tunnel with default limits.
    pub(super) fn shared(password: Option<&str>) -> Shared {
        let mut args = Command::parse_from(["tunnel"]).tunnel;
        args.require_password = password.map(str::to_owned);
        Shared::new(&args)
    }

    #[test]
    fn the_line_of_json_is_json_whatever_a_node_is_called() {
        let node = "unix:///tmp/\"a\\b\u{1}\u{1b}[31m\n.sock".to_owned();
        let local = SocketAddr::from(([127, 0, 0, 1], 7));
        let opened = [Opened { node: node.clone(), local }];
        let line = Listening::line(&opened).unwrap();
        assert!(line.starts_with("{\"listening\":[{\"node\":"), "{line}");
        assert!(!line.contains(char::is_control), "{line:?}");
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["listening"][0]["node"], node.as_str());
        assert_eq!(parsed["listening"][0]["local"], "127.0.0.1:7");
    }

    #[test]
    fn a_password_is_right_or_wrong() {
        let shared = shared(Some("secret"));
        let check = |given: &[u8]| shared.is_password(given);
        assert!(check(b"secret"));
        assert!(!check(b"") && !check(b"secre") && !check(b"secrets") && !check(b"Secret"));
        assert!(super::tests::shared(None).is_password(b"whatever"));
    }
}
