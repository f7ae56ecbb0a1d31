//! The replies of a pipeline or transaction, and the handles by which they are taken.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Misuse, Ran};
use crate::reply::{FromReply, Value};

/// Tells pipelines and transactions of this process apart, so that no handle is taken for another one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PipelineId(u64);

/// The place of one reply of type `T` in a pipeline's [`Replies`].
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut pipeline = client.pipeline();
/// let name = pipeline.get("name").read_as::<Option<String>>();
/// let name = pipeline.run().await?.take(name)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Queued<T> {
    of: PipelineId,
    index: usize,
    reply: PhantomData<fn() -> T>,
}

/// The replies of a pipeline.
///
/// ```no_run
/// # use pilotlight_redis::{Client, Commands, Error};
/// # async fn example(client: &Client) -> Result<(), Error> {
/// let mut pipeline = client.pipeline();
/// let visits = pipeline.incr("visits");
/// let name = pipeline.get("name");
/// let mut replies = pipeline.run().await?;
/// let (visits, name) = (replies.take(visits)?, replies.take(name)?);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Replies {
    of: PipelineId,
    values: Vec<Option<Result<Value, Error>>>,
    names: Vec<&'static str>,
}

impl PipelineId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl<T> Queued<T> {
    pub(crate) fn new(of: PipelineId, index: usize) -> Self {
        Self { of, index, reply: PhantomData }
    }

    /// The same reply, read as another type.
    #[must_use]
    pub fn read_as<U: FromReply>(self) -> Queued<U> {
        Queued::new(self.of, self.index)
    }
}

impl Replies {
    pub(crate) fn new(of: PipelineId, values: Vec<Option<Result<Value, Error>>>, names: Vec<&'static str>) -> Self {
        Self { of, values, names }
    }

    /// The reply of one command.
    ///
    /// # Errors
    /// The command failed, or its reply has another type. The handle is of another pipeline or transaction: a mistake
    /// of the caller, and nothing is taken.
    #[expect(clippy::needless_pass_by_value, reason = "a handle is good for one reply")]
    pub fn take<T: FromReply>(&mut self, queued: Queued<T>) -> Result<T, Error> {
        let name = self.names.get(queued.index).copied().unwrap_or("unknown");
        let foreign = || {
            let misuse = Misuse::Arguments("this handle is of another pipeline or transaction".into());
            Error::new(misuse, Ran::NotSent, "take")
        };
        let own = Some(&mut self.values).filter(|_| queued.of == self.of);
        let value = own.and_then(|values| values.get_mut(queued.index)?.take()).ok_or_else(foreign)??;
        T::from_reply(value).map_err(|error| Error::new(error, Ran::Executed, name))
    }

    /// All replies that were not taken, in the order of their commands.
    pub fn into_values(self) -> impl Iterator<Item = Result<Value, Error>> {
        self.values.into_iter().flatten()
    }

    /// Number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
