//! How often an operation was sent, and where to at last: for who observes it.
//!
//! It goes with the task and not with each call of the engine: only operations that somebody observes have a trail, and
//! only what is sent again looks for one.

use std::sync::Arc;

use parking_lot::Mutex;

tokio::task_local! {
    static TRAIL: Trail;
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trail(Arc<Mutex<Detours>>);

#[derive(Debug, Default)]
struct Detours {
    sent_again: u32,
    node: Option<Arc<str>>,
}

impl Trail {
    /// Whatever is sent again within `work` is noted here.
    pub(crate) async fn follow<T>(self, work: impl Future<Output = T>) -> T {
        TRAIL.scope(self, work).await
    }

    /// How often anything was sent again.
    pub(crate) fn sent_again(&self) -> u32 {
        self.0.lock().sent_again
    }

    /// The node where that was sent to last.
    pub(crate) fn last_node(&self) -> Option<Arc<str>> {
        self.0.lock().node.clone()
    }
}

/// A request is sent again, to `node`.
#[cold]
pub(crate) fn note_again(node: Arc<str>) {
    // Nobody observes it.
    let _ = TRAIL.try_with(|trail| {
        let mut detours = trail.0.lock();
        detours.sent_again += 1;
        detours.node = Some(node);
    });
}
