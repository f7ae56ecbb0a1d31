//! A cold start without a gateway: the lab starts the service itself, asks it once and kills it. What a cold start
//! through a gateway takes beyond that is the gateway's own part, so nothing here may take longer than it must: the
//! socket listens before the service starts, the request is written into it at once, and nothing is polled or slept
//! for.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bytes::BytesMut;
use http::HeaderMap;
use pilotlight_pipe::frame::{FrameHeader, FrameType, MAX_FRAME, flags, missing, split_frame};
use pilotlight_pipe::head::{RequestHead, decode_response, encode_request};
use pilotlight_pipe::hello::Welcome;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::cases::Case;
use super::super::client::{REQUEST_TIMEOUT, read_answer};
use super::super::services::Server;
use super::{Processes, Target, text};
use crate::processes::{Direct, Reaper, Started};
use crate::service::answer_body;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const HTTP_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";

/// A service that is started for each request.
#[derive(Debug)]
pub(super) struct Bare {
    dir: PathBuf,
    case: Case,
    server: Server,
    reaper: Rc<Reaper>,
    running: Option<Running>,
}

/// A started service.
#[derive(Debug)]
struct Running {
    service: Started,
    /// Kept, because a service of the pipe ends with its connection.
    connection: Option<UnixStream>,
}

impl Bare {
    pub(super) fn new(dir: PathBuf, case: Case, server: &Server, reaper: Rc<Reaper>) -> Self {
        Self { dir, case, server: server.clone(), reaper, running: None }
    }

    /// Starts the service; gives back when that began.
    fn start(&mut self, service: Direct) -> anyhow::Result<Instant> {
        let begin = Instant::now();
        let service = service.start().context("the service")?;
        self.running = Some(Running { service, connection: None });
        Ok(begin)
    }

    fn keep(&mut self, connection: UnixStream) {
        if let Some(running) = &mut self.running {
            running.connection = Some(connection);
        }
    }

    fn service(&self, variables: &[(&str, &OsStr)]) -> anyhow::Result<Direct> {
        let output = File::create(self.dir.join("output"))?;
        let variables: Vec<_> = variables.iter().copied().chain([self.reaper.mark()]).collect();
        Direct::new(&self.server.command, &variables, output)
    }

    fn http(&mut self, listener: UnixListener, path: &str) -> anyhow::Result<Duration> {
        let service = self.service(&[])?.listening(listener.into())?;
        let mut buffer = vec![0; MAX_FRAME];
        // With the start goes this process's copy of the listener: if the service ends early, the connection is refused
        // or reset.
        let begin = self.start(service)?;
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        socket.write_all(HTTP_REQUEST)?;
        let (_, bytes) = read_answer(&mut socket, &mut buffer)?;
        let time = begin.elapsed();
        self.keep(socket);
        ensure!(buffer[..bytes].ends_with(answer_body().as_bytes()), "another body than the service's");
        Ok(time)
    }

    fn pipe(&mut self, listener: &UnixListener, path: &str) -> anyhow::Result<Duration> {
        let variables = [
            ("PILOTLIGHT_SOCKET", path),
            ("PILOTLIGHT_TOKEN", TOKEN),
            ("PILOTLIGHT_SERVICE", "lab"),
            ("PILOTLIGHT_INSTANCE", "1"),
        ];
        let service = self.service(&variables.map(|(name, value)| (name, OsStr::new(value))))?;
        let (mut incoming, request) = (BytesMut::with_capacity(MAX_FRAME), welcome_and_request()?);
        let begin = self.start(service)?;
        let timeout = Timespec::try_from(REQUEST_TIMEOUT)?;
        if poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout))? == 0 {
            bail!("the service did not dial within {} s", REQUEST_TIMEOUT.as_secs());
        }
        let (mut socket, _) = listener.accept()?;
        socket.set_read_timeout(Some(REQUEST_TIMEOUT))?;
        let (hello, _) = read_frame(&mut socket, &mut incoming)?;
        ensure!(hello.kind == FrameType::HELLO, "frame {} where HELLO was due", hello.kind);
        socket.write_all(&request)?;
        let (response, payload) = read_frame(&mut socket, &mut incoming)?;
        let time = begin.elapsed();
        self.keep(socket);
        ensure!(
            response.kind == FrameType::RESPONSE && response.is_end(),
            "frame {} where RESPONSE was due",
            response.kind
        );
        let (status, _, body) = decode_response(payload)?;
        ensure!(status == 200 && body == answer_body().as_bytes(), "another answer than the service's: {status}");
        Ok(time)
    }
}

impl Target for Bare {
    fn request(&mut self) -> anyhow::Result<Duration> {
        self.make_cold()?;
        let path = self.dir.join("service.sock");
        if path.exists() {
            std::fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path).context("cannot listen")?;
        match self.case {
            Case::PipeWarm | Case::PipeCold | Case::Cached => self.pipe(&listener, text(&path)?),
            Case::HttpWarm | Case::HttpCold => self.http(listener, text(&path)?),
        }
    }

    fn make_cold(&mut self) -> anyhow::Result<()> {
        self.running = None;
        Ok(())
    }

    fn was_cached(&self) -> bool {
        false
    }

    fn processes(&self) -> Processes {
        let service = self.running.iter().map(|running| running.service.pid()).collect();
        Processes { gateway: Vec::new(), service }
    }
}

/// The gateway's first bytes on an instance's first connection: WELCOME and one request.
fn welcome_and_request() -> anyhow::Result<BytesMut> {
    let mut out = BytesMut::new();
    Welcome { worker: 0, max_frame: MAX_FRAME as u32, minor: 0, service: "lab".into(), instance: 1 }.encode(&mut out);
    let head = RequestHead {
        method: "GET",
        scheme: "http",
        authority: "localhost",
        target: "/",
        protocol: "HTTP/1.1",
        peer: "127.0.0.1:1",
        request_id: "lab-1",
        deadline_ms: 0,
        headers: &HeaderMap::new(),
    };
    encode_request(&mut out, 1, flags::END, &head, &[])?;
    Ok(out)
}

fn read_frame(socket: &mut UnixStream, incoming: &mut BytesMut) -> anyhow::Result<(FrameHeader, bytes::Bytes)> {
    loop {
        if let Some(frame) = split_frame(incoming, MAX_FRAME)? {
            return Ok(frame);
        }
        let (filled, more) = (incoming.len(), missing(incoming, MAX_FRAME)?);
        incoming.resize(filled + more, 0);
        socket.read_exact(&mut incoming[filled..]).context("the service closed its connection")?;
    }
}
