//! The supervisor's thread: the one owner of all services' state.
//!
//! `select` waits and builds an [`Action`]; `apply` changes the state and never waits.
//!
//! ```text
//!             spawned          HELLO | spawned (HTTP) | connect (PORT)
//!  Spawning ──────────▶ Starting ──────────▶ Ready ──idle, stop, DRAIN──▶ Draining ──timeout, no exchange (HTTP)─┐
//!     │ failed             │ timeout            │ ▲───── an exchange came ─────┘                                  ▼
//!     ▼                    ▼                    │                                                            Terminating
//!  (reported)           Killing ◀───────────────┼──────────────────────── stop grace over ────────────────────────┘
//!                          └──────── exit ──────┴─▶ Exited ── output read ──▶ (gone, reported)
//! ```

mod bounds;
mod candidate;
mod deploy;
mod end;
mod freeze;
mod greeting;
mod group_table;
mod groups;
mod instance_record;
mod memory;
mod orphans;
mod other_port;
mod outputs;
mod pipe;
mod process_group;
mod random;
mod reload;
mod renew;
mod reported_bounds;
mod role;
mod runtime_api;
mod runtimes;
mod scale;
mod service_record;
mod start;
mod state;
mod stop;
mod timers;
mod ungreeted;
mod way;
mod zygote;
mod zygote_table;

pub(crate) use service_record::ServiceRecord;
pub(crate) use state::{Owner, Parts};

use crate::command::Command;
use crate::guardian::Link;
use crate::limits::{ACCEPT_PAUSE, KILL_TIMEOUT};
use crate::memory::Sample;
use crate::notice::Notice;
use crate::runtime::{Runtime, RuntimeEvent, Started};
use crate::zygote::FromZygote;
use candidate::Switched;
use greeting::Greeting;
use state::StopPhase;
use std::io;
use std::time::{Duration, Instant};
use timers::Timer;
use tokio::net::UnixStream;
use ungreeted::Dialler;

#[derive(Debug)]
enum Action {
    Command(Command),
    Notice(Notice),
    Guardian(RuntimeEvent),
    Engine(RuntimeEvent),
    Accepted(io::Result<UnixStream>),
    Greeted(Greeting),
    OutputEnded(u64),
    PortOpen(u64),
    Sampled(Sample),
    OrphanEnded,
    Switched(Switched),
    Zygote(u64, FromZygote),
    Timer(Timer),
    Nothing,
}

impl Owner {
    /// Until everything is stopped; returns whether nothing had to be killed for lack of time.
    pub(crate) async fn run(mut self) -> bool {
        self.probe_sandbox();
        self.attach_engine();
        (0..self.records.len()).for_each(|service| self.boot_early(service, Instant::now()));
        self.changed.extend(0..self.records.len());
        self.review_changed(Instant::now());
        while !self.finished() {
            let action = self.select().await;
            let now = Instant::now();
            self.apply(action, now);
            self.review_changed(now);
        }
        self.close().await
    }

    async fn select(&mut self) -> Action {
        let wake = self.timers.next().map(tokio::time::Instant::from_std);
        let resting = self.accept_again.is_some();
        if self.ungreeted.is_crowded() {
            tokio::task::yield_now().await; // a HELLO that has come is read before the next connection is accepted
        }
        tokio::select! {
            // In this order: a request that follows a command finds it done; what a worker notices is heard in its
            // order, a drain before the wish for another instance.
            biased;
            Some(command) = self.commanded.recv() => Action::Command(command),
            Some(notice) = self.noticed.recv() => Action::Notice(notice),
            // Before the guardian: what a zygote said last is heard before its end.
            Some((zygote, event)) = self.zygotes.events.recv() => Action::Zygote(zygote, event),
            event = next_event(&mut self.link) => Action::Guardian(event),
            event = next_event(&mut self.containers) => Action::Engine(event),
            Some(greeted) = self.greeters.join_next() => greeted.map_or(Action::Nothing, Action::Greeted),
            Some(ended) = self.pumps.join_next() => ended.map_or(Action::Nothing, Action::OutputEnded),
            Some(open) = self.probes.join_next() => open.map_or(Action::Nothing, Action::PortOpen),
            Some(_) = self.undertakers.join_next() => Action::Nothing,
            Some(done) = self.switches.join_next() => done.map_or(Action::Nothing, Action::Switched),
            Some(sample) = self.samples.join_next() => sample.map_or(Action::Nothing, Action::Sampled),
            () = self.orphans.ended() => Action::OrphanEnded,
            () = sleep_until(wake) => self.timers.pop(Instant::now()).map_or(Action::Nothing, Action::Timer),
            // Last: a service that dials without end keeps nothing else waiting.
            accepted = self.listener.accept(), if !resting => Action::Accepted(accepted.map(|(stream, _)| stream)),
        }
    }

