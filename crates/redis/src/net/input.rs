//! The bytes that were read and not decoded yet, and the room for more.
//!
//! Replies are slices of the buffer, so it can be used again only when its callers have dropped them. Until then there
//! is the rest of it, and then another of a few that take turns.

use std::collections::VecDeque;

use bytes::BytesMut;

/// Room that is made for a read is doubled while reads fill it, up to so many bytes.
const MAX_READ_BYTES: usize = 256 * 1024;

/// A buffer is used up to here while it cannot be had anew.
const MIN_ROOM_BYTES: usize = 2 * 1024;

/// Buffers that wait for the replies in them to be dropped. Callers on other threads are slow at times.
const MAX_SPARES: usize = 3;

/// Maximum size of a buffer that is used again. A larger one was made for one large reply, and is left to it as soon as
/// the reply is complete: a connection keeps at most this many bytes for each of its buffers.
const MAX_SPARE_BYTES: usize = 2 << 20;

/// See the module.
pub(super) struct Input {
    pub(super) buffer: BytesMut,
    /// Whether the buffer is larger than [`MAX_SPARE_BYTES`].
    is_oversized: bool,
    /// Those before, which some replies may still be slices of; the oldest first.
    spares: VecDeque<BytesMut>,
    read_bytes: usize,
    min_read_bytes: usize,
}

impl Input {
    /// Reads are made of `min_read_bytes` at first.
    pub(super) fn new(buffer: BytesMut, min_read_bytes: usize) -> Self {
        let spares = VecDeque::with_capacity(MAX_SPARES);
        let is_oversized = buffer.capacity() > MAX_SPARE_BYTES;
        Self { buffer, is_oversized, spares, read_bytes: min_read_bytes, min_read_bytes }
    }

    pub(super) fn room(&self) -> usize {
        self.buffer.capacity() - self.buffer.len()
    }

    /// Makes room for a read. So many bytes are certainly missing of the current reply.
    #[inline]
    pub(super) fn make_room(&mut self, missing: usize) {
        if self.room() < self.read_bytes / 2 {
            self.make_more_room(missing);
        }
    }

    fn make_more_room(&mut self, missing: usize) {
        // The rest of a reply has its place.
        if missing > 0 && self.room() >= missing {
            return;
        }
        let wanted = self.read_bytes.max(missing);
        if !self.is_oversized && (self.buffer.try_reclaim(wanted) || self.room() >= MIN_ROOM_BYTES) {
            return;
        }
        let wanted = self.buffer.len() + wanted;
        let mut next = match self
            .spares
            .iter_mut()
            .position(|spare| spare.try_reclaim(wanted))
            .and_then(|at| self.spares.remove(at))
        {
            Some(spare) => spare,
            None => BytesMut::with_capacity(wanted),
        };
        next.extend_from_slice(&self.buffer);
        let mut spare = std::mem::replace(&mut self.buffer, next);
        if std::mem::replace(&mut self.is_oversized, wanted > MAX_SPARE_BYTES) {
            return;
        }
        spare.clear();
        if self.spares.len() == MAX_SPARES {
            self.spares.pop_front();
        }
        self.spares.push_back(spare);
    }

    /// Gives back what a burst has left behind.
    pub(super) fn shrink(&mut self) {
        self.read_bytes = self.min_read_bytes;
        let is_large = self.buffer.capacity() > self.min_read_bytes;
        self.give_back(is_large);
    }

    /// Gives back what a connection that is not in use does not need.
    pub(super) fn rest(&mut self) {
        self.give_back(self.is_oversized);
    }

