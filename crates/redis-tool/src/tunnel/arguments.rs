//! The options of `pilotlight redis tunnel`.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::connection::{ConnectionArgs, seconds};

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
    /// Print where it listens as one line of JSON; with --differences, the list
    #[arg(long, help_heading = "Tunnel")]
    pub json: bool,
    /// Print in what the tunnel differs from a server, for each mode, and end
    #[arg(long, help_heading = "Tunnel")]
    pub differences: bool,
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
