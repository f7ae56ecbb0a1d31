//! The thread that writes the access log.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pilotlight_logs::{Lost, Out, Shape};

use super::sink::{MAX_CHUNKS, Message, Sink};
use crate::options::AccessLogOptions;

/// How long the end of the gateway waits for the last lines to be written: a standard output that nobody reads must not
/// keep it.
const LAST_LINES_TIME: Duration = Duration::from_secs(1);

/// The writer, seen from outside.
pub(crate) struct Writer {
    sink: Sink,
    /// Ends with the thread.
    done: Receiver<()>,
}

impl Writer {
    /// Opens the log and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened, nobody is at the socket, or the thread cannot be started.
    pub(crate) fn start(options: &AccessLogOptions) -> io::Result<Self> {
        let dropped = Arc::new(AtomicU64::new(0));
        let mut out = Out::open(&options.destination, options.max_size)?;
        let (to_writer, messages) = sync_channel(MAX_CHUNKS);
        let (alive, done) = mpsc::channel();
        let lost = Arc::clone(&dropped);
        std::thread::Builder::new().name("access-log".into()).spawn(move || {
            let _alive: mpsc::Sender<()> = alive;
            run(&mut out, &messages, &lost);
        })?;
        let fields = options.fields.clone().into();
        let shape = Shape::of(&options.destination, options.facility, options.syslog_format);
        Ok(Self { sink: Sink { format: options.format, fields, shape, to_writer: Arc::new(to_writer), dropped }, done })
    }

    pub(crate) fn sink(&self) -> Sink {
        self.sink.clone()
    }

    /// Lines that were not written.
    pub(crate) fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sink.dropped)
    }

    /// Opens the file anew after somebody has moved it.
    pub(crate) fn reopener(&self) -> Reopener {
        Reopener(Arc::downgrade(&self.sink.to_writer))
    }

    /// Waits for the last lines; the workers must have ended.
    pub(crate) fn finish(self) {
        let Self { sink, done } = self;
        drop(sink);
        // An error that is not the time over is the end of the thread.
        if done.recv_timeout(LAST_LINES_TIME) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the last lines of the access log may be missing: they could not be written in time");
        }
    }
}

/// Asks for the file to be opened anew.
#[derive(Clone)]
pub(crate) struct Reopener(Weak<SyncSender<Message>>);

impl Reopener {
    pub(crate) fn reopen(&self) {
        // Without a writer the gateway is about to end. Held weakly, it is not kept from it.
        if self.0.upgrade().is_some_and(|writer| writer.try_send(Message::Reopen).is_err()) {
            tracing::warn!("the access log was not reopened: its writer does not keep up; send SIGUSR1 again");
        }
    }
}

fn run(out: &mut Out, messages: &Receiver<Message>, dropped: &AtomicU64) {
    let mut lost = 0;
    while let Ok(message) = messages.recv() {
        match message {
            Message::Lines { bytes, count } => match out.write(&bytes, count) {
                Ok(()) if lost == 0 => {}
                Ok(()) => tracing::info!("the access log is written again; {} lines were lost", mem::take(&mut lost)),
                Err(Lost { lines, cause }) => {
                    dropped.fetch_add(lines, Relaxed);
                    if lost == 0 {
                        tracing::error!("the access log cannot be written: {cause}; lines are dropped and counted");
                    }
                    lost += lines;
                }
            },
            Message::Reopen => match out.reopen() {
                Ok(()) => tracing::info!("the access log was reopened"),
                Err(e) => tracing::error!("the access log could not be reopened, the old file goes on: {e}"),
            },
        }
    }
}
