//! Bytes of a client or of a service: whatever they are, nothing panics, chunking changes nothing, and what is taken
//! for a request head is what httparse takes for one.

use bytes::BytesMut;
use pilotlight_http1::{
    BodyLength, ClientConnection, FieldTable, Limits, OutgoingRequest, Received, ServerConnection, parse_request,
};

/// Small enough for a fuzzer to reach each of them.
const SMALL: Limits =
    Limits { max_head: 256, max_fields: 4, max_chunk_line: 16, max_chunk_extensions: 24, max_trailers: 32 };

/// The first byte says how the rest is cut into reads; its highest bit, which limits hold.
pub(crate) fn check(data: &[u8]) {
    let Some((&mode, stream)) = data.split_first() else {
        return;
    };
    let limits = if mode & 0x80 == 0 { Limits::REQUEST } else { SMALL };
    let step = usize::from(mode & 0x7f).max(1);
    // With an end: a line that is not whole is looked at when it is.
    let stream = [stream, b"\r\n"].concat();
    for side in [serve, ask] {
        let (whole, pieces) = (side(&stream, stream.len(), limits), side(&stream, step, limits));
        assert_eq!(whole, pieces, "the cutting of the stream changed its events");
    }
    agrees(&stream);
}

/// Bodies are joined: their pieces depend on how they come.
#[derive(Default)]
struct Events {
    lines: Vec<String>,
    data: Vec<u8>,
}

impl Events {
    fn add<H>(&mut self, event: Received<'_, H>, head: impl FnOnce(H) -> String) {
        let line = match event {
            Received::Incomplete => return,
            Received::Data(data) => return self.data.extend_from_slice(data),
            Received::Head(view) => head(view),
            Received::Trailers(fields) => format!("trailers {:?}", fields.iter().collect::<Vec<_>>()),
            Received::End => "end".to_owned(),
        };
        self.lines.push(format!("{:?} {line}", std::mem::take(&mut self.data)));
    }
}

fn serve(stream: &[u8], step: usize, limits: Limits) -> Vec<String> {
    let mut server = ServerConnection::new(limits);
    let (mut table, mut events, mut unread, mut out) =
        (FieldTable::new(), Events::default(), Vec::new(), BytesMut::new());
    for piece in stream.chunks(step.max(1)) {
        unread.extend_from_slice(piece);
        loop {
            let (taken, is_head) = match server.receive(&unread, &mut table) {
                Ok((taken, Received::Incomplete)) => {
                    unread.drain(..taken);
                    break;
                }
                Ok((taken, event)) => {
                    let is_head = matches!(event, Received::Head(_));
                    events.add(event, |head| {
                        let fields: Vec<_> = head.fields.end_to_end().collect();
                        format!("{} {:?} {} {:?} {fields:?}", head.method, head.target, head.authority, head.body)
                    });
                    (taken, is_head)
                }
                Err(rule) => {
                    events.lines.push(format!("{rule:?}"));
                    return events.lines;
                }
            };
            unread.drain(..taken);
            if is_head {
                server.send_head(200, "OK", std::iter::empty(), BodyLength::Empty, &mut out).expect("it is awaited");
                server.send_end(&mut out).expect("it is empty");
            }
        }
    }
    events.lines
}

fn ask(stream: &[u8], step: usize, limits: Limits) -> Vec<String> {
    let mut client = ClientConnection::new(limits);
    let (mut table, mut events, mut unread, mut out) =
        (FieldTable::new(), Events::default(), Vec::new(), BytesMut::new());
    let request =
        OutgoingRequest { method: "GET", target: b"/", authority: "a", body: BodyLength::Empty, upgrade: None };
    client.send_head(&request, std::iter::empty(), &mut out).expect("it is the first");
    for piece in stream.chunks(step.max(1)) {
        unread.extend_from_slice(piece);
        loop {
            match client.receive(&unread, &mut table) {
                Ok((taken, Received::Incomplete)) => {
                    unread.drain(..taken);
                    break;
                }
                Ok((taken, event)) => {
                    events.add(event, |head| format!("{} {:?} {:?}", head.status, head.body, head.persistence));
                    unread.drain(..taken);
                }
                Err(rule) => {
                    events.lines.push(format!("{rule:?}"));
                    return events.lines;
                }
            }
        }
    }
    events.lines.push(format!("{:?} {:?}", events.data, client.receive_end(unread.len())));
    events.lines
}

/// What is taken here is taken by httparse, and has the same fields. (It takes more: lines that end with LF alone, for
/// example.)
fn agrees(stream: &[u8]) {
    let mut table = FieldTable::new();
    let Ok(Some(head)) = parse_request(stream, &mut table, &Limits::REQUEST) else { return };
    let is_later = stream[..head.length].windows(7).any(|bytes| bytes == b"HTTP/1.") && {
        let line = stream.split(|byte| *byte == b'\n').find(|line| line.len() > 1).unwrap_or_default();
        !line.ends_with(b"HTTP/1.0\r") && !line.ends_with(b"HTTP/1.1\r")
    };
    if is_later {
        return; // HTTP/1.2 and later, which it does not know
    }
    let mut theirs = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut theirs);
    assert_eq!(request.parse(stream), Ok(httparse::Status::Complete(head.length)));
    let ours: Vec<_> = head.fields.iter().map(|field| (field.name, field.value)).collect();
    let theirs: Vec<_> = request.headers.iter().map(|field| (field.name.as_bytes(), field.value)).collect();
    assert_eq!(ours, theirs);
}
