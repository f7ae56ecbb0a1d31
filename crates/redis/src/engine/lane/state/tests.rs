//! [`State`] against a model: a peer that reads what is written, byte by byte, and answers every whole command with its
//! name.

mod interleavings;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pilotlight_resp::Value;
use proptest::prelude::*;

use super::leave::Circumstances;
use super::*;
use crate::engine::submission::SubmissionError;
use crate::error::{ErrorKind, Ran};
use crate::out::{Cursor, MAX_SLICES};

const FAILURE: &str = "cut";

/// One thing that callers, the driver or the network do.
#[derive(Debug, Clone)]
enum Op {
    Submit { replies: u32, is_many: bool, skips: bool, filler: u8, splices: bool, timeout_ms: Option<u8> },
    Nobody,
    Inline(u8),
    Take,
    Write(u8),
    Reply(u8),
    Poll(u8),
    Cancel(u8),
    Tick(u8),
    Shed(u16),
    Lose,
    LoseAll,
}

fn op() -> impl Strategy<Value = Op> {
    let submit = (1_u32..5, any::<bool>(), any::<bool>(), any::<u8>(), any::<bool>(), prop::option::of(1_u8..60))
        .prop_map(|(replies, is_many, skips, filler, splices, timeout_ms)| Op::Submit {
            replies,
            is_many,
            skips,
            filler,
            splices,
            timeout_ms,
        });
    prop_oneof![
        8 => submit,
        1 => Just(Op::Nobody),
        3 => any::<u8>().prop_map(Op::Inline),
        4 => Just(Op::Take),
        6 => any::<u8>().prop_map(Op::Write),
        6 => (1_u8..6).prop_map(Op::Reply),
        6 => any::<u8>().prop_map(Op::Poll),
        4 => any::<u8>().prop_map(Op::Cancel),
        3 => (0_u8..40).prop_map(Op::Tick),
        1 => (0_u16..2000).prop_map(Op::Shed),
        1 => Just(Op::Lose),
        1 => Just(Op::LoseAll),
    ]
}

