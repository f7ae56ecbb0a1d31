//! A body from files. What the page cache does not have is brought there beside the worker, which serves others
//! meanwhile.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use pilotlight_files::{Changed, Reader, Sendable};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Reads from the disk at a time, of one worker; further ones wait for a place. Each has a thread, which a disk that
/// hangs keeps.
const MAX_READS: usize = 4;
/// The least of a body that is looked for in the page cache at once: a piece that is read.
const PIECE: u64 = 128 * 1024;

/// The places of reads from the disk.
#[derive(Clone)]
pub(crate) struct DiskReads(Arc<Semaphore>);

impl Default for DiskReads {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_READS)))
    }
}

/// A body from files.
pub(crate) struct FileBody {
    reader: Reader,
    reads: DiskReads,
    /// What is being brought into the page cache.
    loading: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl FileBody {
    pub(crate) fn new(reader: Reader, reads: &DiskReads) -> Self {
        Self { reader, reads: reads.clone(), loading: None }
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Changed>>> {
        ready!(self.poll_loaded(cx, PIECE));
        Poll::Ready(self.reader.read())
    }

    /// The next bytes, if the kernel is to send them: at most `most`. `None`: what comes next is read.
    pub(crate) fn poll_sendable(&mut self, cx: &mut Context<'_>, most: u64) -> Poll<Option<Result<Sendable, Changed>>> {
        ready!(self.poll_loaded(cx, most));
        Poll::Ready(self.reader.sendable(most))
    }

    pub(crate) fn left(&self) -> u64 {
        self.reader.left()
    }

    /// Waits until the page cache has the next `most` bytes, as far as can be said.
    fn poll_loaded(&mut self, cx: &mut Context<'_>, most: u64) -> Poll<()> {
        if self.loading.is_none() {
            let Some(cold) = self.reader.cold(most) else { return Poll::Ready(()) };
            let places = Arc::clone(&self.reads.0);
            self.loading = Some(Box::pin(async move {
                // Nobody closes the semaphore; and who cannot load it reads it all the same.
                let Ok(place) = places.acquire_owned().await else { return };
                let load = move || {
                    cold.load();
                    drop(place); // held by a read that nobody waits for any more
                };
                let _ = spawn_blocking(load).await;
            }));
        }
        if let Some(loading) = &mut self.loading {
            ready!(loading.as_mut().poll(cx));
            self.loading = None;
        }
        Poll::Ready(())
    }
}
