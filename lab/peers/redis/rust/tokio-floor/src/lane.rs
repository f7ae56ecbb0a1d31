//! The meeting point of callers and driver for one node: bytes to be sent and, in the same order, who waits.
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;

pub struct Lane {
    state: Mutex<State>,
    driver: Arc<AtomicWaker>,
}

#[derive(Default)]
struct State {
    output: Vec<u8>,
    waiting: VecDeque<Arc<Cell>>,
}

/// Where one reply goes.
#[derive(Default)]
pub struct Cell {
    value: OnceLock<Vec<u8>>,
    waker: AtomicWaker,
}

impl Cell {
    pub fn complete(&self, value: Vec<u8>) {
        self.value.set(value).expect("one reply to one command");
        self.waker.wake();
    }
}

impl Lane {
    pub fn new(driver: Arc<AtomicWaker>) -> Self {
        Self { state: Mutex::default(), driver }
    }

    /// Encodes a command and wakes the driver if it has nothing else to send.
    #[inline]
    pub fn send(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Reply {
        let cell = Arc::new(Cell::default());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let first = state.output.is_empty();
        encode(&mut state.output);
        state.waiting.push_back(Arc::clone(&cell));
        drop(state);
        if first {
            self.driver.wake();
        }
        Reply(cell)
    }

    pub fn has_output(&self) -> bool {
        !self.state.lock().unwrap_or_else(PoisonError::into_inner).output.is_empty()
    }

    /// Takes the bytes that have gathered into `output`, which is empty, and who waits to the end of `waiting`.
    pub fn take(&self, output: &mut Vec<u8>, waiting: &mut VecDeque<Arc<Cell>>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut state.output, output);
        waiting.append(&mut state.waiting);
    }
}

/// A reply that will come.
pub struct Reply(Arc<Cell>);

impl Reply {
    /// Waits for it.
    pub async fn payload(&self) -> &[u8] {
        let cell = &self.0;
        poll_fn(|context| {
            if cell.value.get().is_none() {
                cell.waker.register(context.waker());
            }
            // looked at again: it may have come before the waker was there
            cell.value.get().map_or(Poll::Pending, |value| Poll::Ready(value.as_slice()))
        })
        .await
    }
}
