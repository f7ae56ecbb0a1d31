//! The event streams of one session: which message goes to which, and what is kept to be sent again (MCP 2025-11-25,
//! "Resumability and Redelivery").
//!
//! The stream that a GET opens is number 0. Every request opens another one, which ends with its answer. A program has
//! one standard output for all of them, so where a message belongs is found like this:
//!
//! 1. an answer goes where its request came from, a report of progress where its token came from;
//! 2. anything else goes to the only open request, if there is one only;
//! 3. else to the stream of the GET, if a client has it;
//! 4. else to the latest open request; else it waits for a GET.
//!
//! Invariants: each message is on one stream; its number is greater than that of every earlier message of the session;
//! what is held is no more than the budget, but for what a connected client has not been sent yet: then nothing more is
//! read of the program ([`Streams::has_room`]).

use crate::message::{Kind, Message};
use bytes::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};

/// The stream that a GET opens.
pub(crate) const GENERAL: u64 = 0;
/// Requests of a session that wait for their answers at once.
pub(crate) const MAX_OPEN: usize = 256;
/// What a message takes besides its bytes.
const OVERHEAD: usize = 64;

/// Where in which stream a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) stream: u64,
    pub(crate) number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (stream, number) = text.split_once('-').ok_or(())?;
        Ok(Self { stream: stream.parse().map_err(|_| ())?, number: number.parse().map_err(|_| ())? })
    }
}

/// A client's hold of a stream. A later one on the same stream replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) stream: u64,
    number: u64,
}

/// Why a request cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{MAX_OPEN} requests of this session wait for their answers already")]
    TooMany,
    #[error("another request of this session with the same id waits for its answer")]
    SameId,
}

/// What a request is answered with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Its answer, before anything else.
    Answer(Bytes),
    /// Other messages come first.
    Events,
    /// Nothing will come: it was cancelled.
    Nothing,
    /// Nothing will come: everything had ended before it was asked.
    Ended,
}

