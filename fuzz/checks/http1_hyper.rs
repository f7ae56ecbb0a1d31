//! Bytes of a client or of a service, shown to ours and to hyper: a message that is whole for ours is whole for hyper,
//! with the same method or status, target, fields, body and trailers. So whatever hyper refuses, ours refuses too; ours
//! may refuse more. What differs by intent is [`Known`].

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::str::FromStr as _;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper::{client, server};
use pilotlight_http1::{
    BodyLength, ClientConnection, FieldTable, Fields, Limits, OutgoingRequest, Received, ServerConnection, Version,
};

/// Polls that bring nothing new, until it is taken for granted that nothing more comes.
const IDLE_POLLS: usize = 4;

/// The first byte is the mode of the target `http1`, so that both take the same corpus.
pub(crate) fn check(data: &[u8]) {
    let Some((_, stream)) = data.split_first() else { return };
    let (ours, theirs) = (served_by_ours(stream), served_by_hyper(stream));
    for (index, (message, known)) in ours.iter().enumerate() {
        let is_taken = matches!(known, None | Some(Known::Options));
        let text = || stream.escape_ascii().to_string();
        assert!(!is_taken || theirs.get(index) == Some(message), "request {index} of {:?}: {theirs:#?}", text());
        if known.is_some() {
            break; // from there on hyper need not go along
        }
    }
    if let (Some(message), None) = asked_by_ours(stream) {
        assert_eq!(asked_by_hyper(stream), Some(message), "response {:?}", stream.escape_ascii().to_string());
    }
}

/// Why hyper may refuse, or end after, what ours takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// HTTP/1.2 and later are taken as HTTP/1.1 (RFC 9110 §2.5); hyper refuses them.
    Minor,
    /// A target that `http::Uri` cannot hold.
    Target,
    /// A list of equal lengths counts as one (RFC 9110 §8.6); hyper refuses lists.
    LengthList,
    /// hyper takes CONNECT that is answered with 200 for the end of HTTP.
    Connect,
    /// A `Connection` with bytes above 0x7F: hyper does not read it, and may close where ours goes on.
    Options,
    /// A service that answers with chunks in HTTP/1.0 is understood, and its connection closed (RFC 9112 §6.1); hyper
    /// refuses them.
    OldChunks,
}

/// A whole message.
#[derive(Debug, Default, PartialEq, Eq)]
struct Message {
    /// Method and target, or the status.
    start: String,
    fields: HeaderMap,
    body: Vec<u8>,
    trailers: HeaderMap,
}

fn map(fields: Fields<'_>) -> HeaderMap {
    let field = |name, value| {
        let name = HeaderName::from_bytes(name).expect("a name that http knows as one");
        (name, HeaderValue::from_bytes(value).expect("a value that http knows as one"))
    };
    let mut map = HeaderMap::new();
    for (name, value) in fields.iter().map(|each| field(each.name, each.value)) {
        map.append(name, value);
    }
    map
}

/// Of several equal lengths in a head hyper's server gives out one.
fn with_one_length(mut fields: HeaderMap) -> HeaderMap {
    if let Some(first) = fields.get(CONTENT_LENGTH).cloned() {
        fields.insert(CONTENT_LENGTH, first);
    }
    fields
}

/// Whether a start line in front of `rest` says a version that only ours takes.
fn is_minor(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').find(|line| line.len() > 1).unwrap_or_default();
    !line.windows(8).any(|bytes| bytes == b"HTTP/1.0" || bytes == b"HTTP/1.1")
}

fn has_list(fields: Fields<'_>) -> bool {
    let is_list = |value: &[u8]| value.contains(&b',');
    fields.iter().any(|field| field.name.eq_ignore_ascii_case(b"content-length") && is_list(field.value))
}

fn has_odd_options(fields: Fields<'_>) -> bool {
    fields.iter().any(|field| field.name.eq_ignore_ascii_case(b"connection") && !field.value.is_ascii())
}

fn served_by_ours(stream: &[u8]) -> Vec<(Message, Option<Known>)> {
    let (mut server, mut table) = (ServerConnection::new(Limits::REQUEST), FieldTable::new());
    let (mut at, mut out, mut whole) = (0, BytesMut::new(), Vec::new());
    let mut current = (Message::default(), None);
    while let Ok((taken, event)) = server.receive(&stream[at..], &mut table) {
        let over = match event {
            Received::Incomplete => break,
            Received::Head(head) => {
                let uri = Uri::from_str(head.target_text);
                let known = match &uri {
                    _ if is_minor(&stream[at..at + taken]) => Some(Known::Minor),
                    Err(_) => Some(Known::Target),
                    Ok(_) if has_list(head.fields) => Some(Known::LengthList),
                    Ok(_) if head.method == "CONNECT" => Some(Known::Connect),
                    Ok(_) if has_odd_options(head.fields) => Some(Known::Options),
                    Ok(_) => None,
                };
                let start = format!("{} {}", head.method, uri.map(|uri| uri.to_string()).unwrap_or_default());
                current = (Message { start, fields: with_one_length(map(head.fields)), ..Message::default() }, known);
                head.body == BodyLength::Empty
            }
            Received::Data(data) => {
                current.0.body.extend_from_slice(data);
                false
            }
            Received::Trailers(fields) => {
                current.0.trailers = map(fields);
                true
            }
            Received::End => true,
        };
        at += taken;
        if over {
            whole.push(std::mem::take(&mut current));
            server.send_head(200, "OK", std::iter::empty(), BodyLength::Empty, &mut out).expect("it is awaited");
            server.send_end(&mut out).expect("it is empty");
        }
    }
    whole
}

