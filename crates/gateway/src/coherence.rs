//! The thread on which this gateway keeps in agreement with those that share its Redis.

use std::io;
use std::thread::JoinHandle;

use pilotlight_cache::Cache;
use pilotlight_cache_redis::{Coherence, CoherenceOptions, RedisError, SharedTier};

/// A running thread; dropping it ends the thread.
pub(crate) struct CoherenceThread {
    handle: Coherence,
    thread: Option<JoinHandle<()>>,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum CoherenceError {
    /// What the configuration says cannot be.
    #[error("cache.redis cannot be used: {0}")]
    Redis(#[from] RedisError),
    /// The thread or its event loop could not be made.
    #[error("the thread that follows purges could not be started: {0}")]
    Thread(#[from] io::Error),
}

impl CoherenceThread {
    pub(crate) fn start(second: &SharedTier, cache: &Cache) -> Result<Self, CoherenceError> {
        let told = CoherenceOptions::new(&second.options().prefix, &node());
        let (handle, driver) = Coherence::new(second.redis(), cache.clone(), told)?;
        second.tell_writes(handle.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || runtime.block_on(driver.run());
        let thread = std::thread::Builder::new().name("coherence".into()).spawn(run)?;
        Ok(Self { handle, thread: Some(thread) })
    }

    pub(crate) fn handle(&self) -> &Coherence {
        &self.handle
    }
}

impl Drop for CoherenceThread {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that follows purges panicked; this is a bug of Pilotlight");
        }
    }
}

/// What this gateway is called where purges are told: its machine and its process.
fn node() -> String {
    let machine =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let machine = machine.map_or_else(|_| "gateway".to_owned(), |name| name.trim().to_owned());
    format!("{machine}:{}", std::process::id())
}