#[derive(Debug)]
pub(crate) struct Streams {
    budget: usize,
    held: usize,
    /// The greatest number of a message.
    last_event: u64,
    last_stream: u64,
    last_reader: u64,
    streams: BTreeMap<u64, Stream>,
    is_draining: bool,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Stream {
    /// Requests without an answer.
    waiting: Vec<Value>,
    /// Their tokens for reports of progress.
    tokens: Vec<Value>,
    events: VecDeque<Event>,
    /// The number of the last message that a client was sent.
    sent: u64,
    reader: Option<u64>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Event {
    number: u64,
    text: Bytes,
}

impl Event {
    fn weight(&self) -> usize {
        self.text.len() + OVERHEAD
    }
}

impl Stream {
    fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    fn is_sent(&self, event: &Event) -> bool {
        event.number <= self.sent
    }
}

impl Streams {
    pub(crate) fn new(budget: usize) -> Self {
        let streams = BTreeMap::from([(GENERAL, Stream::default())]);
        let (held, last_event, last_stream, last_reader) = <_>::default();
        Self { budget, held, last_event, last_stream, last_reader, streams, is_draining: false, is_closed: false }
    }

    /// A stream for the requests among these messages, which a client reads.
    pub(crate) fn open(&mut self, messages: &[Message]) -> Result<Reader, OpenError> {
        let waiting: Vec<Value> = messages.iter().filter_map(Message::request_id).cloned().collect();
        let is_twice = |(at, id)| waiting[..at].contains(id) || self.is_waiting(id);
        if waiting.iter().enumerate().any(is_twice) {
            return Err(OpenError::SameId);
        }
        if self.open_requests() + waiting.len() > MAX_OPEN {
            return Err(OpenError::TooMany);
        }
        let tokens = messages.iter().filter(|one| one.request_id().is_some()).filter_map(Message::progress_token);
        self.last_stream += 1;
        let stream = Stream { waiting, tokens: tokens.cloned().collect(), sent: self.last_event, ..<_>::default() };
        self.streams.insert(self.last_stream, stream);
        let number = self.last_stream;
        Ok(self.take(number).unwrap_or(Reader { stream: number, number: 0 }))
    }

    /// A client takes the stream of the GET, or goes on with one that it had until this message. None: it is not known,
    /// or that message is not kept any more.
    pub(crate) fn attach(&mut self, after: Option<EventId>) -> Option<Reader> {
        let stream = after.map_or(GENERAL, |after| after.stream);
        if let Some(EventId { number, .. }) = after {
            let last = self.last_event;
            let found = self.streams.get_mut(&stream).filter(|_| number <= last)?;
            found.sent = number;
        }
        self.take(stream)
    }

    fn take(&mut self, stream: u64) -> Option<Reader> {
        let found = self.streams.get_mut(&stream)?;
        self.last_reader += 1;
        found.reader = Some(self.last_reader);
        found.wake(); // who had it sees that it has not any more
        Some(Reader { stream, number: self.last_reader })
    }

    /// The client has gone. What it was sent may not have arrived, so the stream stays.
    pub(crate) fn detach(&mut self, reader: Reader) {
        if let Some(stream) = self.streams.get_mut(&reader.stream).filter(|one| one.reader == Some(reader.number)) {
            (stream.reader, stream.waker) = (None, None);
            self.keep_to_budget();
        }
    }

    /// The client has gone before it was told of any message, so it cannot ask for the stream again.
    pub(crate) fn forget(&mut self, reader: Reader) {
        if let Some(stream) = self.streams.remove(&reader.stream) {
            self.held -= stream.events.iter().map(Event::weight).sum::<usize>();
        }
    }

    /// Whether what the program writes can be read: else a client is sent less than the program writes.
    pub(crate) fn has_room(&self) -> bool {
        self.held <= self.budget
    }

    /// Whether a client reads the stream of the GET.
    pub(crate) fn has_listener(&self) -> bool {
        self.streams.get(&GENERAL).is_some_and(|general| general.reader.is_some())
    }

    pub(crate) fn open_requests(&self) -> usize {
        self.streams.values().map(|stream| stream.waiting.len()).sum()
    }

    /// A message of the program. An answer that no request waits for is dropped.
    pub(crate) fn push(&mut self, message: &Message) {
        let to = match &message.kind {
            Kind::Response { id } => match self.streams.iter_mut().find(|(_, one)| one.waiting.contains(id)) {
                None => return,
                Some((number, stream)) => {
                    stream.waiting.retain(|waiting| waiting != id);
                    *number
                }
            },
            Kind::Request { .. } | Kind::Notification { .. } => self.stream_for(message.progress_token()),
        };
        self.append(to, message.text.clone());
        self.keep_to_budget();
    }

    fn stream_for(&self, token: Option<&Value>) -> u64 {
        let with_token = token.and_then(|token| self.streams.iter().find(|(_, one)| one.tokens.contains(token)));
        if let Some((number, _)) = with_token {
            return *number;
        }
        let mut open = self.streams.iter().rev().filter(|(_, one)| !one.waiting.is_empty());
        let (latest, another) = (open.next(), open.next());
        let is_read = self.has_listener();
        match (latest, another) {
            (None, _) => GENERAL,
            (Some(_), Some(_)) if is_read => GENERAL,
            (Some((latest, _)), _) => *latest,
        }
    }

    /// The client does not want this answer any more, and gets none.
    pub(crate) fn cancel(&mut self, id: &Value) {
        for stream in self.streams.values_mut().filter(|one| one.waiting.contains(id)) {
            stream.waiting.retain(|waiting| waiting != id);
            stream.wake();
        }
    }

    /// Nothing comes any more: every open request is answered with what `answer` makes of its id.
    pub(crate) fn close(&mut self, answer: impl Fn(&Value) -> Bytes) {
        self.is_closed = true;
        let open: Vec<(u64, Value)> = self
            .streams
            .iter_mut()
            .flat_map(|(number, one)| std::mem::take(&mut one.waiting).into_iter().map(|id| (*number, id)))
            .collect();
        for (stream, id) in open {
            self.append(stream, answer(&id));
        }
        self.streams.values_mut().for_each(Stream::wake);
    }

    /// The instance is to end when its requests are answered, so the stream of the GET ends at once.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
        self.streams.values_mut().for_each(Stream::wake);
    }

    /// How a request can be answered.
    pub(crate) fn poll_first(&mut self, reader: Reader, cx: &mut Context<'_>) -> Poll<First> {
        let Some(stream) = self.streams.get_mut(&reader.stream) else { return Poll::Ready(First::Nothing) };
        match (stream.events.len(), stream.waiting.is_empty()) {
            (0, true) => Poll::Ready(First::Nothing),
            (0, false) if self.is_closed => Poll::Ready(First::Ended),
            (0, false) => {
                stream.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            (1, true) => {
                let answer = stream.events.front().map(|event| event.text.clone()).unwrap_or_default();
                self.forget(reader);
                Poll::Ready(First::Answer(answer))
            }
            _ => Poll::Ready(First::Events),
        }
    }

    /// The answers of requests that take nothing else: what else came for them goes to the stream of the GET.
    pub(crate) fn poll_answer(&mut self, reader: Reader, cx: &mut Context<'_>) -> Poll<First> {
        let Some(stream) = self.streams.get_mut(&reader.stream) else { return Poll::Ready(First::Nothing) };
        let keep = usize::from(stream.waiting.is_empty());
        let aside: Vec<Event> = stream.events.drain(..stream.events.len().saturating_sub(keep)).collect();
        for event in aside {
            self.held -= event.weight();
            self.append(GENERAL, event.text);
        }
        self.keep_to_budget();
        self.poll_first(reader, cx)
    }

    /// The next message that this client is to be sent; none: it has been sent all that comes.
    pub(crate) fn poll_next(&mut self, reader: Reader, cx: &mut Context<'_>) -> Poll<Option<(EventId, Bytes)>> {
        let (is_draining, is_closed) = (self.is_draining, self.is_closed);
        let Some(stream) = self.streams.get_mut(&reader.stream).filter(|one| one.reader == Some(reader.number)) else {
            return Poll::Ready(None);
        };
        let sent = stream.sent;
        let at = stream.events.partition_point(|event| event.number <= sent);
        if let Some(event) = stream.events.get(at) {
            let next = (EventId { stream: reader.stream, number: event.number }, event.text.clone());
            stream.sent = event.number;
            self.keep_to_budget();
            return Poll::Ready(Some(next));
        }
        let is_over = match reader.stream {
            GENERAL => is_draining,
            _ => stream.waiting.is_empty(),
        };
        if is_over || is_closed {
            return Poll::Ready(None);
        }
        stream.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Where a client is that has been sent nothing yet.
    pub(crate) fn place(&self, reader: Reader) -> EventId {
        let number = self.streams.get(&reader.stream).map_or(0, |stream| stream.sent);
        EventId { stream: reader.stream, number }
    }

    fn is_waiting(&self, id: &Value) -> bool {
        self.streams.values().any(|stream| stream.waiting.contains(id))
    }

    fn append(&mut self, to: u64, text: Bytes) {
        self.last_event += 1;
        let event = Event { number: self.last_event, text };
        let Some(stream) = self.streams.get_mut(&to) else { return };
        self.held += event.weight();
        stream.events.push_back(event);
        stream.wake();
    }

    /// Lets go of the oldest messages: first of those that were sent, then of those that nobody is there to take.
    fn keep_to_budget(&mut self) {
        while self.held > self.budget {
            let oldest = |is_free: &dyn Fn(&Stream, &Event) -> bool| {
                let fronts = self.streams.iter().filter_map(|(number, one)| Some((number, one, one.events.front()?)));
                fronts.filter(|(_, one, event)| is_free(one, event)).min_by_key(|(_, _, event)| event.number)
            };
            let found = oldest(&|stream, event| stream.is_sent(event))
                .or_else(|| oldest(&|stream, _| stream.reader.is_none()))
                .map(|(number, _, _)| *number);
            let Some(stream) = found.and_then(|number| self.streams.get_mut(&number)) else { break };
            self.held -= stream.events.pop_front().map_or(0, |event| event.weight());
        }
        self.streams.retain(|number, one| {
            *number == GENERAL || !one.waiting.is_empty() || !one.events.is_empty() || one.reader.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::parse;
    use proptest::prelude::*;
    use serde_json::json;

    fn message(value: &Value) -> Message {
        parse(value.to_string().into()).unwrap().remove(0)
    }

    fn request(id: u64) -> Message {
        message(&json!({ "jsonrpc": "2.0", "id": id, "method": "m", "params": { "_meta": { "progressToken": id } } }))
    }

    fn answer(id: u64) -> Message {
        message(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))
    }

    fn progress(token: u64) -> Message {
        message(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token } }))
    }

    fn notice() -> Message {
        message(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }))
    }

