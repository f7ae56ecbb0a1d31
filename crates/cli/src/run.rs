//! `pilotlight run`: starts the supervisor and the gateway, waits for a signal, stops both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use pilotlight_gateway::{Admin, Asked, Emptying, Gateway, LogBook, NotDone, Order, ServiceTarget, SocketFile};
use pilotlight_printable::{printable, printable_lines};
use pilotlight_supervisor::{Program, ServiceState, Supervisor, SupervisorOptions, WorkerEvents, limits};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::announce::announce;
use crate::config::{AdminSocket, Code, Config, Loaded, Ports, Report, Style, commands};
use crate::dev;
use crate::labelled::{self, Follower};
use crate::log_end::Logs;
use crate::memory;
use crate::notify::{self, Note};
use crate::operate::{self, Operated, Reports, Shown, Sockets};
use crate::origin::Origin;
use crate::own_log;
use crate::presence::{self, Presence, Record};
use crate::reload::{self, Followed, Live};
use crate::runtime_folder::{self, For};
use crate::service_log;
use crate::settings;
use crate::signals::{SignalEvent, Signals, stop_when_told_again};
use crate::standard_error::StandardError;
use crate::tls::LiveTls;
use crate::upgrade::{self, Handover, Predecessor, StartingSuccessor, Successor, Taken};

/// The hidden argument with which the binary becomes the guardian of its services.
pub const GUARDIAN: &str = "guardian";

/// How a run ended.
pub enum Ended {
    /// Stopped by a signal.
    Stopped,
    /// The configuration is wrong; it has been said how.
    Misconfigured,
    /// A gateway with this file runs already; it has been said which.
    RunsAlready,
}

/// Runs until SIGINT or SIGTERM.
///
/// # Errors
/// The system refuses something that the configuration asks for.
pub fn run(file: &Path) -> anyhow::Result<Ended> {
    run_from(&Origin::file_at(file))
}

/// The same for a configuration that may have another origin.
pub(crate) fn run_from(origin: &Origin) -> anyhow::Result<Ended> {
    let taking_over =
        Predecessor::find().context("the process that this one is to take over from cannot be understood")?;
    let (predecessor, mut handover) = taking_over.unzip();
    let activated = upgrade::activated()
        .context("a socket in LISTEN_FDS cannot be used: only TCP and Unix stream sockets that listen can")?;
    if let Some(handover) = &mut handover {
        handover.listeners.extend(activated);
    } else if !activated.is_empty() {
        handover = Some(Handover { listeners: activated, ..Handover::default() });
    }
    // What is inherited is in use.
    let ports = if handover.is_some() { Ports::Skip } else { Ports::Require };
    let stderr = StandardError::start().context("the thread that writes the standard error cannot be started")?;
    let ended = load_and_run(origin, predecessor, handover, ports, &stderr);
    stderr.finish();
    ended
}

fn load_and_run(
    origin: &Origin,
    predecessor: Option<Predecessor>,
    handover: Option<Handover>,
    ports: Ports,
    stderr: &StandardError,
) -> anyhow::Result<Ended> {
    let started = memory::apart(
        |lender| origin.load_for(ports, |loaded| lender.lend(loaded)),
        |loaded| match loaded {
            _ if predecessor.is_none() && runs_already(origin.file(), loaded, stderr) => Ok(Err(Ended::RunsAlready)),
            Ok(loaded) => start(origin, loaded, predecessor, handover.unwrap_or_default(), stderr).map(Ok),
            Err(report) => {
                stderr.print(&report.render(commands::style_for_stderr()));
                if let Some(predecessor) = predecessor {
                    predecessor.failed(&report.render(Style::Plain));
                }
                Ok(Err(Ended::Misconfigured))
            }
        },
    )
    .context("the thread that reads the configuration cannot be started")??;
    let (running, signals) = match started {
        Ok(running) => running,
        Err(ended) => return Ok(ended),
    };
    memory::give_back_later();
    running.run(signals);
    Ok(Ended::Stopped)
}

