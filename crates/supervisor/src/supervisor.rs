//! Starting and stopping the supervisor.

use crate::command::{Command, Configure, Deploy};
use crate::deploy::{DeployError, Deployed, Trial};
use crate::error::SupervisorError;
use crate::event::WorkerEvents;
use crate::guardian;
use crate::limits::MAX_WORKER_EVENTS;
use crate::lineage::Guardians;
use crate::owner::{Owner, Parts, ServiceRecord};
use crate::runtime_dir::RuntimeDir;
use crate::service::Service;
use crate::service_id::ServiceId;
use crate::spec::{ServiceSpec, SupervisorOptions, Transport};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// The supervisor's thread, and every service with it. Dropped without [`shutdown`](Self::shutdown) it kills them at
/// once.
#[derive(Debug)]
pub struct Supervisor {
    services: Vec<Arc<Service>>,
    commands: mpsc::UnboundedSender<Command>,
    guardians: Guardians,
    thread: Option<JoinHandle<bool>>,
}

/// What people may ask of services while the supervisor runs. Everything is a message: nothing here waits for a
/// service.
#[derive(Clone, Debug)]
pub struct Control {
    commands: mpsc::UnboundedSender<Command>,
    guardians: Guardians,
}

impl Control {
    /// Stops the service's instances: drain, SIGTERM, SIGKILL. It stays stopped until a request or
    /// [`start`](Self::start), [`MinInstances`](crate::MinInstances) and [`Spare`](crate::Spare) notwithstanding; what
    /// failed before is forgotten.
    pub fn stop(&self, service: ServiceId) {
        self.send(Command::Stop(service));
    }

    /// Starts the service if none of its instances runs, whatever failed before.
    pub fn start(&self, service: ServiceId) {
        self.send(Command::Start(service));
    }

    /// Replaces the service's instances: each is drained when a new one is ready, and goes on if none becomes ready.
    /// Whatever failed before is forgotten. Does nothing else for a service that does not run.
    pub fn restart(&self, service: ServiceId) {
        self.send(Command::Restart(service));
    }

    /// The program of the service changes, as when its source is saved: from now on no request is answered by it as it
    /// was. Instances are drained, those that start are given up, and requests wait, in the bounds of the queue, for
    /// [`renew`](Self::renew), before which nothing is started.
    pub fn outdate(&self, service: ServiceId) {
        self.send(Command::Outdate(service));
    }

    /// The program of the service has changed: an instance is started if one ran before
    /// [`outdate`](Self::outdate), or failed to, or if a request waits. Whatever failed before is forgotten. A zygote
    /// stays as it is: what it has imported is not supposed to change.
    pub fn renew(&self, service: ServiceId) {
        self.send(Command::Renew(service));
    }

