//! Connections of pipe instances: HELLO, WELCOME, and which worker gets them.

use super::run::{Run, Stage};
use super::{Owner, own_uid};
use crate::event::{SharedLink, WorkerEvent};
use crate::limits::HELLO_TIMEOUT;
use bytes::{Bytes, BytesMut};
use pilotlight_pipe::frame::{FrameHeader, FrameType, HEADER_LEN, MAX_FRAME};
use pilotlight_pipe::hello::{ConnectionKind, Hello, MAX_HELLO, Welcome};
use pilotlight_pipe::reset::{Reset, ResetCode};
use rustix::net::{SendFlags, send};
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// What a new connection sent.
#[derive(Debug)]
pub(super) struct Greeting {
    stream: UnixStream,
    uid: u32,
    accepted: Instant,
    hello: Result<(Hello, Bytes), Unwelcome>,
}

/// Why a connection is not accepted.
#[derive(Debug)]
enum Unwelcome {
    /// It is told.
    Refused(String),
    /// It has gone before it said anything.
    Gone,
}

/// Reads HELLO, in bounded time and memory.
pub(super) async fn greet(mut stream: UnixStream, uid: u32, accepted: Instant) -> Greeting {
    let hello = match tokio::time::timeout(HELLO_TIMEOUT, read_hello(&mut stream)).await {
        Ok(hello) => hello,
        Err(_) => Err(Unwelcome::Refused(format!("P-4: no HELLO within {HELLO_TIMEOUT:?}"))),
    };
    Greeting { stream, uid, accepted, hello }
}

async fn read_hello(stream: &mut UnixStream) -> Result<(Hello, Bytes), Unwelcome> {
    let mut buffer = BytesMut::with_capacity(HEADER_LEN + MAX_HELLO);
    while buffer.len() < HEADER_LEN {
        read_some(stream, &mut buffer).await?;
    }
    let header = buffer.split_to(HEADER_LEN);
    let header = header.first_chunk().map(FrameHeader::decode).ok_or(Unwelcome::Gone)?;
    if header.kind != FrameType::HELLO || header.exchange != 0 {
        return Err(refused(format!("P-1: the first frame must be HELLO on exchange 0, not type {}", header.kind)));
    }
    let length = header.length as usize;
    if length > MAX_HELLO {
        return Err(refused(format!("P-6: HELLO of {length} bytes, at most {MAX_HELLO}")));
    }
    while buffer.len() < length {
        read_some(stream, &mut buffer).await?;
    }
    let payload = buffer.split_to(length);
    let hello = Hello::parse(&payload).map_err(|error| refused(error.to_string()))?;
    Ok((hello, buffer.freeze()))
}

async fn read_some(stream: &mut UnixStream, buffer: &mut BytesMut) -> Result<(), Unwelcome> {
    match stream.read_buf(buffer).await {
        Ok(0) | Err(_) => Err(Unwelcome::Gone),
        Ok(_) => Ok(()),
    }
}

fn refused(text: String) -> Unwelcome {
    Unwelcome::Refused(text)
}

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
        let Some(run) = self.runs.get_mut(&id) else { return };
        let expected = run.uid.unwrap_or_else(own_uid);
        if uid != expected {
            return refuse(&stream, format!("P-4: you run under user id {uid}, not under {expected}"));
        }
        run.connected_at.get_or_insert(accepted);
        match place(run, &hello, self.workers.len()) {
            Ok(worker) => self.connect(id, Greeted { worker, stream, hello, read_ahead }, now),
            Err(text) => refuse(&stream, text),
        }
    }

    fn connect(&mut self, id: u64, greeted: Greeted, now: Instant) {
        let Greeted { worker, stream, hello, read_ahead } = greeted;
        let Some(run) = self.runs.get_mut(&id) else { return };
        let service = self.records[run.service].service.name();
        let welcome = Welcome {
            worker: worker as u32,
            max_frame: MAX_FRAME as u32,
            service: service.to_string(),
            instance: run.instance.number(),
        };
        let mut frame = BytesMut::new();
        welcome.encode(&mut frame);
        // P-3. Nothing was written before, so the kernel's buffer has room for it.
        let stream = match write_whole(&stream, &frame).and_then(|()| stream.into_std()) {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%service, %error, "a connection ended at its WELCOME"),
        };
        let shared = hello.kind == ConnectionKind::Shared;
        let instance = Arc::clone(&run.instance);
        let link = shared.then(|| SharedLink { instance: Arc::clone(&instance), worker });
        if shared {
            run.links[worker] += 1;
            run.asked[worker] = None;
        }
        let first = matches!(run.stage, Stage::Spawning | Stage::Starting);
        let service = self.records[run.service].service();
        self.tell(worker, WorkerEvent::Connected { instance, service, hello, stream, read_ahead, link });
        if first {
            self.become_ready(id, now); // P-2
        }
    }

    /// A worker has no shared connection: another worker's asks for one.
    pub(super) fn want_shared(&mut self, id: u64, worker: usize, now: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        run.counters[worker].take_wanted();
        let asked_lately = run.asked[worker].is_some_and(|asked| now.duration_since(asked) < HELLO_TIMEOUT);
        if run.stage != Stage::Ready || !run.is_pipe() || run.links[worker] > 0 || asked_lately {
            return;
        }
        let Some(holder) = run.links.iter().position(|links| *links > 0) else {
            return;
        };
        run.asked[worker] = Some(now);
        let instance = Arc::clone(&run.instance);
        let (kind, for_worker) = (ConnectionKind::Shared, worker as u32);
        self.tell(holder, WorkerEvent::SendMore { instance, kind, count: 1, for_worker });
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
fn place(run: &Run, hello: &Hello, workers: usize) -> Result<usize, String> {
    let shared = hello.kind == ConnectionKind::Shared;
    let starting = match run.stage {
        Stage::Spawning | Stage::Starting => true,
        Stage::Ready => false,
        Stage::Draining if !shared => false, // exchanges that are open may need one
        _ => return Err("P-31: the instance is being stopped".to_owned()),
    };
    match hello.worker {
        None if starting && shared => Ok(run.first_worker),
        _ if starting => Err("P-2: the first connection must be shared and must not name a worker".to_owned()),
        None => Err("P-13: a further connection must name a worker".to_owned()),
        Some(worker) if (worker as usize) < workers => Ok(worker as usize),
        Some(worker) => Err(format!("P-13: there is no worker {worker}")),
    }
}

pub(super) fn refuse(stream: &UnixStream, text: String) {
    tracing::warn!("a service's connection was refused: {text}");
    let mut frame = BytesMut::new();
    Reset::new(ResetCode::Protocol, text).encode(&mut frame, 0);
    if let Err(error) = write_whole(stream, &frame) {
        tracing::debug!(%error, "it did not take the reason");
    }
}

/// Past the event loop, which may not have seen yet that a new stream takes bytes.
fn write_whole(stream: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    match send(stream, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