    fn next(streams: &mut Streams, reader: Reader) -> Poll<Option<(EventId, Bytes)>> {
        streams.poll_next(reader, &mut Context::from_waker(Waker::noop()))
    }

    /// The texts that this client is sent, until it has to wait or there is no more.
    fn all(streams: &mut Streams, reader: Reader) -> Vec<Bytes> {
        std::iter::from_fn(|| match next(streams, reader) {
            Poll::Ready(event) => event.map(|(_, text)| text),
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn an_answer_goes_where_its_request_came_from() {
        let mut streams = Streams::new(1 << 20);
        let (one, two) = (streams.open(&[request(1)]).unwrap(), streams.open(&[request(2)]).unwrap());
        streams.push(&progress(1));
        streams.push(&answer(2));
        streams.push(&answer(1));
        assert_eq!(all(&mut streams, one), [progress(1).text, answer(1).text]);
        assert_eq!(all(&mut streams, two), [answer(2).text]);
        assert_eq!(next(&mut streams, two), Poll::Ready(None));
        streams.push(&answer(2)); // once more: nobody waits for it
        assert!(all(&mut streams, two).is_empty());
    }

    #[test]
    fn what_belongs_to_no_request() {
        let mut streams = Streams::new(1 << 20);
        streams.push(&notice()); // kept for the GET
        let one = streams.open(&[request(1)]).unwrap();
        streams.push(&notice()); // the only open request
        assert_eq!(all(&mut streams, one).len(), 1);
        let two = streams.open(&[request(2)]).unwrap();
        streams.push(&notice()); // the latest, as there is no GET
        assert_eq!(all(&mut streams, two).len(), 1);
        let general = streams.attach(None).unwrap();
        streams.push(&notice());
        assert_eq!(all(&mut streams, general).len(), 2);
    }

    #[test]
    fn the_answer_alone_is_no_stream() {
        let mut streams = Streams::new(1 << 20);
        let mut cx = Context::from_waker(Waker::noop());
        let one = streams.open(&[request(1)]).unwrap();
        assert_eq!(streams.poll_first(one, &mut cx), Poll::Pending);
        streams.push(&answer(1));
        assert_eq!(streams.poll_first(one, &mut cx), Poll::Ready(First::Answer(answer(1).text)));
        let two = streams.open(&[request(2)]).unwrap();
        streams.push(&progress(2));
        assert_eq!(streams.poll_answer(two, &mut cx), Poll::Pending);
        streams.push(&progress(2));
        streams.push(&answer(2));
        assert_eq!(streams.poll_answer(two, &mut cx), Poll::Ready(First::Answer(answer(2).text)));
        let general = streams.attach(None).unwrap();
        assert_eq!(all(&mut streams, general), [progress(2).text, progress(2).text]);
    }

    #[test]
    fn a_stream_goes_on_after_a_cut() {
        let mut streams = Streams::new(1 << 20);
        let one = streams.open(&[request(1)]).unwrap();
        let primed = streams.place(one);
        streams.push(&progress(1));
        let Poll::Ready(Some((seen, _))) = next(&mut streams, one) else { panic!() };
        streams.detach(one);
        streams.push(&progress(1));
        streams.push(&answer(1));
        let again = streams.attach(Some(seen)).unwrap();
        assert_eq!(all(&mut streams, again), [progress(1).text, answer(1).text]);
        let from_the_start = streams.attach(Some(primed)).unwrap();
        assert_eq!(all(&mut streams, from_the_start).len(), 3);
        assert_eq!(next(&mut streams, again), Poll::Ready(None)); // another has it
        assert_eq!(streams.attach(Some(EventId { stream: 9, number: 1 })), None);
        assert_eq!(streams.attach(Some(EventId { number: 99, ..seen })), None);
    }

    #[test]
    fn ids_and_how_many() {
        let mut streams = Streams::new(1 << 20);
        streams.open(&[request(1)]).unwrap();
        assert_eq!(streams.open(&[request(1)]), Err(OpenError::SameId));
        assert_eq!(streams.open(&[request(2), request(2)]), Err(OpenError::SameId));
        for id in 2..=MAX_OPEN as u64 {
            streams.open(&[request(id)]).unwrap();
        }
        assert_eq!(streams.open(&[request(0)]), Err(OpenError::TooMany));
        streams.cancel(&json!(1));
        streams.open(&[request(0)]).unwrap();
    }

    #[test]
    fn the_end_answers_what_is_open() {
        let mut streams = Streams::new(1 << 20);
        let (one, general) = (streams.open(&[request(1)]).unwrap(), streams.attach(None).unwrap());
        streams.close(|id| format!("gone {id}").into());
        assert_eq!(all(&mut streams, one), ["gone 1"]);
        assert_eq!(next(&mut streams, general), Poll::Ready(None));
    }

    #[test]
    fn event_ids() {
        let id = EventId { stream: 3, number: 17 };
        assert_eq!("3-17".parse(), Ok(id));
        assert_eq!(id.to_string(), "3-17");
        for text in ["", "3", "-", "3-", "a-1", "1-2-3", "-1-2"] {
            assert_eq!(text.parse::<EventId>(), Err(()), "{text}");
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Open,
        Answer(usize),
        Progress(usize),
        Notice,
        Read(usize),
        Cut(usize),
        Resume(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let one = prop_oneof![
            Just(Step::Open),
            (0..8_usize).prop_map(Step::Answer),
            (0..8_usize).prop_map(Step::Progress),
            Just(Step::Notice),
            (0..8_usize).prop_map(Step::Read),
            (0..8_usize).prop_map(Step::Cut),
            (0..8_usize).prop_map(Step::Resume),
        ];
        prop::collection::vec(one, 0..200)
    }

    /// A client that is cut now and then, and goes on where it was.
    struct Client {
        id: u64,
        reader: Option<Reader>,
        seen: EventId,
        got: Vec<Bytes>,
    }

    proptest! {
        /// With a budget that is never short, each client gets exactly its own messages, in their order, once, however
        /// often it is cut.
        #[test]
        fn nothing_is_lost_or_repeated(steps in steps()) {
            let mut streams = Streams::new(1 << 20);
            let (mut clients, mut expected): (Vec<Client>, Vec<Vec<Bytes>>) = <_>::default();
            let mut open = Vec::new();
            for step in steps {
                match step {
                    Step::Open => {
                        let id = clients.len() as u64;
                        let reader = streams.open(&[request(id)]).unwrap();
                        clients.push(Client { id, reader: Some(reader), seen: streams.place(reader), got: Vec::new() });
                        expected.push(Vec::new());
                        open.push(id);
                    }
                    Step::Answer(which) if which < open.len() => {
                        let id = open.remove(which);
                        streams.push(&answer(id));
                        expected[id as usize].push(answer(id).text);
                    }
                    Step::Progress(which) if which < open.len() => {
                        streams.push(&progress(open[which]));
                        expected[open[which] as usize].push(progress(open[which]).text);
                    }
                    Step::Notice => {
                        streams.push(&notice());
                        if let Some(latest) = open.iter().max() {
                            expected[*latest as usize].push(notice().text);
                        }
                    }
                    Step::Read(which) => {
                        let Some(client) = clients.get_mut(which) else { continue };
                        let Some(reader) = client.reader else { continue };
                        if let Poll::Ready(Some((id, text))) = next(&mut streams, reader) {
                            client.seen = id;
                            client.got.push(text);
                        }
                    }
                    Step::Cut(which) => {
                        let Some(client) = clients.get_mut(which) else { continue };
                        client.reader.take().into_iter().for_each(|reader| streams.detach(reader));
                    }
                    Step::Resume(which) => {
                        let Some(client) = clients.get_mut(which) else { continue };
                        client.reader = streams.attach(Some(client.seen));
                    }
                    Step::Answer(_) | Step::Progress(_) => {}
                }
            }
            for client in &mut clients {
                if let Some(reader) = streams.attach(Some(client.seen)) {
                    client.got.extend(all(&mut streams, reader));
                }
                prop_assert_eq!(&client.got, &expected[client.id as usize]);
            }
        }

        /// Whatever happens, what is held without a client that is still to be sent it stays within the budget.
        #[test]
        fn the_budget_is_kept(steps in steps(), budget in 0_usize..2000) {
            let mut streams = Streams::new(budget);
            let (mut readers, mut ids) = (Vec::new(), 0);
            for step in steps {
                match step {
                    Step::Open => {
                        readers.push(streams.open(&[request(ids)]).unwrap());
                        ids += 1;
                    }
                    Step::Answer(id) => streams.push(&answer(id as u64)),
                    Step::Progress(id) => streams.push(&progress(id as u64)),
                    Step::Notice => streams.push(&notice()),
                    Step::Read(which) => if let Some(reader) = readers.get(which) {
                        let _ = next(&mut streams, *reader);
                    },
                    Step::Cut(which) | Step::Resume(which) => if let Some(reader) = readers.get(which) {
                        streams.detach(*reader);
                    },
                }
                let held: usize = streams.streams.values().flat_map(|one| &one.events).map(Event::weight).sum();
                prop_assert_eq!(held, streams.held);
                let owed = |one: &Stream| one.reader.map_or(0, |_| one.events.iter().map(Event::weight).sum());
                let owed: usize = streams.streams.values().map(owed).sum();
                prop_assert!(held <= budget.max(owed), "{held} {budget} {owed}");
            }
        }
    }
}
