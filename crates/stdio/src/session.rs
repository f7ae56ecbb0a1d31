//! A client's own process, from `initialize` to DELETE or idleness (MCP until 2025-11-25).

use crate::crew::{Crew, Member, NotStarted, left, locked, messages_of};
use crate::events::{EventBody, Source};
use crate::headers::{Accepted, PRIMING};
use crate::lines::Line;
use crate::message::{Kind, Message};
use crate::program::{Program, status, write_line};
use crate::reply::{self, code};
use crate::streams::{EventId, First, OpenError, Reader, Streams};
use bytes::Bytes;
use http::{Response, StatusCode};
use pilotlight_pipe::Body;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::unix::pipe::Sender;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

/// How long the answer to a request may take before it is an event stream.
pub(crate) const JSON_WITHIN: Duration = Duration::from_millis(100);
/// Messages that wait for the program to read them.
const MAX_UNREAD: usize = 64;
/// How long a message waits for room among them.
const UNREAD_WAIT: Duration = Duration::from_secs(10);
/// Ended sessions of which is still known why.
const MAX_REMEMBERED: usize = 256;

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the client has ended it")]
    Deleted,
    #[error("it was unused for longest when another client began one (stdio.max_processes)")]
    Displaced,
    #[error("it was idle for {0:?} (idle_timeout)")]
    Idle(Duration),
    #[error("the service was stopped")]
    Stopped,
    #[error("the program ended{}", status(.0))]
    Exited(Option<ExitStatus>),
    #[error("the program has closed its standard input")]
    InputClosed,
    #[error("the program wrote a line of more than {0} bytes (stdio.max_line)")]
    TooLong(usize),
    #[error("the program did not answer `initialize` within {0:?} (start_timeout)")]
    NoStart(Duration),
    #[error("the program refused `initialize`")]
    Refused,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<String, Arc<Session>>>,
    ended: Mutex<VecDeque<(String, Ended)>>,
}

/// One session. Its task owns the process.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: String,
    /// Whose it is, as the gateway says.
    client: Box<str>,
    input: mpsc::Sender<Bytes>,
    state: Mutex<State>,
    /// A client was sent something.
    room: Notify,
    deleted: Notify,
    displaced: Notify,
}

#[derive(Debug)]
struct State {
    streams: Streams,
    /// When a client was last there.
    used: Instant,
    /// The revision of MCP that was agreed on.
    revision: Option<String>,
    /// It makes room for another one.
    is_displaced: bool,
}

impl Sessions {
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Session>> {
        locked(&self.open).get(id).cloned()
    }

    /// What has become of a session that there is not.
    pub(crate) fn what_became_of(&self, id: &str) -> String {
        let ended = locked(&self.ended);
        match ended.iter().find(|(one, _)| one == id) {
            Some((_, why)) => format!("the session has ended: {why}; begin another one with initialize"),
            None => "there is no such session; begin one with initialize".to_owned(),
        }
    }

