//! The future of a reply that may be kept already.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::cache::Cache;
use super::cacheable::{Way, way};
use super::store;
use crate::command::{Command, UNKNOWN};
use crate::error::{Error, ErrorKind, Ran};
use crate::reply::{FromReply, Value};

/// The future of a reply of a cache. Nothing is looked up or sent before it is first polled; a hit is ready at once.
///
/// ```no_run
/// # use pilotlight_redis::{Cached, Commands, Error};
/// # async fn example(cached: &Cached) -> Result<(), Error> {
/// let name: Option<String> = cached.get("user:1:name").read_as().await?;
/// # Ok(()) }
/// ```
///
/// # Cancel safety
/// Dropping it gives up waiting. If it was the one that asked and others wait for the same reply, one of them asks
/// again.
#[must_use = "a command is run when it is awaited"]
pub struct CachedCall<'a, T> {
    cache: &'a Cache,
    command: Command<'a>,
    /// The command's, which leaves with it.
    name: &'static str,
    stage: Stage<'a>,
    reply: PhantomData<fn() -> T>,
}

enum Stage<'a> {
    New,
    Missed(Pin<Box<dyn Future<Output = Result<Value, Error>> + Send + 'a>>),
    Done,
}

impl<'a, T: FromReply> CachedCall<'a, T> {
    pub(super) fn new(cache: &'a Cache, command: Command<'a>) -> Self {
        Self { cache, name: command.name(), command, stage: Stage::New, reply: PhantomData }
    }

    /// The same command with its reply read as another type.
    pub fn read_as<U: FromReply>(self) -> CachedCall<'a, U> {
        let Self { cache, command, name, stage, .. } = self;
        CachedCall { cache, command, name, stage, reply: PhantomData }
    }

    fn begin(&mut self) -> Result<Stage<'a>, Result<Value, Error>> {
        let cache = self.cache;
        let key = match way(&self.command) {
            Way::Cached(key) => key,
            Way::Through => return Ok(Stage::Missed(Box::pin(cache.pass(self.take_command())))),
            Way::Refused(misuse) => return Err(Err(Error::new(misuse, Ran::NotSent, self.command.name()))),
        };
        if !cache.covers(key) {
            return Ok(Stage::Missed(Box::pin(cache.pass(self.take_command()))));
        }
        let name = store::name(&self.command);
        if let Some(value) = cache.look_up(&name) {
            return Err(Ok(value));
        }
        Ok(Stage::Missed(Box::pin(cache.miss(self.take_command(), name))))
    }

    fn take_command(&mut self) -> Command<'a> {
        std::mem::replace(&mut self.command, Command::new(&UNKNOWN))
    }
}

impl<T: FromReply> Future for CachedCall<'_, T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let name = this.name;
        loop {
            let result = match &mut this.stage {
                Stage::New => match this.begin() {
                    Ok(missed) => {
                        this.stage = missed;
                        continue;
                    }
                    Err(result) => result,
                },
                Stage::Missed(future) => match future.as_mut().poll(cx) {
                    Poll::Ready(result) => result,
                    Poll::Pending => return Poll::Pending,
                },
                Stage::Done => Err(Error::new(ErrorKind::Closed, Ran::Executed, "polled after completion")),
            };
            this.stage = Stage::Done;
            return Poll::Ready(
                result.and_then(|value| T::from_reply(value).map_err(|error| Error::new(error, Ran::Executed, name))),
            );
        }
    }
}
