//! What a second tier of the cache is told. Memory knows no other tier: whoever joins the two (the gateway) gives it
//! these.

use std::fmt::Debug;
use std::sync::Arc;

use crate::key::Key;
use crate::stored::Stored;

/// Takes what one flight stores, once it is in memory, and passes it on. Dropped unused when the flight stores nothing.
pub trait WriteBehind: Debug + Send {
    /// The response that was stored. Called once at most, outside of all locks; it must not block.
    fn stored(self: Box<Self>, key: &Key<'_>, stored: &Arc<Stored>);
}

/// Is told what must not be answered any more.
pub trait Invalidations: Debug + Send + Sync {
    /// What is stored for a target, here or elsewhere, was made invalid. Called under the key's lock, so before anybody
    /// can find out that memory has nothing any more; it must not block, and not call the cache.
    fn invalidated(&self, key: &Key<'_>);
}
