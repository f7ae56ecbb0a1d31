//! A body that is being recorded, shared by its recorder and those who read it meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::body::{Growing, StoredBody};
use crate::stored::Stored;

/// A body that is recorded, shared by its recorder and its readers.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    so_far: SoFar,
    /// Readers that have read everything there is; at most one entry for each task.
    readers: Vec<Waker>,
    /// Somebody needs what was recorded, whatever becomes of the rest.
    has_tail: bool,
}

#[derive(Debug)]
enum SoFar {
    Part(Growing),
    Whole(StoredBody),
    /// With what is left for a [`Tail`].
    Broken(StoredBody),
}

impl Default for SoFar {
    fn default() -> Self {
        Self::Part(Growing::default())
    }
}

impl Recording {
    /// Adds a copy of `data`; see [`Growing::push`].
    pub(crate) fn push(&self, data: &[u8], len: Option<u64>) {
        let mut state = self.lock();
        if let SoFar::Part(growing) = &mut state.so_far {
            growing.push(data, len);
        }
        wake(state);
    }

    /// Bytes recorded.
    pub(crate) fn len(&self) -> usize {
        match &self.lock().so_far {
            SoFar::Part(growing) => growing.len(),
            SoFar::Whole(body) => body.len(),
            SoFar::Broken(_) => 0,
        }
    }

    /// Ends the recording: it is whole.
    pub(crate) fn finish(&self) -> StoredBody {
        let mut state = self.lock();
        let body = match std::mem::take(&mut state.so_far) {
            SoFar::Part(growing) => growing.finish(),
            SoFar::Whole(body) => body,
            SoFar::Broken(_) => StoredBody::default(),
        };
        state.so_far = SoFar::Whole(body.clone());
        wake(state);
        body
    }

    /// Ends the recording: no more of it comes. Readers are told, whatever they have read.
    pub(crate) fn break_off(&self) {
        let mut state = self.lock();
        let left = match std::mem::take(&mut state.so_far) {
            SoFar::Part(growing) if state.has_tail => growing.finish(),
            SoFar::Broken(left) => left,
            SoFar::Part(_) | SoFar::Whole(_) => StoredBody::default(),
        };
        state.so_far = SoFar::Broken(left);
        wake(state);
    }

    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, at: usize) -> Poll<Result<Bytes, BrokenOff>> {
        let mut state = self.lock();
        let data = match &state.so_far {
            SoFar::Part(growing) => growing.read(at),
            SoFar::Whole(body) => return Poll::Ready(Ok(body.read(at))),
            SoFar::Broken(_) => return Poll::Ready(Err(BrokenOff)),
        };
        if !data.is_empty() {
            return Poll::Ready(Ok(data));
        }
        if !state.readers.iter().any(|reader| reader.will_wake(cx.waker())) {
            state.readers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Not under the lock: a reader may run at once.
fn wake(mut state: MutexGuard<'_, State>) {
    let readers = std::mem::take(&mut state.readers);
    drop(state);
    readers.into_iter().for_each(Waker::wake);
}

/// What was recorded, for the client that it was recorded on the way to: it need not have what it has not taken yet
/// twice.
#[derive(Debug)]
pub struct Tail {
    recording: Arc<Recording>,
}

impl Tail {
    pub(crate) fn new(recording: Arc<Recording>) -> Self {
        recording.lock().has_tail = true;
        Self { recording }
    }

    /// What was recorded from `at` on, or a part of it; nothing where nothing is. It stays when the recording is given
    /// up.
    #[must_use]
    pub fn read(&self, at: usize) -> Bytes {
        match &self.recording.lock().so_far {
            SoFar::Part(growing) => growing.read(at),
            SoFar::Whole(body) | SoFar::Broken(body) => body.read(at),
        }
    }
}

/// The service, or the request that asked it, ended before the response was whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer that several requests were waiting for broke off")]
pub struct BrokenOff;

/// What those who wait are given before the response is whole.
#[derive(Debug, Clone)]
pub(crate) struct LiveResponse {
    /// The response as it will be stored, without its body.
    pub(crate) head: Arc<Stored>,
    pub(crate) len: usize,
    pub(crate) recording: Arc<Recording>,
}