    /// Starts a process for a client.
    pub(crate) fn start(
        self: &Arc<Self>,
        crew: &Crew,
        place: OwnedSemaphorePermit,
        client: &str,
    ) -> Result<Arc<Session>, NotStarted> {
        let (input, lines) = mpsc::channel(MAX_UNREAD);
        let streams = Streams::new(crew.settings.options.replay_buffer);
        let state = Mutex::new(State { streams, used: Instant::now(), revision: None, is_displaced: false });
        let (room, deleted, displaced) = <_>::default();
        let session = Arc::new(Session { id: new_id(), client: client.into(), input, state, room, deleted, displaced });
        let run = Run {
            session: Arc::clone(&session),
            sessions: Arc::clone(self),
            idle: crew.settings.timeouts.idle,
            start: crew.settings.timeouts.start,
            stop: crew.settings.timeouts.stop,
            max_line: crew.settings.options.max_line,
        };
        crew.start(place, |member| run.run(member, lines))?;
        locked(&self.open).insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Ends one session that waits for no answer, so that another one can begin: of the client with the most, one that
    /// nobody listens to rather than one that somebody does, the one that has been unused longest.
    ///
    /// Most clients never end theirs. Without this, the first to come would have all the places until `idle_timeout`.
    pub(crate) fn make_room(&self) {
        let open = locked(&self.open);
        let mut held: HashMap<&str, usize> = HashMap::new();
        open.values().for_each(|session| *held.entry(&session.client).or_default() += 1);
        let rank = |session: &Arc<Session>| {
            let state = locked(&session.state);
            let may_end = state.streams.open_requests() == 0 && !state.is_displaced;
            may_end.then(|| (Reverse(held[&*session.client]), state.streams.has_listener(), state.used))
        };
        let ranked = open.values().filter_map(|session| Some((rank(session)?, session)));
        if let Some((_, session)) = ranked.min_by_key(|(rank, _)| *rank) {
            locked(&session.state).is_displaced = true;
            session.displaced.notify_one();
        }
    }

    /// Streams that no request waits for end.
    pub(crate) fn drain(&self) {
        locked(&self.open).values().for_each(|session| locked(&session.state).streams.drain());
    }

    fn forget(&self, id: &str, why: Ended) {
        locked(&self.open).remove(id);
        let mut ended = locked(&self.ended);
        if ended.len() >= MAX_REMEMBERED {
            ended.pop_front();
        }
        ended.push_back((id.to_owned(), why));
    }
}

/// 128 random bits: whoever knows it has the session.
fn new_id() -> String {
    let mut random = [0; 16];
    // Without random numbers there is no secret, and so no session: an id that is in nobody's hands.
    if getrandom::fill(&mut random).is_err() {
        eprintln!("pilotlight: error: the system gives no random numbers");
        std::process::exit(1);
    }
    format!("{:032x}", u128::from_be_bytes(random))
}

impl Session {
    /// A client's messages are given to the program; what they are answered with.
    pub(crate) async fn post(self: &Arc<Self>, messages: &[Message], accepted: Accepted) -> Response<Body> {
        let has_requests = messages.iter().any(|message| message.request_id().is_some());
        let id = messages.iter().find_map(Message::request_id);
        let opened = {
            let mut state = locked(&self.state);
            state.used = Instant::now();
            has_requests.then(|| state.streams.open(messages)).transpose()
        };
        let heard = match opened {
            Ok(reader) => reader.map(|reader| Heard { session: Arc::clone(self), reader, knows_place: false }),
            Err(error) => {
                let (status, code) = match error {
                    OpenError::TooMany => (StatusCode::SERVICE_UNAVAILABLE, code::BUSY),
                    OpenError::SameId => (StatusCode::BAD_REQUEST, code::INVALID),
                };
                return reply::refused(status, id, code, &error.to_string());
            }
        };
        for message in messages {
            match timeout(UNREAD_WAIT, self.input.send(message.text.clone())).await {
                Ok(Ok(())) => {}
                // Its end has answered what was open before.
                Ok(Err(_)) if has_requests => break,
                Ok(Err(_)) => return ended(None),
                Err(_) => {
                    let why = format!("{MAX_UNREAD} messages wait for the program to read them");
                    return reply::refused(StatusCode::SERVICE_UNAVAILABLE, id, code::BUSY, &why);
                }
            }
            if let (Kind::Notification { method }, Some(id)) = (&message.kind, &message.known.request_id)
                && method == "notifications/cancelled"
            {
                locked(&self.state).streams.cancel(id);
            }
        }
        match heard {
            Some(heard) => heard.answer(accepted, id).await,
            None => reply::empty(StatusCode::ACCEPTED),
        }
    }

    /// The stream of messages that belong to no request, or one that was cut.
    pub(crate) fn listen(self: &Arc<Self>, after: Option<EventId>) -> Option<Response<Body>> {
        let mut state = locked(&self.state);
        state.used = Instant::now();
        let reader = state.streams.attach(after)?;
        drop(state);
        let heard = Heard { session: Arc::clone(self), reader, knows_place: true };
        Some(heard.events())
    }

    pub(crate) fn delete(&self) {
        self.deleted.notify_one();
    }
}

/// It has ended just now.
fn ended(id: Option<&Value>) -> Response<Body> {
    reply::refused(StatusCode::NOT_FOUND, id, code::ENDED, "the session has ended; begin another one with initialize")
}

/// A client that reads a stream of a session.
#[derive(Debug)]
pub(crate) struct Heard {
    session: Arc<Session>,
    reader: Reader,
    /// It knows where it is, so it can come back.
    knows_place: bool,
}

impl Heard {
    async fn answer(self, accepted: Accepted, id: Option<&Value>) -> Response<Body> {
        let streams = |with: fn(&mut Streams, Reader, &mut Context<'_>) -> Poll<First>| {
            let (session, reader) = (&self.session, self.reader);
            poll_fn(move |cx| with(&mut locked(&session.state).streams, reader, cx))
        };
        let first = match accepted {
            Accepted { events: false, .. } => streams(Streams::poll_answer).await,
            Accepted { json: false, any: false, .. } => First::Events,
            _ => timeout(JSON_WITHIN, streams(Streams::poll_first)).await.unwrap_or(First::Events),
        };
        match first {
            First::Answer(text) => reply::json(StatusCode::OK, text),
            First::Nothing => reply::empty(StatusCode::ACCEPTED),
            First::Ended => ended(id),
            First::Events => self.events(),
        }
    }

