//! Own connections: one exchange at a time, streaming both ways.

use crate::gateway::{Gateway, LIMIT, path, request};
use http::{HeaderMap, Request, Response};
use pilotlight_pipe::control::encode_ping;
use pilotlight_pipe::frame::{FrameType, flags};
use pilotlight_pipe::head::{decode_fields, decode_response, encode_fields};
use pilotlight_pipe::reset::ResetCode;
use pilotlight_pipe::{Body, Incoming};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

async fn echo(request: Request<Incoming>) -> Response<Body> {
    Response::new(request.into_body().into())
}

#[test]
fn both_directions_stream_at_the_same_time() {
    let gateway = Gateway::start(echo);
    let mut shared = gateway.shared();
    let mut own = gateway.own(&mut shared);
    for exchange in [7, 8] {
        own.send(|out| request(out, exchange, 0, "/", b"first"));
        let (_, _, body) = decode_response(own.expect(FrameType::RESPONSE, 0, exchange)).unwrap();
        assert!(body.is_empty());
        assert_eq!(&own.expect(FrameType::DATA, 0, exchange)[..], b"first");
        own.data(exchange, 0, b"second");
        assert_eq!(&own.expect(FrameType::DATA, 0, exchange)[..], b"second");
        own.data(exchange, flags::END, b"third");
        assert_eq!(own.rest(exchange), b"third");
    }
}

#[test]
fn trailers_pass_in_both_directions() {
    let gateway = Gateway::start(echo);
    let mut shared = gateway.shared();
    let mut own = gateway.own(&mut shared);
    let fields = HeaderMap::from_iter([("x-trailer".parse().unwrap(), "yes".parse().unwrap())]);
    own.send(|out| {
        request(out, 1, 0, "/", b"");
        encode_fields(out, 1, &fields).unwrap();
    });
    own.expect(FrameType::RESPONSE, 0, 1);
    assert_eq!(decode_fields(&own.expect(FrameType::TRAILERS, flags::END, 1)).unwrap(), fields);
    own.get(2, "/"); // P-19: both directions have ended.
    own.answer(2);
}

#[test]
fn an_unwanted_body_is_stopped_and_the_rest_thrown_away() {
    let (go, waits) = mpsc::channel::<()>();
    let gateway = Gateway::start(move |request: Request<Incoming>| {
        let text = path(&request);
        drop(request);
        let waits = waits.try_recv();
        async move {
            if waits.is_err() {
                std::future::pending::<()>().await;
            }
            text
        }
    });
    let mut shared = gateway.shared();
    let mut own = gateway.own(&mut shared);
    own.send(|out| request(out, 1, 0, "/", b"x"));
    own.expect(FrameType::STOP, 0, 1); // P-21
    own.data(1, 0, &[0; 1000]);
    own.cancel(1);
    assert_eq!(own.reset(1).code, ResetCode::Cancelled);
    go.send(()).unwrap(); // RESET has ended the request direction, too (P-26)
    own.get(2, "/next");
    assert_eq!(&own.answer(2).2[..], b"/next");
}

#[test]
fn an_answer_that_nobody_reads_waits_in_the_service_with_one_frame() {
    static SENT: AtomicUsize = AtomicUsize::new(0);
    let gateway = Gateway::start(|request: Request<Incoming>| async move {
        if request.uri().path() == "/quick" {
            return Response::new(Body::empty());
        }
        let (sender, body) = Body::channel();
        tokio::task::spawn_local(async move {
            while sender.send(vec![0; 16 * 1024]).await.is_ok() {
                SENT.fetch_add(16 * 1024, Ordering::Relaxed);
            }
        });
        Response::new(body)
    });
    let mut shared = gateway.shared();
    let mut own = gateway.own(&mut shared);
    own.get(1, "/endless");
    own.expect(FrameType::RESPONSE, 0, 1);
    // Enough turns of the service's loop for a sender without limit to show.
    for _ in 0..500 {
        shared.get(1, "/quick");
        shared.answer(1);
    }
    let sent = SENT.load(Ordering::Relaxed);
    assert!(sent < 2 * 1024 * 1024, "{sent} bytes were taken from the handler"); // P-22
    own.cancel(1);
    while own.frame().0.kind != FrameType::RESET {}
    own.get(2, "/quick");
    own.answer(2);
}

#[test]
fn a_body_that_the_handler_does_not_read_waits_in_the_kernel_and_drain_ends_all() {
    let (said, hears) = mpsc::channel();
    let gateway = Gateway::start(move |request: Request<Incoming>| {
        let said = said.clone();
        async move {
            let mut body = request.into_body();
            let mut bytes = 0;
            while let Some(chunk) = body.chunk().await {
                match chunk {
                    Ok(chunk) => bytes += chunk.len(),
                    Err(error) => {
                        said.send(error.to_string()).unwrap();
                        std::future::pending::<()>().await;
                    }
                }
            }
            Response::new(bytes.to_string())
        }
    });
    let mut shared = gateway.shared();
    let mut own = gateway.own(&mut shared);
    own.send(|out| request(out, 1, 0, "/", b"ab"));
    (0..50).for_each(|_| own.data(1, 0, &[1; 65_536]));
    own.data(1, flags::END, b"");
    assert_eq!(&own.answer(1).2[..], (50 * 65_536 + 2).to_string().as_bytes());
    own.send(|out| request(out, 2, 0, "/", b"ab"));
    shared.drain();
    own.send(|out| encode_ping(out, [1; 8]));
    own.expect(FrameType::PONG, 0, 0);
    own.data(2, flags::END, b"c");
    assert_eq!(&own.answer(2).2[..], b"3"); // P-31
    own.expect_end();
    shared.expect_end();
    gateway.result().unwrap();
    assert!(hears.recv_timeout(LIMIT).is_err());
}

#[test]
fn the_end_of_an_own_connection_cancels_its_exchange_only() {
    struct OnDrop(mpsc::Sender<()>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (said, hears) = mpsc::channel();
    let gateway = Gateway::start_with(
        |service| service.max_own(1).exchanges(1),
        move |request: Request<Incoming>| {
            let guard = OnDrop(said.clone());
            async move {
                if request.uri().path() == "/wait" {
                    std::future::pending::<()>().await;
                }
                drop(guard);
                path(&request)
            }
        },
    );
    let mut shared = gateway.shared();
    let mut own = gateway.own(&mut shared);
    own.get(1, "/wait");
    own.send(|out| encode_ping(out, [1; 8]));
    own.expect(FrameType::PONG, 0, 0);
    drop(own);
    hears.recv_timeout(LIMIT).unwrap(); // P-34
    shared.get(2, "/");
    shared.answer(2);
    // Its place is free again.
    let mut own = gateway.own(&mut shared);
    own.get(3, "/");
    own.answer(3);
    own.send(|out| pilotlight_pipe::frame::encode_frame(out, FrameType::MORE, 0, 0, &[0; 8]));
    assert!(own.reset(0).text.starts_with("P-23:"));
    own.expect_end();
    shared.get(4, "/");
    shared.answer(4);
}
