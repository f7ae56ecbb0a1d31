//! `pilotlight run`: starts the supervisor and the gateway, waits for a signal, stops both.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use pilotlight_gateway::{Admin, Asked, Gateway, LogBook, NotDone, Order, ServiceTarget};
use pilotlight_supervisor::{ServiceSpec, Supervisor, SupervisorOptions, WorkerEvents, limits};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::config::{self, Config, Loaded, Ports, commands};
use crate::notify::{self, Note};
use crate::operate::{self, Shown};
use crate::reload::{self, Live};
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
    let (orders, ordered) = mpsc::unbounded_channel(); // at most as many as the admin interface has connections
    // Before anybody knows that there is somebody to signal.
    let signals = Signals::install(ordered).context("signals cannot be waited for")?;
    let running = Running::start(file, config, orders)?;
    announce(&running.config, &running.gateway, running.admin.as_ref())
        .context("cannot write to the standard output")?;
    notify::tell(Note::Ready);
    running.run(signals);
    Ok(Ended::Stopped)
}

/// A gateway with all that belongs to it.
struct Running {
    file: PathBuf,
    config: Config,
    services: Vec<ServiceTarget>,
    supervisor: Supervisor,
    gateway: Gateway,
    admin: Option<Admin>,
    shown: Shown,
}

impl Running {
    fn start(file: &Path, config: Config, orders: mpsc::UnboundedSender<Order>) -> anyhow::Result<Self> {
        let workers = settings::workers(&config);
        let (runtime_dir, logs) = (runtime_dir(&config), LogBook::default());
        let (supervisor, events) = supervise(&config, workers, &runtime_dir, logs.clone())?;
        let services = settings::targets(&config, supervisor.services());
        let options = settings::gateway(&config, workers, services.clone(), Vec::new());
        let gateway = match Gateway::start(options, events) {
            Ok(gateway) => gateway,
            Err(e) => {
                let _ = supervisor.shutdown(Duration::ZERO); // nothing has been started yet
                return Err(e.into());
            }
        };
        let shown = Shown::default();
        shown.read(file);
        let admin =
            match operate::start((file, &config), &runtime_dir, (&gateway, &supervisor), (logs, shown.clone()), orders)
            {
                Ok(admin) => admin,
                Err(e) => {
                    gateway.drain();
                    let _ = supervisor.shutdown(Duration::ZERO); // nothing has been asked for yet
                    gateway.join();
                    return Err(e);
                }
            };
        Ok(Self { file: file.to_owned(), config, services, supervisor, gateway, admin, shown })
    }

    /// Does what it is told until that is to end.
    fn run(mut self, mut signals: Signals) {
        loop {
            match signals.next() {
                Told::Stop(name) => {
                    eprintln!("pilotlight: {name}, stopping; once more stops at once");
                    return self.stop(signals);
                }
                Told::Do(asked) => {
                    let _ = self.carry_out(&asked); // it has been said
                }
                Told::Order(Order { asked, reply }) => {
                    let _ = reply.send(self.carry_out(&asked)); // who asked may have gone away
                }
            }
        }
    }

    fn carry_out(&mut self, asked: &Asked) -> Result<Value, NotDone> {
        match asked {
            Asked::Reload => self.reload(),
            Asked::Upgrade { .. } => Err(NotDone::Failed("not yet".to_owned())),
        }
    }

    fn reload(&mut self) -> Result<Value, NotDone> {
        notify::tell(Note::Reloading);
        let live = Live {
            file: &self.file,
            config: &mut self.config,
            services: &mut self.services,
            gateway: &mut self.gateway,
            supervisor: &self.supervisor,
        };
        let done = reload::reload(live);
        notify::tell(Note::Ready);
        match &done {
            Ok(plan) => {
                self.shown.read(&self.file);
                tracing::info!(plan = %plan.to_json(), "reloaded");
            }
            Err(NotDone::Invalid(why) | NotDone::Failed(why)) => {
                eprintln!("{why}\npilotlight: not reloaded, everything goes on as before");
            }
        }
        done.map(|plan| plan.to_json())
    }

    /// Clients first, then services, then the workers that connect them.
    fn stop(self, mut signals: Signals) {
        let Self { config, supervisor, gateway, admin, .. } = self;
        notify::tell(Note::Stopping);
        let patience = settings::patience(&config);
        drop(admin); // nobody is to start anything any more
        let impatient = std::thread::Builder::new().name("signals".into()).spawn(move || {
            while !matches!(signals.next(), Told::Stop(_)) {}
            eprintln!("pilotlight: told again, stopping at once");
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

/// A folder of this process alone: under the user's runtime folder if there is one, and no service runs as another user, who could not pass it.
fn runtime_dir(config: &Config) -> PathBuf {
    let name = format!("{RUNTIME_DIR_PREFIX}{}", std::process::id());
    if settings::has_users(config) {
        return std::env::temp_dir().join(name);
    }
    let user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir());
    user.unwrap_or_else(std::env::temp_dir).join(name)
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
