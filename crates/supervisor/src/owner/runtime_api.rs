//! Instances of functions: the socket of their Runtime API, what they are told of it, and how their start ends.

use super::instance_record::Stage;
use super::role::TASK_ROOT;
use super::state::Owner;
use crate::error::Phase;
use crate::event::WorkerEvent;
use crate::instance::Instance;
use crate::limits::BACKLOG;
use crate::processes::own_uid;
use crate::spec::ServiceSpec;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Instant;

/// A loopback port that nobody else has: who asks there is taken for that one instance.
pub(super) fn bind() -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// What its environment says beyond what is the same for each instance of a service.
pub(super) fn env(address: SocketAddr, number: u64, spec: &ServiceSpec, set: &mut impl FnMut(&str, String)) {
    set("AWS_LAMBDA_RUNTIME_API", address.to_string());
    let is_set = |name: &str| spec.env.iter().any(|(set, _)| set == name);
    if let Some(dir) = spec.dir.as_ref().filter(|_| !is_set(TASK_ROOT)) {
        set(TASK_ROOT, dir.to_string_lossy().into_owned());
    }
    set("AWS_LAMBDA_LOG_STREAM_NAME", format!("{}/{number}", spec.name));
}

impl Owner {
    /// One worker serves it: those of a service by turns.
    pub(super) fn serve_runtime_api(&self, instance: &Arc<Instance>, listener: TcpListener, uid: Option<u32>) {
        let service = self.records[instance.service().0].service();
        let worker = usize::try_from(instance.number()).unwrap_or_default() % self.workers.len();
        let (instance, user) = (Arc::clone(instance), uid.unwrap_or_else(own_uid));
        self.tell(worker, WorkerEvent::RuntimeApi { instance, service, listener, user });
    }

    /// The first call for an invocation came: the function is initialised.
    pub(super) fn runtime_ready(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        if matches!(instance.stage, Stage::Spawning | Stage::Starting) {
            instance.connected_at.get_or_insert(now);
            self.become_ready(id, now);
        }
    }

    /// The function says that it could not be initialised.
    pub(super) fn init_failed(&mut self, id: u64, now: Instant) {
        let Some(instance) = self.instances.get(&id) else { return };
        if instance.start_over || !matches!(instance.stage, Stage::Spawning | Stage::Starting) {
            return;
        }
        let lines = instance.handle.init_error();
        let what = lines.last().cloned().unwrap_or_default();
        tracing::error!(service = %self.records[instance.service].service.name(), instance = instance.handle.number(),
            "the function could not be initialised: {}", pilotlight_printable::text(what.as_bytes()));
        let tail = Arc::clone(&instance.tail);
        lines.iter().for_each(|line| tail.push(line));
        let reason = "it could not be initialised, as it says itself; see the last lines of its output".to_owned();
        self.fail_start(id, Phase::Init, reason, now);
        self.kill(id, now);
    }
}
