//! What is sent, when, and what becomes of what is not.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::unix::net::UnixStream as Peer;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use pilotlight_send_batch::{Batched, MAX_BYTES, MAX_MESSAGE_BYTES, MAX_MESSAGES, Settled, Stream};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::{spawn_local, yield_now};

use crate::{pair, put, received, run, ways};

#[test]
fn messages_go_out_at_the_end_of_the_turn() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let mut pairs: Vec<_> = (0..5).map(|_| pair(&batch)).collect();
            for turn in 0..3 {
                for (index, (stream, _)) in pairs.iter_mut().enumerate() {
                    assert!(put(stream, format!("{turn} {index}").as_bytes()).await, "{how:?}");
                }
                for (_, peer) in &mut pairs {
                    assert_eq!(received(peer), b"", "{how:?}");
                }
                yield_now().await;
                for (index, (stream, peer)) in pairs.iter_mut().enumerate() {
                    assert_eq!(received(peer), format!("{turn} {index}").as_bytes(), "{how:?}");
                    assert_eq!(stream.settle().unwrap(), Settled::Nothing);
                }
            }
        });
    }
}

#[test]
fn nothing_is_put_in_where_nobody_sends_it() {
    for how in ways() {
        run(async {
            let batch = how.batch();
            let (mut stream, mut peer) = pair(&batch);
            assert!(!put(&mut stream, b"before").await);
            let turn_end = spawn_local(batch.clone().send_each_turn());
            yield_now().await;
            assert!(put(&mut stream, b"while").await);
            turn_end.abort();
            yield_now().await;
            yield_now().await;
            assert_eq!(received(&mut peer), b"while", "{how:?}: sent when the sender went");
            assert_eq!(stream.settle().unwrap(), Settled::Nothing);
            assert!(!put(&mut stream, b"after").await);
        });
    }
}

#[test]
fn a_long_message_is_not_put_in() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let (mut stream, mut peer) = pair(&batch);
            assert!(!put(&mut stream, &vec![0; MAX_MESSAGE_BYTES + 1]).await);
            assert!(put(&mut stream, &vec![7; MAX_MESSAGE_BYTES]).await);
            batch.send();
            assert_eq!(received(&mut peer), vec![7; MAX_MESSAGE_BYTES]);
        });
    }
}

#[test]
fn a_full_batch_is_sent_before_its_turn_ends() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let mut pairs: Vec<_> = (0..MAX_MESSAGES * 2 + 1).map(|_| pair(&batch)).collect();
            for (stream, _) in &mut pairs {
                assert!(put(stream, b"x").await);
            }
            let sent = pairs.iter_mut().filter_map(|(_, peer)| (received(peer) == b"x").then_some(())).count();
            assert_eq!(sent, MAX_MESSAGES * 2, "{how:?}: by count");
            batch.send();

            let fits = MAX_BYTES / MAX_MESSAGE_BYTES;
            for (stream, _) in pairs.iter_mut().take(fits + 1) {
                assert_eq!(stream.settle().unwrap(), Settled::Nothing);
                assert!(put(stream, &vec![1; MAX_MESSAGE_BYTES]).await);
            }
            let whole = |peer: &mut Peer| received(peer).len() == MAX_MESSAGE_BYTES;
            let sent = pairs.iter_mut().take(fits + 1).filter_map(|(_, peer)| whole(peer).then_some(())).count();
            assert_eq!(sent, fits, "{how:?}: by bytes");
        });
    }
}

/// Whatever else is written to the socket comes behind what waits for it.
#[test]
fn nothing_overtakes_a_message() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let (mut stream, mut peer) = pair(&batch);
            assert!(put(&mut stream, b"1").await);
            assert!(!put(&mut stream, b"never").await, "one at a time");
            stream.write_all(b"2").await.unwrap();
            assert!(put(&mut stream, b"3").await);
            let slices = [io::IoSlice::new(b"4"), io::IoSlice::new(b"5")];
            assert_eq!(stream.write_vectored(&slices).await.unwrap(), 2);
            assert!(put(&mut stream, b"6").await);
            stream.shutdown().await.unwrap();
            assert_eq!(received(&mut peer), b"123456", "{how:?}");
        });
    }
}

/// The descriptor of a stream that is gone may be another one's at once.
#[test]
fn a_stream_is_closed_behind_its_message() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let (mut stream, mut peer) = pair(&batch);
            let (mut neighbour, mut of_neighbour) = pair(&batch);
            assert!(put(&mut neighbour, b"neighbour").await);
            assert!(put(&mut stream, b"last words").await);
            drop(stream);
            let (_next, mut of_next) = pair(&batch); // with the same descriptor
            assert_eq!(received(&mut peer), b"last words", "{how:?}");
            yield_now().await;
            assert_eq!(received(&mut of_next), b"", "{how:?}");
            assert_eq!(received(&mut of_neighbour), b"neighbour");
        });
    }
}

