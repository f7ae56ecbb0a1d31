//! Reads an answer that is being stored ahead of the client that asked for it.
//!
//! Others may wait for the same answer: they must not depend on how fast this client reads, or on whether it stays. While
//! the answer is recorded it is read as fast as the service sends it; what is held for the client is at most what the
//! cache would store (`cache.max_object`). When the recording is given up, reading keeps the client's pace again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use pilotlight_cache::{Recorder, Watch};

use crate::body::{CutError, ResponseBody, keep};
use crate::deadline::Deadline;
use crate::options::Abandoned;
use crate::spawn::Spawner;

/// Bytes held for a client when nothing is recorded any more.
const MAX_HELD: usize = 64 * 1024;

/// The client's end.
pub(crate) struct Relay {
    held: Rc<RefCell<Held>>,
    length: Option<u64>,
}

#[derive(Default)]
struct Held {
    frames: VecDeque<Result<Frame<Bytes>, CutError>>,
    bytes: usize,
    ended: bool,
    client_gone: bool,
    client: Option<Waker>,
    reader: Option<Waker>,
}

impl Relay {
    /// Begins to read. `patience` is the longest wait for more of the answer.
    pub(crate) fn start(
        spawner: &Spawner,
        source: ResponseBody,
        recorder: Box<Recorder>,
        (deadline, patience, abandoned): (Deadline, Duration, Abandoned),
    ) -> Self {
        let held = Rc::new(RefCell::new(Held::default()));
        let length = source.length();
        let (kept, watch) = (Rc::clone(&held), recorder.watch());
        let reader = Reader { held: kept, source, recorder: Some(recorder), watch, deadline, patience, abandoned };
        spawner.spawn(reader.run());
        Self { held, length }
    }

    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        let mut held = self.held.borrow_mut();
        let Some(frame) = held.frames.pop_front() else {
            if held.ended {
                return Poll::Ready(None);
            }
            held.client = Some(cx.waker().clone());
            return Poll::Pending;
        };
        if let Ok(frame) = &frame {
            let size = frame.data_ref().map_or(0, Bytes::len);
            held.bytes -= size;
            self.length = self.length.map(|left| left.saturating_sub(size as u64));
        }
        if let Some(reader) = held.reader.take() {
            reader.wake();
        }
        Poll::Ready(Some(frame))
    }

    pub(crate) fn is_ended(&self) -> bool {
        let held = self.held.borrow();
        held.ended && held.frames.is_empty()
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let mut held = self.held.borrow_mut();
        held.client_gone = true;
        held.frames.clear();
        held.bytes = 0;
        if let Some(reader) = held.reader.take() {
            reader.wake();
        }
    }
}

struct Reader {
    held: Rc<RefCell<Held>>,
    source: ResponseBody,
    recorder: Option<Box<Recorder>>,
    watch: Watch,
    deadline: Deadline,
    patience: Duration,
    abandoned: Abandoned,
}

impl Reader {
    async fn run(mut self) {
        self.deadline.set(self.patience);
        poll_fn(|cx| self.poll(cx)).await;
        let mut held = self.held.borrow_mut();
        held.ended = true;
        if let Some(client) = held.client.take() {
            client.wake();
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.abandoned == Abandoned::Drop && self.recorder.is_some() {
                let mut held = self.held.borrow_mut();
                if held.client_gone && !self.watch.is_awaited() {
                    return Poll::Ready(()); // the recorder is dropped: nothing is stored
                }
                held.reader = Some(cx.waker().clone()); // to learn that the client has gone
            }
            if self.recorder.is_none() {
                let mut held = self.held.borrow_mut();
                if held.client_gone {
                    return Poll::Ready(()); // nobody wants the rest: dropping the source cancels the exchange
                }
                held.reader = Some(cx.waker().clone()); // also to learn that the client has gone while the service is silent
                if held.bytes >= MAX_HELD {
                    return Poll::Pending;
                }
            }
            match self.source.poll_source(cx) {
                Poll::Ready(Some(frame)) => {
                    if !self.held.borrow().client_gone {
                        self.deadline.set(self.patience); // nobody there: what is missing has to come within one patience
                    }
                    if self.pass_on(frame).is_ready() {
                        return Poll::Ready(());
                    }
                }
                Poll::Ready(None) => {
                    if let Some(recorder) = self.recorder.take() {
                        keep(recorder);
                    }
                    return Poll::Ready(());
                }
                Poll::Pending => {
                    if self.deadline.poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let what = format!("no more of it came within {} s", self.patience.as_secs_f32());
                    self.recorder = None;
                    let _ = self.pass_on(Err(CutError { service: "this exchange".into(), what }));
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Records a piece and holds it for the client; ready when it was the last.
    fn pass_on(&mut self, frame: Result<Frame<Bytes>, CutError>) -> Poll<()> {
        let data = frame.as_ref().ok().and_then(Frame::data_ref);
        if let (Some(recorder), Some(data)) = (&mut self.recorder, data)
            && recorder.push(data).is_err()
        {
            self.recorder = None; // too large to be kept; the client gets it all the same
        }
        if frame.is_err() {
            self.recorder = None; // nothing incomplete is stored
        }
        let last = frame.is_err() || self.source.is_end();
        if last && let Some(recorder) = self.recorder.take() {
            keep(recorder);
        }
        let mut held = self.held.borrow_mut();
        if !held.client_gone {
            held.bytes += frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            held.frames.push_back(frame);
        }
        if let Some(client) = held.client.take() {
            client.wake();
        }
        if last { Poll::Ready(()) } else { Poll::Pending }
    }
}
