//! A process that has one request at a time, of any client (MCP since 2026-07-28, and programs that answer a line with
//! a line).
//!
//! What it writes until the answer belongs to that request, so no id, token or log line of one client can get to
//! another. A client that goes away before its answer ends the process: what it would still write belongs to nobody.

use crate::crew::{Crew, Member, NotStarted, left, locked, messages_of, warn};
use crate::events::Source;
use crate::lines::Line;
use crate::message::{Kind, id_of};
use crate::program::{Program, status, write_line};
use crate::reply::{self, code};
use crate::streams::EventId;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc::Permit;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout};

/// Requests that wait for a process.
const MAX_WAITING: usize = 256;
/// How long one waits.
const PLACE_WAIT: Duration = Duration::from_secs(30);
/// How long a session waits for the end of a process that makes room for it.
const MAKE_ROOM_WAIT: Duration = Duration::from_secs(2);
/// The id of the adapter's own question.
const PROBE: &str = "pilotlight-discover";

/// What comes of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Out {
    /// A message before the answer.
    Before(Bytes),
    Answer {
        text: Bytes,
        /// Of an error.
        code: Option<Value>,
    },
    /// There is no answer; an error in its place.
    Failed(Bytes),
}

/// What comes of a request, as the messages of a stream.
pub(crate) struct Rest(Option<mpsc::Receiver<Out>>);

impl Rest {
    pub(crate) fn of(out: mpsc::Receiver<Out>) -> Self {
        Self(Some(out))
    }
}

impl Source for Rest {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Option<EventId>, Bytes)>> {
        let Some(out) = &mut self.0 else { return Poll::Ready(None) };
        let (text, is_last) = match ready!(out.poll_recv(cx)) {
            Some(Out::Before(text)) => (text, false),
            Some(Out::Answer { text, .. } | Out::Failed(text)) => (text, true),
            None => return Poll::Ready(None),
        };
        if is_last {
            self.0 = None;
        }
        Poll::Ready(Some((None, text)))
    }
}

/// What ends a turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Until {
    /// The answer of MCP with this id.
    Response { id: Value, token: Option<Value> },
    /// A JSON object with this id.
    Id(Value),
    /// Any line.
    AnyLine,
    /// The line was written.
    Written,
}

/// A line for the program.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) line: Bytes,
    pub(crate) until: Until,
}

impl Turn {
    fn id(&self) -> Option<&Value> {
        match &self.until {
            Until::Response { id, .. } | Until::Id(id) => Some(id),
            Until::AnyLine | Until::Written => None,
        }
    }
}

enum Order {
    Turn(Turn, mpsc::Sender<Out>),
    Leave,
}

/// Why no process has taken a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPlace {
    #[error("all {0} processes are busy (stdio.max_processes), and {MAX_WAITING} requests wait for them")]
    Full(usize),
    #[error("all {0} processes were busy for {PLACE_WAIT:?} (stdio.max_processes)")]
    Late(usize),
    #[error(transparent)]
    NotStarted(#[from] NotStarted),
}

/// Whether the program serves requests without sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Stateless,
    Sessions,
}

/// The processes that take turns.
pub(crate) struct Turns {
    crew: Arc<Crew>,
    /// Those that have nothing to do.
    free: Mutex<Vec<mpsc::Sender<Order>>>,
    freed: Notify,
    waiting: AtomicUsize,
    era: tokio::sync::Mutex<Option<Era>>,
}

impl Turns {
    pub(crate) fn new(crew: Arc<Crew>) -> Arc<Self> {
        let (free, freed, waiting, era) = <_>::default();
        Arc::new(Self { crew, free, freed, waiting, era })
    }

    /// Gives a line to a process, as soon as one is free.
    ///
    /// # Cancel safety
    /// Dropping what it returns before the answer ends the process.
    pub(crate) async fn begin(self: &Arc<Self>, turn: Turn) -> Result<mpsc::Receiver<Out>, NoPlace> {
        loop {
            let process = self.take().await?;
            let (sender, out) = mpsc::channel(1);
            // One that has just ended takes nothing: another one does.
            if process.send(Order::Turn(turn.clone(), sender)).await.is_ok() {
                return Ok(out);
            }
        }
    }

