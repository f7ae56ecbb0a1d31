//! One request on a connection of its own: what is asked once, and is no load.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, ensure};

use super::PATIENCE;
use super::answer::Answer;

/// The longest answer that is taken.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The answer to a request: status and content.
///
/// # Errors
/// There is no connection, and no answer that is understood within half a minute.
pub(crate) fn ask(address: SocketAddr, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE).context("cannot connect")?;
    socket.set_read_timeout(Some(PATIENCE))?;
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
