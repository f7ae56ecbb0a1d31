//! Where a reply goes that is never held in memory.

use tokio::io::AsyncWrite;

/// Where a reply goes.
pub(crate) struct Sink<'s> {
    pub(crate) writer: &'s mut (dyn AsyncWrite + Send + Unpin),
    /// Its size, once it has begun: it can be asked for no second time.
    pub(crate) begun: Option<u64>,
}
