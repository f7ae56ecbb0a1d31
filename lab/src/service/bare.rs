//! The floors of servers: one thread, one epoll loop ([`turns`]), answers made beforehand, and no more of a request
//! looked at than where it ends ([`requests`]), so that they can be held against servers that look. [`serve`] has one
//! answer for all, [`redis`] asks Redis for it; [`front`] is the floor of what the experiment of that name asks for.

pub(super) mod front;
mod http2;
pub(super) mod redis;
mod requests;
mod secure;
mod turns;

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::rc::Rc;

use rustix::event::epoll::EventFlags;

use super::{answer_body, say_address};
use requests::Requests;
use turns::Connection;

/// Answers every request with the same 200 bytes, on a free port, for ever.
///
/// # Errors
/// The system refuses a socket.
pub(super) fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say_address(listener.local_addr()?)?;
    let answer: Rc<[u8]> = answered(&answer_body(), "content-type: application/json\r\n").into();
    let accepted = |_| Ok(Same { answer: Rc::clone(&answer), requests: Requests::default(), unsent: Vec::new() });
    turns::turn_for_ever(&[listener], accepted, |_| Ok(()))
}

/// An answer of HTTP/1.1; `fields` end their lines.
fn answered(body: &str, fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{fields}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A connection on which every request has the same answer.
struct Same {
    answer: Rc<[u8]>,
    requests: Requests,
    /// What the socket has not taken yet.
    unsent: Vec<u8>,
}

impl Connection for Same {
    fn turn(&mut self, socket: &mut TcpStream, flags: EventFlags, room: &mut [u8]) -> io::Result<()> {
        if flags.contains(EventFlags::OUT) {
            turns::flush(socket, &mut self.unsent)?;
        }
        if !turns::is_readable(flags) {
            return Ok(());
        }
        let Some(read) = turns::read(socket, room)? else { return Ok(()) };
        match self.requests.count(&room[..read])? {
            0 => Ok(()),
            1 => turns::write(socket, &self.answer, &mut self.unsent),
            requests => turns::write(socket, &self.answer.repeat(requests), &mut self.unsent),
        }
    }

    fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}