    fn give_back(&mut self, with_buffer: bool) {
        self.spares.clear();
        if with_buffer && self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.is_oversized = false;
        }
    }

    /// Learns from a read into this much room how large the next ones may be.
    #[inline]
    pub(super) fn note_read(&mut self, read: usize, room: usize) {
        if read == room && room >= self.read_bytes / 2 {
            self.read_bytes = (self.read_bytes * 2).min(MAX_READ_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_READ_BYTES: usize = 16 * 1024;

    fn fill(input: &mut Input, bytes: usize) -> *const u8 {
        input.make_room(0);
        assert!(input.room() >= MIN_ROOM_BYTES);
        let bytes = bytes.min(input.room());
        input.buffer.extend_from_slice(&vec![b'x'; bytes]);
        input.buffer.as_ptr()
    }

    #[test]
    fn a_buffer_that_nobody_uses_is_used_again() {
        let mut input = Input::new(BytesMut::with_capacity(MIN_READ_BYTES), MIN_READ_BYTES);
        let first = fill(&mut input, 1000);
        for _ in 0..100 {
            drop(input.buffer.split_to(1000));
            let again = fill(&mut input, 1000);
            assert!(
                (0..MIN_READ_BYTES).contains(&(again as usize).wrapping_sub(first as usize)),
                "it is the same buffer"
            );
        }
    }

    #[test]
    fn a_few_buffers_take_turns_while_the_last_replies_are_in_use() {
        let mut input = Input::new(BytesMut::with_capacity(MIN_READ_BYTES), MIN_READ_BYTES);
        let mut pages = std::collections::HashSet::new();
        let mut held = std::collections::VecDeque::new();
        for _ in 0..1000 {
            let begin = fill(&mut input, 1000);
            pages.insert(begin as usize - begin as usize % 64);
            held.push_back(input.buffer.split().freeze());
            // The last few are always in use.
            if held.len() > 5 {
                held.pop_front();
            }
        }
        assert!(pages.len() < 100, "few addresses come again and again: {}", pages.len());
    }

    #[test]
    fn what_is_not_decoded_moves_along() {
        let mut input = Input::new(BytesMut::with_capacity(4096), MIN_READ_BYTES);
        input.buffer.extend_from_slice(&[b'a'; 3000]);
        let held = input.buffer.split_to(2900).freeze();
        input.make_room(1 << 20);
        assert_eq!(&input.buffer[..], &[b'a'; 100]);
        assert!(input.room() >= 1 << 20);
        assert_eq!(held.len(), 2900);
    }

    #[test]
    fn full_reads_make_the_next_ones_larger() {
        let mut input = Input::new(BytesMut::new(), MIN_READ_BYTES);
        for _ in 0..20 {
            input.make_room(0);
            let room = input.room();
            input.buffer.extend_from_slice(&vec![b'x'; room]);
            input.note_read(room, room);
            drop(input.buffer.split());
        }
        assert_eq!(input.read_bytes, MAX_READ_BYTES);
        input.note_read(10, 10);
        assert_eq!(input.read_bytes, MAX_READ_BYTES);
        input.shrink();
        assert_eq!((input.read_bytes, input.room()), (MIN_READ_BYTES, 0));
    }

    /// Reads a reply of this many bytes in pieces, and gives it.
    fn read_reply(input: &mut Input, bytes: usize) -> bytes::Bytes {
        while input.buffer.len() < bytes {
            let missing = bytes - input.buffer.len();
            input.make_room(missing);
            let piece = input.room().min(missing).min(100_000);
            input.buffer.extend_from_slice(&vec![b'x'; piece]);
        }
        input.buffer.split_to(bytes).freeze()
    }

    #[test]
    fn the_buffer_of_a_large_reply_is_the_replys_alone() {
        let mut input = Input::new(BytesMut::new(), MIN_READ_BYTES);
        for _ in 0..3 {
            let reply = read_reply(&mut input, MAX_SPARE_BYTES * 2);
            assert!(input.is_oversized && input.spares.iter().all(|spare| spare.capacity() <= MIN_READ_BYTES));
            input.make_room(0);
            assert!(!input.is_oversized && input.room() == MIN_READ_BYTES);
            assert!(reply.is_unique(), "only the reply holds it");
        }
    }

    #[test]
    fn the_last_bytes_of_a_large_reply_do_not_move_it() {
        let mut input = Input::new(BytesMut::new(), MIN_READ_BYTES);
        input.make_room(MAX_SPARE_BYTES * 2);
        let place = input.buffer.as_ptr();
        input.buffer.extend_from_slice(&vec![b'x'; MAX_SPARE_BYTES * 2 - 10]);
        input.make_room(10);
        assert_eq!((input.buffer.as_ptr(), input.room()), (place, 10));
    }

    #[test]
    fn a_connection_at_rest_keeps_no_large_buffer() {
        let mut input = Input::new(BytesMut::new(), MIN_READ_BYTES);
        drop(read_reply(&mut input, MAX_SPARE_BYTES * 2));
        input.rest();
        assert!(!input.is_oversized && input.room() == 0 && input.spares.is_empty());
        drop(read_reply(&mut input, 1000));
        input.rest();
        assert!(input.room() > 0, "a small one is kept");
    }
}
