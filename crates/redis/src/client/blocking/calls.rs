//! Calls with other options than a client's.

use std::marker::PhantomData;
use std::time::Duration;

use super::worker::Worker;
use crate::client::call::Call;
use crate::client::handle::Client;
use crate::command::Command;
use crate::commands::Commands;
use crate::engine::route::Route;
use crate::error::Error;
use crate::reply::FromReply;

/// Calls with options: those of [`blocking::Client`](super::Client), and these.
///
/// ```no_run
/// use std::time::Duration;
///
/// use pilotlight_redis::{Commands, Error, blocking};
///
/// # fn example(client: &blocking::Client) -> Result<(), Error> {
/// client.timeout(Duration::from_millis(50)).incr("visits")?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "options are for a command"]
pub struct Calls<'a> {
    client: &'a Client,
    worker: &'a Worker,
    timeout: Option<Duration>,
    is_retryable: bool,
    route: Option<Route>,
}

/// The same, with replies that are read as `R`.
#[derive(Debug, Clone)]
#[must_use = "options are for a command"]
pub struct CallsAs<'a, R> {
    calls: Calls<'a>,
    reply: PhantomData<fn() -> R>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(client: &'a Client, worker: &'a Worker) -> Self {
        Self { client, worker, timeout: None, is_retryable: false, route: None }
    }

    /// As [`Call::timeout`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// As [`Call::retryable`].
    pub fn retryable(mut self) -> Self {
        self.is_retryable = true;
        self
    }

    /// As [`Call::on`].
    pub fn on(mut self, route: Route) -> Self {
        self.route = Some(route);
        self
    }

    /// As [`Call::read_as`].
    pub fn read_as<R: FromReply>(self) -> CallsAs<'a, R> {
        CallsAs { calls: self, reply: PhantomData }
    }

    fn call<T: FromReply>(self, command: Command<'a>) -> Result<T, Error> {
        let mut call: Call<'a, T> = self.client.run(command);
        if let Some(timeout) = self.timeout {
            call = call.timeout(timeout);
        }
        if self.is_retryable {
            call = call.retryable();
        }
        if let Some(route) = self.route {
            call = call.on(route);
        }
        self.worker.wait(call)
    }
}

impl<'a> Commands<'a> for Calls<'a> {
    type Out<T: FromReply> = Result<T, Error>;

    fn run<T: FromReply>(self, command: Command<'a>) -> Result<T, Error> {
        self.call(command)
    }
}

impl<'a, R: FromReply> Commands<'a> for CallsAs<'a, R> {
    type Out<T: FromReply> = Result<R, Error>;

    fn run<T: FromReply>(self, command: Command<'a>) -> Result<R, Error> {
        self.calls.call(command)
    }
}
