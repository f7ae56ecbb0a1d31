//! What passing an HTTP/1.1 request on to a service on a Unix socket costs at the least: one thread, both heads parsed
//! by httparse, one field added to each, connections to the service kept. It is a floor, not a proxy: one size of
//! buffer, bodies by length only, no cache, no log, and what does not fit ends the program.
//!
//! `proxyfloor PORT SOCKET epoll|hybrid|uring`: `epoll` sends each message by itself, as nginx, HAProxy and tokio do;
//! `hybrid` gives the messages of one turn of the loop to the kernel in one `io_uring_enter`; `uring` accepts, receives
//! and sends by io_uring.

mod exchange;
mod head;
mod polling;
mod ring;

use std::io;
use std::net::TcpListener;
use std::path::Path;

use polling::Sending;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, socket, mode] = arguments.as_slice() else { usage() };
    let Ok(port) = port.parse::<u16>() else { usage() };
    let (listener, service) = (TcpListener::bind(("127.0.0.1", port))?, Path::new(socket));
    match mode.as_str() {
        "epoll" => polling::serve(&listener, service, Sending::Each),
        "hybrid" => polling::serve(&listener, service, Sending::together()?),
        "uring" => ring::serve(&listener, service),
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: proxyfloor PORT SOCKET epoll|hybrid|uring");
    std::process::exit(2)
}