    /// Tries a release: starts an instance of it beside those that serve, sends it the health request of the settings,
    /// and if the answer is good calls the trial's `switch`, gives it requests and replaces the others, each drained
    /// when a new one is ready. Whatever goes wrong before that, they go on as if nothing had been.
    ///
    /// The sender is dropped without an answer if the supervisor stops.
    #[must_use]
    pub fn deploy(&self, service: ServiceId, trial: Trial) -> oneshot::Receiver<Result<Deployed, DeployError>> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Deploy(Deploy { service, trial, reply }));
        answer
    }

    /// Gives services other settings, or makes new ones, while everything runs. `specs` are all that are to be there,
    /// those that there are already with their id; services that are left out go on until [`retire`](Self::retire).
    /// Returns the services in the same order.
    ///
    /// Settings that reach a process only at its start ([`ServiceSpec::needs_new_instances`]) have instances replaced:
    /// one after the other, each drained when its successor is ready, and going on if none becomes ready.
    ///
    /// Blocks for as long as the supervisor's thread takes for it, some microseconds for each service.
    ///
    /// # Errors
    /// Settings make no sense (then nothing is changed), or the supervisor has stopped.
    pub fn configure(
        &self,
        specs: Vec<(Option<ServiceId>, ServiceSpec)>,
    ) -> Result<Vec<Arc<Service>>, SupervisorError> {
        let (ids, specs): (Vec<_>, Vec<_>) = specs.into_iter().unzip();
        specs.iter().enumerate().try_for_each(|(index, spec)| check(spec, specs[..index].iter()))?;
        let (reply, answer) = std::sync::mpsc::channel();
        let specs = ids.into_iter().zip(specs).collect();
        self.send(Command::Configure(Configure { specs, reply }));
        answer.recv().map_err(|_| SupervisorError::Stopped)
    }

    /// Drains services that are no longer wanted. Requests that are on their way to one are still answered; a name may
    /// be used anew at once.
    pub fn retire(&self, services: Vec<ServiceId>) {
        self.send(Command::Retire(services));
    }

    /// Another gateway has taken these containers: they are left to it when what is open at them is done.
    pub fn leave(&self, containers: Vec<String>) {
        self.send(Command::Leave(containers));
    }

    /// The guardians below which services run; those of a process that this one takes over from may be added.
    #[must_use]
    pub fn guardians(&self) -> &Guardians {
        &self.guardians
    }

    fn send(&self, command: Command) {
        // A closed queue is a supervisor that has stopped already.
        let _ = self.commands.send(command);
    }
}

/// Starts the guardian and the supervisor's thread. Services with [`MinInstances::One`](crate::MinInstances::One) are
/// started at once, the others when asked for. Each worker gets the receiver with its number.
///
/// # Errors
/// The runtime folder, the guardian or the thread cannot be had, or a service's settings make no sense.
pub fn start(
    options: SupervisorOptions,
    specs: impl IntoIterator<Item = ServiceSpec>,
) -> Result<(Supervisor, Vec<WorkerEvents>), SupervisorError> {
    if options.workers == 0 {
        return Err(SupervisorError::NoWorkers);
    }
    let specs: Vec<Arc<ServiceSpec>> = specs.into_iter().map(Arc::new).collect(); // where they stay
    specs.iter().enumerate().try_for_each(|(index, spec)| check(spec, specs[..index].iter().map(Arc::as_ref)))?;
    let folder = RuntimeDir::take(&options.runtime_dir)?;
    let guardian = start_guardian(&options)?;
    let guardians = Guardians::default();
    guardians.add_child(guardian.0.id());
    let (notices, noticed) = mpsc::unbounded_channel();
    let (commands, commanded) = mpsc::unbounded_channel();
    let (senders, events): (Vec<_>, Vec<_>) =
        (0..options.workers).map(|_| mpsc::channel(MAX_WORKER_EVENTS)).map(|(tx, rx)| (tx, WorkerEvents(rx))).unzip();
    let records: Vec<ServiceRecord> = specs
        .into_iter()
        .enumerate()
        .map(|(id, spec)| {
            let service = Service::new(id, &spec, options.workers, notices.clone(), options.log.clone());
            ServiceRecord::new(Arc::new(service), spec)
        })
        .collect();
    let services = records.iter().map(ServiceRecord::service).collect();
    let parts = Parts {
        options,
        folder,
        records,
        guardian,
        guardians: guardians.clone(),
        noticed,
        notices,
        commanded,
        workers: senders,
    };
    let thread = spawn_thread(parts)?;
    Ok((Supervisor { services, commands, guardians, thread: Some(thread) }, events))
}

impl Supervisor {
    /// The services that it was started with, in the order of their settings.
    #[must_use]
    pub fn services(&self) -> &[Arc<Service>] {
        &self.services
    }

    /// A handle for what people ask of services.
    #[must_use]
    pub fn control(&self) -> Control {
        Control { commands: self.commands.clone(), guardians: self.guardians.clone() }
    }

    /// [`Control::start`].
    pub fn start(&self, service: ServiceId) {
        self.send(Command::Start(service));
    }

