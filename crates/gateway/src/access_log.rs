//! The access log: a line for each request.
//!
//! ```text
//!  worker ─ lines ─▶ chunk ─ full, or 200 ms old ─▶ queue of chunks ─▶ writer thread ─▶ file, journal, syslog
//! ```
//! A worker never waits for the disk or a server: a chunk for which the queue has no room is dropped, and its lines are
//! counted.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::Notify;

mod line;
mod sink;
mod writer;

pub(crate) use line::{Entry, Hit};
use sink::Message;
pub(crate) use sink::Sink;
pub(crate) use writer::Writer;

/// Bytes of lines gathered before they go to the writer.
const CHUNK_BYTES: usize = 32 * 1024;
/// How long lines are gathered.
const GATHER_TIME: Duration = Duration::from_millis(200);

/// One worker's end of the log.
pub(crate) struct AccessLog {
    sink: Sink,
    gathered: RefCell<Vec<u8>>,
    count: Cell<u64>,
    first: Notify,
}

impl AccessLog {
    pub(crate) fn new(sink: Sink) -> Rc<Self> {
        Rc::new(Self { sink, gathered: RefCell::default(), count: Cell::new(0), first: Notify::new() })
    }

    pub(crate) fn write(&self, entry: &Entry<'_>) {
        let mut gathered = self.gathered.borrow_mut();
        if gathered.is_empty() {
            gathered.reserve(CHUNK_BYTES);
            self.first.notify_one();
        }
        let Sink { format, fields, shape, .. } = &self.sink;
        match shape {
            None => line::write(&mut gathered, *format, fields, entry),
            Some(shape) => line::write_message(&mut gathered, shape, *format, fields, entry),
        }
        self.count.set(self.count.get() + 1);
        if gathered.len() >= CHUNK_BYTES {
            drop(gathered);
            self.pass_on();
        }
    }

    /// Passes on what was gathered, for as long as it is polled.
    ///
    /// # Cancel safety
    /// What is gathered stays so; [`AccessLog::pass_on`] passes on the rest.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.first.notified().await;
            tokio::time::sleep(GATHER_TIME).await;
            self.pass_on();
        }
    }

    /// Hands over what was gathered, if there is room.
    pub(crate) fn pass_on(&self) {
        let (bytes, count) = (self.gathered.take(), self.count.take());
        if count > 0 && self.sink.to_writer.try_send(Message::Lines { bytes, count }).is_err() {
            self.sink.dropped.fetch_add(count, Relaxed);
        }
    }
}
