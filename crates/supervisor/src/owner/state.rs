//! What the supervisor's thread knows: the state of all services, which has one owner.
//!
//! The files beside this one change it, each in one phase of an instance's life. Here is what all of them use.

use super::candidate::Switched;
use super::greeting::Greeting;
use super::group_table::GroupTable;
use super::instance_record::{InstanceRecord, RuntimeKind};
use super::orphans::Orphans;
use super::process_group::continue_group;
use super::service_record::ServiceRecord;
use super::timers::Timers;
use super::ungreeted::Ungreeted;
use super::zygote_table::ZygoteTable;
use crate::command::Command;
use crate::containers::Containers;
use crate::event::WorkerEvent;
use crate::guardian::{Link, spawn_process};
use crate::lineage::Guardians;
use crate::log::LogLine;
use crate::memory::Sample;
use crate::notice::Notice;
use crate::processes::parent_of;
use crate::runtime::{Order, Runtime};
use crate::runtime_dir::RuntimeDir;
use crate::spec::{ContainerOptions, Program, SupervisorOptions};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::process::Child;
use std::time::Instant;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// What the owner is made of.
pub(crate) struct Parts {
    pub(crate) options: SupervisorOptions,
    pub(crate) folder: RuntimeDir,
    pub(crate) records: Vec<ServiceRecord>,
    pub(crate) guardian: (Child, std::os::unix::net::UnixStream),
    pub(crate) guardians: Guardians,
    pub(crate) noticed: mpsc::UnboundedReceiver<Notice>,
    pub(crate) commanded: mpsc::UnboundedReceiver<Command>,
    pub(crate) notices: mpsc::UnboundedSender<Notice>,
    pub(crate) workers: Vec<mpsc::Sender<WorkerEvent>>,
}

/// The state of all services.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(super) program: Program,
    pub(super) guardians: Guardians,
    pub(super) log: mpsc::Sender<LogLine>,
    pub(super) workers: Vec<mpsc::Sender<WorkerEvent>>,
    pub(super) noticed: mpsc::UnboundedReceiver<Notice>,
    pub(super) commanded: mpsc::UnboundedReceiver<Command>,
    pub(super) notices: mpsc::UnboundedSender<Notice>,
    pub(super) folder: RuntimeDir,
    pub(super) listener: UnixListener,
    /// When connections are accepted again, after an error.
    pub(super) accept_again: Option<Instant>,
    pub(super) link: Option<Link>,
    pub(super) containers: Option<Containers>,
    pub(super) container_options: ContainerOptions,
    pub(super) records: Vec<ServiceRecord>,
    pub(super) instances: HashMap<u64, InstanceRecord>,
    pub(super) tokens: HashMap<String, u64>,
    pub(super) timers: Timers,
    pub(super) greeters: JoinSet<Greeting>,
    pub(super) ungreeted: Ungreeted,
    pub(super) pumps: JoinSet<u64>,
    pub(super) probes: JoinSet<u64>,
    pub(super) samples: JoinSet<Sample>,
    pub(super) orphans: Orphans,
    /// Links of releases that are being switched.
    pub(super) switches: JoinSet<Switched>,
    /// Tasks that kill what the services of a dead guardian have left.
    pub(super) undertakers: JoinSet<()>,
    pub(super) zygotes: ZygoteTable,
    pub(super) groups: GroupTable,
    /// Services to review: something has changed on which the number of their instances depends.
    pub(super) changed: BTreeSet<usize>,
    pub(super) epoch: Instant,
    pub(super) last_id: u64,
    pub(super) stopping: Option<Stopping>,
}

/// The stop of the gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopping {
    pub(super) phase: StopPhase,
    pub(super) until: Option<Instant>,
}

/// How far the stop of the gateway has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopPhase {
    /// Services may end by themselves.
    Asked,
    /// The time is over; all that was left got SIGKILL.
    Killed,
    /// SIGKILL had no effect either; the rest is left to the guardian.
    GaveUp,
}

impl Owner {
    /// To be called within the event loop that will run it.
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let Parts { options, mut folder, records, guardian, guardians, noticed, notices, commanded, workers } = parts;
        let pipe = folder.pipe.take().ok_or_else(|| io::Error::other("pipe.sock was taken"))?;
        let link = Link::attach(guardian.0, guardian.1)?;
        Ok(Self {
            program: options.guardian,
            guardians,
            log: options.log,
            workers,
            noticed,
            notices,
            commanded,
            folder,
            listener: UnixListener::from_std(pipe)?,
            accept_again: None,
            link: Some(link),
            containers: None,
            container_options: options.containers,
            records,
            instances: HashMap::new(),
            tokens: HashMap::new(),
            timers: Timers::default(),
            greeters: JoinSet::new(),
            ungreeted: Ungreeted::default(),
            pumps: JoinSet::new(),
            probes: JoinSet::new(),
            samples: JoinSet::new(),
            orphans: Orphans::of_this_process()?,
            switches: JoinSet::new(),
            undertakers: JoinSet::new(),
            zygotes: ZygoteTable::default(),
            groups: GroupTable::default(),
            changed: BTreeSet::new(),
            epoch: Instant::now(),
            last_id: 0,
            stopping: None,
        })
    }

    /// A number for what the guardian is to start next.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Publishes the state of an instance, for reports.
    pub(super) fn publish_instance(&self, id: u64) {
        if let Some(instance) = self.instances.get(&id) {
            self.records[instance.service].publish(&self.instances);
        }
    }

    /// The guardian, a new one if the last was lost.
    pub(super) fn guardian(&mut self) -> io::Result<&mut Link> {
        if self.link.is_none() {
            let (child, socket) = spawn_process(&self.program)?;
            self.guardians.add_child(child.id());
            self.link = Some(Link::attach(child, socket)?);
        }
        self.link.as_mut().ok_or_else(|| io::Error::other("there is no guardian process"))
    }

    /// Tells an instance something, by way of what runs it.
    pub(super) fn order(&self, id: u64, order: Order) {
        if self.instances.get(&id).is_some_and(|instance| instance.runtime == RuntimeKind::Container) {
            return self.order_container(id, order);
        }
        let Some(link) = &self.link else { return }; // no guardian: its services have been killed
        let Err(error) = link.order(id, order) else { return };
        tracing::error!(%error, "cannot signal a service; it is tried again"); // by the stage's deadline
        if let (Order::Thaw, Some(pid)) = (order, self.instances.get(&id).and_then(|instance| instance.pid)) {
            continue_group(pid); // has no deadline; a signal that harms nobody
        }
    }

    /// The instance that a process belongs to, itself or by its ancestors.
    pub(super) fn instance_of(&self, pid: i32) -> Option<u64> {
        /// Ancestors that are looked at.
        const MAX_ANCESTORS: usize = 32;
        let ancestors = std::iter::successors(Some(pid), |pid| parent_of(*pid).filter(|parent| *parent > 1));
        let ancestors: Vec<i32> = ancestors.take(MAX_ANCESTORS).collect();
        let is_of = |instance: &InstanceRecord| instance.pid.is_some_and(|leader| ancestors.contains(&leader));
        self.instances.iter().find(|(_, instance)| is_of(instance)).map(|(id, _)| *id)
    }

    /// Tells a worker. If it does not keep up the event is lost, and a connection in it is closed by that.
    pub(super) fn tell(&self, worker: usize, event: WorkerEvent) {
        let Some(sender) = self.workers.get(worker) else { return };
        if let Err(mpsc::error::TrySendError::Full(event)) = sender.try_send(event) {
            tracing::error!(worker, ?event, "the worker does not take its events; this one is lost");
        }
    }
}
