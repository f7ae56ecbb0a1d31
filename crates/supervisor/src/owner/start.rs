//! From the first request to a ready instance.

use super::Owner;
use super::run::{Run, Stage, uses_port};
use super::timers::Timer;
use crate::error::{Phase, StartError};
use crate::guardian::{Inherit, Link, SpawnRequest, spawn_process};
use crate::instance::{Address, Endpoint, Instance, InstanceState};
use crate::limits::{MAX_WAITING, PORT_PAUSE};
use crate::listener::Listener;
use crate::log::{Output, Pump, Tail};
use crate::policy::backoff::RunEnd;
use crate::policy::hints::Hints;
use crate::service::{Request, ServiceId};
use crate::spec::{MinInstances, Transport};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpStream, unix::pipe};

impl Owner {
    /// A worker wants a ready instance.
    pub(super) fn requested(&mut self, request: Request, now: Instant) {
        let service = request.service;
        let answer = match self.records[service].current {
            _ if self.stopping.is_some() => {
                Some(Err(self.refusal(service, Phase::Stopping, "the gateway is stopping", now)))
            }
            Some(run) => self.enter(run, request.worker),
            None => self.blocked(service, now).map(Err),
        };
        if let Some(answer) = answer {
            // A caller that has gone away needs no answer; a lease in it is given back by its drop.
            let _ = request.reply.send(answer);
            return;
        }
        if self.records[service].waiters.len() >= MAX_WAITING {
            self.records[service].waiters.retain(|waiter| !waiter.reply.is_closed());
        }
        if self.records[service].waiters.len() >= MAX_WAITING {
            let error = self.refusal(service, Phase::Queue, &format!("{MAX_WAITING} callers wait for it already"), now);
            let _ = request.reply.send(Err(error.retry_after(Duration::from_secs(1))));
            return;
        }
        let worker = request.worker;
        self.records[service].waiters.push(request);
        if self.records[service].current.is_none() {
            self.start(service, worker, now);
        }
    }

    /// Starts a service that always runs, now or after its pause.
    pub(super) fn keep_minimum(&mut self, service: usize, now: Instant) {
        let record = &mut self.records[service];
        let wanted = record.spec.min_instances == MinInstances::One && record.current.is_none();
        if !wanted || self.stopping.is_some() {
            return;
        }
        match record.backoff.wait(now) {
            Some(wait) => self.timers.set(Timer::Restart(service), &mut record.restart, Some(now + wait)),
            None => self.start(service, 0, now),
        }
    }

    pub(super) fn spawned(&mut self, id: u64, pid: i32, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.pid = Some(pid);
        tracing::debug!(service = %self.records[run.service].service.name(), instance = run.instance.number(), pid, "spawned");
        match run.stage {
            Stage::Spawning => run.stage = Stage::Starting,
            Stage::Terminating => return self.terminate(id, now), // it was stopped while it was being spawned
            Stage::Killing => return self.kill(id, now),
            _ => return self.publish_run(id), // its HELLO came first
        }
        match run.instance.endpoint() {
            Endpoint::Pipe => {}
            Endpoint::Http(Address::Tcp(address)) if uses_port(self.records[run.service].spec.transport) => {
                run.probe = Some(self.probes.spawn(probe(id, *address)));
            }
            Endpoint::Http(_) => return self.become_ready(id, now),
        }
        self.publish_run(id);
    }

    pub(super) fn spawn_failed(&mut self, id: u64, reason: String, now: Instant) {
        self.fail_start(id, Phase::Spawn, reason, now);
        self.forget(id, now);
    }

    /// A service that only knows `PORT` listens.
    pub(super) fn port_open(&mut self, id: u64, now: Instant) {
        if self.runs.get(&id).is_some_and(|run| run.stage == Stage::Starting) {
            self.become_ready(id, now);
        }
    }

