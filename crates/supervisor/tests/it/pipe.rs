//! Connections of pipe instances.

use crate::harness::{Bed, Seen, pipe_child, run};
use pilotlight_pipe::hello::ConnectionKind;
use pilotlight_supervisor::limits;
use pilotlight_supervisor::{Exit, WorkerEvent};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

#[test]
fn another_worker_gets_its_connection_through_the_first() {
    run(async {
        let mut bed = Bed::new(3, vec![pipe_child("p", &[])]);
        let mut seen = bed.work();
        let service = bed.service(0);
        let _lease = service.ready(2).await.unwrap();
        assert_eq!(seen.recv().await, Some(Seen::Connected { worker: 2, instance: 1 }));
        for _ in 0..10 {
            service.enter(0).unwrap().want_shared(); // asked for once
        }
        assert_eq!(seen.recv().await, Some(Seen::Asked { worker: 2, for_worker: 0 }));
        assert_eq!(seen.recv().await, Some(Seen::Connected { worker: 0, instance: 1 }));
        service.enter(0).unwrap().want_shared(); // it has one
        service.enter(1).unwrap().want_shared();
        let asked = seen.recv().await;
        assert!(matches!(asked, Some(Seen::Asked { for_worker: 1, .. })), "{asked:?}");
        assert_eq!(seen.recv().await, Some(Seen::Connected { worker: 1, instance: 1 }));
    });
}

#[test]
fn what_is_not_a_hello_is_refused_with_the_reason() {
    run(async {
        let bed = Bed::new(1, vec![]);
        let text = |payload: &str| {
            let mut frame = (payload.len() as u32).to_le_bytes().to_vec();
            frame.extend_from_slice(&[1, 0, 0, 0]);
            frame.extend_from_slice(payload.as_bytes());
            frame
        };
        let token = "0".repeat(32);
        let cases = [
            (vec![0, 0, 0, 0, 4, 0, 0, 0], "P-1: the first frame must be HELLO"),
            (vec![1, 16, 0, 0, 1, 0, 0, 0], "P-6: HELLO of 4097 bytes"),
            (text("PIPE/2\n"), "P-12: version \"PIPE/2\" is not spoken here"),
            (text("PIPE/1\n"), "P-4: HELLO has no token"),
            (text(&format!("PIPE/1\ntoken={token}\n")), "P-4: the token is not that of a live instance"),
            (vec![], "P-4: no HELLO within 2s"),
            (vec![9, 0, 0, 0, 1, 0], "P-4: no HELLO within 2s"),
        ];
        for (bytes, expected) in cases {
            let mut stream = UnixStream::connect(bed.pipe_socket()).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            assert_eq!((answer[4], answer[8]), (9, 6), "not RESET(PROTOCOL): {answer:?}");
            let reason = String::from_utf8_lossy(&answer[16..]);
            assert!(reason.starts_with(expected), "{reason}");
        }
    });
}

#[test]
fn connections_are_accepted_only_in_order_and_for_workers_that_exist() {
    run(async {
        let mut bed = Bed::new(2, vec![pipe_child("p", &["break-rules"])]);
        let mut events = bed.events.pop().unwrap();
        let _lease = bed.service(0).ready(0).await.unwrap();
        let first = "P-2: the first connection must be shared and must not name a worker";
        let expected = [
            first,
            first,
            "P-13: a further connection must name a worker",
            "P-13: there is no worker 1000",
            "welcome",
            "welcome",
        ];
        for expected in expected {
            assert_eq!(bed.line(|_| true).await.text, expected);
        }
        let event = events.recv().await; // worker 1's first
        let Some(WorkerEvent::Connected { hello, link, .. }) = event else { panic!("not a connection: {event:?}") };
        assert_eq!((hello.kind, hello.worker, link.is_none()), (ConnectionKind::Own, Some(1), true));
    });
}

#[test]
fn too_many_connections_without_hello_close_the_oldest() {
    run(async {
        let bed = Bed::new(1, vec![]);
        let connect = async || UnixStream::connect(bed.pipe_socket()).await.unwrap();
        let mut oldest = connect().await;
        let mut silent = Vec::new();
        for _ in 0..limits::MAX_UNGREETED_INSTANCE {
            silent.push(connect().await);
        }
        let mut answer = Vec::new();
        oldest.read_to_end(&mut answer).await.unwrap();
        assert!(answer.is_empty(), "closed without a word");
        for kept in silent {
            assert_eq!(kept.try_read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        }
    });
}

#[test]
fn the_end_of_the_last_shared_connection_is_the_death_of_the_instance() {
    run(async {
        // It stays when it is alone, and it ignores nothing: after a moment it gets SIGTERM.
        let mut bed = Bed::new(1, vec![pipe_child("p", &["stay"])]);
        let events = bed.events.pop().unwrap();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        drop(events); // and with it the connection in it
        bed.line(|line| line.text == "alone").await;
        while service.enter(0).is_some() {
            tokio::task::yield_now().await; // the notice and the line took different ways
        }
        assert_eq!(lease.instance().ended().await.exit, Some(Exit::Signal(15)));
    });
}

#[test]
fn a_service_that_drains_gets_the_answer_when_its_exchanges_are_done() {
    run(async {
        let mut bed = Bed::new(1, vec![pipe_child("p", &[])]);
        let mut seen = bed.work();
        let service = bed.service(0);
        let lease = service.ready(0).await.unwrap();
        assert_eq!(seen.recv().await, Some(Seen::Connected { worker: 0, instance: 1 }));
        lease.instance().announce_drain();
        assert!(service.enter(0).is_none(), "a new exchange after DRAIN (P-32)");
        let next = service.ready(0).await.unwrap();
        assert_eq!(next.instance().number(), 2);
        assert_eq!(seen.recv().await, Some(Seen::Connected { worker: 0, instance: 2 }));
        assert!(lease.instance().drain_requested() && !next.instance().drain_requested());
        let instance = lease.instance().clone();
        drop(lease);
        assert_eq!(seen.recv().await, Some(Seen::Drain { worker: 0, instance: 1 }));
        assert_eq!(instance.ended().await.exit, Some(Exit::Code(0)));
        assert_eq!(seen.recv().await, Some(Seen::Gone { worker: 0, instance: 1 }));
        assert!(bed.shutdown(Duration::from_secs(10)).await.0);
    });
}
