//! Reads a response that is being stored ahead of the client that asked for it.
//!
//! Others may wait for the same response: they must not depend on how fast this client reads, or on whether it stays.
//! While the response is recorded it is read as fast as the service sends it. A client that keeps pace gets what came;
//! one that is behind gets the rest from what is recorded, so that nothing is held for it beside that. When the
//! recording is given up, reading keeps the client's pace again.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use pilotlight_cache::{Recorder, Tail};

use crate::body::{CutError, ResponseBody, Source, keep};
use crate::deadline::Deadline;
use crate::options::Abandoned;
use crate::spawn::Spawner;

/// Bytes held for a client when nothing is recorded any more.
const MAX_HELD: usize = 64 * 1024;
/// Bytes held for a client beside what is recorded.
const MAX_BESIDE: usize = 32 * 1024;
/// Bytes held for all clients of a worker. Beyond it each has at most the piece that it takes next: of what is recorded
/// nothing beside that, and of what is not, nothing is read until the client has taken the last piece.
const MAX_HELD_OF_ALL: usize = 16 * 1024 * 1024;

thread_local! {
    /// What the clients of this worker hold.
    static HELD_OF_ALL: Cell<usize> = const { Cell::new(0) };
}

fn is_full() -> bool {
    HELD_OF_ALL.get() >= MAX_HELD_OF_ALL
}

/// The client's end.
pub(crate) struct ReadAhead {
    held: Rc<RefCell<Held>>,
    length: Option<u64>,
}

/// What the client has not taken yet, in its order.
enum Piece {
    Frame(Result<Frame<Bytes>, CutError>),
    /// So much of what is recorded.
    Recorded(Range<usize>),
}

#[derive(Default)]
struct Held {
    pieces: VecDeque<Piece>,
    /// Of frames.
    bytes: usize,
    tail: Option<Tail>,
    ended: bool,
    client_gone: bool,
    client: Option<Waker>,
    reader: Option<Waker>,
    /// The reader, which is to learn that the client has gone.
    leave: Option<Waker>,
}

impl Source for ReadAhead {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutError>>> {
        let mut held = self.held.borrow_mut();
        let Some(frame) = held.next() else {
            if held.ended {
                return Poll::Ready(None);
            }
            held.client = Some(cx.waker().clone());
            return Poll::Pending;
        };
        if let Ok(frame) = &frame {
            let size = frame.data_ref().map_or(0, Bytes::len);
            self.length = self.length.map(|left| left.saturating_sub(size as u64));
        }
        if let Some(reader) = held.reader.take() {
            reader.wake();
        }
        Poll::Ready(Some(frame))
    }

    fn is_ended(&self) -> bool {
        let held = self.held.borrow();
        held.ended && held.pieces.is_empty()
    }

    fn length(&self) -> Option<u64> {
        self.length
    }
}

impl ReadAhead {
    /// Begins to read. `timeout` is how long the rest of the response may take when the client has gone; before that,
    /// the source knows how long it waits.
    pub(crate) fn start(
        spawner: &Spawner,
        source: ResponseBody,
        recorder: Box<Recorder>,
        deadline: Deadline,
        timeout: Duration,
        abandoned: Abandoned,
    ) -> Self {
        let held = Rc::new(RefCell::new(Held::of(recorder.tail())));
        let length = source.length();
        let (kept, recorder) = (Rc::clone(&held), Some(recorder));
        let reader = Reader { held: kept, source, recorder, recorded: 0, alone: false, deadline, timeout, abandoned };
        spawner.spawn(reader.run());
        Self { held, length }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let mut held = self.held.borrow_mut();
        held.client_gone = true;
        held.pieces.clear();
        held.holds(0);
        held.tail = None;
        for reader in [held.reader.take(), held.leave.take()].into_iter().flatten() {
            reader.wake();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.holds(0);
    }
}

impl Held {
    fn of(tail: Tail) -> Self {
        let mut held = Self::default();
        held.tail = Some(tail);
        held
    }

    /// So many bytes from now on.
    fn holds(&mut self, bytes: usize) {
        HELD_OF_ALL.set(HELD_OF_ALL.get() - self.bytes + bytes);
        self.bytes = bytes;
    }

