//! Zygotes: started, asked for forks, ended. `policy::zygote` decides what they are used for.
//!
//! The guardian starts and watches a zygote as it does an instance, but a zygote is no instance of the service: it
//! takes no exchanges and has no number.
//!
//! Invariant: a start that was given to a zygote is answered: by its fork, by an ordinary start when the zygote cannot,
//! or by the instance's own start timeout.

use super::instance_record::Stage;
use super::outputs::{outputs, pumped};
use super::process_group::kill_group;
use super::random::new_token;
use super::state::Owner;
use super::timers::Timer;
use super::zygote_table::{Start, Zygote};
use crate::error::Exit;
use crate::guardian::{Inherit, MARK, Spawn, SpawnRequest};
use crate::limits::ZYGOTE_GRACE;
use crate::log::{Pump, Tail};
use crate::policy::hints::Hints;
use crate::policy::zygote::{Way, ZygoteStage};
use crate::runtime::{Order, Runtime};
use crate::spec::{Preload, PreloadAt};
use crate::status::{ZygoteState, ZygoteStatus};
use crate::zygote::{FromZygote, ZygoteLink};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// The module of the SDK that is a zygote.
const MODULE: &str = "pilotlight.zygote";
/// What stands for the instance's number in its log lines.
const NO_INSTANCE: u64 = 0;

impl Owner {
    /// Starts the service's zygote, if it is to be there from the beginning.
    pub(super) fn boot_early(&mut self, service: usize, now: Instant) {
        let spec = &self.records[service].spec;
        // Before the first release there is nothing to import, and no folder to do so in.
        let has_folder = spec.releases.is_none() || spec.dir.as_ref().is_some_and(|dir| dir.is_dir());
        if has_folder && spec.zygote().is_some_and(|preload| preload.at == PreloadAt::Boot) {
            self.boot_zygote(service, now);
        }
    }

    /// Has the instance executed, or forked; the answer comes as an event in both cases.
    pub(super) fn execute(
        &mut self,
        service: usize,
        request: SpawnRequest,
        fds: Vec<OwnedFd>,
        now: Instant,
    ) -> io::Result<()> {
        let record = &self.records[service];
        let way = if record.spec.zygote().is_some() { record.zygotes.way() } else { Way::Execute };
        if way == Way::Boot {
            self.boot_zygote(service, now);
        }
        let shared = self.records[service].spec.env.len();
        let zygote = self.records[service].zygote.filter(|_| way != Way::Execute);
        match zygote.and_then(|id| self.zygotes.all.get_mut(&id)) {
            Some(zygote) => {
                let id = request.id;
                zygote.starts.insert(id, Start { request, fds, shared, asked: false });
                if way == Way::Fork {
                    self.ask_for_forks(service, now);
                }
                Ok(())
            }
            None => self.guardian()?.start(Spawn { request, fds }),
        }
    }

    fn boot_zygote(&mut self, service: usize, now: Instant) {
        if let Err(error) = self.try_boot(service, now) {
            tracing::warn!(service = %self.records[service].service.name(), %error, "cannot start its zygote");
            self.records[service].zygotes.ended();
        }
        self.publish_zygote(service, None);
    }

