//! A shared connection: what was read and is no whole frame yet, and what is to be sent.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::io::Errno;
use rustix::net::RecvFlags;

/// The socket, and the two buffers. The frames of threads that finish at the same time leave together (P-18).
pub(crate) struct Socket {
    stream: UnixStream,
    out: Mutex<Vec<u8>>,
    /// Held while bytes are written, so that those of two threads do not mix.
    writing: Mutex<()>,
    /// Bytes that have been appended and not been written.
    pending: AtomicUsize,
    /// The last frame has been appended; set while `out` is locked.
    is_sealed: AtomicBool,
    /// Bytes of frames that are not whole; only the thread that reads takes it.
    pub(crate) tail: Mutex<Vec<u8>>,
    /// The largest payload; 0 until WELCOME has come, and all frames are Python's.
    pub(crate) max_frame: AtomicUsize,
}

impl Socket {
    /// Lets `write` append frames to what leaves next; behind the last one they are dropped.
    pub(crate) fn append<T>(&self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut out = self.out.lock();
        if self.is_sealed.load(Ordering::Relaxed) {
            return write(&mut Vec::new());
        }
        let before = out.len();
        let result = write(&mut out);
        self.pending.fetch_add(out.len() - before, Ordering::AcqRel);
        result
    }

    /// Appends the last frame, behind which nothing is sent (P-10).
    fn append_last(&self, frame: &[u8]) {
        self.append(|out| {
            out.extend_from_slice(frame);
            self.is_sealed.store(true, Ordering::Relaxed);
        });
    }

    /// Writes all that has been appended; blocks while the gateway does not read.
    pub(crate) fn flush(&self) -> io::Result<()> {
        while self.pending.load(Ordering::Acquire) > 0 {
            let _writing = self.writing.lock();
            let mut data = std::mem::take(&mut *self.out.lock());
            let written = (&self.stream).write_all(&data);
            self.pending.fetch_sub(data.len(), Ordering::AcqRel);
            written?;
            data.clear();
            let mut out = self.out.lock();
            if out.is_empty() {
                *out = data; // its memory serves the next ones
            }
        }
        Ok(())
    }

    /// Reads once; 0 at the end of the stream.
    pub(crate) fn read(&self, buffer: &mut [u8], how: RecvFlags) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| rustix::net::recv(&self.stream, &mut *buffer, how)).map(|(_, size)| size)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The same for Python, where it is the `out` of a link: a list of frames that can also be sent.
#[pyclass(frozen)]
pub(crate) struct Wire(pub(crate) Arc<Socket>);

#[pymethods]
impl Wire {
    /// Connects to the gateway.
    #[staticmethod]
    fn connect(path: &str) -> PyResult<Self> {
        let socket = Socket {
            stream: UnixStream::connect(path)?,
            out: Mutex::default(),
            writing: Mutex::default(),
            pending: AtomicUsize::new(0),
            is_sealed: AtomicBool::new(false),
            tail: Mutex::default(),
            max_frame: AtomicUsize::new(0),
        };
        Ok(Self(Arc::new(socket)))
    }

    fn append(&self, frame: &[u8]) {
        self.0.append(|out| out.extend_from_slice(frame));
    }

    fn append_last(&self, frame: &[u8]) {
        self.0.append_last(frame);
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let socket = &self.0;
        py.detach(|| socket.flush()).map_err(PyOSError::new_err)
    }

    /// Ends the connection in both directions; who reads sees its end.
    fn hang_up(&self) -> PyResult<()> {
        self.0.stream.shutdown(Shutdown::Both).map_err(PyOSError::new_err)
    }

    /// WELCOME has come.
    fn welcome(&self, max_frame: usize) {
        self.0.max_frame.store(max_frame, Ordering::Release);
    }

    fn __len__(&self) -> usize {
        self.0.pending.load(Ordering::Acquire)
    }
}

/// Python's error for a broken rule.
pub(crate) fn violation(py: Python<'_>, error: &dyn std::fmt::Display) -> PyErr {
    let made = py.import("pilotlight._wire").and_then(|wire| wire.getattr("Violation")?.call1((error.to_string(),)));
    made.map_or_else(|error| error, PyErr::from_value)
}
