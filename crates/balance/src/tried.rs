//! The servers that a request was sent to.

/// Most servers of one group.
pub const MAX_SERVERS: usize = 64;

/// Servers of one group, by their indices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried(u64);

const _: () = assert!(MAX_SERVERS <= u64::BITS as usize);

impl Tried {
    /// Adds one; an index beyond [`MAX_SERVERS`] is none.
    pub fn add(&mut self, index: usize) {
        if index < MAX_SERVERS {
            self.0 |= 1 << index;
        }
    }

    /// Whether it is among them.
    #[must_use]
    pub fn has(self, index: usize) -> bool {
        index < MAX_SERVERS && self.0 & (1 << index) != 0
    }
}
