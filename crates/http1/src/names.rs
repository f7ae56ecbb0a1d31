//! Which names a set of fields may have: most questions about a field that is not there end with one comparison.

/// A set of names that may say yes to a name that it has not, and never no to one that it has. It sees the length of a
/// name and its first letter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Names(u64);

impl Names {
    /// The empty set.
    pub(crate) const NONE: Self = Self(0);

    /// The bit of a name, in whichever case. With a factor of 10 no name that the gateway asks for shares its bit with
    /// one that browsers always send.
    #[inline]
    fn bit(name: &[u8]) -> u64 {
        let first = name.first().map_or(0, |first| u32::from(first | 0x20));
        1 << ((name.len() as u32 * 10 + first) % 64)
    }

    #[inline]
    pub(crate) fn add(&mut self, name: &[u8]) {
        self.0 |= Self::bit(name);
    }

    #[inline]
    pub(crate) fn add_all(&mut self, names: Self) {
        self.0 |= names.0;
    }

    /// Whether the name may be among them.
    #[inline]
    pub(crate) fn may_have(self, name: &[u8]) -> bool {
        self.0 & Self::bit(name) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_never_denied() {
        let mut names = Names::default();
        assert!(!names.may_have(b"host") && !names.may_have(b""));
        for name in [&b"Host"[..], b"user-agent", b"ACCEPT", b""] {
            names.add(name);
        }
        for name in [&b"host"[..], b"User-Agent", b"accept", b""] {
            assert!(names.may_have(name));
        }
        assert!(!names.may_have(b"range") && !names.may_have(b"if-none-match"));
    }
}