    async fn take(self: &Arc<Self>) -> Result<mpsc::Sender<Order>, NoPlace> {
        if let Some(process) = self.take_free() {
            return Ok(process);
        }
        if let Ok(place) = Arc::clone(&self.crew.places).try_acquire_owned() {
            return Ok(self.start(place)?);
        }
        let most = self.crew.settings.options.max_processes;
        let waiting = Waiting::new(&self.waiting);
        if waiting.count > MAX_WAITING {
            return Err(NoPlace::Full(most));
        }
        let found = timeout(PLACE_WAIT, async {
            loop {
                tokio::select! {
                    () = self.freed.notified() => if let Some(process) = self.take_free() {
                        return Ok(process);
                    },
                    Ok(place) = Arc::clone(&self.crew.places).acquire_owned() => return self.start(place),
                }
            }
        });
        Ok(found.await.map_err(|_| NoPlace::Late(most))??)
    }

    fn take_free(&self) -> Option<mpsc::Sender<Order>> {
        let mut free = locked(&self.free);
        std::iter::from_fn(|| free.pop()).find(|process| !process.is_closed())
    }

    fn start(self: &Arc<Self>, place: OwnedSemaphorePermit) -> Result<mpsc::Sender<Order>, NotStarted> {
        let (process, orders) = mpsc::channel(1);
        let (turns, own) = (Arc::clone(self), process.clone());
        self.crew.start(place, |member| turns.work(member, orders, own))?;
        Ok(process)
    }

    /// A place for a process that is none of these. One of them that has nothing to do makes room, or else `make_room`
    /// is called.
    pub(crate) async fn place(&self, make_room: impl FnOnce()) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = Arc::clone(&self.crew.places).try_acquire_owned() {
            return Some(place);
        }
        match self.take_free() {
            Some(process) => drop(process.try_send(Order::Leave)), // it ends already
            None => make_room(),
        }
        // Or a session that has ended, whose process has not.
        timeout(MAKE_ROOM_WAIT, Arc::clone(&self.crew.places).acquire_owned()).await.ok()?.ok()
    }

    /// The life of one process.
    async fn work(self: Arc<Self>, mut member: Member, mut orders: mpsc::Receiver<Order>, own: mpsc::Sender<Order>) {
        let (idle, stop) = (self.crew.settings.timeouts.idle, self.crew.settings.timeouts.stop);
        loop {
            let Member { program, leaving, .. } = &mut member;
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                () = idle_output(program) => None,
                () = sleep(idle.unwrap_or_default()), if idle.is_some() => None,
                () = left(leaving) => None,
            };
            let Some(Order::Turn(turn, out)) = order else { break };
            let after = tokio::select! {
                after = run(program, &turn, &out) => after,
                () = left(leaving) => After::Ended,
            };
            let After::Free(answer) = after else { break };
            // Before the answer is there: the client's next request is for this process.
            locked(&self.free).push(own.clone());
            self.freed.notify_one();
            if let Some((room, answer)) = answer {
                room.send(answer);
            }
        }
        // What was sent meanwhile goes to another process: nothing of it was written.
        orders.close();
        drop(orders);
        member.program.end(stop).await;
        drop(member.place);
    }

    /// Whether the program serves requests without sessions: asked once (MCP 2026-07-28, "stdio": Backward
    /// Compatibility). One that does not answer is one with sessions.
    pub(crate) async fn era(self: &Arc<Self>, revision: &str) -> Result<Era, NoEra> {
        let mut era = self.era.lock().await;
        if let Some(era) = *era {
            return Ok(era);
        }
        let mut out = self.begin(probe(revision)).await?;
        let answer = timeout(self.crew.settings.timeouts.start, async {
            loop {
                match out.recv().await {
                    Some(Out::Before(_)) => {}
                    other => return other,
                }
            }
        });
        let found = match answer.await {
            Ok(Some(Out::Answer { code, .. })) => match code.and_then(|code| code.as_i64()) {
                None | Some(code::UNSUPPORTED_REVISION) => Era::Stateless,
                Some(_) => Era::Sessions,
            },
            Ok(_) => return Err(NoEra::Failed),
            Err(_) => Era::Sessions,
        };
        if found == Era::Sessions
            && let Some(process) = self.take_free()
        {
            let _ = process.try_send(Order::Leave); // it ends already
        }
        *era = Some(found);
        Ok(found)
    }
}

/// Why it is not known how the program serves requests.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoEra {
    #[error(transparent)]
    NoPlace(#[from] NoPlace),
    #[error("the program ended before it had answered anything; what it printed is in the service's log")]
    Failed,
}

/// One that waits, counted.
struct Waiting<'a> {
    all: &'a AtomicUsize,
    count: usize,
}

