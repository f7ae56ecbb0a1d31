//! The client for programs without a runtime: each call blocks its thread until it is done.
//!
//! ```no_run
//! use pilotlight_redis::{Commands, blocking};
//!
//! # fn main() -> Result<(), pilotlight_redis::Error> {
//! let client = blocking::Client::connect("redis://localhost")?;
//! client.set("name", "Ada")?;
//! // With options, or what has no method here: the asynchronous client, waited for.
//! let name: Option<String> = client.wait(client.asynchronous().get("name").read_as())?;
//!
//! let mut pipeline = client.asynchronous().pipeline();
//! let visits = pipeline.incr("visits");
//! let visits = client.wait(pipeline.run())?.take(visits)?;
//! # Ok(()) }
//! ```
//!
//! The connections live on one thread of the client's own, which threads that call share. A caller that is alone writes
//! its command by itself, and is woken by that thread when the reply is there.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::client::handle::Client as AsyncClient;
use crate::command::Command;
use crate::commands::Commands;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Ran};
use crate::reply::FromReply;
use crate::stats::Stats;

/// See the module. Cloning it is cheap; clones share all connections. They are closed with the last clone.
///
/// Its methods block: on a thread of an asynchronous runtime they hold up all its tasks.
#[derive(Debug, Clone)]
pub struct Client {
    // In this order: the connections are given up before their runtime is.
    client: AsyncClient,
    worker: Arc<Worker>,
}

/// The thread that the connections live on. It ends when this is dropped.
#[derive(Debug)]
struct Worker {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// A client that connects when it is first used. The server may start later.
    ///
    /// # Errors
    /// The configuration makes no sense, or the system gives no thread.
    pub fn new(config: Config) -> Result<Self, Error> {
        let worker = Arc::new(Worker::start()?);
        Ok(Self { client: AsyncClient::new(config)?, worker })
    }

    /// A client of the server that a URL names (see [`Config::from_url`]), connected: a first command has been
    /// answered.
    ///
    /// # Errors
    /// The URL is malformed, no server answers within the command timeout, or the system gives no thread.
    pub fn connect(url: &str) -> Result<Self, Error> {
        let worker = Arc::new(Worker::start()?);
        let client = worker.wait(AsyncClient::connect(url))?;
        Ok(Self { client, worker })
    }

    /// The asynchronous client, whose futures [`wait`](Self::wait) waits for.
    #[must_use]
    pub fn asynchronous(&self) -> &AsyncClient {
        &self.client
    }

    /// Runs a future of the asynchronous client on this thread.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.worker.wait(future)
    }

    /// As [`Client::stats`](crate::Client::stats).
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.client.stats()
    }

    /// As [`Client::close`](crate::Client::close).
    pub fn close(&self, patience: Duration) {
        self.wait(self.client.close(patience));
    }
}

/// Each method sends its command and waits for the reply.
impl<'a> Commands<'a> for &'a Client {
    type Out<T: FromReply> = Result<T, Error>;

    fn run<T: FromReply>(self, command: Command<'a>) -> Result<T, Error> {
        self.wait((&self.client).run(command))
    }
}

impl Worker {
    fn start() -> Result<Self, Error> {
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
    fn wait<F: Future>(&self, future: F) -> F::Output {
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