    /// The instance takes exchanges; all who wait enter it.
    pub(super) fn become_ready(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let record = &mut self.records[run.service];
        run.ready_at = Some(now);
        run.stage = Stage::Ready;
        run.instance.set_state(InstanceState::Ready);
        record.service.open(&run.seats);
        tracing::info!(service = %record.service.name(), instance = run.instance.number(), pid = run.pid,
            took = ?now.duration_since(run.begun), "ready");
        record.publish(Some(run)); // before anybody is answered
        for waiter in std::mem::take(&mut record.waiters) {
            if let Some(answer) = self.enter(id, waiter.worker) {
                // A caller that has gone away needs no answer; a lease in it is given back by its drop.
                let _ = waiter.reply.send(answer);
            }
        }
        let Some(run) = self.runs.get_mut(&id) else { return };
        let inherited = run.listener.as_ref().is_some_and(|listener| listener.socket.is_some());
        if inherited && !run.instance.answered() {
            let deadline = run.begun + self.records[run.service].spec.start_timeout;
            run.set_deadline(Some(deadline), &mut self.timers);
        } else {
            self.start_is_over(id, now);
        }
        self.publish_run(id);
    }

    /// HTTP: first bytes of an answer came.
    pub(super) fn answered(&mut self, id: u64, now: Instant) {
        if self.runs.get(&id).is_some_and(|run| !run.start_over) {
            self.start_is_over(id, now);
        }
    }

    pub(super) fn start_is_over(&mut self, id: u64, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.start_over = true;
        if let Some(listener) = &mut run.listener {
            listener.release();
        }
        self.records[run.service].last_failure = None;
        if run.stage == Stage::Ready {
            self.look_idle(id, now);
        }
        self.publish_run(id);
    }

    /// A caller enters the current run, or gets `None`: it has to wait.
    fn enter(&self, run: u64, worker: usize) -> Option<Result<crate::Lease, StartError>> {
        let run = self.runs.get(&run).filter(|run| run.stage == Stage::Ready)?;
        let seat = run.seats.get(worker).or(run.seats.first())?; // a worker that does not exist shares the first's
        Arc::clone(seat).enter().map(Ok)
    }

    fn blocked(&self, service: usize, now: Instant) -> Option<StartError> {
        let record = &self.records[service];
        let wait = record.backoff.wait(now)?;
        let failures = record.backoff.failures();
        let last = record.last_failure.as_ref();
        let reason = last.map_or("it ended soon after its start", |last| &last.reason);
        let reason = format!(
            "{failures} failed or short runs in a row, next attempt in {:.1} s; the last: {reason}",
            wait.as_secs_f64()
        );
        let mut error = self.refusal(service, Phase::Backoff, &reason, now).retry_after(wait);
        if let Some(last) = last {
            error.exit = last.exit;
            error.output_tail = Arc::clone(&last.output_tail);
        }
        Some(error)
    }

    pub(super) fn refusal(&self, service: usize, phase: Phase, reason: &str, now: Instant) -> StartError {
        StartError::new(self.records[service].service.name(), phase, reason, now)
    }

    fn start(&mut self, service: usize, worker: usize, now: Instant) {
        let record = &mut self.records[service];
        self.timers.set(Timer::Restart(service), &mut record.restart, None);
        if let Err(error) = self.try_start(service, worker, now) {
            let record = &mut self.records[service];
            record.backoff.ended(RunEnd::NeverReady, now, random());
            let reason = format!("the gateway cannot start it: {error}");
            let error = StartError::new(record.service.name(), Phase::Spawn, reason, now);
            let error = error.retry_after(record.backoff.wait(now).unwrap_or_default());
            tracing::error!("{error}");
            record.last_failure = Some(error.clone());
            record.publish(None); // before anybody is answered
            record.fail_waiters(&error);
            self.keep_minimum(service, now);
        }
    }