    /// Holds a frame whose data are recorded there, if they are.
    fn hold(&mut self, frame: Result<Frame<Bytes>, CutError>, recorded: Option<Range<usize>>) {
        let size = frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
        match (recorded, self.pieces.back_mut()) {
            (Some(recorded), Some(Piece::Recorded(behind))) => behind.end = recorded.end,
            (Some(recorded), _) if self.bytes > 0 && (self.bytes + size > MAX_BESIDE || is_full()) => {
                self.pieces.push_back(Piece::Recorded(recorded));
            }
            _ => {
                self.holds(self.bytes + size);
                self.pieces.push_back(Piece::Frame(frame));
            }
        }
    }

    fn next(&mut self) -> Option<Result<Frame<Bytes>, CutError>> {
        match self.pieces.pop_front()? {
            Piece::Frame(frame) => {
                self.holds(self.bytes - frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len));
                Some(frame)
            }
            Piece::Recorded(behind) => {
                let mut data = self.tail.as_ref().map(|tail| tail.read(behind.start)).unwrap_or_default();
                if data.is_empty() {
                    // Cannot be. The client is not to take a part for the whole.
                    let what = "what was recorded of it has gone".to_owned();
                    return Some(Err(CutError { service: "this exchange".into(), what }));
                }
                data.truncate(behind.len());
                let rest = behind.start + data.len()..behind.end;
                if !rest.is_empty() {
                    self.pieces.push_front(Piece::Recorded(rest));
                }
                Some(Ok(Frame::data(data)))
            }
        }
    }
}

struct Reader {
    held: Rc<RefCell<Held>>,
    source: ResponseBody,
    recorder: Option<Box<Recorder>>,
    /// Bytes of it.
    recorded: usize,
    /// The client has gone.
    alone: bool,
    deadline: Deadline,
    timeout: Duration,
    abandoned: Abandoned,
}