/// A command on the wire: name of its submission, its place in it, length of what follows.
fn frame(name: u32, place: u8, filler: u8) -> Vec<u8> {
    let mut frame = name.to_be_bytes().to_vec();
    frame.extend([place, filler]);
    frame.extend(std::iter::repeat_n(b'x', usize::from(filler)));
    frame
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A caller, as the model knows it.
struct Caller {
    ticket: Option<Ticket>,
    replies: u32,
    is_many: bool,
    skip: u32,
    frame_bytes: usize,
    is_queued: bool,
    has_left_queued: bool,
    has_timeout: bool,
    woken: Arc<Flag>,
}

struct Model {
    state: State,
    now: Instant,
    callers: Vec<Caller>,
    /// The driver's page.
    wave: Out,
    cursor: Cursor,
    /// What the peer has of the current connection, and the commands of it that it has not answered.
    received: Vec<u8>,
    unanswered: Vec<(u32, u8)>,
    /// All whole commands that any connection brought.
    ran: HashSet<(u32, u8)>,
    wakers: Vec<Waker>,
}

impl Model {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            state: State::new(now),
            now,
            callers: Vec::new(),
            wave: Out::default(),
            cursor: Cursor::default(),
            received: Vec::new(),
            unanswered: Vec::new(),
            ran: HashSet::new(),
            wakers: Vec::new(),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Submit { .. } => self.submit(op),
            Op::Nobody => {
                let name = u32::MAX;
                self.state.submit_for_nobody(|out| out.page().extend(frame(name, 0, 0)));
            }
            Op::Inline(bytes) => self.inline(usize::from(bytes)),
            Op::Take => self.take(),
            Op::Write(bytes) => self.write(usize::from(bytes)),
            Op::Reply(count) => self.reply(usize::from(count)),
            Op::Poll(who) => self.poll(usize::from(who)),
            Op::Cancel(who) => self.cancel(usize::from(who)),
            Op::Tick(ms) => self.tick(u64::from(ms)),
            Op::Shed(max_bytes) => self.shed(usize::from(max_bytes)),
            Op::Lose => self.lose(),
            Op::LoseAll => {
                self.lose();
                self.state.fail_queued(&ErrorKind::Connection(FAILURE.into()), &mut self.wakers);
            }
        }
        self.wakers.drain(..).for_each(Waker::wake);
    }

    fn submit(&mut self, op: &Op) {
        let Op::Submit { replies, is_many, skips, filler, splices, timeout_ms } = *op else { return };
        let name = self.callers.len() as u32;
        let skip = u32::from(skips);
        let wanted = if is_many { replies } else { 1 };
        let submission = Submission {
            replies: wanted + skip,
            skip,
            kind: if is_many { Kind::Many } else { Kind::One },
            timeout: timeout_ms.map(|ms| Duration::from_millis(u64::from(ms))),
        };
        let woken = Arc::new(Flag::default());
        let ticket = self.state.submit(submission, Some(Arc::clone(&woken).into()), |out| {
            for place in 0..(wanted + skip) as u8 {
                let bytes = frame(name, place, filler);
                if splices && filler > 1 {
                    let (head, tail) = bytes.split_at(6);
                    let middle = tail.len() / 2;
                    out.page().extend_from_slice(head);
                    out.splice(Bytes::copy_from_slice(&tail[..middle]));
                    out.page().extend_from_slice(&tail[middle..]);
                } else {
                    out.page().extend(bytes);
                }
            }
        });
        self.callers.push(Caller {
            ticket: Some(ticket),
            replies: wanted,
            is_many,
            skip,
            frame_bytes: 6 + usize::from(filler),
            is_queued: true,
            has_left_queued: false,
            has_timeout: timeout_ms.is_some(),
            woken,
        });
    }

    /// An idle lane's only caller writes by itself.
    fn inline(&mut self, bytes: usize) {
        if !self.state.is_idle() {
            return;
        }
        assert!(self.state.out.is_empty() && self.wave.is_empty(), "idle, and something is half written");
        self.submit(&Op::Submit {
            replies: 1,
            is_many: false,
            skips: false,
            filler: 9,
            splices: false,
            timeout_ms: None,
        });
        let bytes =
            self.state.out.contiguous(Cursor::default()).map(|page| page[..bytes.min(page.len())].to_vec()).unwrap();
        self.state.wrote_inline(bytes.len());
        self.deliver(&bytes);
        self.launched();
    }

    fn take(&mut self) {
        if self.wave.is_empty() {
            self.state.take_wave(&mut self.wave);
            self.launched();
        }
    }

    fn launched(&mut self) {
        for caller in &mut self.callers {
            caller.is_queued = false;
        }
    }

    fn write(&mut self, bytes: usize) {
        let mut slices = [std::io::IoSlice::new(b""); MAX_SLICES];
        let filled = self.wave.slices(self.cursor, &mut slices);
        let page: Vec<u8> = slices[..filled].iter().flat_map(|slice| slice.iter().copied()).take(bytes).collect();
        self.cursor = self.wave.advanced(self.cursor, page.len());
        if self.wave.is_written(self.cursor) {
            self.wave.clear();
            self.cursor = Cursor::default();
        }
        self.state.note_written(page.len());
        self.deliver(&page);
    }

    fn deliver(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        while let [a, b, c, d, place, filler, rest @ ..] = self.received.as_slice() {
            let (name, place, filler) = (u32::from_be_bytes([*a, *b, *c, *d]), *place, usize::from(*filler));
            if rest.len() < filler {
                return;
            }
            assert!(rest[..filler].iter().all(|&byte| byte == b'x'), "frames are mixed up");
            if name != u32::MAX {
                assert!(self.ran.insert((name, place)), "{name}.{place} was sent twice");
            }
            self.unanswered.push((name, place));
            self.received.drain(..6 + filler);
        }
    }

    fn reply(&mut self, count: usize) {
        let count = count.min(self.unanswered.len());
        let mut replies = self.unanswered.drain(..count).map(|(name, place)| value(name, place)).collect();
        self.state.complete(&mut replies, &mut self.wakers).expect("every reply was asked for");
    }

    fn poll(&mut self, who: usize) {
        if self.callers.is_empty() {
            return;
        }
        let who = who % self.callers.len();
        let caller = &mut self.callers[who];
        let Some(ticket) = caller.ticket.take() else { return };
        let waker = Arc::clone(&caller.woken).into();
        match self.state.poll(&ticket, &waker) {
            Ok((outcome, _)) => {
                assert!(caller.woken.0.load(Ordering::Relaxed), "{who} was not woken for {outcome:?}");
                self.judge(who, outcome);
            }
            Err(_) => caller.ticket = Some(ticket),
        }
    }

    /// Whether an outcome is this caller's own, and true.
    fn judge(&self, who: usize, outcome: Outcome) {
        let caller = &self.callers[who];
        let has_run = |place: u32| self.ran.contains(&(who as u32, place as u8));
        let own = |place: u32| value(who as u32, (caller.skip + place) as u8);
        match outcome {
            Outcome::One(reply) => assert_eq!((reply, caller.is_many), (own(0), false)),
            Outcome::Many(replies) => assert_eq!(replies, (0..caller.replies).map(own).collect::<Vec<_>>()),
            Outcome::Failed(failure) => {
                let SubmissionError { kind, ran, replies, sent_bytes } = *failure;
                let received = replies.len() as u32;
                assert_eq!(replies, (0..received).map(own).collect::<Vec<_>>());
                let is_timeout = matches!(kind, ErrorKind::Timeout(_));
                assert!(!is_timeout || caller.has_timeout);
                let any_has_run = (caller.skip..caller.skip + caller.replies).any(has_run);
                if ran == Ran::NotSent {
                    assert!(!any_has_run && received == 0, "{who} has run");
                } else if !caller.is_many && !is_timeout {
                    assert!(any_has_run, "{who} has not run, and that is known");
                }
                for place in 0..caller.skip + caller.replies {
                    let is_sent = (place as usize + 1) * caller.frame_bytes <= sent_bytes;
                    assert!(is_sent || !has_run(place), "{who}.{place} has run");
                    assert!(is_timeout || !is_sent || has_run(place), "{who}.{place} was not sent, and that is known");
                }
            }
        }
    }

    fn cancel(&mut self, who: usize) {
        if self.callers.is_empty() {
            return;
        }
        let who = who % self.callers.len();
        let caller = &mut self.callers[who];
        if let Some(ticket) = caller.ticket.take() {
            caller.has_left_queued = caller.is_queued;
            self.state.cancel(&ticket);
        }
    }

    fn tick(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.state.advance(self.now);
        self.state
            .expire(Circumstances { is_connected: true, unparsed_bytes: 0, lag: Duration::ZERO }, &mut self.wakers);
    }

    /// Those in front give way, and as many as have to.
    fn shed(&mut self, max_bytes: usize) {
        let (before, queued) = (self.state.budget_used(), self.state.queued());
        self.state.shed(max_bytes, &mut self.wakers);
        let (after, left) = (self.state.budget_used(), self.state.queued());
        assert!(after <= before && left <= queued);
        assert_eq!(before - after == 0, self.wakers.is_empty());
    }

    /// The connection is cut; the driver makes another.
    fn lose(&mut self) {
        self.state.fail_in_flight(&ErrorKind::Connection(FAILURE.into()), &mut self.wakers);
        self.wave.clear();
        self.cursor = Cursor::default();
        self.received.clear();
        self.unanswered.clear();
    }

    /// Everybody gets what is his, in the end.
    fn finish(mut self) {
        self.take();
        while !self.wave.is_empty() {
            self.write(100);
        }
        self.take();
        while !self.wave.is_empty() {
            self.write(100);
        }
        self.reply(usize::MAX);
        self.wakers.drain(..).for_each(Waker::wake);
        // What a lost connection left half written is the only thing that can be left over.
        assert_eq!((self.state.queued(), self.state.in_flight(), self.state.out.len()), (0, 0, 0));
        assert_eq!((self.state.budget_used(), self.state.withdrawn_bytes), (0, 0));
        for who in 0..self.callers.len() {
            self.poll(who);
            let caller = &self.callers[who];
            assert!(caller.ticket.is_none(), "{who} was forgotten");
            let has_run = (0..caller.skip + caller.replies).any(|place| self.ran.contains(&(who as u32, place as u8)));
            assert!(!(caller.has_left_queued && has_run), "{who} was cancelled in the queue, and ran");
        }
        assert_eq!(self.state.cells_in_use(), 0);
        let free: HashSet<_> = self.state.free.iter().collect();
        assert_eq!(free.len(), self.state.cells.len(), "a cell is freed twice");
    }
}

