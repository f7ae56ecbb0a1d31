//! Requests that never repeat, and the origin that answers them.
//!
//! `flood serve PORT` answers every GET with a response that may be stored, as long as the target says: `/…/BYTES`.
//! `flood ask PORT FIRST COUNT BYTES CONNECTIONS` asks for COUNT distinct targets, BYTES long on average (`0` up to
//! twice as many), and prints one line of JSON. One thread and one request at a time for each connection: the gateway
//! is what is measured, not this.
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

const MAX_BODY_BYTES: usize = 8 << 20;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| io::Error::other(format!("{text} is not a number")));
    match words.as_slice() {
        ["serve", port] => serve(number(port)? as u16),
        ["ask", port, first, count, bytes, connections] => {
            ask(number(port)? as u16, number(first)?, number(count)?, number(bytes)?, number(connections)?)
        }
        _ => Err(io::Error::other("usage: flood serve PORT | flood ask PORT FIRST COUNT BYTES CONNECTIONS")),
    }
}

fn serve(port: u16) -> io::Result<()> {
    let body: &'static [u8] = vec![b'x'; MAX_BODY_BYTES].leak();
    for socket in TcpListener::bind(("127.0.0.1", port))?.incoming() {
        let socket = socket?;
        // A connection that the gateway closes ends its thread, with or without an error.
        thread::spawn(move || answer_all(socket, body));
    }
    Ok(())
}

fn answer_all(mut socket: TcpStream, body: &[u8]) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = BufReader::new(socket.try_clone()?);
    let (mut line, mut answer) = (String::new(), Vec::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line)?;
        }
        let bytes = target.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap_or(0).min(MAX_BODY_BYTES);
        answer.clear();
        write!(
            answer,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: public, max-age=36000\r\netag: \"{target}\"\r\n\
             server: flood\r\ncontent-length: {bytes}\r\n\r\n"
        )?;
        answer.extend_from_slice(&body[..bytes]);
        socket.write_all(&answer)?;
    }
}

fn ask(port: u16, first: u64, count: u64, bytes: u64, connections: u64) -> io::Result<()> {
    let (next, start) = (AtomicU64::new(first), Instant::now());
    let results: Vec<io::Result<()>> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..connections).map(|_| scope.spawn(|| ask_some(port, &next, first + count, bytes))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a panic")))).collect()
    });
    results.into_iter().collect::<io::Result<Vec<()>>>()?;
    println!(r#"{{"n":{count},"seconds":{:.6}}}"#, start.elapsed().as_secs_f64());
    Ok(())
}

fn ask_some(port: u16, next: &AtomicU64, end: u64, bytes: u64) -> io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 * 1024, socket.try_clone()?);
    let (mut line, mut body) = (String::new(), vec![0; 64 * 1024]);
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= end {
            return Ok(());
        }
        // Spread evenly, the same in every run.
        let length = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (2 * bytes + 1);
        socket.write_all(
            format!("GET /flood/{n}/of/distinct/targets/{length} HTTP/1.1\r\nhost: example.org\r\n\r\n").as_bytes(),
        )?;
        let mut left = 0;
        for number in 0.. {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if number == 0 && !line.contains(" 200 ") {
                return Err(io::Error::other(line));
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                left = value.trim().parse().map_err(io::Error::other)?;
            }
            if line == "\r\n" {
                break;
            }
        }
        if left as u64 != length {
            return Err(io::Error::other(format!("{left} bytes instead of {length}")));
        }
        while left > 0 {
            let room = left.min(body.len());
            left -= reader.read(&mut body[..room])?;
        }
    }
}