/// Whether this file's gateway runs and has what another one would need; says so. One that shares nothing with it may
/// start.
fn runs_already(file: &Path, loaded: &Result<Loaded, Report>, stderr: &StandardError) -> bool {
    let Ok(file) = std::path::absolute(file) else { return false };
    let (own, _) = presence::with_file(&file);
    let Some(other) = own.first() else { return false };
    let is_in_the_way = match loaded {
        Err(report) => report.diagnostics().iter().any(|found| found.code == Code::Listen),
        Ok(loaded) => match &loaded.config.operate.admin {
            Some(AdminSocket::At(socket)) => other.socket.as_ref() == Some(socket),
            Some(AdminSocket::InRuntimeDir) | None => false,
        },
    };
    let (config, pid, since) = (other.config.display(), other.pid, httpdate::fmt_http_date(other.begun));
    let text = if is_in_the_way {
        format!(
            "error: the gateway of {config} already runs: pid {pid}, since {since}; `pilotlight reload` follows changes of the file, \
             `pilotlight upgrade` replaces the process, `kill {pid}` stops it"
        )
    } else if loaded.is_ok() {
        format!(
            "warning: a gateway with {config} already runs: pid {pid}, since {since}; commands have to name one of the two with --socket"
        )
    } else {
        return false;
    };
    stderr.say(&printable(&text));
    is_in_the_way
}

/// Starts a gateway with all that belongs to it, and tells who waits for that.
fn start(
    origin: &Origin,
    loaded: &Loaded,
    predecessor: Option<Predecessor>,
    handover: Handover,
    stderr: &StandardError,
) -> anyhow::Result<(Running, Signals)> {
    let Loaded { config, warnings } = loaded;
    stderr.print(&warnings.render(commands::style_for_stderr()));
    let logs = Logs::open(&config.operate, stderr)?;
    own_log::start(&logs.own, stderr, origin.levels());
    let (orders, ordered) = mpsc::unbounded_channel(); // at most as many as the admin interface has connections
    // Before anybody knows that there is somebody to signal.
    let signals = Signals::install(ordered).context("signals cannot be waited for")?;
    let turn = predecessor.as_ref().map(Predecessor::silence).transpose()?;
    let turn = turn.map(|turn| Box::new(turn) as Box<dyn FnOnce() + Send>);
    let layout = origin.project().map_or_else(service_log::Layout::numbered, |_| dev::layout(config));
    let shown = Shown::new(origin.file(), warnings);
    let reports = Reports { logs: LogBook::default(), shown, stderr: stderr.clone(), layout, services: logs.services };
    let running = match Running::start(Source { origin, config }, reports, orders.clone(), handover, turn) {
        Ok(running) => running,
        Err(e) => {
            if let Some(predecessor) = predecessor {
                predecessor.failed(&format!("{e:#}"));
            }
            return Err(e);
        }
    };
    match predecessor {
        // The one that leaves tells the service manager: only it is listened to.
        Some(predecessor) => predecessor
            .ready(&Taken::of(running.has_inherited_admin, &running.services))
            .context("the process that this one takes over from has ended")?,
        None => notify::tell(Note::Ready),
    }
    if let Origin::Told(told) = origin {
        told.has_started(orders, running.gateway.servers());
    }
    Ok((running, signals))
}

/// What is run.
#[derive(Clone, Copy)]
struct Source<'a> {
    origin: &'a Origin,
    /// What it says.
    config: &'a Config,
}

/// A gateway with all that belongs to it.
struct Running {
    /// For as long as it takes orders. First, as the supervisor removes the folder if nothing else is in it.
    presence: Option<Presence>,
    program: PathBuf,
    origin: Origin,
    /// What follows the files of a folder that is developed in.
    development: Option<dev::Session>,
    labels: Follower,
    followed: Followed,
    services: Vec<ServiceTarget>,
    supervisor: Supervisor,
    gateway: Gateway,
    tls: LiveTls,
    admin: Option<Admin>,
    has_inherited_admin: bool,
    runtime_dir: PathBuf,
    stderr: StandardError,
}