impl<'a> Waiting<'a> {
    fn new(all: &'a AtomicUsize) -> Self {
        Self { all, count: all.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

fn probe(revision: &str) -> Turn {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientInfo": { "name": "pilotlight", "version": env!("CARGO_PKG_VERSION") },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let line = json!({ "jsonrpc": "2.0", "id": PROBE, "method": "server/discover", "params": { "_meta": meta } });
    Turn { line: line.to_string().into(), until: Until::Response { id: PROBE.into(), token: None } }
}

/// Reads what a process writes that has nothing to do, until it ends.
async fn idle_output(program: &mut Program) {
    while let Ok(Line::Text(_)) = program.output.next().await {}
}

/// Whether a process can take another turn.
#[derive(Debug)]
enum After<'a> {
    /// It can, and this is still to be sent.
    Free(Option<(Permit<'a, Out>, Out)>),
    Ended,
}

/// One turn.
async fn run<'a>(program: &mut Program, turn: &Turn, out: &'a mpsc::Sender<Out>) -> After<'a> {
    let why = match talk(program, turn, out).await {
        Ok(after) => return after,
        Err(why) => why,
    };
    let ended = program.ended().await;
    let why = format!("{why}{}", status(&ended));
    eprintln!("pilotlight: warning: {why}");
    let _ = out.send(Out::Failed(reply::error(turn.id(), code::ENDED, &why))).await; // nobody may be there any more
    After::Ended
}

/// Writes the line and reads what comes of it; or why there is no answer.
async fn talk<'a>(program: &mut Program, turn: &Turn, out: &'a mpsc::Sender<Out>) -> Result<After<'a>, String> {
    let Program { input: Some(input), output, .. } = program else { return Ok(After::Ended) };
    let mut writing = std::pin::pin!(write_line(input, &turn.line));
    let mut is_written = false;
    loop {
        let line = tokio::select! {
            written = &mut writing, if !is_written => match written {
                Err(error) => return Err(format!("the program reads no more: {error}")),
                Ok(()) if turn.until == Until::Written => return Ok(After::Free(None)),
                Ok(()) => {
                    is_written = true;
                    continue;
                }
            },
            line = output.next() => match line {
                Ok(Line::Text(line)) => line,
                Ok(Line::TooLong) => return Err("the program wrote a line of more than stdio.max_line".to_owned()),
                Ok(Line::End) | Err(_) => return Err("the program ended".to_owned()),
            },
            () = out.closed() => return Ok(After::Ended),
        };
        let Some(part) = sort(&turn.until, line) else { continue };
        let Ok(room) = out.reserve().await else { return Ok(After::Ended) };
        match part {
            Out::Answer { .. } if is_written => return Ok(After::Free(Some((room, part)))),
            // One that answers before it has read everything is out of step.
            Out::Answer { .. } => {
                room.send(part);
                return Ok(After::Ended);
            }
            Out::Before(_) | Out::Failed(_) => room.send(part),
        }
    }
}

/// What a line is for this request.
fn sort(until: &Until, line: Bytes) -> Option<Out> {
    match until {
        Until::Response { id, token } => {
            let message = messages_of(&line)?.into_iter().next()?;
            match &message.kind {
                Kind::Response { id: answered } if answered == id => {
                    Some(Out::Answer { code: message.known.code, text: message.text })
                }
                Kind::Response { .. } => None,
                Kind::Notification { method } => {
                    let is_late = method == "notifications/progress" && message.progress_token() != token.as_ref();
                    (!is_late).then_some(Out::Before(message.text))
                }
                Kind::Request { .. } => {
                    warn("the program asked something of a client, which this revision of MCP does not allow", &line);
                    None
                }
            }
        }
        Until::Id(id) if id_of(&line).as_ref() != Some(id) => Some(Out::Before(line)),
        Until::Id(_) | Until::AnyLine => Some(Out::Answer { text: line, code: None }),
        Until::Written => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted() {
        let until = Until::Response { id: json!(1), token: Some(json!("t")) };
        let check = |until: &Until, line: &'static str, expected: Option<Out>| {
            assert_eq!(sort(until, Bytes::from_static(line.as_bytes())), expected, "{line}");
        };
        let before = |text: &'static str| Some(Out::Before(text.into()));
        let answer = |text: &'static str| Some(Out::Answer { text: text.into(), code: None });
        let own = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t"}}"#;
        check(&until, own, before(own));
        check(&until, r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}"#, None);
        check(&until, r#"{"jsonrpc":"2.0","id":2,"result":{}}"#, None);
        check(&until, r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, None);
        check(&until, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, answer(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        check(&until, "hello", None);
        check(&Until::Id(json!(1)), "hello", before("hello"));
        check(&Until::Id(json!(1)), r#"{"id":1}"#, answer(r#"{"id":1}"#));
        check(&Until::AnyLine, "hello", answer("hello"));
    }
}
