//! Messages by io_uring: one `io_uring_enter` submits all of them, and returns when all have completed.
//!
//! A socket that does not wait (`MSG_DONTWAIT`) completes within the submission: nothing is handed to threads of the
//! kernel, and nothing goes on when the call has returned.
//!
//! Invariant: when [`Ring::send`] returns, the kernel has let go of all bytes; where that cannot be known, they are
//! never freed.

use std::io;

use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;

use crate::each;
use crate::message::{MAX_MESSAGES, Message};

/// How often in a row the kernel may have no memory for any message of a batch.
const MAX_REFUSALS: u32 = 3;

pub(crate) struct Ring(IoUring);

impl Ring {
    /// # Errors
    /// The system has none, forbids it, or has none that can send.
    pub(crate) fn new() -> io::Result<Self> {
        let ring = IoUring::new(MAX_MESSAGES as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?; // since Linux 5.6, as is sending
        if !probe.is_supported(opcode::Send::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self(ring))
    }

    /// Sends all `messages`, which are parts of `bytes`; there are at most [`MAX_MESSAGES`]. Calls `done` with the
    /// index of each and with how much of it the socket took, in any order.
    ///
    /// # Errors
    /// The ring does not work any more. `done` was called for as many messages as this says, from the first on; the
    /// others were not sent.
    pub(crate) fn send(
        &mut self,
        bytes: &mut Vec<u8>,
        messages: &[Message],
        mut done: impl FnMut(usize, io::Result<usize>),
    ) -> Result<(), usize> {
        debug_assert!(messages.len() <= MAX_MESSAGES);
        self.push(bytes, messages)?;
        let (mut taken, mut refusals) = (0, 0);
        let mut open: u64 = 0; // a bit for each message that the kernel may still have
        loop {
            let result = self.0.submit_and_wait(messages.len() - (taken - open.count_ones() as usize));
            if let Ok(more @ 1..) = result {
                (taken..taken + more).for_each(|index| open |= 1 << index);
                (taken, refusals) = (taken + more, 0);
            }
            for completion in self.0.completion() {
                let index = completion.user_data() as usize;
                open &= !(1 << index);
                let sent = usize::try_from(completion.result());
                done(index, sent.map_err(|_| io::Error::from_raw_os_error(-completion.result())));
            }
            if taken == messages.len() && open == 0 {
                return Ok(());
            }
            match result {
                Ok(1..) => {}
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INTR) => {}
                Ok(0) | Err(_) if refusals < MAX_REFUSALS => refusals += 1,
                Ok(0) => return Err(abandon(bytes, taken, open, &Errno::NOMEM.into(), done)),
                Err(error) => return Err(abandon(bytes, taken, open, &error, done)),
            }
        }
    }

    fn push(&mut self, bytes: &[u8], messages: &[Message]) -> Result<(), usize> {
        let mut submission = self.0.submission();
        for (index, message) in messages.iter().enumerate() {
            let part = &bytes[message.range.clone()];
            let entry = opcode::Send::new(types::Fd(message.socket), part.as_ptr(), part.len() as u32)
                .flags(each::FLAGS.bits() as i32)
                .build()
                .user_data(index as u64);
            #[expect(unsafe_code, reason = "the kernel reads what the entry points to")]
            // SAFETY: the pointer and the length are those of a slice of `bytes`. `send`, the only caller, changes
            // `bytes` no more before the entry has completed, or never frees it. The descriptor is open: see
            // `each::send`.
            let pushed = unsafe { submission.push(&entry) };
            if pushed.is_err() {
                return Err(0); // not reachable: there is room for as many as a batch may have, and it was empty
            }
        }
        Ok(())
    }
}

/// Leaves to the kernel what it may still have, and says which messages it never took.
fn abandon(
    bytes: &mut Vec<u8>,
    taken: usize,
    open: u64,
    error: &io::Error,
    mut done: impl FnMut(usize, io::Result<usize>),
) -> usize {
    tracing::warn!("io_uring cannot be used any more: {error}; each message takes a system call from now on");
    if open != 0 {
        let copy = bytes.clone();
        std::mem::forget(std::mem::replace(bytes, copy));
    }
    for index in (0..taken).filter(|index| open & (1 << index) != 0) {
        done(index, Err(io::Error::new(error.kind(), "io_uring did not say whether it was sent")));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of three messages the kernel took two and has completed the first.
    #[test]
    fn what_the_kernel_may_still_have_is_never_freed() {
        let mut bytes = b"one two three".to_vec();
        let (before, mut told) = (bytes.as_ptr(), Vec::new());
        let tried = abandon(&mut bytes, 2, 0b10, &Errno::PERM.into(), |index, sent| told.push((index, sent.is_ok())));
        assert_eq!((tried, told), (2, vec![(1, false)]));
        assert_eq!(bytes, b"one two three");
        assert_ne!(bytes.as_ptr(), before);
    }

    #[test]
    fn what_it_has_let_go_of_is_used_again() {
        let mut bytes = b"one two three".to_vec();
        let before = bytes.as_ptr();
        assert_eq!(abandon(&mut bytes, 1, 0, &Errno::PERM.into(), |_, _| {}), 1);
        assert_eq!(bytes.as_ptr(), before);
    }
}
