//! Streams whose messages wait in a batch, with real sockets; each case by io_uring and without it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod refused;
mod sending;

use std::future::poll_fn;
use std::io::Read as _;
use std::os::unix::net::UnixStream as Peer;
use std::task::Poll;

use pilotlight_send_batch::{Batch, Batched, Stream};
use tokio::net::UnixStream;
use tokio::task::{spawn_local, yield_now};

/// How the kernel gets the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    IoUring,
    Each,
}

impl How {
    pub(crate) fn batch(self) -> Batch {
        match self {
            Self::IoUring => Batch::with_io_uring().unwrap(),
            Self::Each => Batch::without_io_uring(),
        }
    }

    /// One that is sent at the end of each turn of the runtime.
    pub(crate) async fn batch_of_turns(self) -> Batch {
        let batch = self.batch();
        spawn_local(batch.clone().send_each_turn());
        yield_now().await; // it waits for the end of a turn from now on
        batch
    }
}

/// Both ways; a system that forbids io_uring says so.
pub(crate) fn ways() -> Vec<How> {
    match Batch::with_io_uring() {
        Ok(_) => vec![How::IoUring, How::Each],
        Err(e) => {
            assert!(std::env::var_os("CI").is_none(), "no io_uring: {e}");
            eprintln!("without io_uring: {e}");
            vec![How::Each]
        }
    }
}

/// Runs on a runtime as a worker has one.
#[track_caller]
pub(crate) fn run<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, body)
}

/// A stream in the batch, and its other side, which does not wait.
pub(crate) fn pair(batch: &Batch) -> (Batched, Peer) {
    let (ours, theirs) = Peer::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let mut stream = Batched::from(Stream::from(UnixStream::from_std(ours).unwrap()));
    stream.join(batch);
    (stream, theirs)
}

/// Puts a message in from within a task.
pub(crate) async fn put(stream: &mut Batched, message: &[u8]) -> bool {
    poll_fn(|cx| Poll::Ready(stream.put(cx, message))).await
}

/// All that has come so far.
pub(crate) fn received(peer: &mut Peer) -> Vec<u8> {
    let mut all = Vec::new();
    match peer.read_to_end(&mut all) {
        Ok(_) => {}
        Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock),
    }
    all
}
