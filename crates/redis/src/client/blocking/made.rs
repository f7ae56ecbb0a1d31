//! What a client makes, in a form that blocks.

use std::borrow::BorrowMut;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::worker::Worker;
use crate::client::cached::Cached;
use crate::client::dedicated::Dedicated;
use crate::client::monitor::Monitor;
use crate::client::pipeline::Pipeline;
use crate::client::raw::{Encoded, NodeStream, RawClient, RawConnection, RawReply};
use crate::client::replies::Replies;
use crate::client::scan::{MemberScan, Scan};
use crate::client::script::Invocation;
use crate::client::subscription::Subscription;
use crate::client::transaction::Transaction;
use crate::command::{Arg, Args, Command};
use crate::commands::Commands;
use crate::config::Config;
use crate::engine::pubsub::Event;
use crate::engine::route::Route;
use crate::error::Error;
use crate::proto::monitored::Monitored;
use crate::reply::FromReply;

/// What the asynchronous client makes, waited for on the calling thread. It has the methods of the same that do not
/// wait, and those here, which block.
///
/// ```no_run
/// use pilotlight_redis::{Commands, Error, blocking};
///
/// # fn example(client: &blocking::Client) -> Result<(), Error> {
/// let mut pipeline = client.pipeline();
/// let (visits, name) = (pipeline.incr("visits"), pipeline.get("name"));
/// let mut replies = pipeline.run()?;
/// println!("{} {:?}", replies.take(visits)?, replies.take(name)?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is sent by it alone"]
pub struct Blocking<T> {
    // In this order: it is given up before the runtime of its connections is.
    made: T,
    worker: Arc<Worker>,
}

impl<T> Blocking<T> {
    pub(super) fn new(made: T, worker: &Arc<Worker>) -> Self {
        Self { made, worker: Arc::clone(worker) }
    }

    /// The same with options of the asynchronous form: `client.scan().with(|scan| scan.pattern("user:*").count(1000))`.
    pub fn with<U>(self, change: impl FnOnce(T) -> U) -> Blocking<U> {
        Blocking { made: change(self.made), worker: self.worker }
    }
}

impl<T> Deref for Blocking<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.made
    }
}

impl<T> DerefMut for Blocking<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.made
    }
}

impl Blocking<Pipeline<'_>> {
    /// As [`Pipeline::run`].
    ///
    /// # Errors
    /// The pipeline cannot be run at all: it is larger than a lane's byte budget.
    pub fn run(self) -> Result<Replies, Error> {
        self.worker.wait(self.made.run())
    }
}

impl Blocking<Transaction<'_>> {
    /// As [`Transaction::run`].
    ///
    /// # Errors
    /// Nothing was run, or the connection was lost: [`Error::ran`] says whether it may have been run.
    pub fn run(self) -> Result<Replies, Error> {
        self.worker.wait(self.made.run())
    }
}

impl<'a, T: FromReply + 'a> Blocking<Invocation<'a, T>> {
    /// Adds a key. In a cluster all must be in one slot.
    pub fn key(self, key: impl Into<Arg<'a>>) -> Self {
        self.with(|call| call.key(key))
    }

    /// Adds one or many arguments.
    pub fn arg(self, args: impl Args<'a>) -> Self {
        self.with(|call| call.arg(args))
    }

    /// Runs the script by its name, and with its source if the server does not know it.
    ///
    /// # Errors
    /// As any command.
    pub fn run(self) -> Result<T, Error> {
        self.worker.wait(self.made.into_future())
    }
}

/// Each method sends its command and waits for the reply.
impl<'d, D: BorrowMut<Dedicated>> Commands<'d> for &'d mut Blocking<D> {
    type Out<T: FromReply> = Result<T, Error>;

    fn run<T: FromReply>(self, command: Command<'d>) -> Result<T, Error> {
        let worker = Arc::clone(&self.worker);
        worker.wait(self.made.borrow_mut().run(command))
    }
}

impl<D: BorrowMut<Dedicated>> Blocking<D> {
    /// As [`Dedicated::transaction`].
    pub fn transaction(&mut self) -> Blocking<Transaction<'_>> {
        Blocking::new(self.made.borrow_mut().transaction(), &self.worker)
    }

    /// As [`Dedicated::watch`].
    ///
    /// # Errors
    /// As any command.
    pub fn watch<'d>(&'d mut self, keys: impl Args<'d>) -> Result<(), Error> {
        self.worker.wait(self.made.borrow_mut().watch(keys))
    }

    /// As [`Dedicated::unwatch`].
    ///
    /// # Errors
    /// As any command.
    pub fn unwatch(&mut self) -> Result<(), Error> {
        self.worker.wait(self.made.borrow_mut().unwatch())
    }
}