impl Running {
    fn start(
        source: Source<'_>,
        reports: Reports,
        orders: mpsc::UnboundedSender<Order>,
        handover: Handover,
        turn: Option<Box<dyn FnOnce() + Send>>,
    ) -> anyhow::Result<Self> {
        let Source { origin, config } = source;
        let file = origin.file();
        // Now: when it has been replaced, the system no longer says where it was.
        let program = std::env::current_exe().context("the path of this program is not known")?;
        let workers = settings::workers(config);
        let whom = if settings::has_users(config) { For::OtherUsers } else { For::ThisUser };
        let runtime_dir = runtime_folder::make(whom)?;
        let is_heir = turn.is_some();
        let (supervisor, events) = supervise(source, workers, &program, &runtime_dir, &reports, is_heir)?;
        let services = settings::targets(config, supervisor.services());
        let Handover { listeners, admin, metrics, warm, guardians, tickets } = handover;
        let tls = LiveTls::start(settings::tls(config), &tickets)?;
        // Their services may go on until the last request of the process before has ended.
        guardians.into_iter().for_each(|guardian| supervisor.control().guardians().add(guardian));
        let options = settings::gateway(file, config, workers, services.clone(), listeners, Arc::clone(&tls.context))?;
        let gateway = match Gateway::start(options, events) {
            Ok(gateway) => gateway,
            Err(e) => {
                let _ = supervisor.shutdown(Duration::ZERO); // nothing has been started yet
                return Err(e.into());
            }
        };
        let sockets = Sockets::inherited(&config.operate, admin, metrics, turn);
        let has_inherited_admin = sockets.admin.is_some();
        let operated = Operated { file, config, runtime_dir: &runtime_dir, gateway: &gateway, supervisor: &supervisor };
        let admin = match operate::start(operated, &reports, orders.clone(), sockets) {
            Ok(admin) => admin,
            Err(e) => {
                gateway.drain();
                let _ = supervisor.shutdown(Duration::ZERO); // nothing has been asked for yet
                gateway.join();
                return Err(e);
            }
        };
        upgrade::warm(&services, &supervisor.control(), &warm);
        let replaces = is_heir.then(rustix::process::getppid).flatten();
        let presence = present(source, &runtime_dir, replaces);
        let parts = dev::Parts { orders: orders.clone(), control: supervisor.control(), services: &services };
        let development = dev::Session::of(origin.project(), config, parts, &reports)?;
        if development.is_none() {
            announce(config, &gateway, admin.as_ref()).context("cannot write to the standard output")?;
        }
        let Reports { shown, stderr, .. } = reports;
        let followed = Followed::new(config, shown);
        let mut labels = Follower::new(orders);
        labels.follow(origin.found(), labelled::wanted(config));
        Ok(Self {
            program,
            origin: origin.clone(),
            development,
            labels,
            followed,
            services,
            supervisor,
            gateway,
            tls,
            admin,
            has_inherited_admin,
            runtime_dir,
            stderr,
            presence,
        })
    }

    /// Carries out signals and orders until one of them ends the gateway.
    fn run(mut self, mut signals: Signals) {
        loop {
            let (asked, reply) = match signals.next() {
                SignalEvent::Stop(name) => return self.told_to_stop(name, signals),
                SignalEvent::Do(asked) => (asked, None),
                SignalEvent::Order(Order { asked, reply }) => (asked, Some(reply)),
            };
            let answer = match asked {
                Asked::Reload(emptying) => self.reload(emptying),
                Asked::Upgrade { program_file } => match self.upgrade(program_file.as_deref(), &mut signals) {
                    Ok(Ok(successor)) => {
                        let told = json!({ "pid": successor.child.id(), "old_pid": std::process::id() });
                        reply.map(|reply| reply.send(Ok(told)));
                        return self.leave(successor, signals);
                    }
                    Ok(Err(why)) => Err(NotDone::Failed(why)),
                    Err(name) => return self.told_to_stop(name, signals),
                },
            };
            if let Some(reply) = reply {
                let _ = reply.send(answer); // who asked may have gone away
            }
        }
    }