    fn try_boot(&mut self, service: usize, now: Instant) -> io::Result<()> {
        if cfg!(not(target_os = "linux")) {
            self.records[service].zygotes.refused();
            return Err(io::Error::other("`preload` needs Linux (a subreaper); instances start in the ordinary way"));
        }
        let spec = Arc::clone(&self.records[service].spec);
        let (Some(preload), Some((program, arguments))) = (spec.zygote(), spec.argv.split_first()) else {
            return Err(io::Error::other("it has no `preload`"));
        };
        let id = self.next_id();
        let (link, theirs) = ZygoteLink::pair(id, self.zygotes.sender.clone())?;
        let (outputs, mut fds) = outputs()?;
        fds.push(theirs);
        let (argv, inherit_env) = (argv(program, preload, arguments), spec.inherited());
        let mut env = spec.env.clone();
        env.push(("PILOTLIGHT_SERVICE".to_owned(), spec.name.clone()));
        let mark = new_token()?;
        env.push((MARK.to_owned(), mark.clone()));
        let dir = spec.dir.as_ref().map(|dir| dir.as_os_str().to_owned());
        let request = SpawnRequest { id, argv, dir, inherit_env, env, inherit: Inherit::Input, isolation: None };
        self.guardian()?.start(Spawn { request, fds })?;
        // From here on the guardian answers, so nothing may fail.
        let tail = Arc::new(Tail::default());
        let record = &mut self.records[service];
        for (output, from) in outputs {
            let service = &record.service;
            let (service, dropped_lines) = (Arc::clone(service.name()), Arc::clone(&service.dropped_lines));
            let (tail, sink) = (Arc::clone(&tail), self.log.clone());
            let hints = Hints::new(&spec.isolation, spec.dir.as_deref());
            let pump = Pump { service, dropped_lines, instance: NO_INSTANCE, output, tail, sink, hints };
            self.pumps.spawn(pumped(id, pump, from));
        }
        record.zygotes.booting();
        record.zygote = Some(id);
        let mut zygote = Zygote {
            service,
            link: Some(link),
            pid: None,
            mark,
            begun: now,
            deadline: None,
            starts: BTreeMap::new(),
            tail,
        };
        self.timers.set(Timer::Zygote(id), &mut zygote.deadline, Some(now + spec.start_timeout));
        self.zygotes.all.insert(id, zygote);
        Ok(())
    }

    /// Whether the guardian's word was about a zygote.
    pub(super) fn is_zygote(&self, id: u64) -> bool {
        self.zygotes.all.contains_key(&id)
    }

    pub(super) fn zygote_spawned(&mut self, id: u64, pid: Option<i32>) {
        let Some(zygote) = self.zygotes.all.get_mut(&id) else { return };
        zygote.pid = pid;
        let (service, ends) = (zygote.service, zygote.link.is_none());
        if ends {
            self.order(id, Order::Kill); // it was told to end while it was being spawned
        }
        self.publish_zygote(service, None);
    }

    pub(super) fn zygote_event(&mut self, id: u64, event: FromZygote, now: Instant) {
        let Some(zygote) = self.zygotes.all.get_mut(&id) else {
            if let FromZygote::Forked { pid, .. } = event {
                self.discard(pid); // its zygote's end was seen first
            }
            return;
        };
        let service = zygote.service;
        match event {
            FromZygote::Ready => {
                self.timers.set(Timer::Zygote(id), &mut zygote.deadline, None);
                let (pid, took) = (zygote.pid, now.duration_since(zygote.begun));
                if self.records[service].zygote == Some(id) {
                    tracing::info!(service = %self.records[service].service.name(), pid, ?took, "zygote ready");
                    self.records[service].zygotes.ready();
                    self.publish_zygote(service, None);
                    self.ask_for_forks(service, now);
                }
            }
            FromZygote::Refused { reason } => self.give_up_zygote(id, &reason, now),
            FromZygote::Forked { instance, pid } => {
                let wanted = zygote.starts.remove(&instance).is_some() && self.instances.contains_key(&instance);
                self.records[service].zygotes.forked();
                if wanted { self.adopt(instance, pid) } else { self.discard(pid) }
            }
            FromZygote::NotForked { instance, reason } => {
                if let Some(start) = zygote.starts.get_mut(&instance) {
                    start.asked = false; // nothing was forked for it
                }
                self.give_up_zygote(id, &reason, now);
            }
        }
    }

    /// Nobody waits for it any more: the instance has ended, or was started in the ordinary way.
    fn discard(&mut self, pid: i32) {
        let id = self.next_id();
        self.adopt(id, pid);
        self.order(id, Order::Kill);
    }

