//! A bare relay, to compare a tunnel with: bytes from each client to one server and back, by blocking calls, and
//! nothing else. `rustc -O relay.rs`; `relay 127.0.0.1:6379` prints its port.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn main() -> std::io::Result<()> {
    let server = std::env::args().nth(1).expect("the server's address");
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    for client in listener.incoming() {
        let (client, server) = (client?, TcpStream::connect(&server)?);
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from, to) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || copy(from, to));
        thread::spawn(move || copy(server, client));
    }
    Ok(())
}