/// Each method looks into the cache, or sends its command and waits for the reply.
impl<'a> Commands<'a> for &'a Blocking<Cached> {
    type Out<T: FromReply> = Result<T, Error>;

    fn run<T: FromReply>(self, command: Command<'a>) -> Result<T, Error> {
        self.worker.wait((&self.made).run(command))
    }
}

impl Blocking<Cached> {
    /// As [`Cached::close`].
    pub fn close(&self, patience: Duration) {
        self.worker.wait(self.made.close(patience));
    }
}

/// Pages of keys, as [`Scan::next`] gives them.
impl Iterator for Blocking<Scan> {
    type Item = Result<Vec<Bytes>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.worker.wait(self.made.next())
    }
}

/// Pages of members, as [`MemberScan::next`] gives them.
impl<T: FromReply + Send + 'static> Iterator for Blocking<MemberScan<T>> {
    type Item = Result<Vec<T>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.worker.wait(self.made.next())
    }
}

/// Events, as [`Subscription::next`] gives them.
impl Iterator for Blocking<Subscription> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.worker.wait(self.made.next())
    }
}

impl Blocking<Subscription> {
    /// The next event, if it comes within `patience`; [`Poll::Pending`]: none came.
    pub fn next_within(&mut self, patience: Duration) -> Poll<Option<Event>> {
        let next = async { tokio::time::timeout(patience, self.made.next()).await };
        self.worker.wait(next).map_or(Poll::Pending, Poll::Ready)
    }

    /// As [`Subscription::add`].
    ///
    /// # Errors
    /// No server confirms it in time.
    pub fn add<'a>(&mut self, channels: impl Args<'a>) -> Result<(), Error> {
        self.worker.wait(self.made.add(channels))
    }
}

/// Commands that the server runs, as [`Monitor::next`] gives them.
impl Iterator for Blocking<Monitor> {
    type Item = Result<Monitored, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.worker.wait(self.made.next())
    }
}

impl io::Read for Blocking<NodeStream> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.worker.wait(self.made.read(bytes))
    }
}

impl io::Write for Blocking<NodeStream> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.worker.wait(self.made.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.worker.wait(self.made.flush())
    }
}

impl Blocking<RawClient> {
    /// As [`RawClient::new`], on a thread of its own.
    ///
    /// # Errors
    /// The configuration makes no sense, or the system gives no thread.
    pub fn raw(config: Config) -> Result<Self, Error> {
        Ok(Self { made: RawClient::new(config)?, worker: Arc::new(Worker::start()?) })
    }

    /// As [`RawClient::batch`].
    #[must_use]
    pub fn batch(&self, commands: &[Encoded<'_>]) -> Vec<Result<Bytes, Error>> {
        self.worker.wait(self.made.batch(commands))
    }

    /// As [`RawClient::run`].
    ///
    /// # Errors
    /// As any command.
    pub fn run<'a>(&'a self, command: Command<'a>, route: Option<Route>) -> Result<Bytes, Error> {
        self.worker.wait(self.made.run(command, route))
    }

    /// As [`RawClient::dedicated`].
    ///
    /// # Errors
    /// There is no connection in time.
    pub fn dedicated(&self, route: Route) -> Result<Blocking<RawConnection>, Error> {
        let connection = self.worker.wait(self.made.dedicated(route))?;
        Ok(Blocking::new(connection, &self.worker))
    }

    /// As [`RawClient::close`].
    pub fn close(&self, patience: Duration) {
        self.worker.wait(self.made.close(patience));
    }
}

impl Blocking<RawConnection> {
    /// As [`RawConnection::exchange`].
    ///
    /// # Errors
    /// The connection was lost, or its deadline passed.
    pub fn exchange(
        &mut self,
        commands: &[u8],
        replies: u32,
        timeout: Option<Duration>,
    ) -> Result<Vec<RawReply>, Error> {
        self.worker.wait(self.made.exchange(commands, replies, timeout))
    }
}
