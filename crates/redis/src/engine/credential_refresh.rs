//! Keeps the credentials of a client fresh.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::task::AbortHandle;

use crate::config::Config;

/// Keeps the credentials fresh: runs their provider's [`maintain`](crate::credentials::CredentialProvider::maintain),
/// from the first dial to the client's end.
#[derive(Debug, Default)]
pub(crate) struct CredentialRefresh {
    task: Mutex<Option<AbortHandle>>,
    is_over: AtomicBool,
}

impl CredentialRefresh {
    /// Begins, unless it runs already. To be called on the runtime.
    pub(crate) fn begin(&self, config: &Config) {
        let Some(provider) = &config.credentials else { return };
        let mut task = self.task.lock();
        // A runtime that has ended took its tasks along.
        if self.is_over.load(Ordering::Relaxed) || task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        *task = Arc::clone(provider).maintain().map(|work| tokio::spawn(work).abort_handle());
    }

    pub(crate) fn end(&self) {
        let mut task = self.task.lock();
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(task) = task.take() {
            task.abort();
        }
    }
}

impl Drop for CredentialRefresh {
    fn drop(&mut self) {
        self.end();
    }
}