impl Reader {
    async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
        let mut held = self.held.borrow_mut();
        held.ended = true;
        if let Some(client) = held.client.take() {
            client.wake();
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.abandoned == Abandoned::Drop
                && let Some(recorder) = &self.recorder
            {
                let held = self.held.borrow();
                if held.client_gone && recorder.close_unless_awaited() {
                    return Poll::Ready(()); // the recorder is dropped: nothing is stored
                }
            }
            self.watch_client(cx);
            if self.recorder.is_none() {
                let mut held = self.held.borrow_mut();
                if held.client_gone {
                    return Poll::Ready(()); // nobody wants the rest: dropping the source cancels the exchange
                }
                held.reader = Some(cx.waker().clone()); // also to learn that the client has gone while the service is silent
                if held.bytes >= MAX_HELD || held.bytes > 0 && is_full() {
                    return Poll::Pending;
                }
            }
            match self.source.poll_source(cx) {
                Poll::Ready(Some(frame)) => {
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
                    if !self.alone || self.deadline.poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    let what = format!(
                        "its client has gone, and the rest did not come within {} s",
                        self.timeout.as_secs_f32()
                    );
                    self.recorder = None;
                    let _ = self.pass_on(Err(CutError { service: "this exchange".into(), what }));
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Sees to it that the rest comes within `timeout`, once nobody is there.
    fn watch_client(&mut self, cx: &Context<'_>) {
        let mut held = self.held.borrow_mut();
        if !held.client_gone {
            if held.leave.is_none() {
                held.leave = Some(cx.waker().clone());
            }
        } else if !std::mem::replace(&mut self.alone, true) {
            self.deadline.set(self.timeout);
        }
    }

    /// Records a piece and holds it for the client; ready when it was the last.
    fn pass_on(&mut self, frame: Result<Frame<Bytes>, CutError>) -> Poll<()> {
        let data = frame.as_ref().ok().and_then(Frame::data_ref);
        let mut recorded = None;
        if let (Some(recorder), Some(data)) = (&mut self.recorder, data) {
            if recorder.push(data).is_ok() {
                let from = self.recorded;
                self.recorded += data.len();
                recorded = Some(from..self.recorded);
            } else {
                self.recorder = None; // too large to be kept; the client gets it all the same
            }
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
            held.hold(frame, recorded);
        }
        if let Some(client) = held.client.take() {
            client.wake();
        }
        if last { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use http::header::CACHE_CONTROL;
    use http::{HeaderMap, HeaderValue, Method, StatusCode};
    use pilotlight_cache::{Cache, CacheOptions, Decision, Key, RouteRules, Timestamp, Timing, Turn};

    use super::*;

    const NOW: Timestamp = Timestamp(784_111_777_500);

    fn recorder() -> Box<Recorder> {
        let cache = Cache::new(CacheOptions::default()).unwrap();
        let key = Key { scheme: "http", authority: "example.org", target: "/", extra: "" };
        let Turn::Leader(fill) = cache.begin(&key, &Method::GET, &HeaderMap::new(), NOW) else { panic!("alone") };
        let headers = HeaderMap::from_iter([(CACHE_CONTROL, HeaderValue::from_static("max-age=60"))]);
        let timing = Timing { sent: NOW, received: NOW };
        match fill.response(&HeaderMap::new(), StatusCode::OK, &headers, timing, RouteRules::default()) {
            Decision::Store(recorder) => recorder,
            Decision::Pass(why) => panic!("{why}"),
        }
    }

    /// What the client takes, at most so many frames.
    fn take(held: &mut Held, frames: usize) -> Vec<u8> {
        let taken = std::iter::from_fn(|| held.next()).take(frames);
        taken.flat_map(|frame| frame.unwrap().into_data().unwrap()).collect()
    }

    /// A client that takes a frame after each `every` of the service's, and the rest at the end; the recording ends
    /// after `recorded`.
    #[track_caller]
    fn check(every: usize, recorded: usize) {
        const FRAMES: usize = 60;
        let mut recorder = Some(recorder());
        let mut held = Held::of(recorder.as_ref().map(|recorder| recorder.tail()).unwrap());
        let (mut sent, mut taken) = (Vec::new(), Vec::new());
        for number in 0..FRAMES {
            let data = Bytes::from(vec![number as u8; 5_000 + number]);
            recorder.take_if(|_| number == recorded);
            let range = recorder.as_mut().map(|recorder| {
                recorder.push(&data).unwrap();
                sent.len()..sent.len() + data.len()
            });
            sent.extend_from_slice(&data);
            held.hold(Ok(Frame::data(data)), range);
            assert!(recorder.is_none() || held.bytes <= MAX_BESIDE, "{} bytes", held.bytes);
            if number % every == 0 {
                taken.extend(take(&mut held, 1));
            }
        }
        taken.extend(take(&mut held, usize::MAX));
        assert!(taken == sent, "every {every}, recorded {recorded}");
        assert_eq!(held.bytes, 0);
    }

    /// Many clients that take nothing share a bound; the first piece of each is held all the same.
    #[test]
    fn all_clients_of_a_worker_share_a_bound() {
        const PIECE: usize = 16 * 1024;
        let mut clients: Vec<(Box<Recorder>, Held)> = Vec::new();
        for _ in 0..2 * MAX_HELD_OF_ALL / MAX_BESIDE {
            let mut recorder = recorder();
            let mut held = Held::of(recorder.tail());
            for from in [0, PIECE] {
                let data = Bytes::from(vec![1; PIECE]);
                recorder.push(&data).unwrap();
                held.hold(Ok(Frame::data(data)), Some(from..from + PIECE));
            }
            clients.push((recorder, held));
        }
        let held: usize = clients.iter().map(|(_, held)| held.bytes).sum();
        assert_eq!(held, HELD_OF_ALL.get());
        assert!(held < MAX_HELD_OF_ALL + clients.len() * PIECE, "{held}");
        assert_eq!(clients.last().unwrap().1.bytes, PIECE, "the first piece alone");
        for (_, held) in &mut clients {
            assert_eq!(take(held, usize::MAX).len(), 2 * PIECE);
        }
        drop(clients);
        assert_eq!(HELD_OF_ALL.get(), 0);
    }

    #[test]
    fn every_client_gets_everything_once() {
        for every in [1, 2, 5, 100] {
            for recorded in [0, 1, 10, 30, 100] {
                check(every, recorded);
            }
        }
    }
}