    fn apply(&mut self, action: Action, now: Instant) {
        match action {
            Action::Command(command) => self.command(command, now),
            Action::Notice(notice) => self.noticed(notice, now),
            Action::Guardian(event) | Action::Engine(event) => self.runtime_event(event, now),
            Action::Accepted(Ok(stream)) => self.accepted(stream, now),
            Action::Accepted(Err(error)) => {
                tracing::error!(%error, "cannot accept a service's connection; trying again in {ACCEPT_PAUSE:?}");
                self.timers.set(Timer::Accept, &mut self.accept_again, Some(now + ACCEPT_PAUSE));
            }
            Action::Greeted(greeting) => self.greeted(greeting, now),
            Action::OutputEnded(instance) => self.output_ended(instance, now),
            Action::PortOpen(instance) => self.port_open(instance, now),
            Action::Sampled(sample) => self.sampled(sample),
            Action::OrphanEnded => orphans::bury(self.link.as_ref().map(Link::pid)),
            Action::Switched(switched) => self.switched(switched, now),
            Action::Zygote(zygote, event) => self.zygote_event(zygote, event, now),
            Action::Timer(timer) => self.timer(timer, now),
            Action::Nothing => {}
        }
    }

    fn noticed(&mut self, notice: Notice, now: Instant) {
        match notice {
            Notice::WantShared { instance, worker } => self.want_shared(instance, worker, now),
            Notice::LinkClosed { instance, worker } => self.link_closed(instance, worker, now),
            Notice::Answered { instance } => self.answered(instance, now),
            Notice::ServiceDrains { instance } => self.service_drains(instance, now),
            Notice::Idle { instance } => self.exchanges_done(instance, now),
            Notice::Wanted { service } => {
                self.changed.insert(service);
            }
            Notice::Used { instance } => self.used(instance),
            Notice::Examined { instance } => self.examined(instance, now),
            Notice::RuntimeReady { instance } => self.runtime_ready(instance, now),
            Notice::InitFailed { instance } => self.init_failed(instance, now),
            Notice::Stuck { instance } => self.stuck(instance, now),
        }
    }

