//! How a page in a browser learns that the program has changed: it asks with `EventSource`, and is answered by a server
//! on the loopback interface, which the gateway has a route to. `?since=` is the time of what it shows, in milliseconds
//! since 1970.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pages that wait at once; others are told to come again.
const MAX_PAGES: usize = 64;
/// Bytes of a request.
const MAX_REQUEST: u64 = 16 * 1024;
/// How long a request may take to come.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How often a page that waits is looked after: one that has gone is forgotten by then.
const HEARTBEAT: Duration = Duration::from_secs(5);

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n";
const BUSY: &str =
    "HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const BAD: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// When the program last changed. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Changes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Milliseconds since 1970.
    last: Mutex<u64>,
    more: Condvar,
    pages: AtomicUsize,
}

impl Changes {
    /// What was shown before now is old.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Shared { last: Mutex::new(now_ms()), more: Condvar::new(), pages: AtomicUsize::new(0) }))
    }

    /// It changes now: pages that show what was before load themselves again.
    pub fn changed(&self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = now_ms();
        self.0.more.notify_all();
    }

    /// Answers pages until the process ends, on threads of its own.
    ///
    /// # Errors
    /// The first thread is refused.
    pub fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let changes = self.clone();
        let accept = move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => changes.accepted(stream),
                    Err(_) => std::thread::sleep(HEARTBEAT), // descriptors are short: others need them more
                }
            }
        };
        std::thread::Builder::new().name("pages".into()).spawn(accept).map(drop)
    }

    fn accepted(&self, mut stream: TcpStream) {
        if self.0.pages.fetch_add(1, Ordering::Relaxed) >= MAX_PAGES {
            self.0.pages.fetch_sub(1, Ordering::Relaxed);
            let _ = stream.write_all(BUSY.as_bytes()); // it may have gone
            return;
        }
        let changes = self.clone();
        let answer = move || {
            let _ = changes.answer(&stream); // a page that has gone
            changes.0.pages.fetch_sub(1, Ordering::Relaxed);
        };
        if std::thread::Builder::new().name("page".into()).spawn(answer).is_err() {
            self.0.pages.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn answer(&self, mut stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(REQUEST_TIME))?;
        stream.set_write_timeout(Some(REQUEST_TIME))?;
        let Some(since) = requested(stream)? else { return stream.write_all(BAD.as_bytes()) };
        stream.write_all(HEAD.as_bytes())?;
        while !self.is_newer(since) {
            stream.write_all(b":\n\n")?;
        }
        stream.write_all(b"data: changed\n\n")
    }

    /// Waits for a while.
    fn is_newer(&self, since: u64) -> bool {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, _) = self
            .0
            .more
            .wait_timeout_while(last, HEARTBEAT, |last| *last <= since)
            .unwrap_or_else(PoisonError::into_inner);
        *last > since
    }
}

impl Default for Changes {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads a whole head; `None` if it does not say since when.
fn requested(stream: &TcpStream) -> io::Result<Option<u64>> {
    let mut lines = BufReader::new(stream.take(MAX_REQUEST)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let query = first.split(' ').nth(1).and_then(|target| target.split_once("?since="));
    Ok(query.and_then(|(_, since)| since.parse().ok()))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(changes: &Changes, target: &str) -> (TcpStream, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        ours.write_all(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
        let changes = changes.clone();
        (ours, std::thread::spawn(move || drop(changes.answer(&theirs))))
    }

    fn rest(stream: &mut TcpStream) -> String {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_page_is_told_of_a_change_that_came_before_it_asked() {
        let changes = Changes::new();
        let (mut page, thread) = ask(&changes, "/.well-known/pilotlight/dev?since=0");
        thread.join().unwrap();
        assert_eq!(rest(&mut page), format!("{HEAD}data: changed\n\n"));
    }

    #[test]
    fn a_page_waits_for_a_change() {
        let changes = Changes::new();
        let (mut page, thread) = ask(&changes, &format!("/x?since={}", now_ms()));
        let mut head = vec![0; HEAD.len()];
        page.read_exact(&mut head).unwrap();
        while !thread.is_finished() {
            changes.changed();
            std::thread::yield_now();
        }
        assert_eq!(rest(&mut page), "data: changed\n\n");
    }

    #[test]
    fn what_asks_for_nothing_is_told_so() {
        let (mut page, thread) = ask(&Changes::new(), "/x?since=never");
        thread.join().unwrap();
        assert_eq!(rest(&mut page), BAD);
    }
}
