//! Looks at the headers of the frames that a client sends (RFC 9113 §4.1), and at nothing else of them.
//!
//! `crates/http2` bounds memory; it has no clock and does not say how many frames came that ask for nothing. Here they
//! are counted, so that a client that only costs time is found out: PING, SETTINGS, PRIORITY, unknown frames, empty
//! DATA (padding is nothing) and CONTINUATION without an end, WINDOW_UPDATE without data that it answers, RST_STREAM
//! without responses.

use pilotlight_http2::FRAME_HEADER;

use crate::timing::Moment;

const PREFACE: usize = pilotlight_http2::PREFACE.len();

/// Frames that carry neither a request nor data, beyond those that [`USEFUL`] pays for and those that [`PER_SECOND`]
/// forgives. More end the connection (CVE-2019-9512, -9513, -9515, -9517, -9518, CVE-2024-27316).
pub(super) const MAX_IDLE_FRAMES: u32 = 2_000;
/// Streams that a client may open and reset, or have reset by what it sends on them, before they were answered, beyond
/// those that [`PER_SECOND`] forgives. More end the connection (CVE-2019-9514, CVE-2023-44487, CVE-2025-8671).
pub(super) const MAX_RESETS: u32 = 500;
/// What time forgives of either.
const PER_SECOND: u64 = 100;
/// Idle frames that one frame with a request or data, in either direction, pays for: two WINDOW_UPDATE, and a PING by
/// which the client measures the connection.
const USEFUL: u32 = 4;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Why a client's connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flood {
    #[error("it sent more than {MAX_IDLE_FRAMES} frames that ask for nothing")]
    IdleFrames,
    #[error("it opened more than {MAX_RESETS} streams that it reset, or had reset")]
    Resets,
}

/// Counts what comes in.
#[derive(Debug)]
pub(super) struct FrameCounter {
    /// Bytes of the preface that are still to come.
    preface: usize,
    header: [u8; FRAME_HEADER],
    filled: usize,
    /// Bytes of the present frame's payload that are still to come.
    payload: usize,
    /// The first byte of the payload says how much of it is padding (RFC 9113 §6.1).
    is_padded: bool,
    /// The present frame is one of a header section.
    is_of_head: bool,
    /// A header section has begun that is not whole.
    is_in_section: bool,
    idle: Allowance,
    resets: Allowance,
}

impl Default for FrameCounter {
    fn default() -> Self {
        Self {
            preface: PREFACE,
            header: [0; FRAME_HEADER],
            filled: 0,
            payload: 0,
            is_padded: false,
            is_of_head: false,
            is_in_section: false,
            idle: Allowance::new(),
            resets: Allowance::new(),
        }
    }
}

impl FrameCounter {
    /// These bytes came. In whichever pieces they come, the same is found.
    pub(super) fn received(&mut self, mut bytes: &[u8]) -> Result<(), Flood> {
        loop {
            let skipped = self.preface.min(bytes.len());
            self.preface -= skipped;
            if let Some(padding) = bytes.get(skipped).filter(|_| self.is_padded) {
                self.is_padded = false;
                self.data(self.payload > 1 + usize::from(*padding))?;
            }
            let payload = self.payload.min(bytes.len() - skipped);
            self.payload -= payload;
            bytes = &bytes[skipped + payload..];
            if bytes.is_empty() {
                return Ok(());
            }
            let taken = (FRAME_HEADER - self.filled).min(bytes.len());
            self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled == FRAME_HEADER {
                self.filled = 0;
                self.frame()?;
            }
        }
    }

    fn frame(&mut self) -> Result<(), Flood> {
        let [high, middle, low, kind, flags, ..] = self.header;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.payload = length;
        self.is_of_head = matches!(kind, HEADERS | CONTINUATION);
        if self.is_of_head {
            self.is_in_section = flags & END_HEADERS == 0;
        }
        match kind {
            HEADERS => self.useful(),
            DATA if flags & END_STREAM != 0 => self.useful(),
            DATA if flags & PADDED != 0 && length > 0 => self.is_padded = true,
            DATA => self.data(length > 0)?,
            CONTINUATION if length > 0 || flags & END_HEADERS != 0 => {}
            RST_STREAM => self.resets.spend(MAX_RESETS, Flood::Resets)?,
            _ => self.idle.spend(MAX_IDLE_FRAMES, Flood::IdleFrames)?,
        }
        Ok(())
    }

    /// A frame of a body came, which goes on behind it.
    fn data(&mut self, has_data: bool) -> Result<(), Flood> {
        match has_data {
            true => self.useful(),
            false => self.idle.spend(MAX_IDLE_FRAMES, Flood::IdleFrames)?,
        }
        Ok(())
    }

    /// A frame with a request or data came or was sent.
    pub(super) fn useful(&mut self) {
        self.idle.spent = self.idle.spent.saturating_sub(USEFUL);
    }

    /// So many streams were reset for what the client sent on them (CVE-2025-8671).
    #[inline]
    pub(super) fn faults(&mut self, streams: u32) -> Result<(), Flood> {
        (0..streams).try_for_each(|_| self.resets.spend(MAX_RESETS, Flood::Resets))
    }

    /// A stream was answered.
    pub(super) fn answered(&mut self) {
        self.resets.spent = self.resets.spent.saturating_sub(1);
    }

    /// A request was answered from memory.
    #[inline]
    pub(super) fn hit(&mut self) {
        self.useful();
        self.answered();
    }

