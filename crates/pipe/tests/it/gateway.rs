// The gateway's side, by hand: a socket, frames, and nothing that the crate decides by itself. Examples in the
// documentation include this file, so its first lines are a plain comment.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use pilotlight_pipe::control::{Drain, More, MoreKind};
use pilotlight_pipe::frame::{FrameHeader, FrameType, HEADER_LEN, MAX_FRAME, encode_frame, flags};
use pilotlight_pipe::head::{RequestHead, decode_response, encode_request};
use pilotlight_pipe::hello::{ConnectionKind, Hello, Welcome};
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::{Incoming, IntoOutcome, ServeError, Service};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Nothing in these tests takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);
const TOKEN: &str = "00112233445566778899aabbccddeeff";
pub(crate) const WORKER: u32 = 5;

/// A service under test and the socket it dials.
pub(crate) struct Gateway {
    listener: UnixListener,
    result: mpsc::Receiver<Result<(), ServeError>>,
    _folder: tempfile::TempDir,
}

impl Gateway {
    pub(crate) fn start<H, F, R>(handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = R> + 'static,
        R: IntoOutcome,
    {
        Self::start_with(|service| service, handler)
    }

    pub(crate) fn start_with<H, F, R>(configure: impl FnOnce(Service) -> Service, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Send + 'static,
        F: Future<Output = R> + 'static,
        R: IntoOutcome,
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.sock");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let service = configure(Service::new(path, TOKEN).unwrap());
        let (done, result) = mpsc::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _ = done.send(runtime.block_on(service.serve(handler)));
        });
        Self { listener, result, _folder: folder }
    }

    /// The next connection and its HELLO; not welcomed yet.
    #[track_caller]
    pub(crate) fn accept(&self) -> (Wire, Hello) {
        let start = Instant::now();
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    assert!(start.elapsed() < LIMIT, "no connection");
                    thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        let mut wire = Wire { stream };
        let (header, payload) = wire.frame();
        assert_eq!((header.kind, header.exchange), (FrameType::HELLO, 0));
        let hello = Hello::parse(&payload).unwrap();
        assert_eq!(hello.token, TOKEN);
        (wire, hello)
    }

    /// The next connection, which must be of this kind, welcomed.
    #[track_caller]
    pub(crate) fn welcome(&self, kind: ConnectionKind) -> Wire {
        let (mut wire, hello) = self.accept();
        assert_eq!(hello.kind, kind);
        wire.send(|out| welcome_frame().encode(out));
        wire
    }

    /// The first connection.
    #[track_caller]
    pub(crate) fn shared(&self) -> Wire {
        self.welcome(ConnectionKind::Shared)
    }

    /// Asks for an own connection and accepts it.
    #[track_caller]
    pub(crate) fn own(&self, shared: &mut Wire) -> Wire {
        shared.send(|out| {
            let more = More { kind: MoreKind::Own, count: 1, worker: WORKER };
            more.encode(out);
        });
        self.welcome(ConnectionKind::Own)
    }

    #[track_caller]
    pub(crate) fn result(&self) -> Result<(), ServeError> {
        self.result.recv_timeout(LIMIT).expect("serve returns in time")
    }
}

pub(crate) fn welcome_frame() -> Welcome {
    Welcome { worker: WORKER, max_frame: MAX_FRAME as u32, minor: 1, service: "test".into(), instance: 1 }
}

/// One accepted connection.
pub(crate) struct Wire {
    pub(crate) stream: UnixStream,
}

impl Wire {
    #[track_caller]
    pub(crate) fn send(&mut self, fill: impl FnOnce(&mut BytesMut)) {
        let mut out = BytesMut::new();
        fill(&mut out);
        self.stream.write_all(&out).unwrap();
    }

    #[track_caller]
    pub(crate) fn frame(&mut self) -> (FrameHeader, Bytes) {
        let mut head = [0; HEADER_LEN];
        self.stream.read_exact(&mut head).expect("a frame in time");
        let header = FrameHeader::decode(&head);
        let mut payload = vec![0; header.length as usize];
        self.stream.read_exact(&mut payload).expect("a payload in time");
        (header, payload.into())
    }

    /// The stream ends here, without another frame.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("the end in time");
        assert!(rest.is_empty(), "{rest:?}");
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, kind: u8, flags: u8, exchange: u16) -> Bytes {
        let (header, payload) = self.frame();
        assert_eq!(
            (FrameType::name(header.kind), header.flags, header.exchange),
            (FrameType::name(kind), flags, exchange),
            "payload {payload:?}"
        );
        payload
    }

    /// A RESPONSE that is the whole answer.
    #[track_caller]
    pub(crate) fn answer(&mut self, exchange: u16) -> (StatusCode, HeaderMap, Bytes) {
        decode_response(self.expect(FrameType::RESPONSE, flags::END, exchange)).unwrap()
    }

    #[track_caller]
    pub(crate) fn reset(&mut self, exchange: u16) -> Reset {
        Reset::parse(&self.expect(FrameType::RESET, 0, exchange)).unwrap()
    }

    #[track_caller]
    pub(crate) fn get(&mut self, exchange: u16, target: &str) {
        self.send(|out| request(out, exchange, flags::END, target, b""));
    }

    #[track_caller]
    pub(crate) fn data(&mut self, exchange: u16, flags: u8, bytes: &[u8]) {
        self.send(|out| encode_frame(out, FrameType::DATA, flags, exchange, bytes));
    }

    #[track_caller]
    pub(crate) fn cancel(&mut self, exchange: u16) {
        self.send(|out| Reset::new(ResetCode::Cancelled, "").encode(out, exchange));
    }

    #[track_caller]
    pub(crate) fn drain(&mut self) {
        self.send(|out| Drain { grace_ms: 1000 }.encode(out));
    }

    /// The rest of an answer that has begun: its body up to END.
    #[track_caller]
    pub(crate) fn rest(&mut self, exchange: u16) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let (header, payload) = self.frame();
            assert_eq!((header.kind, header.exchange), (FrameType::DATA, exchange));
            body.extend_from_slice(&payload);
            if header.is_end() {
                return body;
            }
        }
    }
}

pub(crate) fn request(out: &mut BytesMut, exchange: u16, flags: u8, target: &str, body: &[u8]) {
    let headers = HeaderMap::new();
    let head = RequestHead {
        method: if body.is_empty() && flags != 0 { "GET" } else { "POST" },
        scheme: "http",
        authority: "localhost",
        target,
        protocol: "HTTP/1.1",
        peer: "127.0.0.1:1",
        request_id: "req-1",
        deadline_ms: 0,
        headers: &headers,
    };
    encode_request(out, exchange, flags, &head, body).unwrap();
}

pub(crate) fn path(request: &Request<Incoming>) -> Response<String> {
    Response::new(request.uri().to_string())
}
