//! Files of certificates are looked at again and again: who renews them puts new ones in their place.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::context::TlsContext;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// A thread that has a context follow its files, until this is dropped. It costs a `stat` a file and look.
#[derive(Debug)]
pub struct FileFollower {
    /// Nothing is sent: dropped, it ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FileFollower {
    /// Starts it.
    ///
    /// # Errors
    /// There is no thread left.
    pub fn start(context: &Arc<TlsContext>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let context = Arc::downgrade(context);
        let thread = std::thread::Builder::new().name("tls-files".into()).spawn(move || run(&context, &stopped))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for FileFollower {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        if let Some(Err(_)) = ended {
            tracing::error!("the thread that follows certificates panicked; this is a bug of Pilotlight");
        }
    }
}

fn run(context: &Weak<TlsContext>, stopped: &mpsc::Receiver<()>) {
    while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        match context.upgrade() {
            Some(context) => context.follow_files(),
            None => return,
        }
    }
}
