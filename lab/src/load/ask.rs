//! One request on a connection of its own: what is asked once, and is no load.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, ensure};

use super::answer::Answer;
use super::{PATIENCE, Target};

/// The longest answer that is taken.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The answer to a request: status and content.
///
/// # Errors
/// There is no connection, and no answer that is understood within half a minute.
pub(crate) fn ask(to: impl Into<Target>, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    match to.into() {
        Target::Tcp(address) => {
            let socket = TcpStream::connect_timeout(&address, PATIENCE).context("cannot connect")?;
            socket.set_read_timeout(Some(PATIENCE))?;
            exchange(socket, request)
        }
        Target::Unix(path) => {
            let socket = UnixStream::connect(path).context("cannot connect")?;
            socket.set_read_timeout(Some(PATIENCE))?;
            exchange(socket, request)
        }
    }
}

fn exchange(mut socket: impl Read + Write, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    socket.write_all(request).context("cannot write the request")?;
    let (mut input, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = socket.read(&mut piece).context("cannot read the answer")?;
        ensure!(read > 0, "the connection was closed before the end of the answer");
        input.extend_from_slice(&piece[..read]);
        ensure!(input.len() <= MAX_ANSWER_BYTES, "an answer of more than {MAX_ANSWER_BYTES} bytes");
        if let Some(answer) = Answer::parse(&input)? {
            return Ok((answer.status, answer.body(&input[..answer.length])?.into_owned()));
        }
    }
}
