//! Lua scripts: by their name where the server knows them, else with their source.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::client::handle::Client;
use crate::command::{Arg, Args, Command, CommandSpec};
use crate::commands::{Commands, spec};
use crate::config::ReadFrom;
use crate::engine::route::Route;
use crate::error::table::About;
use crate::error::{Error, Ran};
use crate::reply::{FromReply, Value};

/// A Lua script and its name, the SHA-1 of its source.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error, Script};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let add = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
/// let sum: i64 = add.run(client).key("k").arg(2).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Script {
    source: Bytes,
    sha1: Bytes,
    access: Access,
    is_loaded: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Write,
    /// `EVALSHA_RO` (Redis 7): replicas may run it.
    Read,
}

/// One run of a script on a client, to be awaited.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error, Script};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// # let script = Script::new("return 1");
/// let one: i64 = script.run(client).key("k").arg([1, 2]).timeout(std::time::Duration::from_secs(1)).await?;
/// # Ok(()) }
/// ```
#[must_use = "a script is run when it is awaited"]
pub struct Invocation<'a, T> {
    client: &'a Client,
    call: ScriptCommand<'a>,
    timeout: Option<Duration>,
    reply: PhantomData<fn() -> T>,
}

/// A script with its keys and arguments.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Error, Script};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// # let script = Script::new("return 1");
/// let mut pipeline = client.pipeline();
/// let one = pipeline.queue::<i64>(script.command().key("k").arg(2).build());
/// let one = pipeline.run().await?.take(one)?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it is only a description of a command"]
pub struct ScriptCommand<'a> {
    script: &'a Script,
    keys: Vec<Arg<'a>>,
    args: Vec<Arg<'a>>,
}

impl Script {
    /// A script that may write.
    #[must_use]
    pub fn new(source: impl Into<Bytes>) -> Self {
        Self::with_access(source.into(), Access::Write)
    }

    /// A script that only reads; the server holds it to that. Needs Redis 7. It may run on a replica, as
    /// [`read_from`](crate::Config::read_from) says, and is repeated where a reply was lost.
    #[must_use]
    pub fn read_only(source: impl Into<Bytes>) -> Self {
        Self::with_access(source.into(), Access::Read)
    }

    fn with_access(source: Bytes, access: Access) -> Self {
        let sha1 = Bytes::from(sha1_smol::Sha1::from(&source).digest().to_string());
        Self { source, sha1, access, is_loaded: AtomicBool::new(false) }
    }

    /// The name: 40 hexadecimal digits.
    #[must_use]
    pub fn sha1(&self) -> &str {
        std::str::from_utf8(&self.sha1).unwrap_or_default()
    }

    /// Runs it by its name, and with its source if the server does not know it.
    pub fn run<'a, T: FromReply>(&'a self, client: &'a Client) -> Invocation<'a, T> {
        Invocation { client, call: self.command(), timeout: None, reply: PhantomData }
    }

    /// The script as a command to [queue](crate::Pipeline::queue) in a pipeline or
    /// [transaction](crate::Transaction::queue); see [`ScriptCommand::build`].
    pub fn command(&self) -> ScriptCommand<'_> {
        ScriptCommand { script: self, keys: Vec::new(), args: Vec::new() }
    }

    /// Gives the script to all primaries, and to replicas if they are read from.
    ///
    /// # Errors
    /// A node cannot be reached, or the source is wrong.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the script loaded at some nodes.
    pub async fn load(&self, client: &Client) -> Result<(), Error> {
        let call = client.run::<Value>(Command::new(&spec::SCRIPT_LOAD).arg(&self.source));
        match client.core().config().read_from {
            ReadFrom::Primary => call.on(Route::AllPrimaries).await?,
            _ => call.await?,
        };
        self.is_loaded.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn by_name(&self) -> &'static CommandSpec {
        match self.access {
            Access::Write => &spec::EVALSHA,
            Access::Read => &spec::EVALSHA_RO,
        }
    }

    fn with_source(&self) -> &'static CommandSpec {
        match self.access {
            Access::Write => &spec::EVAL,
            Access::Read => &spec::EVAL_RO,
        }
    }
}

impl<'a> ScriptCommand<'a> {
    /// Adds a key. In a cluster all must be in one slot.
    pub fn key(mut self, key: impl Into<Arg<'a>>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Adds one or many arguments.
    pub fn arg(mut self, args: impl Args<'a>) -> Self {
        args.each(&mut |arg| self.args.push(arg));
        self
    }

    /// The command: with the script's source, or by its name once it was [loaded](Script::load). A server that has
    /// forgotten it since (restarted, `SCRIPT FLUSH`) answers `NOSCRIPT`.
    #[must_use]
    pub fn build(self) -> Command<'a> {
        if self.script.is_loaded.load(Ordering::Relaxed) { self.by_name() } else { self.with_source() }
    }

    fn by_name(&self) -> Command<'a> {
        self.command(self.script.by_name(), &self.script.sha1)
    }

    fn with_source(&self) -> Command<'a> {
        self.command(self.script.with_source(), &self.script.source)
    }

    fn command(&self, spec: &'static CommandSpec, script: &Bytes) -> Command<'a> {
        Command::new(spec).arg(script.clone()).counted(self.keys.clone()).args(self.args.clone())
    }
}

impl<'a, T: FromReply> Invocation<'a, T> {
    /// Adds a key. In a cluster all must be in one slot.
    pub fn key(mut self, key: impl Into<Arg<'a>>) -> Self {
        self.call = self.call.key(key);
        self
    }

    /// Adds one or many arguments.
    pub fn arg(mut self, args: impl Args<'a>) -> Self {
        self.call = self.call.arg(args);
        self
    }

    /// Another deadline for each of its one or two commands.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<T, Error> {
        let send = |command: Command<'a>| {
            let call = self.client.run::<Value>(command);
            match self.timeout {
                Some(timeout) => call.timeout(timeout),
                None => call,
            }
        };
        let by_name = send(self.call.by_name()).await;
        // Not an answer of the script, which may have any code.
        let is_unknown =
            |error: &Error| error.server().is_some_and(|server| error.judge(server).about == About::UnknownScript);
        let value = match by_name {
            Err(error) if is_unknown(&error) => send(self.call.with_source()).await?,
            done => done?,
        };
        T::from_reply(value).map_err(|error| Error::new(error, Ran::Executed, self.call.script.by_name().name))
    }
}

impl<'a, T: FromReply + 'a> IntoFuture for Invocation<'a, T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_hash_of_the_source() {
        assert_eq!(Script::new("return 1").sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }

    #[test]
    fn a_command_has_its_source_until_it_is_loaded() {
        let script = Script::read_only("return 1");
        let build = || script.command().key("k").arg(["a", "b"]).build();
        let text = |command: &Command<'_>| -> Vec<String> {
            command.arguments().iter().map(|arg| String::from_utf8_lossy(&arg.to_bytes()).into_owned()).collect()
        };
        assert_eq!(
            (build().name(), text(&build())),
            ("EVAL_RO", ["return 1", "1", "k", "a", "b"].map(str::to_owned).to_vec())
        );
        script.is_loaded.store(true, Ordering::Relaxed);
        assert_eq!((build().name(), &*text(&build())[0]), ("EVALSHA_RO", script.sha1()));
    }
}
