//! The client for programs without a runtime: each call blocks its thread until it is done.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use pilotlight_redis::{Commands, Event, Script, blocking};
//!
//! # fn main() -> Result<(), pilotlight_redis::Error> {
//! let client = blocking::Client::connect("redis://localhost")?;
//! client.set("name", "Ada")?;
//! let name = client.read_as::<Option<String>>().get("name")?;
//! client.timeout(Duration::from_millis(50)).incr("visits")?;
//!
//! let mut pipeline = client.pipeline();
//! let visits = pipeline.incr("visits");
//! let visits = pipeline.run()?.take(visits)?;
//!
//! for keys in client.scan().with(|scan| scan.pattern("user:*")) {
//!     println!("{} keys", keys?.len());
//! }
//! for event in client.subscribe("news")? {
//!     let Event::Message(message) = event else { continue };
//!     println!("{:?}", message.payload);
//! }
//! # Ok(()) }
//! ```
//!
//! What the [asynchronous client](crate::Client) gives is here a [`Blocking`] of the same: it has the methods that do
//! not wait, and those that wait in a form that blocks. Anything else is [waited for](Client::wait).
//!
//! The connections live on one thread of the client's own, which threads that call share. A caller that is alone writes
//! its command by itself, and is woken by that thread when the reply is there.

mod calls;
mod made;
mod worker;

use std::future::IntoFuture;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWrite;

use crate::client::cached::{CacheConfig, Cached};
use crate::client::dedicated::Dedicated;
use crate::client::handle::Client as AsyncClient;
use crate::client::monitor::Monitor;
use crate::client::pipeline::Pipeline;
use crate::client::raw::NodeStream;
use crate::client::scan::{MemberScan, Scan};
use crate::client::script::{Invocation, Script};
use crate::client::subscription::Subscription;
use crate::client::transaction::Transaction;
use crate::command::{Args, Command};
use crate::commands::Commands;
use crate::config::Config;
use crate::engine::route::{NodeReply, Route};
use crate::error::Error;
use crate::reply::FromReply;
use crate::stats::Stats;
pub use calls::{Calls, CallsAs};
pub use made::Blocking;
use worker::Worker;

