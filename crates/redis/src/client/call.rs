//! A command on its way: routed, submitted, awaited. What is out of the ordinary goes on in [`crate::engine::retry`].

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tracing::Instrument;

use crate::client::handle::Client;
use crate::client::observed::{Observed, Subject};
use crate::client::span;
use crate::command::Command;
use crate::commands::Commands;
use crate::engine::flight::Flight;
use crate::engine::options::CallOptions;
use crate::engine::request::Payload;
use crate::engine::retry::{self, Failure};
use crate::engine::route::Route;
use crate::engine::routing;
use crate::engine::submission::Outcome;
use crate::error::{Error, Ran};
use crate::reply::{FromReply, Spare, Value};

/// The future of a command's reply. Nothing is sent before it is first polled.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error, Route};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// use std::time::Duration;
///
/// let visits: u64 = client.incr("visits").read_as().timeout(Duration::from_millis(200)).retryable().await?;
/// let name = client.get("name").on(Route::replica_of("name")).await?;
/// # Ok(()) }
/// ```
///
/// # Cancel safety
/// Dropping it before the command was written means that it is never sent; later, that its reply is discarded. No other
/// command is affected.
#[must_use = "a command is sent when it is awaited"]
pub struct Call<'a, T> {
    client: &'a Client,
    command: Command<'a>,
    options: CallOptions,
    route: Option<Box<Route>>,
    stage: Stage<'a>,
    observed: Option<Box<Observed>>,
    reply: PhantomData<fn() -> T>,
}

enum Stage<'a> {
    New,
    Sent(Flight),
    /// With the command's name: the command itself has gone with the future.
    Slow(&'static str, Pin<Box<dyn Future<Output = Result<Value, Error>> + Send + 'a>>),
    Done,
}

impl<'a, T: FromReply> Call<'a, T> {
    #[inline]
    pub(crate) fn new(client: &'a Client, command: Command<'a>) -> Self {
        let options = CallOptions::by(client.core().config());
        Self { client, command, options, route: None, stage: Stage::New, observed: None, reply: PhantomData }
    }

    /// The same command with its reply read as another type.
    pub fn read_as<U: FromReply>(self) -> Call<'a, U> {
        let Self { client, command, options, route, stage, observed, .. } = self;
        Call { client, command, options, route, stage, observed, reply: PhantomData }
    }

    /// The same command with another deadline, counted from its first poll; the default is
    /// [`command_timeout`](crate::Config::command_timeout), of a blocking command that and its own time-out together.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self.options.is_chosen = true;
        self
    }

    /// The same command, sent elsewhere.
    pub fn on(mut self, route: Route) -> Self {
        self.route = Some(Box::new(route));
        self
    }

    /// Allows the command to be sent again although it may have been executed already: for commands that may run twice
    /// without harm. Commands that only read always are.
    pub fn retryable(mut self) -> Self {
        self.options.is_retryable = true;
        self
    }

    fn begin(&mut self, waker: &Waker) -> Stage<'a> {
        if self.client.core().config().observer.is_some() {
            self.observe();
        }
        if span::is_traced() {
            return self.traced();
        }
        let core = self.client.core();
        let slot = match routing::short_way(core, &self.command) {
            Ok(slot) if self.route.is_none() && !core.config().verify_replies => slot,
            _ => return self.special(),
        };
        match core.lane_of(self.command.spec(), slot) {
            Ok(lane) => match Flight::begin(
                core.fitting(lane, Payload::Command(&self.command)),
                &self.command,
                self.options.timeout,
                waker,
            ) {
                Ok(flight) => Stage::Sent(flight),
                Err((lane, refused)) => self.slow(Failure::Refused(lane, Arc::new(refused)), Instant::now()),
            },
            Err(error) => self.slow(Failure::NoRoute(error), Instant::now()),
        }
    }

    /// By a route of its own, or to several nodes.
    #[cold]
    fn special(&mut self) -> Stage<'a> {
        let (client, options, route) = (self.client, self.options, self.route.take());
        let (name, command) = (self.command.name(), self.take_command());
        let special = async move { routing::run(client.core(), &command, route.as_deref(), options).await };
        self.by_slow_way(name, special)
    }

    /// Somebody is to be told how it ends.
    #[cold]
    fn observe(&mut self) {
        let core = self.client.core();
        let Self { command, route, .. } = self;
        self.observed = Observed::begin(core.config(), || Subject {
            name: command.name().into(),
            slot: command.slot(),
            node: if route.is_none() { core.lane_for(command).ok().map(|lane| lane.node()) } else { None },
            batch_size: None,
        });
    }

    /// Tells how it ended.
    #[inline]
    fn ended(&mut self, result: Result<T, Error>) -> Poll<Result<T, Error>> {
        if let Some(observed) = self.observed.take() {
            observed.end(self.client.core().config(), result.as_ref().err());
        }
        Poll::Ready(result)
    }

    /// The same within a span: by the slow way, as somebody listens.
    #[cold]
    fn traced(&mut self) -> Stage<'a> {
        let (client, options, name) = (self.client, self.options, self.command.name());
        let route = self.route.take();
        let command = self.take_command();
        let span = span::span(client.core(), &command);
        let own = span.clone();
        let run = async move {
            let result = routing::run(client.core(), &command, route.as_deref(), options).await;
            span::finish(&own, &result);
            result
        };
        self.by_slow_way(name, run.instrument(span))
    }

    fn by_slow_way(
        &self,
        name: &'static str,
        way: impl Future<Output = Result<Value, Error>> + Send + 'a,
    ) -> Stage<'a> {
        Stage::Slow(
            name,
            match &self.observed {
                Some(observed) => Box::pin(observed.trail().follow(way)),
                None => Box::pin(way),
            },
        )
    }

    #[cold]
    fn slow(&mut self, failure: Failure, since: Instant) -> Stage<'a> {
        let (core, options, name, command) =
            (self.client.core(), self.options, self.command.name(), self.take_command());
        let follow =
            async move { retry::follow(core, &Payload::Command(&command).usual(), options, failure, since).await };
        self.by_slow_way(name, follow)
    }

    fn take_command(&mut self) -> Command<'a> {
        let name_only = Command::new(self.command.spec());
        std::mem::replace(&mut self.command, name_only)
    }
}