fn asked_by_ours(stream: &[u8]) -> (Option<Message>, Option<Known>) {
    let (mut client, mut table) = (ClientConnection::new(Limits::REQUEST), FieldTable::new());
    let (mut at, mut out) = (0, BytesMut::new());
    let request =
        OutgoingRequest { method: "GET", target: b"/", authority: "a", body: BodyLength::Empty, upgrade: None };
    client.send_head(&request, std::iter::empty(), &mut out).expect("it is the first");
    let (mut message, mut known) = (Message::default(), None);
    loop {
        let Ok((taken, event)) = client.receive(&stream[at..], &mut table) else { return (None, None) };
        let over = match event {
            Received::Incomplete => {
                let ended = client.receive_end(stream.len() - at - taken) == Ok(true);
                return (ended.then_some(message), known);
            }
            Received::Head(head) => {
                known = known.or(is_minor(&stream[at..at + taken]).then_some(Known::Minor));
                if has_list(head.fields) {
                    known = Some(Known::LengthList);
                }
                if head.version == Version::Http10 && head.body == BodyLength::Chunked {
                    known = Some(Known::OldChunks);
                }
                message = Message {
                    start: head.status.to_string(),
                    fields: with_one_length(map(head.fields)),
                    ..Message::default()
                };
                head.status >= 200 && head.body == BodyLength::Empty
            }
            Received::Data(data) => {
                message.body.extend_from_slice(data);
                false
            }
            Received::Trailers(fields) => {
                message.trailers = map(fields);
                true
            }
            Received::End => true,
        };
        if over {
            return (Some(message), known);
        }
        at += taken;
    }
}

fn served_by_hyper(stream: &[u8]) -> Vec<Message> {
    let whole = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&whole);
    let service = service_fn(move |request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (head, body) = request.into_parts();
            let start = format!("{} {}", head.method, head.uri);
            if let Some(message) = collected(start, head.headers, body).await {
                seen.borrow_mut().push(message);
            }
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let wire = Wire::new(stream, Turn::Reads, End::Silence);
    let progress = Rc::clone(&wire.progress);
    let mut serving = pin!(server::conn::http1::Builder::new().serve_connection(wire, service));
    poll_on(&progress, |context| serving.as_mut().poll(context).is_ready());
    whole.take()
}

fn asked_by_hyper(stream: &[u8]) -> Option<Message> {
    let wire = Wire::new(stream, Turn::Writes, End::Close);
    let progress = Rc::clone(&wire.progress);
    let mut found = None;
    let mut asking = pin!(async {
        let (mut sender, connection) = client::conn::http1::handshake(wire).await.ok()?;
        let answered = sender.send_request(Request::get("/").header("host", "a").body(Empty::<Bytes>::new()).ok()?);
        let exchange = async {
            let (head, body) = answered.await.ok()?.into_parts();
            collected(head.status.as_u16().to_string(), head.headers, body).await
        };
        let (mut exchange, mut connection) = (pin!(exchange), pin!(connection));
        std::future::poll_fn(move |context| {
            let _ = connection.as_mut().poll(context);
            exchange.as_mut().poll(context)
        })
        .await
    });
    poll_on(&progress, |context| match asking.as_mut().poll(context) {
        Poll::Ready(message) => {
            found = message;
            true
        }
        Poll::Pending => false,
    });
    found
}

async fn collected(start: String, fields: HeaderMap, body: Incoming) -> Option<Message> {
    let body = body.collect().await.ok()?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let fields = with_one_length(fields);
    Some(Message { start, fields, body: body.to_bytes().to_vec(), trailers })
}

/// Polls until it is ready or nothing moves any more; everything happens in memory, so nobody wakes anybody.
fn poll_on(progress: &RefCell<usize>, mut poll: impl FnMut(&mut Context<'_>) -> bool) {
    let mut context = Context::from_waker(Waker::noop());
    let (mut idle, mut before) = (0, 0);
    while idle < IDLE_POLLS && !poll(&mut context) {
        let now = *progress.borrow();
        idle = if now == before { idle + 1 } else { 0 };
        before = now;
    }
}

/// What comes behind the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The end of the connection.
    Close,
    /// Nothing: hyper would leave requests unanswered whose client has closed.
    Silence,
}

/// Who begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Reads,
    /// Nothing can be read before something was written.
    Writes,
}

/// A connection whose other side has sent a stream.
struct Wire {
    unread: Vec<u8>,
    at: usize,
    turn: Turn,
    end: End,
    /// Bytes read and written.
    progress: Rc<RefCell<usize>>,
}

impl Wire {
    fn new(stream: &[u8], turn: Turn, end: End) -> Self {
        Self { unread: stream.to_vec(), at: 0, turn, end, progress: Rc::default() }
    }
}

impl Read for Wire {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, mut room: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.turn == Turn::Writes {
            return Poll::Pending;
        }
        let rest = &wire.unread[wire.at..];
        if rest.is_empty() && wire.end == End::Silence {
            return Poll::Pending;
        }
        let count = rest.len().min(room.remaining());
        room.put_slice(&rest[..count]);
        wire.at += count;
        *wire.progress.borrow_mut() += count;
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        wire.turn = Turn::Reads;
        *wire.progress.borrow_mut() += bytes.len();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