/// The task is woken, finds the rest, and writes it the ordinary way.
#[test]
fn what_the_socket_does_not_take_is_given_back() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            SockRef::from(&listener).set_recv_buffer_size(2048).unwrap();
            let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut theirs, _) = listener.accept().await.unwrap();
            SockRef::from(&ours).set_send_buffer_size(2048).unwrap();
            let mut stream = Batched::from(Stream::from(ours));
            stream.join(&batch);
            let mut sent = Vec::new();
            let writer = spawn_local(async move {
                let mut rests = Rests::default();
                for round in 0..40 {
                    let message = [vec![round; 8_999], vec![255]].concat();
                    sent.extend_from_slice(&message);
                    assert!(put(&mut stream, &message).await);
                    // What does not go whole wakes the task; what does, nothing: the turn's end is awaited.
                    yield_now().await;
                    yield_now().await;
                    if let Settled::Rest(rest) = stream.settle().unwrap() {
                        assert!(message.ends_with(&rest) && !rest.is_empty());
                        rests.part += u32::from(rest != message);
                        rests.whole += u32::from(rest == message);
                        stream.write_all(&rest[..rest.len() / 2]).await.unwrap();
                        stream.write_all(&rest[rest.len() / 2..]).await.unwrap();
                    }
                }
                (sent, rests)
            });
            let mut all = Vec::new();
            let reading = theirs.read_to_end(&mut all);
            tokio::time::timeout(Duration::from_secs(20), reading).await.unwrap().unwrap();
            let (sent, rests) = writer.await.unwrap();
            assert_eq!(all, sent, "{how:?}");
            assert!(rests.part > 0, "{how:?}: the sockets are too large for this test: {rests:?}");
        });
    }
}

/// How much was given back, how often.
#[derive(Debug, Default)]
struct Rests {
    whole: u32,
    part: u32,
}

/// Several sockets that take nothing, in one batch with one that does.
#[test]
fn a_full_socket_keeps_nobody_waiting() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let mut full: Vec<_> = (0..3).map(|_| pair(&batch)).collect();
            let (mut other, mut of_other) = pair(&batch);
            for (stream, _) in &mut full {
                while let Ok(more) = SockRef::from(stream.stream()).send(&[0; 4096]) {
                    assert!(more > 0);
                }
                assert!(put(stream, b"later").await);
            }
            assert!(put(&mut other, b"now").await);
            batch.send();
            assert_eq!(received(&mut of_other), b"now", "{how:?}");
            for (stream, peer) in &mut full {
                assert_eq!(stream.settle().unwrap(), Settled::Rest(b"later".to_vec()), "{how:?}");
                assert!(!put(stream, b"later").await, "that waits for no room");
                let before = received(peer);
                assert!(before.iter().all(|byte| *byte == 0));
                stream.write_all(b"later").await.unwrap();
                assert_eq!(received(peer), b"later");
                assert!(put(stream, b"again").await);
            }
        });
    }
}

#[test]
fn a_task_is_woken_when_its_message_failed() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let (mut stream, peer) = pair(&batch);
            let (mut other, mut of_other) = pair(&batch);
            drop(peer);
            let polls = Rc::new(Cell::new(0));
            let counted = Rc::clone(&polls);
            let failed = spawn_local(async move {
                assert!(put(&mut stream, b"to nobody").await);
                let error = poll_fn(|_| {
                    counted.set(counted.get() + 1);
                    match stream.settle() {
                        Ok(_) => Poll::Pending, // woken by nothing but the batch
                        Err(e) => Poll::Ready(e),
                    }
                });
                let kind = error.await.kind();
                assert_eq!(stream.settle().unwrap(), Settled::Nothing, "told once");
                kind
            });
            assert!(put(&mut other, b"to somebody").await);
            let kind = tokio::time::timeout(Duration::from_secs(5), failed).await.unwrap().unwrap();
            assert_eq!((kind, polls.get()), (io::ErrorKind::BrokenPipe, 2), "{how:?}");
            assert_eq!(received(&mut of_other), b"to somebody", "others are not concerned");
        });
    }
}

/// A stream that nobody asked about takes what became of its message with it.
#[test]
fn an_outcome_that_nobody_asked_for_is_not_anothers() {
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            for _ in 0..100 {
                let (mut stream, peer) = pair(&batch);
                let (mut other, _of_other) = pair(&batch);
                drop(peer);
                assert!(put(&mut stream, b"to nobody").await);
                assert!(put(&mut other, b"to somebody").await);
                batch.send();
                drop(stream);
                assert_eq!(other.settle().unwrap(), Settled::Nothing, "{how:?}");
            }
        });
    }
}

#[test]
fn a_stream_without_a_batch_is_a_stream() {
    run(async {
        let (ours, mut theirs) = Peer::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut stream = Batched::from(Stream::from(UnixStream::from_std(ours).unwrap()));
        assert!(!put(&mut stream, b"no").await);
        stream.write_all(b"yes").await.unwrap();
        stream.send_now();
        assert_eq!(stream.settle().unwrap(), Settled::Nothing);
        assert_eq!(received(&mut theirs), b"yes");
    });
}
