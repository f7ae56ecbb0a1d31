//! Files that the kernel sends, behind what was put in a batch.

use std::future::poll_fn;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use tokio::task::{spawn_local, yield_now};

use crate::{pair, put, received, run, ways};

#[test]
fn a_file_comes_behind_what_was_put_in_before() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[b'f'; 10_000]).unwrap();
    for how in ways() {
        run(async {
            let batch = how.batch_of_turns().await;
            let (mut stream, mut peer) = pair(&batch);
            assert!(put(&mut stream, b"put in, ").await);
            let written = poll_fn(|cx| stream.poll_write_more(cx, b"written, ")).await.unwrap();
            assert_eq!(written, 9);
            let sent = poll_fn(|cx| stream.poll_send_file(cx, file.as_fd(), 9_990, 100)).await.unwrap();
            assert_eq!(sent, 10, "to the end of the file");
            let end = poll_fn(|cx| stream.poll_send_file(cx, file.as_fd(), 10_000, 100)).await.unwrap();
            assert_eq!(end, 0);
            assert_eq!(received(&mut peer), b"put in, written, ffffffffff", "{how:?}");
        });
    }
}

#[test]
fn a_full_socket_is_waited_for() {
    for how in ways() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![b'f'; 4 << 20]).unwrap();
        run(async move {
            let batch = how.batch();
            let (mut stream, mut peer) = pair(&batch);
            let mut offset = 0;
            let sending = spawn_local(async move {
                while offset < 4 << 20 {
                    let left = (4 << 20) - offset;
                    offset += poll_fn(|cx| stream.poll_send_file(cx, file.as_fd(), offset, left)).await.unwrap() as u64;
                }
            });
            let mut count = 0;
            while count < 4 << 20 {
                yield_now().await;
                count += received(&mut peer).len();
            }
            sending.await.unwrap();
            assert_eq!(count, 4 << 20, "{how:?}");
        });
    }
}
