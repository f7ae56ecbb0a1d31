//! io_uring as containers deny it: by a seccomp filter, on a thread of its own.

use std::collections::BTreeMap;
use std::io;

use pilotlight_send_batch::{Batch, Settled};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use tokio::task::{spawn_local, yield_now};

use crate::{How, pair, put, received, run, ways};

/// Denies system calls to a new thread, which then does `body`.
fn denied<T: Send>(calls: &[i64], errno: i32, body: impl FnOnce(&dyn Fn()) -> T + Send) -> T {
    let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let errno = SeccompAction::Errno(errno.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let filter: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch).unwrap().try_into().unwrap();
    let deny = move || seccompiler::apply_filter(&filter).unwrap();
    std::thread::scope(|scope| scope.spawn(move || body(&deny)).join().unwrap())
}

#[test]
fn a_filter_that_denies_it_is_an_error() {
    let all = [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
    for errno in [libc::EPERM, libc::ENOSYS] {
        let made = denied(&all, errno, |deny| {
            deny();
            Batch::with_io_uring().map(drop)
        });
        assert_eq!(made.unwrap_err().raw_os_error(), Some(errno));
    }
}

#[test]
fn so_is_one_that_denies_a_part() {
    if ways() == [How::Each] {
        return;
    }
    let made = denied(&[libc::SYS_io_uring_register], libc::EPERM, |deny| {
        deny();
        Batch::with_io_uring().map(drop)
    });
    assert_eq!(made.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

/// What was to go by io_uring goes by `send` then, at once and from then on.
#[test]
fn a_ring_that_is_taken_away_loses_nothing() {
    if ways() == [How::Each] {
        return;
    }
    denied(&[libc::SYS_io_uring_enter], libc::EPERM, |deny| {
        run(async {
            let batch = How::IoUring.batch();
            spawn_local(batch.clone().send_each_turn());
            yield_now().await;
            let mut pairs: Vec<_> = (0..5).map(|_| pair(&batch)).collect();
            for turn in 0..3 {
                if turn == 1 {
                    deny();
                }
                for (index, (stream, _)) in pairs.iter_mut().enumerate() {
                    assert!(put(stream, format!("{turn} {index}").as_bytes()).await);
                }
                yield_now().await;
                for (index, (stream, peer)) in pairs.iter_mut().enumerate() {
                    assert_eq!(received(peer), format!("{turn} {index}").as_bytes());
                    assert_eq!(stream.settle().unwrap(), Settled::Nothing);
                }
                assert_eq!(batch.has_io_uring(), turn == 0);
            }
        });
    });
}
