//! Shared and answer connections, drain and death.

use crate::gateway::{Gateway, LIMIT, WORKER, Wire, path, request, welcome_frame};
use http::{Request, Response};
use pilotlight_pipe::control::{LogLevel, More, MoreKind, encode_ping};
use pilotlight_pipe::frame::{FrameHeader, FrameType, MAX_FRAME, encode_frame, flags};
use pilotlight_pipe::head::decode_response;
use pilotlight_pipe::hello::ConnectionKind;
use pilotlight_pipe::reset::{Reset, ResetCode};
use pilotlight_pipe::{Body, Exchange, Failure, Incoming, ServeError};
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::Semaphore;

async fn echo_path(request: Request<Incoming>) -> Response<String> {
    path(&request)
}

#[test]
fn the_first_connection_is_shared_without_a_worker_and_need_not_wait_for_welcome() {
    let gateway = Gateway::start(echo_path);
    let (mut wire, hello) = gateway.accept();
    assert_eq!((hello.kind, hello.worker, hello.exchanges, hello.max_own), (ConnectionKind::Shared, None, 64, 64)); // P-2
    assert!(hello.sdk.starts_with("pilotlight-pipe/") && hello.pid == Some(std::process::id()));
    wire.send(|out| {
        welcome_frame().encode(out);
        request(out, 1, flags::END, "/a?b=%20", b"");
    });
    assert_eq!(&wire.answer(1).2[..], b"/a?b=%20");
    drop(wire);
    gateway.result().unwrap(); // P-33
}

#[test]
fn a_batch_is_answered_completely_and_waiting_handlers_hold_nobody_up() {
    let gate: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
    let gateway = Gateway::start(move |request: Request<Incoming>| async move {
        match request.uri().path() {
            "/open" => gate.add_permits(31),
            "/wait" => gate.acquire().await.expect("never closed").forget(),
            _ => {}
        }
        path(&request)
    });
    let mut wire = gateway.shared();
    wire.send(|out| {
        (1..=31).for_each(|id| request(out, id, flags::END, "/wait", b""));
        (32..=63).for_each(|id| request(out, id, flags::END, "/quick", b""));
    });
    let quick: BTreeSet<u16> = (32..=63).map(|_| wire.frame().0.exchange).collect();
    assert_eq!(quick, (32..=63).collect());
    wire.get(64, "/open");
    let rest: BTreeSet<u16> = (0..32).map(|_| wire.frame().0.exchange).collect();
    assert_eq!(rest, (1..=31).chain([64]).collect());
    wire.get(1, "/again"); // P-15
    assert_eq!(&wire.answer(1).2[..], b"/again");
}

#[test]
fn large_and_streamed_answers_go_on_an_answer_connection_that_is_used_again() {
    let gateway = Gateway::start(|request: Request<Incoming>| async move {
        if request.uri().path() == "/large" {
            return Response::new(Body::from(vec![b'x'; 200_000]));
        }
        let (sender, body) = Body::channel();
        tokio::task::spawn_local(async move {
            sender.send("one").await?;
            sender.send("two").await?;
            sender.finish().await
        });
        Response::new(body)
    });
    let mut shared = gateway.shared();
    shared.get(9, "/large");
    let (mut answer, hello) = gateway.accept();
    assert_eq!((hello.kind, hello.worker), (ConnectionKind::Answer, Some(WORKER))); // P-24
    answer.send(|out| welcome_frame().encode(out));
    let (_, _, first) = decode_response(answer.expect(FrameType::RESPONSE, 0, 9)).unwrap();
    assert_eq!(first.len() + answer.rest(9).len(), 200_000);
    shared.get(9, "/stream"); // P-25
    let (status, _, first) = decode_response(answer.expect(FrameType::RESPONSE, 0, 9)).unwrap();
    assert_eq!((status.as_u16(), [first.to_vec(), answer.rest(9)].concat()), (200, b"onetwo".to_vec()));
}

