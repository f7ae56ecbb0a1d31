//! `pilotlight redis tunnel`: a local plain port for programs without TLS, tokens or knowledge of clusters.
//!
//! [`smart`] makes a cluster look like one server; [`pinned`] has a port for each node. Nothing of what passes is
//! logged; what is counted is told at the end.
//!
//! One thread accepts; each client then belongs to one of a few worker threads, each with a current-thread runtime and
//! connections of its own, so that a command and its reply meet no other thread.

mod accept;
mod announce;
mod arguments;
mod clients;
mod differences;
mod pinned;
mod ports;
mod request;
mod shared;
mod smart;
mod wire;
mod workers;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use pilotlight_redis::config::Config;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

pub use arguments::{TunnelArgs, TunnelMode};

use crate::connection::UsageError;
use shared::Shared;
use workers::Workers;

/// Listens until it is told to end.
///
/// # Errors
/// It cannot listen, or cannot learn the nodes; or the arguments make no sense.
pub fn run(args: &TunnelArgs) -> anyhow::Result<ExitCode> {
    if args.differences {
        differences::print(args.json, &mut std::io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
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
    if args.require_password.as_deref() == Some("") {
        let why = "--require-password (or PILOTLIGHT_TUNNEL_PASSWORD): it is empty, so it would let everybody in; set a \
                   password, or leave it out and unset the variable";
        return Err(UsageError(why.to_owned()).into());
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
    let workers = Workers::start(threads, &config, &shared).context("cannot start threads")?;
    let ended = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let listening = async {
        match args.mode {
            TunnelMode::Smart => smart::listen(args, &config, workers.acceptor()).await,
            TunnelMode::Pinned => pinned::listen(args, &config, workers.acceptor()).await,
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
