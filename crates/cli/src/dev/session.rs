//! What goes on beside a run in development: files are watched, services renewed, keys heard.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pilotlight_dev::{Change, Watch};
use pilotlight_gateway::{Asked, Emptying, Order, ServiceTarget};
use pilotlight_supervisor::{Control, Service, ServiceId};
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::{mpsc, oneshot};

use super::keys::{Key, Keys};
use super::project::Project;
use super::report::{self, Says, Started};
use crate::config::Config;
use crate::operate::Reports;
use crate::service_log::Layout;

/// What a session works on.
pub(crate) struct Parts<'a> {
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    pub(crate) control: Control,
    pub(crate) services: &'a [ServiceTarget],
}

/// It ends when this is dropped.
pub(crate) struct Session {
    _keys: Option<Keys>,
    _watch: Option<Watch>,
    services: Arc<Mutex<Vec<Arc<Service>>>>,
}

impl Session {
    /// That of a project, if there is one.
    pub(crate) fn of(
        project: Option<&Arc<Project>>,
        config: &Config,
        parts: Parts<'_>,
        reports: &Reports,
    ) -> anyhow::Result<Option<Self>> {
        project.map(|project| Self::start(project, config, parts, reports)).transpose()
    }

    /// Starts the services, and says what is served.
    fn start(project: &Arc<Project>, config: &Config, parts: Parts<'_>, reports: &Reports) -> anyhow::Result<Self> {
        let columns = match &reports.layout {
            Layout::Columns(columns) => columns.clone(),
            Layout::Numbered(colours) => pilotlight_dev::Columns::new(Vec::new(), *colours),
        };
        let says = Says { stderr: reports.stderr.clone(), columns };
        let (starts, started) = channel();
        report::run(started, says.clone())?;
        let services = Arc::new(Mutex::new(managed(parts.services)));
        let url = project.url(config);
        introduce(project, config, &url, &says);
        let renewal = Renewal {
            project: Arc::clone(project),
            control: parts.control,
            orders: parts.orders,
            services: Arc::clone(&services),
            starts,
            says: says.clone(),
            outdated: Vec::new(),
        };
        if project.guess.is_some() {
            renewal.boot();
        }
        let renewal = Arc::new(Mutex::new(renewal));
        let follows = Arc::clone(&renewal);
        let on = move |change| locked(&follows).change(change);
        let watch = Watch::start(&project.folder, project.ignore.clone(), on);
        let watch = watch.inspect_err(|why| says.error(&format!("changes of files are not followed: {why}"))).ok();
        let keys = Keys::listen(move |key| match key {
            Key::Open => open(&url, &says),
            Key::Restart => locked(&renewal).restart(),
            // As Ctrl-C does; there is always somebody to take it.
            Key::Quit => drop(kill_process(getpid(), Signal::INT)),
        })?;
        Ok(Self { _keys: keys, _watch: watch, services })
    }

