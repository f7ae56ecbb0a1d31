//! `pilotlight run`: starts the supervisor and the gateway, waits for a signal, stops both.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pilotlight_gateway::{Admin, Gateway, GatewayOptions, LogBook, ServiceTarget};
use pilotlight_supervisor::{ServiceSpec, Supervisor, SupervisorOptions, WorkerEvents, limits};
use tokio::sync::mpsc;

use crate::config::{self, Config, Loaded, Ports, commands};
use crate::operate;
use crate::service_log;
use crate::settings;
use crate::signals::{Signals, Told};

/// The hidden argument with which the binary becomes the guardian of its services.
pub const GUARDIAN: &str = "guardian";

/// How the name of every runtime folder begins.
pub(crate) const RUNTIME_DIR_PREFIX: &str = "pilotlight-";

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
    let (runtime_dir, logs) = (runtime_dir(), LogBook::default());
    let (supervisor, events) = supervise(&config, workers, &runtime_dir, logs.clone())?;
    let services = settings::targets(&config, supervisor.services());
    let gateway = match serve(&config, workers, services, events) {
        Ok(gateway) => gateway,
        Err(e) => {
            let _ = supervisor.shutdown(Duration::ZERO); // nothing has been started yet
            return Err(e);
        }
    };
    let admin = match operate::start((file, &config), &runtime_dir, (&gateway, &supervisor), logs) {
        Ok(admin) => admin,
        Err(e) => {
            gateway.drain();
            let _ = supervisor.shutdown(Duration::ZERO); // nothing has been asked for yet
            gateway.join();
            return Err(e);
        }
    };
    let mut signals = Signals::install().context("signals cannot be waited for")?; // before anybody knows that there is somebody to signal
    announce(&config, &gateway, admin.as_ref()).context("cannot write to the standard output")?;
    let Told::Stop(name) = signals.next();
    eprintln!("pilotlight: {name}, stopping; once more stops at once");
    drop(admin); // nobody is to start anything any more
    stop((gateway, supervisor), signals, settings::patience(&config));
    Ok(Ended::Stopped)
}

fn supervise(
    config: &Config,
    workers: usize,
    runtime_dir: &Path,
    logs: LogBook,
) -> anyhow::Result<(Supervisor, Vec<WorkerEvents>)> {
    let (log, lines) = mpsc::channel(limits::MAX_LOG_LINES);
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let options = SupervisorOptions {
        workers,
        // The guardian outlives a gateway that is killed, and removes the folder then.
        guardian: (program, vec![GUARDIAN.into(), runtime_dir.into()]),
        runtime_dir: runtime_dir.to_owned(),
        log,
    };
    service_log::print_lines(lines, logs).context("the thread that prints services' output cannot be started")?;
    let specs: Vec<ServiceSpec> = settings::specs(config);
    Ok(pilotlight_supervisor::start(options, specs)?)
}

/// A folder of this process alone: under the user's runtime folder if there is one.
fn runtime_dir() -> PathBuf {
    let name = format!("{RUNTIME_DIR_PREFIX}{}", std::process::id());
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
fn announce(config: &Config, gateway: &Gateway, admin: Option<&Admin>) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    for address in gateway.addresses() {
        writeln!(out, "listening on {address}")?;
    }
    if let Some(address) = admin.and_then(Admin::metrics_address) {
        writeln!(out, "metrics on http://{address}/metrics")?;
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

/// Clients first, then services, then the workers that connect them.
fn stop((gateway, supervisor): (Gateway, Supervisor), mut signals: Signals, patience: Duration) {
    let impatient = std::thread::Builder::new().name("signals".into()).spawn(move || {
        let Told::Stop(name) = signals.next();
        eprintln!("pilotlight: {name} again, stopping at once");
        std::process::exit(1); // the guardian kills what is left
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
