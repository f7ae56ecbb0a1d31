//! The load against servers that follow a script.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use super::*;

const LONG: Duration = Duration::from_secs(20);
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const REQUEST: &[u8] = b"request\n";

/// A server that has each of its connections served by `serve`.
fn server(connections: usize, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> (Target, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let target = Target::Tcp(listener.local_addr().expect("its address"));
    let accept = move || {
        let accepted = (0..connections).map(|_| listener.accept().expect("the load").0);
        let threads: Vec<_> = accepted
            .map(|socket| {
                let serve = serve.clone();
                std::thread::spawn(move || serve(socket))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("served"));
    };
    (target, std::thread::spawn(accept))
}

/// Answers each request by what `answer` makes of its number, until the load goes.
fn answering(mut socket: impl std::io::Read + std::io::Write, answer: impl Fn(usize) -> String) {
    let (mut seen, mut buffer) = (0, [0; 256]);
    loop {
        let read = match socket.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        for _ in 0..buffer[..read].iter().filter(|byte| **byte == b'\n').count() {
            seen += 1;
            // In two pieces, so that one is not whole. The load may have gone already.
            let answer = answer(seen);
            let (first, second) = answer.split_at(answer.len() / 2);
            if socket.write_all(first.as_bytes()).and_then(|()| socket.write_all(second.as_bytes())).is_err() {
                return;
            }
        }
    }
}

fn only(count: usize) -> Requests {
    let mut left = count;
    Requests::Each(Box::new(move |out| {
        let more = left > 0;
        if more {
            out.extend_from_slice(REQUEST);
            left -= 1;
        }
        more
    }))
}

fn same(body: &str) -> Requests {
    Requests::Same { request: REQUEST.to_vec(), body: Some(body.as_bytes().to_vec()) }
}

fn closed(to: Target, connections: usize, depth: usize, duration: Duration) -> Load {
    Load { to, connections, pace: Pace::Closed { depth }, duration }
}

#[track_caller]
fn fails(serve: impl Fn(TcpStream) + Clone + Send + 'static, patience: Duration, said: &str) {
    let (to, server) = server(1, serve);
    let error = run_with(&closed(to, 1, 1, LONG), same("ok"), patience).expect_err("it does not answer as it should");
    assert!(format!("{error:#}").contains(said), "{error:#}");
    server.join().expect("ended");
}

#[test]
fn every_request_is_answered_and_counted() {
    let status = |seen| if seen % 2 == 0 { "404 Not Found" } else { "200 OK" };
    let (to, server) = server(1, move |socket| {
        answering(socket, |seen| format!("HTTP/1.1 {}\r\nContent-Length: 2\r\n\r\nok", status(seen)));
    });
    let outcome = run(&closed(to, 1, 3, LONG), only(7)).expect("answers");
    server.join().expect("served");
    assert_eq!((outcome.answers, outcome.times.count()), (7, 7));
    assert_eq!(outcome.statuses, BTreeMap::from([(200, 4), (404, 3)]));
    assert!(outcome.per_second() > 0.0 && outcome.cpu > Duration::ZERO);
}

#[test]
fn a_closed_loop_ends_with_its_time_and_leaves_no_request_unanswered() {
    let (to, server) = server(3, |socket| answering(socket, |_| OK.into()));
    let duration = Duration::from_millis(100);
    let outcome = run(&closed(to, 3, 4, duration), same("ok")).expect("answers");
    server.join().expect("served: the load has gone");
    assert!(outcome.answers >= 12, "{outcome:?}");
    assert_eq!(outcome.statuses, BTreeMap::from([(200, outcome.answers)]));
}

#[test]
fn answers_larger_than_what_is_read_at_once() {
    let body = "b".repeat(1_000_000);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (to, server) = server(2, move |socket| answering(socket, |_| answer.clone()));
    let mut load = closed(to, 2, 2, LONG);
    load.duration = Duration::from_millis(200);
    let outcome = run(&load, same(&body)).expect("answers");
    server.join().expect("served");
    assert_eq!(outcome.statuses, BTreeMap::from([(200, outcome.answers)]));
}

#[test]
fn requests_that_a_server_does_not_read_wait_without_blocking_answers() {
    // More requests in flight than the sockets' buffers hold: the server writes answers before it has read them all.
    let (to, server) = server(1, |socket| answering(socket, |_| OK.into()));
    let request = [vec![b'x'; 4000], REQUEST.to_vec()].concat();
    let requests = Requests::Same { request, body: None };
    let mut load = closed(to, 1, 3000, LONG);
    load.duration = Duration::from_millis(1);
    run(&load, requests).expect("answers");
    server.join().expect("served");
}

#[test]
fn a_unix_socket() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = std::thread::spawn(move || answering(listener.accept().expect("the load").0, |_| OK.into()));
    let outcome = run(&closed(Target::Unix(path), 1, 2, LONG), only(5)).expect("answers");
    server.join().expect("served");
    assert_eq!(outcome.answers, 5);
}

#[test]
fn an_open_loop_counts_every_request_that_was_due_from_when_it_was_due() {
    let (to, server) = server(1, |mut socket| {
        // It stands still once, until requests that nobody could send have become due.
        socket.read_exact(&mut [0; REQUEST.len()]).expect("a request");
        let due = std::time::Instant::now() + Duration::from_millis(300);
        while std::time::Instant::now() < due {
            std::thread::yield_now();
        }
        socket.write_all(OK.as_bytes()).expect("written");
        answering(socket, |_| OK.into());
    });
    let load = Load { to, connections: 1, pace: Pace::Open { per_second: 100 }, duration: Duration::from_millis(500) };
    let outcome = run(&load, same("ok")).expect("answers");
    server.join().expect("served");
    assert_eq!((outcome.answers, outcome.times.count()), (50, 50));
    // Request 0 waited for 300 ms, the next for 290 …: a closed loop would have seen one of them.
    assert!(outcome.times.percentile_ms(50.0) >= 50.0, "{}", outcome.times.percentile_ms(50.0));
    assert!(outcome.elapsed >= Duration::from_millis(490), "{:?}", outcome.elapsed);
}

#[test]
fn an_open_loop_ends_with_its_requests() {
    let (to, server) = server(2, |socket| answering(socket, |_| OK.into()));
    let load = Load { to, connections: 2, pace: Pace::Open { per_second: 10_000 }, duration: LONG };
    assert_eq!(run(&load, only(9)).expect("answers").answers, 9);
    server.join().expect("served");
}

#[test]
fn a_server_that_closes_is_a_failure() {
    fails(
        |mut socket| socket.read_exact(&mut [0; REQUEST.len()]).expect("a request"),
        LONG,
        "the server closed a connection with 1 requests in flight",
    );
}

#[test]
fn a_server_that_closes_within_an_answer_is_a_failure() {
    fails(
        |mut socket| {
            socket.read_exact(&mut [0; REQUEST.len()]).expect("a request");
            socket.write_all(&OK.as_bytes()[..30]).expect("written");
        },
        LONG,
        "the server closed a connection",
    );
}

#[test]
fn garbage_is_a_failure() {
    fails(|socket| answering(socket, |_| "hello, world".into()), LONG, "no HTTP/1.1 answer: \"hello");
}

#[test]
fn a_server_that_hangs_is_a_failure() {
    let patience = Duration::from_millis(150);
    fails(
        |mut socket| while socket.read(&mut [0; 64]).is_ok_and(|read| read > 0) {},
        patience,
        "no answer within 0.15 s on 1 of 1 connections",
    );
}

#[test]
fn an_answer_that_is_never_whole_is_a_failure() {
    let patience = Duration::from_millis(150);
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok";
    fails(|socket| answering(socket, |_| half.into()), patience, "no answer within");
}

#[test]
fn another_answer_is_a_failure() {
    let late = |seen| if seen < 100 { OK.into() } else { OK.replace("2\r\n\r\nok", "3\r\n\r\noh!") };
    fails(move |socket| answering(socket, late), LONG, "\"oh!\" where \"ok\" was expected");
    fails(
        |socket| answering(socket, |_| "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".into()),
        LONG,
        "answered with status 503 and 0 bytes",
    );
}

#[test]
fn an_answer_that_nobody_asked_for_is_a_failure() {
    fails(|socket| answering(socket, |_| OK.repeat(2)), LONG, "an answer without a request");
}

#[test]
fn a_server_that_is_not_there_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = Target::Tcp(listener.local_addr().expect("its address"));
    drop(listener);
    let error = run(&closed(to, 1, 1, LONG), same("ok")).expect_err("nobody listens");
    assert!(format!("{error:#}").starts_with("cannot connect to 127.0.0.1:"), "{error:#}");
}

#[test]
fn a_load_that_is_none_is_refused() {
    let to = || Target::Tcp(([127, 0, 0, 1], 1).into());
    for (load, said) in [
        (closed(to(), 0, 1, LONG), "a load of 0 connections: it takes 1 to 20000"),
        (closed(to(), 1, 0, LONG), "no request in flight"),
        (Load { to: to(), connections: 1, pace: Pace::Open { per_second: 0 }, duration: LONG }, "0 requests"),
    ] {
        let error = run(&load, same("ok")).expect_err("refused").to_string();
        assert!(error.contains(said), "{error}");
    }
}
