//! A bare relay, to compare a tunnel with: bytes from each client to one server and back, by blocking calls with a
//! thread for each direction, and nothing else.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

use anyhow::Context as _;

use super::say_address;

const ROOM: usize = 64 * 1024;

/// Relays to the server at this address, on a free port, for ever.
///
/// # Errors
/// The system refuses a socket, or the server does not listen.
pub(super) fn serve(server: Option<OsString>) -> anyhow::Result<()> {
    let server = server.and_then(|server| server.into_string().ok()).context("no address of a server given")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say_address(listener.local_addr()?)?;
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

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; ROOM];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    // The other side may have gone.
    let _ = to.shutdown(Shutdown::Both);
}