fn value(name: u32, place: u8) -> Value {
    Value::Integer(i64::from(name) * 256 + i64::from(place))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn everybody_gets_his_own_replies_or_one_failure(ops in prop::collection::vec(op(), 0..120)) {
        let mut model = Model::new();
        for op in &ops {
            model.apply(op);
        }
        model.finish();
    }

    /// The order of leaving the queue, and what stays.
    #[test]
    fn leaving_a_queue_leaves_the_others(leaving in prop::collection::vec(any::<u8>(), 0..60), splices: bool) {
        let mut model = Model::new();
        for filler in 0..40 {
            let is_many = filler % 3 == 0;
            model.apply(&Op::Submit { replies: 2, is_many, skips: false, filler, splices, timeout_ms: None });
        }
        for who in leaving {
            model.apply(&Op::Cancel(who));
        }
        model.finish();
    }
}

fn one(timeout: Option<Duration>) -> Submission {
    Submission { replies: 1, skip: 0, kind: Kind::One, timeout }
}

fn append(bytes: &'static [u8]) -> impl FnOnce(&mut Out) {
    move |out| out.page().extend_from_slice(bytes)
}

fn outcome(state: &mut State, ticket: &Ticket) -> Option<Outcome> {
    state.poll(ticket, Waker::noop()).ok().map(|(outcome, _)| outcome)
}