    fn adopt(&mut self, instance: u64, pid: i32) {
        let Some(link) = &self.link else { return }; // no guardian: its processes have been killed
        let mark = self.instances.get(&instance).map(|instance| instance.mark.clone());
        if let Err(error) = link.adopt(instance, pid, mark) {
            tracing::error!(%error, pid, "cannot adopt what a zygote has forked"); // it is killed with the guardian
        }
    }

    /// It cannot be what it is for; until somebody changes something, instances are started in the ordinary way.
    fn give_up_zygote(&mut self, id: u64, reason: &str, now: Instant) {
        let Some(zygote) = self.zygotes.all.get(&id) else { return };
        let service = zygote.service;
        let name = self.records[service].service.name();
        tracing::warn!(service = %name, "no zygote, instances start in the ordinary way until a restart: {reason}");
        if self.records[service].zygote == Some(id) {
            self.records[service].zygotes.refused();
            self.publish_zygote(service, Some(reason.to_owned()));
        }
        self.end_zygote(id, now);
        // Those that it was asked for wait for its end: it may have forked them.
        let Some(zygote) = self.zygotes.all.get_mut(&id) else { return };
        let starts = std::mem::take(&mut zygote.starts);
        let (asked, unasked) = starts.into_iter().partition(|(_, start)| start.asked);
        zygote.starts = asked;
        self.start_all_without(unasked, now);
    }

    /// The guardian could not execute it, or it has ended.
    pub(super) fn zygote_ended(&mut self, id: u64, how: &str, now: Instant) {
        let Some(mut zygote) = self.zygotes.all.remove(&id) else { return };
        self.timers.set(Timer::Zygote(id), &mut zygote.deadline, None);
        let record = &mut self.records[zygote.service];
        if record.zygote == Some(id) {
            record.zygote = None;
            record.zygotes.ended();
            let unexpected = zygote.link.is_some().then(|| {
                let hint = "does the command run Python, with the SDK installed or in PYTHONPATH?";
                let output = zygote.tail.report();
                tracing::warn!(service = %record.service.name(), pid = zygote.pid, ?output, "its zygote ended: {how}; {hint}");
                format!("it ended: {how}; {hint}")
            });
            self.publish_zygote(zygote.service, unexpected);
        }
        self.start_all_without(zygote.starts, now);
    }

    fn start_all_without(&mut self, starts: BTreeMap<u64, Start>, now: Instant) {
        for (instance, start) in starts {
            self.start_without(instance, start, now);
        }
    }

    /// The ordinary way, for a start that was to be a fork.
    fn start_without(&mut self, id: u64, mut start: Start, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        if instance.stage != Stage::Spawning {
            return self.spawn_failed(id, "it was stopped before its zygote had forked it".to_owned(), now);
        }
        if start.asked
            && let Some(old) = instance.token.take()
        {
            // It may have been forked all the same; with the old token nobody is let in any more.
            self.tokens.remove(&old);
            let Ok(token) = new_token() else { return self.spawn_failed(id, "there is no randomness".to_owned(), now) };
            for (_, value) in start.request.env.iter_mut().filter(|(name, _)| name == "PILOTLIGHT_TOKEN") {
                value.clone_from(&token);
            }
            self.tokens.insert(token.clone(), id);
            instance.token = Some(token);
        }
        let spawned =
            self.guardian().and_then(|guardian| guardian.start(Spawn { request: start.request, fds: start.fds }));
        if let Err(error) = spawned {
            self.spawn_failed(id, format!("the gateway cannot start it: {error}"), now);
        }
    }