/// See the module. Cloning it is cheap; clones share all connections. They are closed with the last clone.
///
/// Its methods block: on a thread of an asynchronous runtime they hold up all its tasks.
///
/// ```no_run
/// use pilotlight_redis::{Commands, Error, blocking};
///
/// # fn example() -> Result<(), Error> {
/// let client = blocking::Client::connect("redis://localhost")?;
/// let workers: Vec<_> = (0..4)
///     .map(|_| {
///         let client = client.clone();
///         std::thread::spawn(move || client.incr("visits"))
///     })
///     .collect();
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    // In this order: the connections are given up before their runtime is.
    client: AsyncClient,
    worker: Arc<Worker>,
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
    pub fn wait<F: IntoFuture>(&self, future: F) -> F::Output {
        self.worker.wait(future.into_future())
    }

    /// Something made by the asynchronous client, to be waited for.
    pub fn wrap<T>(&self, made: T) -> Blocking<T> {
        Blocking::new(made, &self.worker)
    }

    fn wrapped<T>(&self, made: impl Future<Output = Result<T, Error>>) -> Result<Blocking<T>, Error> {
        self.wait(made).map(|made| self.wrap(made))
    }

    fn calls(&self) -> Calls<'_> {
        Calls::new(&self.client, &self.worker)
    }

    /// Calls with a deadline of their own ([`Call::timeout`](crate::Call::timeout)).
    pub fn timeout(&self, timeout: Duration) -> Calls<'_> {
        self.calls().timeout(timeout)
    }

    /// Calls that may be sent again although they may have run ([`Call::retryable`](crate::Call::retryable)).
    pub fn retryable(&self) -> Calls<'_> {
        self.calls().retryable()
    }

    /// Calls to a certain node ([`Call::on`](crate::Call::on)).
    pub fn on(&self, route: Route) -> Calls<'_> {
        self.calls().on(route)
    }

    /// Calls whose replies are read as `T` ([`Call::read_as`](crate::Call::read_as)).
    pub fn read_as<T: FromReply>(&self) -> CallsAs<'_, T> {
        self.calls().read_as()
    }

    /// As [`Client::pipeline`](crate::Client::pipeline).
    pub fn pipeline(&self) -> Blocking<Pipeline<'_>> {
        self.wrap(self.client.pipeline())
    }

    /// As [`Client::transaction`](crate::Client::transaction).
    pub fn transaction(&self) -> Blocking<Transaction<'_>> {
        self.wrap(self.client.transaction())
    }

    /// As [`Client::watch`](crate::Client::watch).
    ///
    /// # Errors
    /// Those of `attempt`; [`Aborted::Changed`](crate::Aborted::Changed) after the last one.
    pub fn watch<'k, T>(
        &self,
        keys: impl Args<'k>,
        mut attempt: impl FnMut(&mut Blocking<&mut Dedicated>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let attempt = async |connection: &mut Dedicated| attempt(&mut Blocking::new(connection, &self.worker));
        self.wait(self.client.watch(keys, attempt))
    }

    /// A script, to be run ([`Script::run`]).
    pub fn script<'a, T: FromReply>(&'a self, script: &'a Script) -> Blocking<Invocation<'a, T>> {
        self.wrap(script.run(&self.client))
    }

    /// As [`Script::load`].
    ///
    /// # Errors
    /// A node cannot be reached, or the source is wrong.
    pub fn load(&self, script: &Script) -> Result<(), Error> {
        self.wait(script.load(&self.client))
    }

    /// As [`Client::dedicated`](crate::Client::dedicated).
    ///
    /// # Errors
    /// There is no connection in time.
    pub fn dedicated(&self) -> Result<Blocking<Dedicated>, Error> {
        self.wrapped(self.client.dedicated())
    }

    /// As [`Client::dedicated_on`](crate::Client::dedicated_on).
    ///
    /// # Errors
    /// There is no connection in time, or `route` is more than one node.
    pub fn dedicated_on(&self, route: Route) -> Result<Blocking<Dedicated>, Error> {
        self.wrapped(self.client.dedicated_on(route))
    }

    /// As [`Client::scan`](crate::Client::scan): pages of keys.
    pub fn scan(&self) -> Blocking<Scan> {
        self.wrap(self.client.scan())
    }

    /// As [`Client::scan_hash`](crate::Client::scan_hash).
    pub fn scan_hash(&self, key: impl Into<Bytes>) -> Blocking<MemberScan<(Bytes, Bytes)>> {
        self.wrap(self.client.scan_hash(key))
    }

    /// As [`Client::scan_set`](crate::Client::scan_set).
    pub fn scan_set(&self, key: impl Into<Bytes>) -> Blocking<MemberScan<Bytes>> {
        self.wrap(self.client.scan_set(key))
    }

    /// As [`Client::scan_sorted_set`](crate::Client::scan_sorted_set).
    pub fn scan_sorted_set(&self, key: impl Into<Bytes>) -> Blocking<MemberScan<(Bytes, f64)>> {
        self.wrap(self.client.scan_sorted_set(key))
    }

    /// As [`Client::subscribe`](crate::Client::subscribe).
    ///
    /// # Errors
    /// No server confirms it in time.
    pub fn subscribe<'a>(&self, channels: impl Args<'a>) -> Result<Blocking<Subscription>, Error> {
        self.wrapped(self.client.subscribe(channels))
    }

    /// As [`Client::psubscribe`](crate::Client::psubscribe).
    ///
    /// # Errors
    /// No server confirms it in time.
    pub fn psubscribe<'a>(&self, patterns: impl Args<'a>) -> Result<Blocking<Subscription>, Error> {
        self.wrapped(self.client.psubscribe(patterns))
    }

    /// As [`Client::ssubscribe`](crate::Client::ssubscribe).
    ///
    /// # Errors
    /// No server confirms it in time.
    pub fn ssubscribe<'a>(&self, channels: impl Args<'a>) -> Result<Blocking<Subscription>, Error> {
        self.wrapped(self.client.ssubscribe(channels))
    }

    /// As [`Client::cached`](crate::Client::cached).
    ///
    /// # Errors
    /// The configuration makes no sense, or this client speaks RESP2 only.
    pub fn cached(&self, config: CacheConfig) -> Result<Blocking<Cached>, Error> {
        self.client.cached(config).map(|cached| self.wrap(cached))
    }

    /// As [`Client::on_all`](crate::Client::on_all).
    ///
    /// # Errors
    /// No node is known in time, or the command cannot be sent on shared connections.
    pub fn on_all(&self, route: Route, command: Command<'_>) -> Result<Vec<NodeReply>, Error> {
        self.wait(self.client.on_all(route, command))
    }

    /// As [`Client::copy`](crate::Client::copy), to a writer that blocks.
    ///
    /// # Errors
    /// As any command; the writer fails, or the reply is no string.
    pub fn copy<W: io::Write + Unpin + Send>(
        &self,
        command: Command<'_>,
        writer: &mut W,
    ) -> Result<Option<u64>, Error> {
        self.wait(self.client.copy(command, &mut Writer(writer)))
    }

    /// As [`Client::monitor`](crate::Client::monitor).
    ///
    /// # Errors
    /// There is no connection in time, or the server refuses it.
    pub fn monitor(&self, route: Route) -> Result<Blocking<Monitor>, Error> {
        self.wrapped(self.client.monitor(route))
    }

    /// As [`Client::stream`](crate::Client::stream): a connection to read from and write to.
    ///
    /// # Errors
    /// There is no connection in time.
    pub fn stream(&self, route: Route) -> Result<Blocking<NodeStream>, Error> {
        self.wrapped(self.client.stream(route))
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

/// A writer that blocks, on a thread that may.
struct Writer<W>(W);

impl<W: io::Write + Unpin> AsyncWrite for Writer<W> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
