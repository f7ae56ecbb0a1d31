//! `pilotlight run`: starts the supervisor and the gateway, waits for a signal, stops both.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pilotlight_gateway::{Gateway, GatewayOptions, ServiceTarget};
use pilotlight_supervisor::{ServiceSpec, Supervisor, SupervisorOptions, WorkerEvents, limits};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::config::{self, Config, Loaded, Ports, commands};
use crate::service_log;
use crate::settings;

/// The hidden argument with which the binary becomes the guardian of its services.
pub const GUARDIAN: &str = "guardian";

/// How a run ended.
pub enum Ended {
    /// Stopped by a signal.
    Stopped,
    /// The configuration is wrong; it has been said how.
    Misconfigured,
}

/// Runs until SIGINT or SIGTERM.
///
/// # Errors
/// The system refuses something that the configuration asks for.
pub fn run(file: &Path) -> anyhow::Result<Ended> {
    let Loaded { config, warnings } = match config::load(file, Ports::Require) {
        Ok(loaded) => loaded,
        Err(report) => {
            eprint!("{}", report.render(commands::style_for_stderr()));
            return Ok(Ended::Misconfigured);
        }
    };
    eprint!("{}", warnings.render(commands::style_for_stderr()));
    service_log::start_tracing();
    let workers = settings::workers(&config);
    let (supervisor, events) = supervise(&config, workers)?;
    let services = settings::targets(&config, supervisor.services());
    let gateway = match serve(&config, workers, services, events) {
        Ok(gateway) => gateway,
        Err(e) => {
            let _ = supervisor.shutdown(Duration::ZERO); // nothing has been started yet
            return Err(e);
        }
    };
    announce(&config, &gateway).context("cannot write to the standard output")?;
    let name = wait_for_signal().context("signals cannot be waited for")?;
    eprintln!("pilotlight: {name}, stopping; once more stops at once");
    stop(gateway, supervisor, settings::patience(&config));
    Ok(Ended::Stopped)
}

fn supervise(config: &Config, workers: usize) -> anyhow::Result<(Supervisor, Vec<WorkerEvents>)> {
    let (log, lines) = mpsc::channel(limits::MAX_LOG_LINES);
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let runtime_dir = runtime_dir(config);
    let options = SupervisorOptions {
        workers,
        // The guardian outlives a gateway that is killed, and removes the folder then.
        guardian: (program, vec![GUARDIAN.into(), runtime_dir.clone().into()]),
        runtime_dir,
        log,
    };
    service_log::print_lines(lines).context("the thread that prints services' output cannot be started")?;
    let specs: Vec<ServiceSpec> = settings::specs(config);
    Ok(pilotlight_supervisor::start(options, specs)?)
}

/// A folder of this process alone: under the user's runtime folder if there is one, and no service runs as another user, who could not pass it.
fn runtime_dir(config: &Config) -> PathBuf {
    let name = format!("pilotlight-{}", std::process::id());
    if settings::has_users(config) {
        return std::env::temp_dir().join(name);
    }
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir());
    user.unwrap_or_else(std::env::temp_dir).join(name)
}

fn serve(
    config: &Config,
    workers: usize,
    services: Vec<ServiceTarget>,
    events: Vec<WorkerEvents>,
) -> anyhow::Result<Gateway> {
    let options: GatewayOptions = settings::gateway(config, workers, services);
    Ok(Gateway::start(options, events)?)
}

/// What is listening, and what to try.
fn announce(config: &Config, gateway: &Gateway) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    for address in gateway.addresses() {
        writeln!(out, "listening on {address}")?;
    }
    if let Some(base) = gateway.addresses().iter().map(ToString::to_string).find(|a| a.starts_with("http")) {
        let width = config.routes.iter().map(|route| base.len() + route.path.len()).max().unwrap_or(0);
        writeln!(out)?;
        for route in &config.routes {
            let host = route.host.as_ref().map(|host| format!("  (host {host})")).unwrap_or_default();
            let url = format!("{base}{}", route.path);
            writeln!(out, "  {url:width$}  {}{host}", config.services[route.service].name)?;
        }
        writeln!(out, "\ntry:")?;
        for route in config.routes.iter().filter(|route| route.host.is_none()).take(3) {
            writeln!(out, "  curl -i {base}{}", route.path)?;
        }
    }
    if std::io::stdout().is_terminal() {
        writeln!(out, "\nCtrl-C stops everything.")?;
    }
    out.flush()
}

fn wait_for_signal() -> std::io::Result<&'static str> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut hangup = signal(SignalKind::hangup())?;
        Ok(tokio::select! {
            _ = interrupt.recv() => "interrupted",
            _ = hangup.recv() => "the terminal is gone (SIGHUP)",
            _ = terminate.recv() => "told to end (SIGTERM)",
        })
    })
}

/// Clients first, then services, then the workers that connect them.
fn stop(gateway: Gateway, supervisor: Supervisor, patience: Duration) {
    let impatient = std::thread::Builder::new().name("signals".into()).spawn(|| {
        if let Ok(name) = wait_for_signal() {
            eprintln!("pilotlight: {name} again, stopping at once");
            std::process::exit(1); // the guardian kills what is left
        }
    });
    if let Err(e) = impatient {
        tracing::warn!("a second signal will not be noticed: {e}");
    }
    gateway.drain();
    if !supervisor.shutdown(patience) {
        tracing::warn!("some services had to be killed: they did not end within {} s", patience.as_secs());
    }
    gateway.join();
}
