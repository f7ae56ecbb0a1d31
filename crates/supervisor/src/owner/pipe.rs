//! Connections of pipe instances: HELLO checked, WELCOME sent, and which worker gets them.

use super::greeting::{Greeting, Unwelcome, refuse, write_whole};
use super::instance_record::{InstanceRecord, RuntimeKind, Stage};
use super::state::Owner;
use crate::event::{SharedLink, WorkerEvent};
use crate::limits::HELLO_TIMEOUT;
use crate::processes::own_uid;
use bytes::{Bytes, BytesMut};
use pilotlight_pipe::frame::MAX_FRAME;
use pilotlight_pipe::hello::{ConnectionKind, Hello, MINOR, Welcome};
use std::sync::Arc;
use std::time::Instant;
use tokio::net::UnixStream;

impl Owner {
    /// A connection has sent HELLO, or something else.
    pub(super) fn greeted(&mut self, Greeting { stream, uid, accepted, hello }: Greeting, now: Instant) {
        let (hello, read_ahead) = match hello {
            Ok(hello) => hello,
            Err(Unwelcome::Refused(text)) => return refuse(&stream, text),
            Err(Unwelcome::Gone) => return tracing::debug!("a connection ended before HELLO"),
        };
        let Some(id) = self.tokens.get(&hello.token).copied() else {
            return refuse(&stream, "P-4: the token is not that of a live instance".to_owned());
        };
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let expected = instance.uid.unwrap_or_else(own_uid);
        // Ids of users in a container may be mapped to others: there the token says enough.
        if uid != expected && instance.runtime == RuntimeKind::Process {
            return refuse(&stream, format!("P-4: you run under user id {uid}, not under {expected}"));
        }
        instance.connected_at.get_or_insert(accepted);
        match place(instance, &hello, self.workers.len()) {
            Ok(worker) => self.connect(id, Greeted { worker, stream, hello, read_ahead }, now),
            Err(text) => refuse(&stream, text),
        }
    }

    fn connect(&mut self, id: u64, greeted: Greeted, now: Instant) {
        let Greeted { worker, stream, hello, read_ahead } = greeted;
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let service = self.records[instance.service].service.name();
        let welcome = Welcome {
            worker: worker as u32,
            max_frame: MAX_FRAME as u32,
            minor: hello.minor.min(MINOR), // P-37
            service: service.to_string(),
            instance: instance.handle.number(),
        };
        let mut frame = BytesMut::new();
        welcome.encode(&mut frame);
        // P-3. Nothing was written before, so the kernel's buffer has room for it.
        let stream = match write_whole(&stream, &frame).and_then(|()| stream.into_std()) {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%service, %error, "a connection ended at its WELCOME"),
        };
        let shared = hello.kind == ConnectionKind::Shared;
        let handle = Arc::clone(&instance.handle);
        let link = shared.then(|| SharedLink { instance: Arc::clone(&handle), worker });
        if shared {
            instance.links[worker] += 1;
            instance.asked[worker] = None;
        }
        let first = matches!(instance.stage, Stage::Spawning | Stage::Starting);
        let service = self.records[instance.service].service();
        self.tell(worker, WorkerEvent::Connected { instance: handle, service, hello, stream, read_ahead, link });
        if first {
            self.become_ready(id, now); // P-2
        }
    }

    /// A worker has no shared connection: another worker's asks for one.
    pub(super) fn want_shared(&mut self, id: u64, worker: usize, now: Instant) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.entrances[worker].counter.take_wanted();
        let asked_lately = instance.asked[worker].is_some_and(|asked| now.duration_since(asked) < HELLO_TIMEOUT);
        if instance.stage != Stage::Ready || !instance.is_pipe() || instance.links[worker] > 0 || asked_lately {
            return;
        }
        let Some(holder) = instance.links.iter().position(|links| *links > 0) else {
            return;
        };
        instance.asked[worker] = Some(now);
        let handle = Arc::clone(&instance.handle);
        let (kind, for_worker) = (ConnectionKind::Shared, worker as u32);
        self.tell(holder, WorkerEvent::SendMore { instance: handle, kind, count: 1, for_worker });
    }
}

/// A connection whose HELLO is good.
struct Greeted {
    worker: usize,
    stream: UnixStream,
    hello: Hello,
    /// What came behind it.
    read_ahead: Bytes,
}

/// The worker that a connection is for, or the rule that it breaks.
fn place(instance: &InstanceRecord, hello: &Hello, workers: usize) -> Result<usize, String> {
    let shared = hello.kind == ConnectionKind::Shared;
    let starting = match instance.stage {
        Stage::Spawning | Stage::Starting => true,
        Stage::Ready | Stage::Examining => false,
        Stage::Draining if !shared => false, // exchanges that are open may need one
        _ => return Err("P-31: the instance is being stopped".to_owned()),
    };
    match hello.worker {
        None if starting && shared => Ok(instance.first_worker),
        _ if starting => Err("P-2: the first connection must be shared and must not name a worker".to_owned()),
        None => Err("P-13: a further connection must name a worker".to_owned()),
        Some(worker) if (worker as usize) < workers => Ok(worker as usize),
        Some(worker) => Err(format!("P-13: there is no worker {worker}")),
    }
}