    fn events(mut self) -> Response<Body> {
        let state = locked(&self.session.state);
        let is_primed = state.revision.as_deref().is_some_and(|revision| revision >= PRIMING);
        let place = is_primed.then(|| state.streams.place(self.reader));
        drop(state);
        self.knows_place |= is_primed;
        let body = EventBody::new(self);
        reply::events(match place {
            Some(place) => body.primed(place),
            None => body,
        })
    }
}

impl Source for Heard {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Option<EventId>, Bytes)>> {
        let mut state = locked(&self.session.state);
        let next = state.streams.poll_next(self.reader, cx);
        if let Poll::Ready(Some(_)) = next {
            state.used = Instant::now();
            self.knows_place = true;
            self.session.room.notify_one();
        }
        next.map(|next| next.map(|(id, text)| (Some(id), text)))
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let mut state = locked(&self.session.state);
        state.used = Instant::now();
        if self.knows_place {
            state.streams.detach(self.reader);
        } else {
            state.streams.forget(self.reader);
        }
        drop(state);
        self.session.room.notify_one();
    }
}

/// The task of a session.
struct Run {
    session: Arc<Session>,
    sessions: Arc<Sessions>,
    idle: Option<Duration>,
    start: Duration,
    stop: Duration,
    max_line: usize,
}

impl Run {
    async fn run(self, mut member: Member, lines: mpsc::Receiver<Bytes>) {
        let input = member.program.input.take();
        let mut why = self.serve(&mut member, input, lines).await;
        // Clients are told at once; the process may take a while.
        if let Ended::Exited(status) = &mut why {
            *status = member.program.ended().await;
        }
        self.sessions.forget(&self.session.id, why);
        let text = format!("the session has ended: {why}");
        locked(&self.session.state).streams.close(|id| reply::error(Some(id), code::ENDED, &text));
        if !matches!(why, Ended::Deleted | Ended::Displaced | Ended::Idle(_) | Ended::Stopped) {
            eprintln!("pilotlight: warning: {text}");
        }
        member.program.end(self.stop).await;
        drop(member.place);
    }

    /// Until the session ends.
    async fn serve(&self, member: &mut Member, input: Option<Sender>, lines: mpsc::Receiver<Bytes>) -> Ended {
        let Member { program, leaving, .. } = member;
        let begun = Instant::now();
        let mut writing = std::pin::pin!(write_lines(input, lines));
        loop {
            let (has_room, until) = {
                let state = locked(&self.session.state);
                (state.streams.has_room(), self.next_look(&state, begun))
            };
            tokio::select! {
                line = program.output.next(), if has_room => match self.take(line) {
                    None => {}
                    Some(ended) => return ended,
                },
                () = self.session.room.notified(), if !has_room => {}
                _ = &mut writing => return self.input_closed(program).await,
                () = sleep_until(until.unwrap_or(begun)), if until.is_some() => {
                    if let Some(ended) = self.look(begun) {
                        return ended;
                    }
                }
                () = self.session.deleted.notified() => return Ended::Deleted,
                () = self.session.displaced.notified() => return Ended::Displaced,
                () = left(leaving) => return Ended::Stopped,
            }
        }
    }

    /// Usually it has ended, and its status says more.
    async fn input_closed(&self, program: &mut Program) -> Ended {
        program.ended().await.map_or(Ended::InputClosed, |status| Ended::Exited(Some(status)))
    }

    fn next_look(&self, state: &State, begun: Instant) -> Option<Instant> {
        match state.revision {
            None => Some(begun + self.start),
            // While a request is open it is not idle, however long that takes.
            Some(_) if state.streams.open_requests() > 0 => Some(Instant::now() + self.idle?),
            Some(_) => Some(state.used + self.idle?),
        }
    }

    fn look(&self, begun: Instant) -> Option<Ended> {
        let state = locked(&self.session.state);
        if state.revision.is_none() {
            return (begun.elapsed() >= self.start).then_some(Ended::NoStart(self.start));
        }
        let idle = self.idle.filter(|idle| state.used.elapsed() >= *idle)?;
        (state.streams.open_requests() == 0).then_some(Ended::Idle(idle))
    }

    /// A line of the program.
    fn take(&self, line: io::Result<Line>) -> Option<Ended> {
        let line = match line {
            Ok(Line::Text(line)) => line,
            Ok(Line::TooLong) => return Some(Ended::TooLong(self.max_line)),
            Ok(Line::End) | Err(_) => return Some(Ended::Exited(None)),
        };
        let messages = messages_of(&line)?;
        let mut state = locked(&self.session.state);
        for message in &messages {
            let is_first = state.revision.is_none() && matches!(message.kind, Kind::Response { .. });
            state.streams.push(message);
            if !is_first {
                continue;
            }
            if message.known.code.is_some() {
                return Some(Ended::Refused);
            }
            let revision = message.known.revision.as_ref().and_then(|revision| revision.as_str());
            state.revision = Some(revision.unwrap_or_default().to_owned());
        }
        None
    }
}

/// Until the program reads no more, or nobody is left to write.
async fn write_lines(input: Option<Sender>, mut lines: mpsc::Receiver<Bytes>) -> io::Result<()> {
    let Some(mut input) = input else { return Ok(()) };
    while let Some(line) = lines.recv().await {
        write_line(&mut input, &line).await?;
    }
    Ok(())
}