    /// Starts a process that takes over. `Ok(Err)`: it did not, and everything goes on. `Err`: told to stop meanwhile.
    fn upgrade(
        &self,
        program_file: Option<&str>,
        signals: &mut Signals,
    ) -> Result<Result<Successor, String>, &'static str> {
        notify::tell(Note::Reloading);
        let named = program_file.map(|name| upgrade::program::named(&self.runtime_dir, name)).transpose();
        let successor = named.and_then(|program| self.start_heir(program.as_deref().unwrap_or(&self.program)));
        let done = successor.map(|(mut successor, answer)| match signals.until(answer) {
            Ok(Ok(Ok(taken))) => Ok(Ok(successor.into_successor(taken))),
            Ok(Ok(Err(why))) => Ok(Err(format!("{why}{}", successor.give_up()))),
            Ok(Err(_)) => Ok(Err(format!("nothing was heard of it{}", successor.give_up()))),
            Err(name) => {
                successor.give_up();
                Err(name)
            }
        });
        let done = done.unwrap_or_else(|e| Ok(Err(e)))?;
        Ok(done.map_err(|why| {
            let why = format!("the new process did not take over: {why}; this one goes on");
            self.stderr.say(&format!("pilotlight: {}", printable_lines(&why)));
            notify::tell(Note::Ready);
            why
        }))
    }

    fn start_heir(
        &self,
        program: &Path,
    ) -> Result<(StartingSuccessor, oneshot::Receiver<Result<Taken, String>>), String> {
        if std::process::id() == 1 {
            return Err(
                "this process is number 1, with whose end everything ends: start another container instead".to_owned()
            );
        }
        let failed = |e: std::io::Error| e.to_string();
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        let successor = StartingSuccessor::start(program, &arguments, &self.handover().map_err(failed)?);
        let mut successor = successor.map_err(|e| format!("{} cannot be executed: {e}", program.display()))?;
        tracing::info!(pid = successor.pid(), program = %program.display(), "another process is to take over");
        let (tell, answer) = oneshot::channel();
        let spawned = successor.answer().and_then(|wait| {
            let wait = || drop(tell.send(wait())); // nobody waits any more: it was told to stop
            std::thread::Builder::new().name("upgrade".into()).spawn(wait)
        });
        match spawned {
            Ok(_) => Ok((successor, answer)),
            Err(e) => Err(format!("{e}{}", successor.give_up())),
        }
    }

    /// What a successor gets.
    fn handover(&self) -> std::io::Result<Handover> {
        let (admin, metrics) = self.admin.as_ref().map(Admin::hand_over).transpose()?.unwrap_or_default();
        let operate = self.followed.operate();
        let path = match &operate.admin {
            Some(AdminSocket::At(path)) => Some(path.clone()),
            Some(AdminSocket::InRuntimeDir) | None => None,
        };
        let running = self.services.iter().filter_map(|target| match target {
            ServiceTarget::Managed(service, _) => {
                (service.status().state == ServiceState::Ready).then(|| service.name().to_string())
            }
            ServiceTarget::External(_) => None,
        });
        Ok(Handover {
            listeners: self.gateway.hand_over()?,
            admin: path.zip(admin),
            metrics: operate.metrics.zip(metrics),
            warm: running.collect(),
            guardians: self.supervisor.control().guardians().list(),
            tickets: self.tls.context.tickets().export(),
        })
    }

    /// Another process has taken over: what was begun here is brought to its end.
    fn leave(mut self, successor: Successor, signals: Signals) {
        self.supervisor.control().leave(successor.taken.containers.clone());
        let pid = successor.child.id();
        self.stderr
            .say(&format!("pilotlight: process {pid} has taken over, stopping when the requests here have ended"));
        notify::tell(Note::Successor(pid));
        self.presence = None; // commands find the successor
        if let Some(admin) = self.admin.take() {
            admin.leave(if successor.taken.has_admin { SocketFile::Left } else { SocketFile::Removed });
        }
        successor.answers();
        stop_when_told_again(signals, self.stderr.clone());
        self.gateway.leave();
        self.end();
    }

    fn told_to_stop(mut self, name: &str, signals: Signals) {
        self.development = None; // the terminal is as it was
        self.labels.stop();
        self.stderr.say(&format!("pilotlight: {name}, stopping; once more stops at once"));
        notify::tell(Note::Stopping);
        self.presence = None;
        self.admin = None; // nobody is to start anything any more
        stop_when_told_again(signals, self.stderr.clone());
        self.gateway.drain();
        self.end();
    }

    /// Clients have gone: services, then the workers that connect them.
    fn end(self) {
        let Self { followed, supervisor, gateway, .. } = self;
        let stop_timeout = followed.stop_timeout;
        if !supervisor.shutdown(stop_timeout) {
            tracing::warn!("some services had to be killed: they did not end within {} s", stop_timeout.as_secs());
        }
        gateway.join();
    }

    fn reload(&mut self, emptying: Emptying) -> Result<Value, NotDone> {
        notify::tell(Note::Reloading);
        let live = Live {
            program: &self.program,
            origin: &self.origin,
            followed: &mut self.followed,
            services: &mut self.services,
            gateway: &mut self.gateway,
            supervisor: &self.supervisor,
            tls: &mut self.tls,
        };
        let done = reload::reload(live, emptying);
        if let Some(development) = &self.development {
            development.follow(&self.services);
        }
        self.labels.follow(self.origin.found(), self.followed.labels());
        memory::give_back_later();
        notify::tell(Note::Ready);
        match &done {
            Ok(plan) => tracing::info!(plan = %plan.to_json(), "reloaded"),
            Err(NotDone::Invalid(why) | NotDone::Failed(why)) => {
                self.stderr
                    .say(&format!("{}\npilotlight: not reloaded, everything goes on as before", printable_lines(why)));
            }
        }
        done.map(|plan| plan.to_json())
    }
}