    fn try_start(&mut self, service: usize, worker: usize, now: Instant) -> io::Result<()> {
        let number = self.records[service].last_number + 1;
        self.last_run += 1;
        let id = self.last_run;
        let listener = match self.records[service].spec.transport {
            Transport::Pipe => None,
            Transport::Http(kind) => Some(Listener::bind(kind, &self.folder.socket_path(service, number))?),
        };
        let endpoint = listener.as_ref().map_or(Endpoint::Pipe, |listener| Endpoint::Http(listener.address.clone()));
        let token = if endpoint == Endpoint::Pipe { Some(new_token()?) } else { None };
        let instance = Instance::new(ServiceId(service), (id, number), endpoint, self.epoch, self.notices.clone());
        let instance = Arc::new(instance);
        let (outputs, mut fds) = outputs()?;
        let mut inherit = Inherit::Nothing;
        if let Some(socket) = listener.as_ref().and_then(|listener| listener.socket.as_ref()) {
            fds.push(socket.try_clone()?);
            inherit = Inherit::Listener;
        }
        let request = self.request(&instance, token.as_deref(), inherit);
        self.guardian()?.spawn(request, fds)?;
        // From here on the guardian answers, so nothing may fail.
        let record = &mut self.records[service];
        let tail = Arc::new(Tail::default());
        for (output, from) in outputs {
            let (service, tail, sink) = (record.service(), Arc::clone(&tail), self.log.clone());
            let hints = Hints::new(&record.spec.isolation, record.spec.dir.as_deref());
            self.pumps.spawn(pumped(id, Pump { service, instance: number, output, tail, sink, hints }, from));
        }
        if let Some(token) = &token {
            self.tokens.insert(token.clone(), id);
        }
        record.last_number = number;
        record.current = Some(id);
        let mut run = Run::new((instance, now), (worker, self.workers.len()), token, listener, tail);
        run.set_deadline(Some(now + record.spec.start_timeout), &mut self.timers);
        record.publish(Some(&run));
        self.runs.insert(id, run);
        Ok(())
    }

    fn request(&self, instance: &Instance, token: Option<&str>, inherit: Inherit) -> SpawnRequest {
        let spec = &self.records[instance.service().0].spec;
        let mut env = spec.env.clone();
        let mut set = |name: &str, value: String| env.push((name.to_owned(), value));
        set("PILOTLIGHT_SERVICE", spec.name.clone());
        set("PILOTLIGHT_INSTANCE", instance.number().to_string());
        match (instance.endpoint(), inherit) {
            (_, Inherit::Listener) => {
                set("LISTEN_FDS", "1".to_owned());
                set("LISTEN_FDNAMES", "http".to_owned());
            }
            (Endpoint::Http(Address::Tcp(address)), Inherit::Nothing) => set("PORT", address.port().to_string()),
            (_, Inherit::Nothing) => {
                set("PILOTLIGHT_SOCKET", self.folder.pipe_path().to_string_lossy().into_owned());
                set("PILOTLIGHT_TOKEN", token.unwrap_or_default().to_owned());
            }
        }
        let dir = spec.dir.as_ref().map(|dir| dir.as_os_str().to_owned());
        let isolation = Some(&spec.isolation).filter(|isolation| !isolation.is_none()).cloned();
        SpawnRequest { run: instance.run, argv: spec.argv.clone(), dir, env, inherit, isolation }
    }

    /// The guardian, a new one if the last was lost.
    fn guardian(&mut self) -> io::Result<&Link> {
        if self.link.is_none() {
            let (child, socket) = spawn_process(&self.program)?;
            self.link = Some(Link::attach(child, socket)?);
        }
        self.link.as_ref().ok_or_else(|| io::Error::other("there is no guardian process"))
    }
}

type Outputs = [(Output, pipe::Receiver); 2];

/// Our ends and the service's.
fn outputs() -> io::Result<(Outputs, Vec<OwnedFd>)> {
    let (out, out_end) = io::pipe()?;
    let (err, err_end) = io::pipe()?;
    let receiver = |from: io::PipeReader| pipe::Receiver::from_owned_fd(from.into());
    let outputs = [(Output::Stdout, receiver(out)?), (Output::Stderr, receiver(err)?)];
    Ok((outputs, vec![out_end.into(), err_end.into()]))
}

async fn pumped(run: u64, pump: Pump, from: pipe::Receiver) -> u64 {
    if let Err(error) = pump.run(from).await {
        tracing::error!(%error, "cannot read a service's output");
    }
    run
}

/// Waits until something listens. The one place that polls, for services that can neither dial nor inherit.
async fn probe(run: u64, address: SocketAddr) -> u64 {
    let (mut pause, longest) = PORT_PAUSE;
    while TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
    run
}

fn new_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// For the spread of pauses only, so a fixed value will do if there is no randomness.
pub(super) fn random() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}