    fn command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Stop(service) => self.stop_by_hand(service.0, now),
            Command::Start(service) => self.start_service(service.0, now),
            Command::Restart(service) => self.restart_service(service.0, now),
            Command::Outdate(service) => self.outdate_service(service.0, now),
            Command::Renew(service) => self.renew_service(service.0, now),
            Command::Deploy(deploy) => self.deploy(deploy, now),
            Command::Configure(wanted) => self.configure(wanted, now),
            Command::Retire(services) => self.retire(&services, now),
            Command::Leave(containers) => self.leave_containers(&containers),
            Command::Shutdown { until } => self.shut_down(until, now),
        }
    }

    fn runtime_event(&mut self, event: RuntimeEvent, now: Instant) {
        match event {
            RuntimeEvent::Started(Started { id, pid, .. }) if self.is_zygote(id) => self.zygote_spawned(id, pid),
            RuntimeEvent::StartFailed { id, reason, .. } if self.is_zygote(id) => self.zygote_ended(id, &reason, now),
            RuntimeEvent::Ended { id, exit, .. } if self.is_zygote(id) => {
                self.zygote_ended(id, &exit.to_string(), now);
            }
            RuntimeEvent::Started(Started { id, pid, notices, sandbox }) => {
                self.bounded(id, notices, sandbox);
                self.spawned(id, pid, now);
            }
            RuntimeEvent::Placed { id, container } => self.placed(id, container),
            RuntimeEvent::Waits { id, what } => self.waits(id, what),
            RuntimeEvent::Found { service, count } => self.found(&service, count, now),
            RuntimeEvent::Away { reason } => tracing::error!("{reason}; what runs in containers goes on"),
            RuntimeEvent::Back => tracing::info!("the container engine answers again"),
            RuntimeEvent::Ready { id, endpoint } => self.runtime_says_ready(id, endpoint, now),
            RuntimeEvent::StartFailed { id, reason, detail } => {
                self.unbounded(id, detail);
                self.spawn_failed(id, reason, now);
            }
            RuntimeEvent::Ended { id, exit, limit } => {
                self.limit_reached(id, exit, limit);
                self.exited(id, exit, now);
            }
            RuntimeEvent::Probed { sandbox } => bounds::say_at_start(sandbox.as_ref()),
            RuntimeEvent::Lost => self.guardian_lost(now),
        }
    }

    fn accepted(&mut self, stream: UnixStream, now: Instant) {
        let (uid, pid) = match stream.peer_cred() {
            Ok(peer) => (peer.uid(), peer.pid()),
            Err(error) => return tracing::warn!(%error, "a connection whose user is not known is closed"),
        };
        if !self.may_dial(uid) {
            return greeting::refuse(&stream, format!("P-4: you run under user id {uid}, not under that of a service"));
        }
        let id = pid.and_then(|pid| self.instance_of(pid));
        let handle = self.greeters.spawn(greeting::greet(stream, uid, now));
        let dialler = id.map_or(Dialler::User(uid), Dialler::Instance);
        if self.ungreeted.add(dialler, handle, now) {
            let instance = id.and_then(|id| self.instances.get(&id));
            let service = instance.map(|instance| self.records[instance.service].service.name());
            let (service, number) =
                (service.map_or("", |name| name), instance.map(|instance| instance.handle.number()));
            tracing::warn!(%service, instance = number, pid, "too many connections have not sent HELLO; the oldest are closed");
        }
    }

    fn timer(&mut self, timer: Timer, now: Instant) {
        match timer {
            Timer::Instance(instance) => self.instance_timer(instance, now),
            Timer::Review(service) => {
                if let Some(record) = self.records.get_mut(service) {
                    record.review_at = None;
                    self.changed.insert(service);
                }
            }
            Timer::Memory(service) => self.look_at_memory(service, now),
            Timer::Group(group) => self.group_timer(group),
            Timer::Zygote(id) => self.zygote_timer(id, now),
            Timer::Accept => self.accept_again = None,
            Timer::Shutdown => self.shutdown_timer(now),
        }
    }

    fn shutdown_timer(&mut self, now: Instant) {
        let Some(stopping) = &mut self.stopping else { return };
        stopping.until = None;
        if stopping.phase == StopPhase::Asked {
            stopping.phase = StopPhase::Killed;
            self.timers.set(Timer::Shutdown, &mut stopping.until, Some(now + KILL_TIMEOUT));
            self.kill_everything(now);
        } else {
            stopping.phase = StopPhase::GaveUp;
        }
    }

    fn finished(&self) -> bool {
        self.stopping.is_some_and(|stopping| self.instances.is_empty() || stopping.phase == StopPhase::GaveUp)
    }

    /// Lets the guardian kill what is left (daemons that left their group), then reads the last output.
    async fn close(mut self) -> bool {
        let in_time = self.stopping.is_some_and(|stopping| stopping.phase == StopPhase::Asked);
        let ended = match self.link.take() {
            Some(link) => link.finish().await,
            None => true,
        };
        let removed = match self.containers.take() {
            Some(containers) => containers.finish().await,
            None => true,
        };
        while self.undertakers.join_next().await.is_some() {} // bounded by themselves
        let rest = async { while self.pumps.join_next().await.is_some() {} };
        let read = tokio::time::timeout(Duration::from_secs(1), rest).await;
        if !ended || read.is_err() {
            tracing::error!("something that a service started is still there after SIGKILL");
        }
        in_time && ended && removed
    }
}

/// Of a runtime, if it is there.
async fn next_event(runtime: &mut Option<impl Runtime>) -> RuntimeEvent {
    match runtime {
        Some(runtime) => runtime.next().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(wake: Option<tokio::time::Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}