    /// [`Control::restart`].
    pub fn restart(&self, service: ServiceId) {
        self.send(Command::Restart(service));
    }

    /// [`Control::stop`].
    pub fn stop(&self, service: ServiceId) {
        self.send(Command::Stop(service));
    }

    /// Stops everything and joins the thread: open exchanges may end and services may exit by themselves until
    /// `timeout` is over, then all that is left is killed. Blocks, so it is not for a worker's thread: workers have
    /// events to handle meanwhile. Returns whether everything ended before it had to be killed for lack of time.
    #[must_use]
    pub fn shutdown(mut self, timeout: Duration) -> bool {
        self.end(timeout)
    }

    fn end(&mut self, timeout: Duration) -> bool {
        let Some(thread) = self.thread.take() else { return true };
        self.send(Command::Shutdown { until: Instant::now() + timeout });
        // A panic of the thread has been printed; the guardian has killed everything by then.
        thread.join().unwrap_or(false)
    }

    fn send(&self, command: Command) {
        // A closed queue is a supervisor that has stopped already.
        let _ = self.commands.send(command);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

fn start_guardian(
    options: &SupervisorOptions,
) -> Result<(std::process::Child, std::os::unix::net::UnixStream), SupervisorError> {
    let failed = |source| SupervisorError::Guardian { program: options.guardian.path.clone(), source };
    let (mut child, socket) = guardian::spawn_process(&options.guardian).map_err(failed)?;
    match guardian::await_ready(&socket) {
        Ok(()) => Ok((child, socket)),
        Err(error) => {
            // It is of no use; that it has ended already is the usual case.
            let _ = child.kill();
            let _ = child.wait();
            Err(failed(error))
        }
    }
}

fn spawn_thread(parts: Parts) -> Result<JoinHandle<bool>, SupervisorError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SupervisorError::Thread)?;
    let owner = {
        let _context = runtime.enter();
        Owner::new(parts).map_err(SupervisorError::Thread)?
    };
    thread::Builder::new()
        .name("supervisor".to_owned())
        .spawn(move || runtime.block_on(owner.run()))
        .map_err(SupervisorError::Thread)
}

fn check<'a>(spec: &ServiceSpec, mut before: impl Iterator<Item = &'a ServiceSpec>) -> Result<(), SupervisorError> {
    let zero_byte = |text: &std::ffi::OsStr| text.as_encoded_bytes().contains(&0);
    let reason = if spec.name.is_empty() || spec.name.contains(['\0', '\n']) {
        "its name is empty or has a line end or zero byte in it"
    } else if before.any(|other| other.name == spec.name) {
        "there is another service of this name"
    } else if spec.container.is_none() && spec.argv.first().is_none_or(|program| program.is_empty()) {
        "its command is empty"
    } else if spec.argv.iter().any(|arg| zero_byte(arg)) {
        "its command has a zero byte in it"
    } else if spec.env.iter().any(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
    {
        "a variable of its environment has no name, or `=` in its name, or a zero byte in it"
    } else if spec.start_timeout.is_zero() {
        "its start timeout is zero"
    } else if !ServiceSpec::MAX_INSTANCES.contains(&spec.max_instances) || spec.concurrency == Some(0) {
        "its instances, or the requests of each, are none or too many"
    } else if spec.max_instances > 1 && spec.concurrency.is_none() {
        "it may have several instances, but without `concurrency` the first is never full"
    } else if spec.preload.is_some() && spec.transport != Transport::Pipe {
        "it has `preload`, which is for services that use the pipe"
    } else if spec.preload.as_ref().is_some_and(|preload| preload.modules.iter().any(|module| !is_module(module))) {
        "a name in `preload` is not that of a Python module"
    } else {
        return Ok(());
    };
    Err(SupervisorError::Spec { service: spec.name.clone(), reason })
}

/// `package.module`, as far as a command line could be misled by it.
fn is_module(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}
