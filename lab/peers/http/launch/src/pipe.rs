//! The gateway's half of Pipe/1, as much of it as one request needs.
use crate::{ANSWER_TIMEOUT, Sample, bind, milliseconds, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Instant;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const HEADER_LENGTH: usize = 8;
const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REQUEST: u8 = 3;
const RESPONSE: u8 = 4;
const END: u8 = 1;
/// The specification's limit for HELLO.
const MAX_HELLO: usize = 4096;

pub fn start(command: &[String]) -> io::Result<Sample> {
    let (listener, file) = bind()?;
    let path = file.0.to_str().ok_or_else(|| Error::other("the temporary folder's path is not UTF-8"))?;
    let environment = [
        ("PILOTLIGHT_SOCKET", path),
        ("PILOTLIGHT_TOKEN", TOKEN),
        ("PILOTLIGHT_SERVICE", "bench"),
        ("PILOTLIGHT_INSTANCE", "1"),
    ];
    let before = Instant::now();
    let running = spawn(command, &environment)?;
    wait_for_connection(&listener)?;
    let (mut socket, _) = listener.accept()?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let (kind, _) = read_frame(&mut socket)?;
    let first_connection = milliseconds(before);
    expect(kind, HELLO)?;
    let mut out = frame(WELCOME, 0, 0, b"PIPE/1\nworker=0\nmax_frame=65536\nservice=bench\ninstance=1\n");
    out.extend(frame(REQUEST, END, 1, &request_head()));
    socket.write_all(&out)?;
    let mut header = [0; HEADER_LENGTH];
    socket.read_exact(&mut header)?;
    let first_byte = milliseconds(before);
    expect(header[4], RESPONSE)?;
    drop(running);
    Ok(Sample { first_connection: Some(first_connection), first_byte })
}

fn wait_for_connection(listener: &UnixListener) -> io::Result<()> {
    let timeout = Timespec { tv_sec: ANSWER_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout))? {
        0 => Err(Error::new(ErrorKind::TimedOut, "the service never dialled PILOTLIGHT_SOCKET")),
        _ => Ok(()),
    }
}

fn expect(found: u8, wanted: u8) -> io::Result<()> {
    if found == wanted { Ok(()) } else { Err(Error::other(format!("frame type {found} where {wanted} was due"))) }
}

fn read_frame(socket: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; HEADER_LENGTH];
    socket.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
    if length > MAX_HELLO {
        return Err(Error::other(format!("a HELLO of {length} bytes is longer than {MAX_HELLO}")));
    }
    let mut payload = vec![0; length];
    socket.read_exact(&mut payload)?;
    Ok((header[4], payload))
}

fn frame(kind: u8, flags: u8, exchange: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
    frame.extend([kind, flags]);
    frame.extend(exchange.to_le_bytes());
    frame.extend(payload);
    frame
}

fn request_head() -> Vec<u8> {
    let strings = ["GET", "http", "localhost", "/", "HTTP/1.1", "127.0.0.1:1", "bench-1"];
    let head: Vec<u8> = strings.iter().flat_map(|text| text.bytes().chain([0])).collect();
    let mut payload = (head.len() as u32).to_le_bytes().to_vec();
    payload.extend(0_u32.to_le_bytes());
    payload.extend(head);
    payload
}