#[test]
fn a_small_body_of_known_size_needs_no_answer_connection() {
    let gateway =
        Gateway::start(|request: Request<Incoming>| async move { Response::new(Body::new(request.into_body())) });
    let mut wire = gateway.shared();
    wire.send(|out| request(out, 3, flags::END, "/", b"hello"));
    assert_eq!(&wire.answer(3).2[..], b"hello");
}

#[test]
fn a_cancelled_handler_is_dropped_and_still_gets_its_final_frame() {
    struct OnDrop(mpsc::Sender<&'static str>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let (said, hears) = mpsc::channel();
    let gateway = Gateway::start(move |request: Request<Incoming>| {
        let (guard, told) = (OnDrop(said.clone()), said.clone());
        let exchange = request.extensions().get::<Exchange>().cloned().unwrap();
        tokio::task::spawn_local(async move {
            exchange.cancelled().await;
            let _ = told.send("cancelled");
        });
        async move {
            std::future::pending::<()>().await;
            drop(guard);
            path(&request)
        }
    });
    let mut wire = gateway.shared();
    wire.get(1, "/");
    wire.cancel(1);
    assert_eq!(wire.reset(1).code, ResetCode::Cancelled); // P-26
    let heard: BTreeSet<_> = (0..2).map(|_| hears.recv_timeout(LIMIT).unwrap()).collect();
    assert_eq!(heard, BTreeSet::from(["cancelled", "dropped"]));
    wire.cancel(1); // Has ended: ignored.
    wire.send(|out| encode_ping(out, *b"pingpong"));
    assert_eq!(&wire.expect(FrameType::PONG, 0, 0)[..], b"pingpong"); // P-35
}

#[test]
fn cancel_of_a_streamed_answer_comes_where_its_request_came() {
    let (said, hears) = mpsc::channel();
    let gateway = Gateway::start(move |_| {
        let (sender, body) = Body::channel();
        let said = said.clone();
        tokio::task::spawn_local(async move {
            while sender.send("tick").await.is_ok() {}
            let _ = said.send(());
        });
        async { Response::new(body) }
    });
    let mut shared = gateway.shared();
    shared.get(4, "/");
    let mut answer = gateway.welcome(ConnectionKind::Answer);
    answer.expect(FrameType::RESPONSE, 0, 4);
    shared.cancel(4); // P-26
    loop {
        let (header, payload) = answer.frame();
        if header.kind == FrameType::RESET {
            assert_eq!(Reset::parse(&payload).unwrap().code, ResetCode::Cancelled);
            break;
        }
    }
    hears.recv_timeout(LIMIT).unwrap();
}

/// A streamed answer of `one` and, after a permit, `two`; whether it was cancelled is told at its end.
async fn two_pieces(
    request: Request<Incoming>,
    gate: &'static Semaphore,
    said: mpsc::Sender<(String, bool)>,
) -> Response<Body> {
    let (sender, body) = Body::channel();
    let exchange = request.extensions().get::<Exchange>().cloned().unwrap();
    tokio::task::spawn_local(async move {
        let _ = sender.send("one").await;
        tokio::select! {
            permit = gate.acquire() => permit.expect("never closed").forget(),
            () = exchange.cancelled() => {}
        }
        let _ = sender.send("two").await;
        let _ = sender.finish().await;
        let _ = said.send((request.uri().path().into(), exchange.is_cancelled()));
    });
    Response::new(body)
}

#[test]
fn a_late_cancel_does_not_touch_the_next_answer_with_the_same_id() {
    let gate: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
    let (said, hears) = mpsc::channel();
    let gateway = Gateway::start(move |request| two_pieces(request, gate, said.clone()));
    let mut shared = gateway.shared();
    shared.get(4, "/first");
    let mut answer = gateway.welcome(ConnectionKind::Answer);
    gate.add_permits(1);
    let (_, _, first) = decode_response(answer.expect(FrameType::RESPONSE, 0, 4)).unwrap();
    assert_eq!([first.to_vec(), answer.rest(4)].concat(), b"onetwo");
    // The client left when the final frame had just been sent; the id comes back at once.
    shared.send(|out| {
        Reset::new(ResetCode::Cancelled, "").encode(out, 4);
        request(out, 4, flags::END, "/second", b"");
    });
    let (_, _, first) = decode_response(answer.expect(FrameType::RESPONSE, 0, 4)).unwrap();
    gate.add_permits(1);
    assert_eq!([first.to_vec(), answer.rest(4)].concat(), b"onetwo"); // P-26
    for path in ["/first", "/second"] {
        assert_eq!(hears.recv_timeout(LIMIT).unwrap(), (path.into(), false));
    }
}

#[test]
fn a_cancel_that_crosses_the_final_frame_is_late_or_in_time() {
    let gateway = Gateway::start(|request: Request<Incoming>| async move {
        let (sender, body) = Body::channel();
        tokio::task::spawn_local(async move {
            sender.send("one").await?;
            sender.finish().await
        });
        drop(request);
        Response::new(body)
    });
    let mut shared = gateway.shared();
    shared.get(4, "/");
    let mut answer = gateway.welcome(ConnectionKind::Answer);
    for _ in 0..200 {
        // Its answer has begun or ended, so it is on the answer connection to its final frame.
        answer.expect(FrameType::RESPONSE, 0, 4);
        shared.cancel(4);
        while let (header, payload) = answer.frame()
            && !header.is_end()
        {
            if header.kind == FrameType::RESET {
                assert_eq!(Reset::parse(&payload).unwrap().code, ResetCode::Cancelled);
                break;
            }
        }
        shared.get(4, "/");
        let (_, _, first) = decode_response(answer.expect(FrameType::RESPONSE, 0, 4)).unwrap();
        assert_eq!([first.to_vec(), answer.rest(4)].concat(), b"one");
        shared.get(4, "/");
    }
}

#[test]
fn a_reset_for_an_exchange_on_an_answer_connection_is_a_violation() {
    let gateway = Gateway::start(|_| async {
        let (sender, body) = Body::channel();
        tokio::task::spawn_local(async move {
            let _ = sender.send("one").await;
            sender.closed().await;
        });
        Response::new(body)
    });
    let mut shared = gateway.shared();
    shared.get(4, "/");
    let mut answer = gateway.welcome(ConnectionKind::Answer);
    answer.expect(FrameType::RESPONSE, 0, 4);
    answer.cancel(4);
    let reset = loop {
        let (header, payload) = answer.frame();
        if header.kind == FrameType::RESET {
            assert_eq!(header.exchange, 0);
            break Reset::parse(&payload).unwrap();
        }
    };
    assert_eq!(reset.code, ResetCode::Protocol);
    assert!(reset.text.starts_with("P-25:"), "{}", reset.text);
    answer.expect_end(); // P-10
    shared.send(|out| encode_ping(out, *b"pingpong"));
    shared.expect(FrameType::PONG, 0, 0);
}

#[test]
fn failures_are_resets_with_their_codes() {
    let gateway = Gateway::start(|request: Request<Incoming>| async move {
        let text = request.uri().path().to_owned();
        match text.as_str() {
            "/refused" => Err(Failure::Refused(text)),
            "/overloaded" => Err(Failure::Overloaded { retry_after: Duration::from_millis(1500), text }),
            "/error" => Err(std::fmt::Error.into()),
            "/panic" => panic!("on purpose"),
            "/body" => Ok(Response::new(Body::from(request.into_body().bytes(3).await?))),
            "/head" => {
                let mut response = Response::new(Body::empty());
                response.headers_mut().insert("x", "y".repeat(MAX_FRAME).try_into()?);
                Ok(response)
            }
            _ => Ok(Response::new("fine".into())),
        }
    });
    let mut wire = gateway.shared();
    let mut failed = |target: &str, body: &[u8]| {
        wire.send(|out| request(out, 2, flags::END, target, body));
        wire.reset(2)
    };
    assert_eq!(failed("/refused", b""), Reset::new(ResetCode::Refused, "/refused"));
    let overloaded = Reset { code: ResetCode::Overloaded, retry_after_ms: 1500, text: "/overloaded".into() };
    assert_eq!(failed("/overloaded", b""), overloaded);
    assert_eq!(failed("/error", b"").code, ResetCode::Internal);
    assert_eq!(failed("/panic", b""), Reset::new(ResetCode::Internal, "the handler panicked"));
    assert_eq!(failed("/body", b"1234"), Reset::new(ResetCode::TooLarge, "the body is larger than 3 bytes"));
    wire.get(3, "/fine"); // P-30
    assert_eq!(&wire.answer(3).2[..], b"fine");
    wire.get(4, "/head");
    let mut answer = gateway.welcome(ConnectionKind::Answer);
    assert!(answer.reset(4).text.starts_with("the response head is too large"));
}

#[test]
fn log_lines_name_their_exchange() {
    let gateway = Gateway::start(|request: Request<Incoming>| async move {
        let exchange = request.extensions().get::<Exchange>().unwrap();
        assert!(exchange.log(LogLevel::Warn, "inside"));
        assert_eq!((exchange.request_id(), exchange.peer(), exchange.deadline()), ("req-1", "127.0.0.1:1", None));
        std::future::pending::<Response<String>>().await
    });
    let mut wire = gateway.shared();
    wire.get(6, "/");
    assert_eq!(&wire.expect(FrameType::LOG, 0, 6)[..], b"\x02inside");
}

#[test]
fn drain_finishes_what_is_open_refuses_what_comes_and_ends() {
    let gate: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
    let gateway = Gateway::start(move |request: Request<Incoming>| async move {
        gate.acquire().await.expect("never closed").forget();
        path(&request)
    });
    let mut wire = gateway.shared();
    wire.get(1, "/open");
    wire.drain();
    wire.get(2, "/late");
    assert_eq!(wire.reset(2).code, ResetCode::Refused); // P-31
    gate.add_permits(1);
    assert_eq!(&wire.answer(1).2[..], b"/open");
    wire.expect_end();
    gateway.result().unwrap();
}

#[test]
fn more_shared_connections_name_their_worker_and_the_last_one_decides() {
    let gateway = Gateway::start(echo_path);
    let mut first = gateway.shared();
    first.send(|out| {
        let more = More { kind: MoreKind::Shared, count: 1, worker: 8 };
        more.encode(out);
    });
    let (mut second, hello) = gateway.accept();
    assert_eq!((hello.kind, hello.worker), (ConnectionKind::Shared, Some(8))); // P-13
    second.send(|out| welcome_frame().encode(out));
    drop(first);
    second.get(1, "/still");
    assert_eq!(&second.answer(1).2[..], b"/still");
    drop(second);
    gateway.result().unwrap(); // P-33
}

#[test]
fn a_refused_hello_is_told() {
    let gateway = Gateway::start(echo_path);
    let (mut wire, _) = gateway.accept();
    wire.send(|out| Reset::new(ResetCode::Protocol, "P-4: the token is unknown").encode(out, 0));
    match gateway.result() {
        Err(ServeError::Refused { text }) => assert_eq!(text, "P-4: the token is unknown"),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn breaks(rule: &str, frames: impl FnOnce(&mut bytes::BytesMut)) {
    let gateway = Gateway::start(echo_path);
    let mut wire = gateway.shared();
    wire.send(frames);
    let reset = wire.reset(0); // P-10
    assert_eq!(reset.code, ResetCode::Protocol);
    assert!(reset.text.starts_with(rule), "{}", reset.text);
    wire.expect_end();
    assert!(matches!(gateway.result(), Err(ServeError::Protocol(_))));
}

#[test]
fn broken_rules_are_named_and_end_the_connection() {
    let oversized = FrameHeader { length: MAX_FRAME as u32 + 1, kind: FrameType::REQUEST, flags: 0, exchange: 1 };
    breaks("P-6:", |out| out.extend_from_slice(&oversized.encode()));
    breaks("P-7:", |out| encode_frame(out, 200, 0, 0, b""));
    breaks("P-8:", |out| {
        encode_frame(out, FrameType::REQUEST, flags::END, 1, b"\xff\0\0\0\0\0\0\0GET\0");
    });
    breaks("P-11:", |out| {
        encode_frame(out, FrameType::RESPONSE, flags::END, 1, b"");
    });
    breaks("P-11:", |out| encode_frame(out, FrameType::PING, 0, 0, b"short"));
    breaks("P-11:", |out| encode_frame(out, FrameType::RESET, 0, 1, b"short"));
    breaks("P-14:", |out| request(out, 1, 0, "/", b""));
}

#[test]
fn unknown_ignorable_frames_are_skipped() {
    let gateway = Gateway::start(echo_path);
    let mut wire = gateway.shared();
    wire.send(|out| {
        encode_frame(out, 200, flags::IGNORABLE, 3, b"future");
        request(out, 1, flags::END, "/", b"");
    });
    wire.answer(1); // P-7
}

#[test]
fn what_fits_one_frame_stays_and_what_does_not_is_whole_all_the_same() {
    let gateway = Gateway::start(|request: Request<Incoming>| async move {
        let size: usize = request.uri().path()[1..].parse().unwrap();
        Response::new((0..size).map(|i| (i % 251) as u8).collect::<Vec<u8>>())
    });
    let mut shared = gateway.shared();
    let mut own = gateway.own(&mut shared);
    let mut answer = None;
    for size in [0, 1, 32_768, 32_769, MAX_FRAME - 8, MAX_FRAME - 7, MAX_FRAME, MAX_FRAME + 1, 3 * MAX_FRAME, 1_000_000]
    {
        let expected: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        shared.get(1, &format!("/{size}"));
        let seen = if size <= MAX_FRAME - 8 {
            shared.answer(1).2.to_vec()
        } else {
            pieces(answer.get_or_insert_with(|| gateway.welcome(ConnectionKind::Answer)), 1)
        };
        assert!(seen == expected, "{size} bytes on a shared connection");
        own.get(2, &format!("/{size}"));
        assert!(pieces(&mut own, 2) == expected, "{size} bytes on an own connection");
    }
}

#[track_caller]
fn pieces(wire: &mut Wire, exchange: u16) -> Vec<u8> {
    let (header, payload) = wire.frame();
    assert_eq!((header.kind, header.exchange), (FrameType::RESPONSE, exchange));
    let first = decode_response(payload).unwrap().2.to_vec();
    if header.is_end() { first } else { [first, wire.rest(exchange)].concat() }
}

#[test]
fn a_body_that_fails_panics_or_is_left_unfinished_cuts_the_answer() {
    struct Panics;
    impl http_body::Body for Panics {
        type Data = bytes::Bytes;
        type Error = std::io::Error;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>> {
            panic!("on purpose")
        }
    }
    let gateway = Gateway::start(|request: Request<Incoming>| async move {
        let (sender, body) = Body::channel();
        if request.uri().path() == "/panics" {
            return Response::new(Body::new(Panics));
        }
        tokio::task::spawn_local(async move { sender.send("half").await });
        Response::new(body)
    });
    let mut shared = gateway.shared();
    shared.get(1, "/panics");
    let mut answer = gateway.welcome(ConnectionKind::Answer);
    answer.expect(FrameType::RESPONSE, 0, 1);
    assert_eq!(answer.reset(1), Reset::new(ResetCode::Internal, "the body panicked"));
    shared.get(2, "/unfinished");
    answer.expect(FrameType::RESPONSE, 0, 2);
    assert_eq!(&answer.expect(FrameType::DATA, 0, 2)[..], b"half");
    let text = "the body failed: the body was cut before its end";
    assert_eq!(answer.reset(2), Reset::new(ResetCode::Internal, text));
}
