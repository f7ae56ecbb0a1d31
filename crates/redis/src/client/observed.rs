//! An operation that somebody observes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use crate::config::Config;
use crate::error::Error;
use crate::observer::Operation;

/// An operation that is observed, since its beginning.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    pub(crate) since: Instant,
    /// Known at the beginning.
    pub(crate) node: Option<Arc<str>>,
}

impl Observed {
    /// `None`: nobody observes.
    #[inline]
    pub(crate) fn begin(config: &Config) -> Option<Self> {
        config.observer.as_ref().map(|_| Self { since: Instant::now(), node: None })
    }

    /// The same, of a node that is known.
    pub(crate) fn begin_at(config: &Config, node: &Arc<str>) -> Option<Self> {
        Self::begin(config).map(|it| Self { node: Some(Arc::clone(node)), ..it })
    }

    /// Tells of one command.
    pub(crate) fn end(self, config: &Config, name: &'static str, error: Option<&Error>) {
        self.end_batch(config, Cow::Borrowed(name), None, error);
    }

    /// Tells of several.
    pub(crate) fn end_batch(
        self,
        config: &Config,
        name: Cow<'static, str>,
        batch_size: Option<usize>,
        error: Option<&Error>,
    ) {
        let Some(observer) = &config.observer else { return };
        let node = error.and_then(|error| error.node()).or(self.node.as_deref());
        let (database, duration) = (config.database, self.since.elapsed());
        observer.ended(&Operation { name, node, database, batch_size, duration, error });
    }
}

/// The name of an operation of several commands.
pub(crate) fn batch_name(kind: &'static str, mut names: impl Iterator<Item = &'static str>) -> Cow<'static, str> {
    let Some(first) = names.next() else { return Cow::Borrowed(kind) };
    if names.all(|name| name == first) { Cow::Owned(format!("{kind} {first}")) } else { Cow::Borrowed(kind) }
}