#[test]
fn a_reply_before_its_command_was_sent_is_not_believed() {
    let mut state = State::new(Instant::now());
    let (mut wave, mut wake) = (Out::default(), Vec::new());
    let ticket = state.submit(one(None), None, append(b"hello"));
    state.take_wave(&mut wave);
    state.note_written(4);
    let doubt = state.complete(&mut vec![Value::Integer(1)], &mut wake);
    assert_eq!(doubt, Err(Doubt::Early));
    state.fail_in_flight(&ErrorKind::Closed, &mut wake);
    let Some(Outcome::Failed(failure)) = outcome(&mut state, &ticket) else { panic!("it got a foreign reply") };
    assert_eq!(failure.ran, Ran::NotSent);
}

#[test]
fn a_server_may_refuse_a_command_before_it_has_read_it_all() {
    let mut state = State::new(Instant::now());
    let (mut wave, mut wake) = (Out::default(), Vec::new());
    let ticket = state.submit(one(None), None, append(b"too large"));
    state.take_wave(&mut wave);
    state.note_written(4);
    let error = Value::Error(Bytes::from_static(b"ERR Protocol error: invalid bulk length"));
    assert_eq!(
        state.complete(&mut vec![error.clone()], &mut wake),
        Err(Doubt::Early),
        "the connection is in doubt all the same"
    );
    assert!(matches!(outcome(&mut state, &ticket), Some(Outcome::One(value)) if value == error));
}

#[test]
fn the_first_replies_of_many_may_come_before_the_last_command_is_sent() {
    let mut state = State::new(Instant::now());
    let (mut wave, mut wake) = (Out::default(), Vec::new());
    let ticket =
        state.submit(Submission { replies: 2, skip: 0, kind: Kind::Many, timeout: None }, None, append(b"onetwo"));
    state.take_wave(&mut wave);
    state.note_written(3);
    state.complete(&mut vec![Value::Integer(1)], &mut wake).unwrap();
    state.note_written(3);
    state.complete(&mut vec![Value::Integer(2)], &mut wake).unwrap();
    assert!(matches!(outcome(&mut state, &ticket), Some(Outcome::Many(values)) if values.len() == 2));
}

#[test]
fn an_endless_timeout_is_none() {
    let mut state = State::new(Instant::now());
    let mut wake = Vec::new();
    let ticket = state.submit(one(Some(Duration::MAX)), None, append(b"x"));
    state.advance(Instant::now() + Duration::from_secs(3600));
    state.expire(Circumstances { is_connected: true, unparsed_bytes: 0, lag: Duration::ZERO }, &mut wake);
    assert!(outcome(&mut state, &ticket).is_none());
}