    fn ask_for_forks(&mut self, service: usize, now: Instant) {
        let Some(id) = self.records[service].zygote else { return };
        let Some(zygote) = self.zygotes.all.get_mut(&id) else { return };
        let Some(link) = &zygote.link else { return };
        let mut failed = None;
        for (instance, start) in zygote.starts.iter_mut().filter(|(_, start)| !start.asked) {
            // Ours stay open until it has answered: an ordinary start may need them.
            let fds: io::Result<Vec<_>> = start.fds.iter().map(OwnedFd::try_clone).collect();
            match fds.and_then(|fds| link.fork(*instance, &start.request.env[start.shared..], fds)) {
                Ok(()) => start.asked = true,
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            self.give_up_zygote(id, &error.to_string(), now);
        }
    }

    /// It imports for too long, or does not end.
    pub(super) fn zygote_timer(&mut self, id: u64, now: Instant) {
        let Some(zygote) = self.zygotes.all.get_mut(&id) else { return };
        zygote.deadline = None;
        if zygote.link.is_some() {
            let limit = self.records[zygote.service].spec.start_timeout;
            self.give_up_zygote(id, &format!("it was still importing after start_timeout ({limit:?})"), now);
        }
        self.order(id, Order::Kill);
    }

    /// Tells it to end; killed if it does not.
    fn end_zygote(&mut self, id: u64, now: Instant) {
        let Some(zygote) = self.zygotes.all.get_mut(&id) else { return };
        if zygote.link.take().is_some() {
            self.timers.set(Timer::Zygote(id), &mut zygote.deadline, Some(now + ZYGOTE_GRACE));
        }
    }

    /// Ends the service's zygote; the next start begins with a new one.
    pub(super) fn stop_zygote(&mut self, service: usize, now: Instant) {
        let record = &mut self.records[service];
        record.zygotes.reset();
        if let Some(id) = record.zygote.take() {
            self.end_zygote(id, now);
        }
        self.publish_zygote(service, None);
    }

    /// New instances are wanted, and with them what is imported.
    pub(super) fn restart_zygote(&mut self, service: usize, now: Instant) {
        let was_there = self.records[service].zygote.is_some();
        self.stop_zygote(service, now);
        if was_there && self.records[service].spec.zygote().is_some() {
            self.boot_zygote(service, now);
        } else {
            self.boot_early(service, now);
        }
    }

    pub(super) fn zygote_marks(&self) -> impl Iterator<Item = String> {
        self.zygotes.all.values().map(|zygote| zygote.mark.clone())
    }

    /// The guardian is dead, and with their sockets all zygotes.
    pub(super) fn zygotes_lost(&mut self, now: Instant) {
        let ids: Vec<u64> = self.zygotes.all.keys().copied().collect();
        for id in ids {
            if let Some(pid) = self.zygotes.all.get(&id).and_then(|zygote| zygote.pid) {
                kill_group(pid);
            }
            if let Some(zygote) = self.zygotes.all.get_mut(&id) {
                zygote.starts.clear(); // the caller tells their instances
                zygote.link = None;
            }
            self.zygote_ended(id, &Exit::Lost.to_string(), now);
        }
    }

    fn publish_zygote(&self, service: usize, reason: Option<String>) {
        let record = &self.records[service];
        if record.spec.zygote().is_none() {
            record.service.status_mut().zygote = None;
            return;
        }
        let state = match record.zygotes.stage() {
            ZygoteStage::Absent => ZygoteState::Stopped,
            ZygoteStage::Booting => ZygoteState::Starting,
            ZygoteStage::Ready => ZygoteState::Ready,
            ZygoteStage::GivenUp => ZygoteState::GivenUp,
        };
        let pid = record.zygote.and_then(|id| self.zygotes.all.get(&id)).and_then(|zygote| zygote.pid);
        let mut status = record.service.status_mut();
        let before = status.zygote.take().and_then(|zygote| zygote.reason);
        // The reason stays until there is a zygote again.
        let reason = reason.or(before).filter(|_| matches!(state, ZygoteState::Stopped | ZygoteState::GivenUp));
        status.zygote = Some(ZygoteStatus { state, pid, reason });
    }
}

/// The interpreter, the SDK's module, what to import, and what the service's command says after its interpreter.
fn argv(program: &std::ffi::OsStr, preload: &Preload, arguments: &[std::ffi::OsString]) -> Vec<std::ffi::OsString> {
    let words = ["-m", MODULE].into_iter().chain(preload.modules.iter().map(String::as_str)).chain(["--"]);
    std::iter::once(program.to_owned()).chain(words.map(Into::into)).chain(arguments.iter().cloned()).collect()
}
