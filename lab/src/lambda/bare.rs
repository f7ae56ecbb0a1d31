//! The barest Runtime API of AWS Lambda: sockets that hand an event over and take its result, for one function.
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::load;

const EVENT: &str = r#"{"version":"2.0","rawPath":"/","headers":{"host":"x"},"requestContext":{}}"#;
const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
/// The longest wait for a call of the runtime client; also the deadline that the function is given.
const LIMIT: Duration = Duration::from_secs(60);
const MAX_CALL_BYTES: usize = 1 << 20;

/// The API, and the connections of the function's runtime client.
pub(super) struct RuntimeApi {
    pub(super) listener: TcpListener,
    connections: Vec<TcpStream>,
}

impl RuntimeApi {
    pub(super) fn open() -> anyhow::Result<Self> {
        Ok(Self { listener: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, connections: Vec::new() })
    }

    /// How long an invocation takes, from the event's first byte to the result's last.
    pub(super) fn invoke(&mut self) -> anyhow::Result<Duration> {
        let (call, mut waiting) = self.call()?;
        ensure!(call.starts_with("GET "), "no call for an event: {call}");
        let event = event()?;
        let begin = Instant::now();
        waiting.write_all(event.as_bytes())?;
        self.connections.push(waiting);
        let (call, mut answering) = self.call()?;
        let took = begin.elapsed();
        ensure!(call.contains("/response"), "no call with a result: {call}");
        answering.write_all(ACCEPTED)?;
        self.connections.push(answering);
        Ok(took)
    }

    /// The first line of the next call, once it was read whole, and its connection: there may be several.
    fn call(&mut self) -> anyhow::Result<(String, TcpStream)> {
        let limit = Timespec::try_from(LIMIT)?;
        loop {
            let all = self.connections.iter().map(|socket| socket.as_fd()).chain([self.listener.as_fd()]);
            let mut all: Vec<_> = all.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
            ensure!(poll(&mut all, Some(&limit))? > 0, "no call within {} s", LIMIT.as_secs());
            let ready = all.iter().position(|socket| !socket.revents().is_empty()).context("no socket is ready")?;
            if ready == self.connections.len() {
                let (socket, _) = self.listener.accept()?;
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(LIMIT))?;
                self.connections.push(socket);
                continue;
            }
            let mut socket = self.connections.swap_remove(ready);
            if let Some(line) = first_line(&mut socket)? {
                return Ok((line, socket));
            }
        }
    }
}

fn event() -> anyhow::Result<String> {
    let deadline = (SystemTime::now() + LIMIT).duration_since(UNIX_EPOCH)?.as_millis();
    Ok(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
         Lambda-Runtime-Aws-Request-Id: 8476a536-e9f4-11e8-9739-2dfe598c3fcd\r\n\
         Lambda-Runtime-Deadline-Ms: {deadline}\r\n\
         Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:us-east-1:000000000000:function:lab\r\n\
         Lambda-Runtime-Trace-Id: Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0\r\n\
         Content-Length: {}\r\n\r\n{EVENT}",
        EVENT.len()
    ))
}

/// Of a request that is read whole; `None`: the connection was closed instead.
fn first_line(socket: &mut TcpStream) -> anyhow::Result<Option<String>> {
    let (mut input, mut piece) = (Vec::new(), [0; 4096]);
    while load::request_length(&input)? != Some(input.len()) {
        let read = socket.read(&mut piece).context("a call could not be read")?;
        if read == 0 {
            return Ok(None);
        }
        input.extend_from_slice(&piece[..read]);
        ensure!(input.len() <= MAX_CALL_BYTES, "a call of more than {MAX_CALL_BYTES} bytes");
    }
    Ok(String::from_utf8_lossy(&input).lines().next().map(str::to_owned))
}
