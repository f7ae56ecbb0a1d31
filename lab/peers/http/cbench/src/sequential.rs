//! One request at a time, blocking.
use crate::response::Responses;
use crate::{Outcome, Plan};
use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

const ANSWER_LIMIT: usize = 64 * 1024;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

pub fn run(plan: &mut Plan) -> io::Result<Outcome> {
    let mut socket = plan.target.dial()?;
    socket.set_read_timeout(ANSWER_TIMEOUT)?;
    let mut outcome = Outcome::default();
    let mut responses = Responses::default();
    let mut buffer = vec![0; ANSWER_LIMIT];
    let start = Instant::now();
    while start.elapsed() < plan.duration {
        let sent = Instant::now();
        if exchange(&mut socket, plan.requests.next(outcome.latency.count()), &mut responses, &mut buffer).is_err() {
            outcome.broken += 1;
            break;
        }
        outcome.latency.add(sent.elapsed());
    }
    outcome.bad_status = responses.bad_status;
    Ok(outcome)
}

fn exchange(
    socket: &mut (impl Read + Write),
    request: &[u8],
    responses: &mut Responses,
    buffer: &mut [u8],
) -> io::Result<()> {
    socket.write_all(request)?;
    let mut filled = 0;
    loop {
        match socket.read(&mut buffer[filled..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
        if responses.next_length(&buffer[..filled]).is_some() {
            return Ok(());
        }
    }
}