/// The lane's clock stands still while the runtime is blocked: what is submitted meanwhile has its whole time.
#[test]
fn a_stale_clock_costs_nobody_his_time() {
    let begin = Instant::now();
    let at = |ms| begin + Duration::from_millis(ms);
    let circumstances = Circumstances { is_connected: true, unparsed_bytes: 0, lag: Duration::ZERO };
    let mut state = State::new(begin);
    let mut wake = Vec::new();
    let _first = state.submit(one(None), None, append(b"x"));
    state.advance(begin);
    let late = state.submit(one(Some(Duration::from_millis(500))), None, append(b"x"));
    state.advance(at(1000));
    state.expire(circumstances, &mut wake);
    assert!(outcome(&mut state, &late).is_none(), "it may have come just now");
    state.advance(at(1499));
    state.expire(circumstances, &mut wake);
    assert!(outcome(&mut state, &late).is_none());
    state.advance(at(1500));
    state.expire(circumstances, &mut wake);
    assert!(outcome(&mut state, &late).is_some());
}

#[test]
fn leaving_a_long_queue_takes_no_longer_than_leaving_a_short_one() {
    const COUNT: usize = 200_000;
    let begin = Instant::now();
    let mut state = State::new(begin);
    let tickets: Vec<_> =
        (0..COUNT).map(|_| state.submit(one(Some(Duration::from_secs(1))), None, append(&[b'x'; 50]))).collect();
    state.advance(begin);
    let (leaving, staying) = tickets.split_at(COUNT / 2);
    leaving.iter().rev().for_each(|ticket| drop(state.cancel(ticket)));
    assert_eq!(state.queued(), COUNT / 2);
    let mut wake = Vec::new();
    state.advance(begin + Duration::from_secs(2));
    state.expire(Circumstances { is_connected: false, unparsed_bytes: 0, lag: Duration::ZERO }, &mut wake);
    for ticket in staying {
        assert!(matches!(outcome(&mut state, ticket), Some(Outcome::Failed(_))));
    }
    assert_eq!((state.queued(), state.out.len(), state.budget_used(), state.cells_in_use()), (0, 0, 0, 0));
    state.sweep();
    state.shrink();
    assert_eq!(state.cells.len(), 0);
    // Quadratic, it would be minutes.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn silence_is_a_stall_only_when_nothing_moves() {
    let begin = Instant::now();
    let at = |ms| begin + Duration::from_millis(ms);
    let stall = Duration::from_millis(100);
    let mut state = State::new(begin);
    let mut wave = Out::default();
    let _ticket = state.submit(one(None), None, append(b"0123456789"));
    assert!(!state.is_stalled(at(500), stall), "it is not with the driver");
    state.take_wave(&mut wave);
    state.advance(at(90));
    state.note_written(5);
    assert!(!state.is_stalled(at(150), stall), "it is being written");
    state.advance(at(180));
    state.note_written(5);
    assert!(!state.is_stalled(at(279), stall), "it was just written");
    assert!(state.is_stalled(at(280), stall));
    state.note_read(at(280), 1);
    assert!(!state.is_stalled(at(379), stall), "something was read");
    state.submit_for_nobody(append(b"PING"));
    state.complete(&mut vec![Value::Integer(1)], &mut Vec::new()).unwrap();
    state.take_wave(&mut wave);
    state.note_written(4);
    assert!(state.is_stalled(at(1000), stall), "a probe of ours is not answered, either");
}

#[test]
fn the_names_of_cells_are_used_again() {
    let mut state = State::new(Instant::now());
    let mut wave = Out::default();
    let mut seen: HashMap<u32, u32> = HashMap::new();
    for _ in 0..100 {
        let ticket = state.submit(one(None), None, append(b"x"));
        *seen.entry(ticket.0).or_default() += 1;
        state.take_wave(&mut wave);
        state.note_written(1);
        wave.clear();
        state.complete(&mut vec![Value::Null], &mut Vec::new()).unwrap();
        assert!(outcome(&mut state, &ticket).is_some());
    }
    assert_eq!(seen.len(), 1);
}