fn supervise(
    Source { origin, config }: Source<'_>,
    workers: usize,
    program: &Path,
    runtime_dir: &Path,
    reports: &Reports,
    is_heir: bool,
) -> anyhow::Result<(Supervisor, Vec<WorkerEvents>)> {
    let (log, lines) = mpsc::channel(limits::MAX_LOG_LINES);
    let options = SupervisorOptions {
        workers,
        // The guardian outlives a gateway that is killed, and removes the folder then.
        guardian: Program { path: program.to_owned(), arguments: vec![GUARDIAN.into(), runtime_dir.into()] },
        runtime_dir: runtime_dir.to_owned(),
        log,
        containers: settings::containers(origin.file(), config, is_heir),
    };
    let printer = service_log::Printer { end: reports.services.clone(), layout: reports.layout.clone() };
    service_log::print_lines(lines, reports.logs.clone(), printer)
        .context("the thread that prints services' output cannot be started")?;
    Ok(pilotlight_supervisor::start(options, settings::started(config, program))?)
}

/// Lets commands find this gateway by its file. Without that it does its work all the same.
fn present(
    Source { origin, config }: Source<'_>,
    runtime_dir: &Path,
    replaces: Option<rustix::process::Pid>,
) -> Option<Presence> {
    let socket = config.operate.admin.as_ref().map(|socket| operate::socket_path(socket, runtime_dir));
    let replaces = replaces.and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
    let record =
        Record::new(origin.file(), socket, replaces).and_then(|record| Presence::announce(runtime_dir, &record));
    record
        .inspect_err(|e| {
            tracing::warn!(
                "commands will not find this gateway by its file, only with --socket: {}: {e}",
                runtime_dir.display()
            );
        })
        .ok()
}
