//! Lines out of a stream of bytes, in bounded memory.

/// Cuts a stream into lines of at most `max` bytes. What a longer line has beyond that is thrown away.
#[derive(Debug)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    cut: bool,
    max: usize,
}

impl Lines {
    /// Lines of at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self { partial: Vec::new(), cut: false, max }
    }

    /// Takes bytes as they come and calls `line` with each whole line (without its LF or CR LF) and whether it was cut.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8], bool)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (head, tail) = (&bytes[..end], &bytes[end + 1..]);
            if self.partial.is_empty() && !self.cut && head.len() <= self.max {
                line(without_cr(head), false);
            } else {
                self.keep(head);
                self.end(&mut line);
            }
            bytes = tail;
        }
        self.keep(bytes);
    }

    /// The stream has ended: a last line without LF counts.
    pub(crate) fn finish(&mut self, mut line: impl FnMut(&[u8], bool)) {
        if !self.partial.is_empty() {
            self.end(&mut line);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.max - self.partial.len();
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.cut |= bytes.len() > room;
    }

    fn end(&mut self, line: &mut impl FnMut(&[u8], bool)) {
        line(if self.cut { &self.partial } else { without_cr(&self.partial) }, self.cut);
        self.partial.clear();
        self.cut = false;
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(chunks: &[&[u8]], max: usize) -> Vec<(String, bool)> {
        let (mut lines, mut out) = (Lines::new(max), Vec::new());
        let mut take = |line: &[u8], cut| out.push((String::from_utf8_lossy(line).into_owned(), cut));
        for chunk in chunks {
            lines.feed(chunk, &mut take);
        }
        lines.finish(&mut take);
        out
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, bool)]) {
        let expected: Vec<_> = expected.iter().map(|(line, cut)| ((*line).to_owned(), *cut)).collect();
        assert_eq!(all(&[text.as_bytes()], 5), expected);
    }

    #[test]
    fn cuts() {
        check("", &[]);
        check("a\nb", &[("a", false), ("b", false)]);
        check("a\r\n\nb\n", &[("a", false), ("", false), ("b", false)]);
        check("12345\n", &[("12345", false)]);
        check("123456\n7\n", &[("12345", true), ("7", false)]);
        check("1234567890", &[("12345", true)]);
    }

    proptest! {
        #[test]
        fn chunking_does_not_matter_and_memory_is_bounded(text in "[ab\r\n]{0,80}", cuts in prop::collection::vec(0usize..80, 0..6)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            let lines = all(&chunks, 5);
            prop_assert_eq!(&lines, &all(&[text.as_bytes()], 5));
            prop_assert!(lines.iter().all(|(line, _)| line.len() <= 5));
        }
    }
}
