//! The thread that the connections of a client live on.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Ran};

/// The thread that the connections live on. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(super) fn start() -> Result<Self, Error> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Connect(error.to_string().into()), Ran::NotSent, "blocking::Client")
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let work = move || {
            let _ = runtime.block_on(stopped);
        };
        let thread = thread::Builder::new().name("pilotlight-redis".into()).spawn(work).map_err(failed)?;
        Ok(Self { runtime: handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Polls the future on this thread, which sleeps meanwhile. What it spawns and its timers run on the worker's.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.runtime.enter();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(output) => return output,
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A task of its own may hold the last clone.
        if let Some(thread) = self.thread.take_if(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