    /// Other services, after a reload.
    pub(crate) fn follow(&self, services: &[ServiceTarget]) {
        *locked(&self.services) = managed(services);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn managed(services: &[ServiceTarget]) -> Vec<Arc<Service>> {
    let managed = services.iter().filter_map(|target| match target {
        ServiceTarget::Managed(service, _) => Some(Arc::clone(service)),
        ServiceTarget::External(_) => None,
    });
    managed.collect()
}

fn introduce(project: &Project, config: &Config, url: &str, says: &Says) {
    match &project.guess {
        None => says.line(&format!("using {}; the cache is off", project.file.display())),
        Some(guess) => {
            says.line(&format!("this is a {}: {}", guess.kind, guess.because));
            if let pilotlight_dev::Serves::Processes(processes) = &guess.serves {
                for process in processes {
                    let does = if project.restarts(&process.name) { "" } else { "  (follows its files by itself)" };
                    says.line(&format!("{} runs: {}{does}", process.name, process.command.join(" ")));
                }
            }
            guess.notes.iter().for_each(|note| says.line(&format!("note: {note}")));
            says.line("otherwise: pilotlight dev -- COMMAND, or pilotlight dev --print-config > pilotlight.toml");
        }
    }
    says.line(&format!("open {url}   (no warning of the browser after `pilotlight trust`, once)"));
    let plain = config.listen.iter().filter_map(|listener| match &listener.address {
        pilotlight_gateway::ListenAddr::Tcp(address) => Some(format!("http://{address}")),
        _ => None,
    });
    plain.for_each(|plain| says.line(&format!("  or {plain}")));
    says.line("keys: o opens the browser, r restarts, q stops");
}

/// Renews services when files change.
struct Renewal {
    project: Arc<Project>,
    control: Control,
    orders: mpsc::UnboundedSender<Order>,
    services: Arc<Mutex<Vec<Arc<Service>>>>,
    starts: Sender<Started>,
    says: Says,
    /// Those that are to be renewed when the save is over.
    outdated: Vec<ServiceId>,
}

impl Renewal {
    /// Services run before they are asked for: whoever develops wants to see them run.
    fn boot(&self) {
        for service in locked(&self.services).iter() {
            self.expect(service, "first start", Instant::now());
            self.control.start(service.id());
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Began(path) => self.outdate(&path),
            Change::Settled(paths) => self.settled(&paths.into_iter().collect::<Vec<_>>()),
            Change::Blind(why) => self.says.error(&format!("some changes are not followed: {why}")),
        }
    }

    /// From now on nobody is answered by the program as it was.
    fn outdate(&mut self, path: &Path) {
        let services = locked(&self.services);
        let below =
            |service: &Arc<Service>| service.status().spec.dir.as_deref().is_some_and(|dir| path.starts_with(dir));
        let is_one_of = services.iter().any(below);
        for service in services.iter() {
            // What is in no service's folder may belong to any of them.
            let concerns = self.project.restarts(service.name()) && (!is_one_of || below(service));
            if concerns && !self.outdated.contains(&service.id()) {
                self.control.outdate(service.id());
                self.outdated.push(service.id());
            }
        }
    }

    fn settled(&mut self, paths: &[PathBuf]) {
        let because = self.named(paths);
        if paths.iter().any(|path| self.project.is_manifest(path)) && self.project.guess.is_none() {
            let (reply, _) = oneshot::channel(); // what becomes of it is logged
            let _ = self.orders.send(Order { asked: Asked::Reload(Emptying::Refused), reply }); // it stops
        }
        self.renew(&because);
    }

    fn renew(&mut self, because: &str) {
        let now = Instant::now();
        self.project.changes.changed(); // before the start, whose failure is newer
        let outdated = std::mem::take(&mut self.outdated);
        for service in locked(&self.services).iter().filter(|service| outdated.contains(&service.id())) {
            self.expect(service, because, now);
            self.control.renew(service.id());
        }
    }

    /// Everything anew, imported modules included.
    fn restart(&mut self) {
        let ids: Vec<ServiceId> = locked(&self.services).iter().map(|service| service.id()).collect();
        for id in ids {
            self.control.outdate(id);
            self.control.restart(id); // its zygote as well
            self.outdated.push(id);
        }
        self.renew("restart");
    }

    fn expect(&self, service: &Arc<Service>, because: &str, at: Instant) {
        let (service, because) = (Arc::clone(service), because.to_owned());
        let before = report::counts(&service);
        let _ = self.starts.send(Started { service, at, before, because }); // nobody listens: it stops
    }

    fn named(&self, paths: &[PathBuf]) -> String {
        let first = paths.first().map(|path| path.strip_prefix(&self.project.folder).unwrap_or(path));
        let first = first.map(|path| path.display().to_string()).unwrap_or_default();
        let first = if first.is_empty() { "files".to_owned() } else { first };
        if paths.len() > 1 { format!("{first} and {} more", paths.len() - 1) } else { first }
    }
}

/// Opens a URL in the browser of this user.
fn open(url: &str, says: &Says) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let started =
        Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    match started {
        Ok(mut child) => {
            // Nobody else waits for its end.
            let _ = std::thread::Builder::new().name("browser".into()).spawn(move || child.wait());
        }
        Err(why) => says.error(&format!("{program} cannot be run: {why}; open {url} yourself")),
    }
}