    /// Whether the head of a request has begun that is not whole.
    pub(super) fn is_in_head(&self) -> bool {
        self.preface > 0 || self.is_in_section || self.is_of_head && self.payload > 0 || self.filled > 0
    }
}

/// What a client may spend.
#[derive(Debug)]
struct Allowance {
    spent: u32,
    /// When it was last forgiven something.
    forgiven: Moment,
}

impl Allowance {
    fn new() -> Self {
        Self { spent: 0, forgiven: Moment::now() }
    }

    fn spend(&mut self, max: u32, beyond: Flood) -> Result<(), Flood> {
        self.spent += 1;
        if self.spent <= max {
            return Ok(());
        }
        // Read only here.
        let now = Moment::now();
        let forgiven = now.since(self.forgiven).saturating_mul(PER_SECOND) / 1_000_000_000;
        if forgiven > 0 {
            self.forgiven = now;
            self.spent -= u32::try_from(forgiven).unwrap_or(u32::MAX).min(max);
        }
        if self.spent > max { Err(beyond) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(length: usize, kind: u8, flags: u8) -> Vec<u8> {
        let mut frame = vec![(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEADER + length, 0);
        frame
    }

    fn begun() -> FrameCounter {
        let mut counter = FrameCounter::default();
        counter.received(&[b'x'; PREFACE]).unwrap();
        counter
    }

    /// So many of these frames in a row; whether that is too much.
    #[track_caller]
    fn check(count: u32, frames: &[Vec<u8>], expected: Result<(), Flood>) {
        let mut counter = begun();
        let all = frames.concat();
        let result = (0..count).try_for_each(|_| counter.received(&all));
        assert_eq!(result, expected);
    }

    #[test]
    fn frames_that_ask_for_nothing() {
        let more = MAX_IDLE_FRAMES + 1000;
        for (length, kind, flags) in [(8, 6, 0), (0, 4, 0), (5, 2, 0), (3, 99, 0), (0, DATA, 0), (0, CONTINUATION, 0)] {
            check(more, &[frame(length, kind, flags)], Err(Flood::IdleFrames));
            check(MAX_IDLE_FRAMES, &[frame(length, kind, flags)], Ok(()));
        }
        check(more, &[frame(10, HEADERS, 5)], Ok(()));
        check(more, &[frame(10, DATA, 0)], Ok(()));
        check(more, &[frame(0, DATA, END_STREAM)], Ok(()));
        let padded = |length: usize, padding: u8, flags: u8| {
            let mut frame = frame(length, DATA, PADDED | flags);
            frame[FRAME_HEADER] = padding;
            frame
        };
        check(more, &[padded(1, 0, 0)], Err(Flood::IdleFrames));
        check(more, &[padded(256, 255, 0)], Err(Flood::IdleFrames));
        check(more, &[padded(10, 200, 0)], Err(Flood::IdleFrames)); // RFC 9113 §6.1: an error of the connection
        check(more, &[padded(10, 8, 0)], Ok(()));
        check(more, &[padded(10, 9, END_STREAM)], Ok(()));
        let ping = frame(8, 6, 0);
        check(more, &[padded(10, 9, 0), ping], Err(Flood::IdleFrames));
        let window_update = frame(4, 8, 0);
        check(more, &[frame(10, HEADERS, 5), window_update.clone(), window_update.clone()], Ok(()));
        check(more, &[window_update], Err(Flood::IdleFrames));
    }

    #[test]
    fn streams_that_are_opened_and_reset() {
        let reset = [frame(10, HEADERS, 5), frame(4, RST_STREAM, 0)];
        check(MAX_RESETS + 300, &reset, Err(Flood::Resets));
        let mut counter = begun();
        for _ in 0..MAX_RESETS + 300 {
            counter.received(&reset.concat()).unwrap();
            counter.answered();
        }
    }

    #[test]
    fn streams_that_the_client_has_reset_by_its_faults() {
        let mut counter = begun();
        assert_eq!((0..MAX_RESETS).try_for_each(|_| counter.faults(1)), Ok(()));
        assert_eq!((0..300).try_for_each(|_| counter.faults(1)), Err(Flood::Resets));
    }

    #[test]
    fn a_head_that_is_not_whole() {
        let mut counter = FrameCounter::default();
        assert!(counter.is_in_head(), "the preface is a part of the first");
        counter.received(&[b'x'; PREFACE]).unwrap();
        assert!(!counter.is_in_head());
        for (bytes, expected) in [
            (frame(10, HEADERS, 0), true),
            (frame(10, CONTINUATION, 0), true),
            (frame(10, CONTINUATION, END_HEADERS), false),
            (frame(10, HEADERS, END_HEADERS)[..12].to_vec(), true),
            (vec![0; 7], false),
            (frame(10, DATA, 0)[..12].to_vec(), false),
        ] {
            counter.received(&bytes).unwrap();
            assert_eq!(counter.is_in_head(), expected, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(kinds in prop::collection::vec((0u8..11, 0usize..40, any::<u8>()), 0..60), cut in 1usize..50) {
            let all: Vec<u8> = kinds.iter().flat_map(|(kind, length, flags)| frame(*length, *kind, *flags)).collect();
            let (mut whole, mut pieces) = (begun(), begun());
            whole.received(&all).unwrap();
            for piece in all.chunks(cut) {
                pieces.received(piece).unwrap();
            }
            prop_assert_eq!(whole.idle.spent, pieces.idle.spent);
            prop_assert_eq!(whole.resets.spent, pieces.resets.spent);
            prop_assert_eq!(whole.is_in_head(), pieces.is_in_head());
        }
    }
}
