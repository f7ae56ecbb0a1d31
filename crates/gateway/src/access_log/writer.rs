//! The thread that writes the access log, and the file it writes to.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::sink::{MAX_CHUNKS, Message, Sink};
use crate::options::{AccessLogOptions, AccessLogTarget};

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
    /// The file cannot be opened, or the thread cannot be started.
    pub(crate) fn start(options: &AccessLogOptions) -> io::Result<Self> {
        let dropped = Arc::new(AtomicU64::new(0));
        let mut out = Out::open(options)?;
        let (to_writer, messages) = sync_channel(MAX_CHUNKS);
        let (alive, done) = mpsc::channel();
        let lost = Arc::clone(&dropped);
        std::thread::Builder::new().name("access-log".into()).spawn(move || {
            let _alive: mpsc::Sender<()> = alive;
            run(&mut out, &messages, &lost);
        })?;
        let fields = options.fields.clone().into();
        Ok(Self { sink: Sink { format: options.format, fields, to_writer: Arc::new(to_writer), dropped }, done })
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
    let mut failing = false;
    while let Ok(message) = messages.recv() {
        match message {
            Message::Lines { bytes, count } => {
                let written = out.write(&bytes);
                if let Err(e) = &written {
                    dropped.fetch_add(count, Relaxed);
                    if !failing {
                        tracing::error!("the access log cannot be written: {e}; lines are dropped and counted");
                    }
                }
                failing = written.is_err();
            }
            Message::Reopen => match out.reopen() {
                Ok(()) => tracing::info!("the access log was reopened"),
                Err(e) => tracing::error!("the access log could not be reopened, the old file goes on: {e}"),
            },
        }
    }
}

enum Out {
    Stdout,
    File { path: PathBuf, file: File, size: u64, max_size: Option<u64> },
}

impl Out {
    fn open(options: &AccessLogOptions) -> io::Result<Self> {
        match &options.target {
            AccessLogTarget::Stdout => Ok(Self::Stdout),
            AccessLogTarget::File(path) => {
                let (file, size) = append_to(path)?;
                Ok(Self::File { path: path.clone(), file, size, max_size: options.max_size })
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Self::File { path, file, size, max_size } = self else {
            let mut stdout = io::stdout().lock();
            return stdout.write_all(bytes).and_then(|()| stdout.flush());
        };
        if *size > 0 && max_size.is_some_and(|max| *size + bytes.len() as u64 > max) {
            let mut old = path.clone().into_os_string();
            old.push(".1");
            // If it cannot be moved, the log goes on where it is.
            if std::fs::rename(&*path, old).is_ok() {
                (*file, *size) = append_to(path)?;
            }
        }
        file.write_all(bytes)?;
        *size += bytes.len() as u64;
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Self::File { path, file, size, .. } = self {
            (*file, *size) = append_to(path)?;
        }
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    use std::os::unix::fs::OpenOptionsExt;
    // Who requested what is not for everybody on this machine.
    let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::AccessFormat;

    #[test]
    fn a_full_file_is_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let target = AccessLogTarget::File(path.clone());
        let options = AccessLogOptions { target, format: AccessFormat::Json, fields: Vec::new(), max_size: Some(10) };
        let mut out = Out::open(&options).unwrap();
        for text in ["123456\n", "abc\n", "larger than the limit\n", "x\n"] {
            out.write(text.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x\n");
        assert_eq!(std::fs::read_to_string(folder.path().join("access.log.1")).unwrap(), "larger than the limit\n");
    }

    #[test]
    fn reopening_follows_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let target = AccessLogTarget::File(path.clone());
        let options = AccessLogOptions { target, format: AccessFormat::Json, fields: Vec::new(), max_size: None };
        let mut out = Out::open(&options).unwrap();
        out.write(b"1\n").unwrap();
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        out.write(b"2\n").unwrap();
        out.reopen().unwrap();
        out.write(b"3\n").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("old")).unwrap(), "1\n2\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "3\n");
    }
}