impl<T: FromReply> Future for Call<'_, T> {
    type Output = Result<T, Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            match &mut this.stage {
                Stage::New => {
                    this.stage = this.begin(cx.waker());
                    if matches!(this.stage, Stage::Sent(_)) {
                        // The lane has the waker.
                        return Poll::Pending;
                    }
                }
                Stage::Sent(flight) => {
                    let Some((outcome, since)) = flight.poll(cx.waker()) else {
                        if !this.client.core().may_leave_replica(this.command.spec()) {
                            return Poll::Pending;
                        }
                        let Some(since) = flight.leave_silent_replica() else { return Poll::Pending };
                        let lane = Arc::clone(flight.lane());
                        this.stage = this.slow(Failure::silent_replica(lane), since);
                        continue;
                    };
                    match outcome {
                        Outcome::One(value) if !matches!(value, Value::Error(_) | Value::Skipped(_)) => {
                            this.client.core().note_reply(&this.command, &value);
                            let at_node =
                                |error| Error::new(error, Ran::Executed, this.command.name()).at(flight.lane().node());
                            let mut spare = Spare::default();
                            let result = T::from_reply_and_spare(value, &mut spare).map_err(at_node);
                            if !spare.is_empty() {
                                flight.lane().keep(spare);
                            }
                            this.stage = Stage::Done;
                            return this.ended(result);
                        }
                        other => {
                            let lane = Arc::clone(flight.lane());
                            this.stage = this.slow(Failure::Outcome(lane, other), since);
                        }
                    }
                }
                Stage::Slow(name, future) => {
                    let Poll::Ready(result) = future.as_mut().poll(cx) else { return Poll::Pending };
                    let name = *name;
                    this.stage = Stage::Done;
                    let read = |value| T::from_reply(value).map_err(|error| Error::new(error, Ran::Executed, name));
                    return this.ended(result.and_then(read));
                }
                Stage::Done => {
                    return Poll::Ready(Err(Error::new(
                        crate::error::ErrorKind::Closed,
                        Ran::Executed,
                        "polled after completion",
                    )));
                }
            }
        }
    }
}

impl<'a> Commands<'a> for &'a Client {
    type Out<T: FromReply> = Call<'a, T>;

    #[inline]
    fn run<T: FromReply>(self, command: Command<'a>) -> Call<'a, T> {
        Call::new(self, command.resolved())
    }
}
